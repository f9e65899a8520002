"""Replay: what an artifact would have answered to the submissions of a time range, and how right it would have been.

The lists are made by the router that serves. What is kept of each is one line of a file; with it lies where the topic
has been read to, so an interrupted replay goes on from there.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from leap.predictor.artifacts.store import ArtifactStore
from leap.predictor.routing.ranking import Policy
from leap.predictor.routing.router import Router
from leap.retrainer.replay.lines import Line, lines_of, version_of
from leap.schemas.errors import LeapError
from leap.schemas.events import PreferenceList
from leap.schemas.hardware import load_catalog
from leap.streams.kafka.event_range import Batch, ended, submitted
from leap.streams.runtime.settings import Settings

LINES = "lines.jsonl"
STATE = "state.json"
#: Submissions ranked and written together; an interrupted replay ranks that many again.
BATCH_SIZE = 256


class State(msgspec.Struct, frozen=True, kw_only=True):
    """How far a replay is, beside its lines.

    Attributes
    ----------
    what
        Range, artifacts and topic: another replay may not go on from here.
    positions
        Source (topic id/partition) to the last offset whose submission is in the lines.
    length
        Bytes of the lines that belong to it; what a killed replay wrote after them is cut off.
    seconds
        Time spent on ranking and writing, over all runs.
    """

    what: tuple[str, ...]
    positions: dict[str, int] = {}
    length: int = 0
    submissions: int = 0
    rejected: int = 0
    seconds: float = 0.0
    done: bool = False


class OtherReplay(LeapError, ValueError):
    """The folder holds another replay; name another folder, or remove it."""


def routers(settings: Settings, store: ArtifactStore, versions: Sequence[str]) -> list[Router]:
    """Routers that answer with these artifacts, as serving does with every switch at its default.

    Raises
    ------
    LookupError
        If one does not load.
    """
    made = []
    for version in versions:
        router = Router(store, policy=lambda: Policy(premium_efficiency=settings.premium_efficiency), version=version)
        if not router.refresh():
            raise LookupError(f"artifact {version!r} does not load; see `leap artifact list`")
        made.append(router)
    return made


def replay(
    settings: Settings,
    ranked_by: Sequence[Router],
    start: datetime,
    end: datetime,
    folder: Path,
    publish: Callable[[Sequence[PreferenceList]], None] = lambda lists: None,
    told: Callable[[State], None] = lambda state: None,
) -> State:
    """Rank the submissions made in [start, end) and write a line a list to `folder`, or go on with that.

    Memory is that of how the attempts of the range ended (500 bytes each), whatever the submissions hold.

    Parameters
    ----------
    ranked_by
        Routers whose artifact is loaded.
    publish
        Takes the lists of a batch and returns when they are safe; after an interruption some come again.
    told
        Told of each batch.

    Raises
    ------
    OtherReplay
        If `folder` holds a replay of something else.
    """
    versions = [version_of(router) for router in ranked_by]
    what = (settings.topic_prefix, start.isoformat(), end.isoformat(), *versions)
    state = _opened(folder, what)
    if state.done:
        return state
    catalog = load_catalog(settings.catalog)
    endings, learned = ended(settings, start, catalog), [_learned_until(router) for router in ranked_by]
    encoder = msgspec.json.Encoder()
    with (folder / LINES).open("ab") as file:
        os.truncate(file.fileno(), state.length)
        for batch in submitted(settings, start, end, BATCH_SIZE, after=state.positions):
            began = time.perf_counter()
            answers = [router.rank_decoded(batch.submissions) for router in ranked_by]
            publish([answer for lists in answers for answer in lists])
            made = lines_of(batch.submissions, ranked_by, answers, learned, endings, catalog)
            lines = encoder.encode_lines(list(made))
            file.write(lines)
            file.flush()
            state = _after(state, batch, len(lines), time.perf_counter() - began)
            _write_state(folder, state)
            told(state)
    state = msgspec.structs.replace(state, done=True)
    _write_state(folder, state)
    return state


def _opened(folder: Path, what: tuple[str, ...]) -> State:
    """The state that the folder holds, or a new one in a folder that there is then."""
    state = read_state(folder) or State(what=what)
    if state.what != what:
        raise OtherReplay(f"{folder} holds a replay of {' '.join(state.what)}; name another folder, or remove it")
    folder.mkdir(parents=True, exist_ok=True)
    return state


def _after(state: State, batch: Batch, length: int, took_s: float) -> State:
    """The state with a batch whose lines took `length` bytes and `took_s` seconds."""
    return State(
        what=state.what,
        positions=dict(batch.positions),
        length=state.length + length,
        submissions=state.submissions + len(batch.submissions),
        rejected=state.rejected + batch.rejected,
        seconds=state.seconds + took_s,
    )


def read_state(folder: Path) -> State | None:
    """How far the replay in a folder is; None where there is none."""
    try:
        return msgspec.json.decode((folder / STATE).read_bytes(), type=State)
    except FileNotFoundError:
        return None


def read_lines(folder: Path) -> Iterator[Line]:
    """The lines of a replay."""
    decoder = msgspec.json.Decoder(Line)
    with (folder / LINES).open("rb") as file:
        yield from map(decoder.decode, file)


def _write_state(folder: Path, state: State) -> None:
    draft = folder / f".{STATE}.draft"
    draft.write_bytes(msgspec.json.encode(state))
    draft.replace(folder / STATE)


def _learned_until(router: Router) -> datetime:
    """No attempt that ended later is in the artifact: its history is that of the store, or of its window's days."""
    assert router.artifact is not None
    manifest = router.artifact.manifest
    if manifest.fences:
        return manifest.created_at
    return datetime.fromisoformat(manifest.window_to).replace(tzinfo=UTC) + timedelta(days=1)
