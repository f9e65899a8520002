"""``leap replay``: a time range of the topics through any artifact, as serving would have run it."""

import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from leap.predictor.artifacts.open import open_store
from leap.predictor.cli.completion import versions
from leap.predictor.cli.errors import fail, writable
from leap.predictor.cli.options import Json
from leap.predictor.storage.whole_file import whole_file
from leap.schemas.codec import encode
from leap.schemas.events import THROUGHPUT, PreferenceList
from leap.schemas.topics import load_topics
from leap.streams.cli.common import read_settings
from leap.streams.runtime.settings import Settings

if TYPE_CHECKING:
    from leap.retrainer.replay.replay import State
    from leap.retrainer.replay.summary import Summary

TIMES = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z"]
#: Batches between two lines of progress.
TELL_EVERY = 12


def replay(
    start: Annotated[datetime, typer.Option("--from", formats=TIMES, help="First submission; UTC unless it says.")],
    end: Annotated[datetime, typer.Option("--to", formats=TIMES, help="End of the range; not in it.")],
    artifact: Annotated[
        str | None, typer.Option(help="Artifact to rank with; production's by default.", autocompletion=versions)
    ] = None,
    compare: Annotated[
        str | None, typer.Option(help="Another artifact, side by side.", autocompletion=versions)
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Keep one line a list here, and go on from there when run again.")
    ] = None,
    parquet: Annotated[
        Path | None, typer.Option(help="Write one row an attempt and artifact.", callback=writable)
    ] = None,
    topic: Annotated[str | None, typer.Option(help="Send the lists to this topic; it must exist.")] = None,
    as_json: Json = False,
) -> None:
    """Rank the submissions of a time range again, and score what finished since.

    Example:
      leap replay --from 2026-01-01 --to 2026-01-08 --compare 20260101T003000
    """
    from leap.retrainer.replay.replay import replay as run
    from leap.retrainer.replay.replay import routers
    from leap.retrainer.replay.summary import read_frame, summarise
    from leap.retrainer.report.subject import subject_of
    from leap.retrainer.report.verdict import verdict
    from leap.schemas.hardware import load_catalog
    from leap.streams.consumer.run import tune_interpreter

    tune_interpreter()
    settings = read_settings()
    start, end = _utc(start), _utc(end)
    if start >= end:
        raise fail(f"--from {start.isoformat()} is not before --to {end.isoformat()}")
    with ExitStack() as stack:
        kept = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="leap-replay-")))
        try:
            store = open_store(settings.artifacts, trusted_keys=settings.trusted_keys)
            ranked_by = routers(settings, store, _versions(settings, artifact, compare))
            publish = _publisher(settings, topic) if topic else _keep
            state = run(settings, ranked_by, start, end, kept, publish, _teller())
        except LookupError as error:
            raise fail(str(error)) from None
        lines = read_frame(kept)
    if parquet:
        with whole_file(parquet) as draft:
            lines.to_parquet(draft, index=False)
    summary = summarise(state, lines)
    if as_json:
        print(msgspec.json.encode(summary).decode())
        return
    told = verdict(subject_of(summary, lines, load_catalog(settings.catalog)))
    print("\n".join(f"{asked} {answer}" for asked, answer in told), end="\n\n")
    print(as_text(summary))


def as_text(summary: "Summary") -> str:
    """A replay in a few lines."""
    lines = [
        f"submitted from {summary.start} to {summary.end}; {summary.per_s:,} a second; {summary.rejected} rejected"
    ]
    for side in summary.sides:
        outcomes = ", ".join(f"{count:,} {name}" for name, count in side.outcomes.items())
        lines.append(f"{side.artifact}: {side.submissions:,} attempts ({outcomes}), {side.finished:,} finished")
        parts = {"held out": side.held_out, "known families": side.known, "first seen": side.first_seen}
        if side.learned:
            parts = {"all": side.all} | parts
        for name, part in parts.items():
            if part:
                lines.append(
                    f"  {name:15} w20 {part.w20:5} w10 {part.w10:5} w5 {part.w5:5} MdAPE {part.mdape:5}  "
                    f"of {part.n:,}, coverage {part.coverage}%"
                )
        if side.doubt:
            lines.append(f"  {side.doubt}")
        if side.held_out:
            lines.append(f"  {side.interval}% in their interval; {side.on_first}% ran on the first choice")
    if summary.same_first is not None:
        lines.append(f"the same first choice for {summary.same_first}%; furthest apart:")
    lines += [
        f"  {difference.attempt_id} {difference.model_type}: {difference.apart} times; "
        f"first {difference.first[0]} and {difference.first[1]}"
        for difference in summary.differ_most
    ]
    return "\n".join(lines)


def _versions(settings: Settings, artifact: str | None, compare: str | None) -> list[str]:
    if artifact is None:
        pointer = open_store(settings.artifacts).pointer(THROUGHPUT)
        if pointer is None:
            raise LookupError("no artifact in production under LEAP_ARTIFACTS; name one with --artifact")
        artifact = pointer.version
    if compare == artifact:
        raise LookupError(f"--compare names {artifact} too; name another artifact")
    return [artifact] if compare is None else [artifact, compare]


def _keep(lists: Sequence[PreferenceList]) -> None:
    """The lines are enough."""


def _publisher(settings: Settings, topic: str) -> Callable[[Sequence[PreferenceList]], None]:
    from leap.streams.kafka.clients import CheckedProducer
    from leap.streams.kafka.topic_admin import topic_ids

    if topic in load_topics():
        raise LookupError(f"{topic} is a topic of the live system: what is sent there is acted on; name another one")
    name = settings.topic(topic)
    topic_ids(settings, [name])
    producer = CheckedProducer(settings)

    def publish(lists: Sequence[PreferenceList]) -> None:
        for answer in lists:
            producer.produce(name, encode(answer), answer.attempt_id.encode())
        producer.flush()

    return publish


def _teller() -> "Callable[[State], None]":
    batches = 0

    def tell(state: "State") -> None:
        nonlocal batches
        batches += 1
        if batches % TELL_EVERY == 0:
            rate = state.submissions / max(state.seconds, 1e-9)
            print(f"{state.submissions:,} submissions, {rate:,.0f} a second", file=sys.stderr, flush=True)

    return tell


def _utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
