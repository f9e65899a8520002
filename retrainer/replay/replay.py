"""Replay: what an artifact would have answered to the submissions of a time range, and how right it would have been.

The lists are made by the router that serves. What is kept of each is one line of a file; with it lies where the topic
has been read to, so an interrupted replay goes on from there.
"""

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from leap.predictor.artifacts.store import ArtifactStore
from leap.predictor.features.batch import seconds
from leap.predictor.features.configuration import shape_text
from leap.predictor.routing.ranking import Policy
from leap.predictor.routing.router import Router
from leap.schemas.errors import LeapError
from leap.schemas.events import JobSubmitted, PreferenceList
from leap.schemas.hardware import load_catalog
from leap.schemas.resolution import resolved
from leap.streams.kafka.event_range import Batch, Ended, ended, submitted
from leap.streams.runtime.settings import Settings

LINES = "lines.jsonl"
STATE = "state.json"
#: Submissions ranked and written together; an interrupted replay ranks that many again.
BATCH_SIZE = 256


class Line(msgspec.Struct, frozen=True):
    """One attempt as one artifact answered it.

    Attributes
    ----------
    submitted_at
        Seconds since 1970.
    outcome
        ``ranked``, or why there is no opinion.
    first
        Hardware type that is ranked first.
    hardware_type, measured, accelerator_hours
        What the attempt ran on, its samples/s where it succeeded, and what it held; None where it has not ended.
    predicted, lower, upper, basis
        Of that hardware type; one that is not ranked has no interval.
    configuration
        The shape that was asked for, as :func:`shape_text` writes it.
    apart
        Greatest |ln ratio| of this artifact's predictions to those of the first, over the candidates.
    learned
        Whether it had ended when what the artifact has learned from was taken; None where it has not ended.
    """

    attempt_id: str
    family: str
    model_type: str
    submitted_at: float
    artifact: str
    outcome: str
    first: str | None = None
    hardware_type: str | None = None
    measured: float | None = None
    accelerator_hours: float | None = None
    predicted: float | None = None
    lower: float | None = None
    upper: float | None = None
    basis: str | None = None
    apart: float | None = None
    learned: bool | None = None
    configuration: str = ""


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

    Memory is that of how the attempts of the range ended (300 bytes each), whatever the submissions hold.

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
    versions = [_version(router) for router in ranked_by]
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
            named = [[resolved(answer, catalog) for answer in lists] for lists in answers]
            lines = encoder.encode_lines(list(_lines(batch.submissions, versions, learned, named, endings)))
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


def _version(router: Router) -> str:
    assert router.artifact is not None
    return router.artifact.manifest.version


def _learned_until(router: Router) -> datetime:
    """No attempt that ended later is in the artifact: its history is that of the store, or of its window's days."""
    assert router.artifact is not None
    manifest = router.artifact.manifest
    if manifest.fences:
        return manifest.created_at
    return datetime.fromisoformat(manifest.window_to).replace(tzinfo=UTC) + timedelta(days=1)


def _lines(
    submissions: Sequence[JobSubmitted],
    versions: Sequence[str],
    learned: Sequence[datetime],
    answers: Sequence[Sequence[PreferenceList]],
    endings: dict[str, Ended],
) -> Iterator[Line]:
    for submission, *lists in zip(submissions, *answers, strict=True):
        reference = predictions(lists[0])
        for version, until, answer in zip(versions, learned, lists, strict=True):
            yield _line(submission, version, until, answer, endings.get(submission.attempt_id), reference)


def predictions(answer: PreferenceList) -> dict[str, float]:
    """Hardware type to predicted samples/s, ranked or not."""
    ranked = {candidate.hardware_type: candidate.throughput for candidate in answer.ranked}
    excluded = {candidate.hardware_type: candidate.throughput for candidate in answer.excluded}
    return ranked | {name: throughput for name, throughput in excluded.items() if throughput is not None}


def _line(
    submission: JobSubmitted,
    version: str,
    learned_until: datetime,
    answer: PreferenceList,
    end: Ended | None,
    reference: dict[str, float],
) -> Line:
    predicted, asked = predictions(answer), submission.config
    ran_on = end.hardware_type if end else None
    there = next((candidate for candidate in answer.ranked if candidate.hardware_type == ran_on), None)
    shared = predicted.keys() & reference.keys()
    return Line(
        attempt_id=answer.attempt_id,
        family=answer.family,
        model_type=answer.model_type,
        submitted_at=seconds(submission.submitted_at),
        artifact=version,
        outcome="ranked" if answer.ranked else (answer.no_opinion or "").partition(":")[0],
        first=answer.ranked[0].hardware_type if answer.ranked else None,
        hardware_type=ran_on,
        measured=_known(end.measured) if end else None,
        accelerator_hours=_known(end.accelerator_hours) if end else None,
        predicted=predicted.get(ran_on or ""),
        lower=there.lower if there else None,
        upper=there.upper if there else None,
        basis=there.basis if there else None,
        apart=max((abs(math.log(predicted[name] / reference[name])) for name in shared), default=None),
        learned=end.finished_at < learned_until if end else None,
        configuration=shape_text(asked.num_trainers, asked.accelerators_per_trainer, asked.batch_size),
    )


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
