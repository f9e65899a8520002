"""The demo: a small simulated fleet through the real topics, workers and night, on this machine alone.

The fleet's days end yesterday, so that the night is today's and takes its statistics from the store.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import numpy as np
import structlog

from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.models.accuracy import accuracy
from leap.retrainer.dataset.feature_table import frame, log_target
from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.evaluation.lookup_table import LookupTable
from leap.retrainer.night import connectors
from leap.retrainer.night.pipeline import Night
from leap.retrainer.night.plan import Plan, Report
from leap.schemas.codec import decode
from leap.schemas.events import (
    THROUGHPUT,
    Event,
    JobAllocated,
    JobAttempt,
    JobCompleted,
    JobSubmitted,
    PreferenceList,
)
from leap.schemas.hardware import load_catalog
from leap.schemas.topics import ATTEMPTS, PREFERENCES, load_topics
from leap.streams.embedded import child, embedded_pair
from leap.streams.history.store import HistoryStore
from leap.streams.kafka.message import Message
from leap.streams.kafka.range_reader import read_range
from leap.streams.kafka.topic_admin import ensure_topics
from leap.streams.launcher.launcher import Launcher
from leap.streams.redis_store.client import connect
from leap.streams.runtime.settings import Settings
from leap.streams.simulator.events import Arrival, arrivals
from leap.streams.simulator.fleet import Fleet, FleetConfig

log = structlog.get_logger(__name__)

HISTORY_DAYS = 14
ATTEMPTS_PER_DAY = 600
#: Longest wait for the workers to catch up.
PATIENCE_S = 120.0


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the demo found, on the attempts of the last day; kept as ``demo.json``.

    Attributes
    ----------
    attempts
        Submissions of that day.
    coverage
        Share of them, in percent, that got a ranked list.
    w20, w5
        Of the prediction for the hardware type that the attempt ran on, in percent of those that succeeded.
    lookup_table
        Of the lookup table, on the attempts that it covers.
    w20_where_table_covers
        Of Leap, on those same attempts.
    """

    attempts: int
    coverage: float
    w20: float
    w5: float
    lookup_table: dict[str, float]
    w20_where_table_covers: float
    events: int
    history_attempts: int
    seconds: dict[str, float]


class Demo:
    """One run of the demo.

    Parameters
    ----------
    folder
        Where everything that it makes goes; what an earlier demo left there is replaced.
    say
        Tells the reader what happens.
    """

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._say = say
        self._seconds: dict[str, float] = {}

    def run(self) -> tuple[Outcome, Report, PreferenceList]:
        """Run all of it; returns the outcome, the night's report and the list of one job."""
        midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        start = (midnight - timedelta(days=HISTORY_DAYS)).date()
        fleet = Fleet(FleetConfig(start=start, days=HISTORY_DAYS + 1, attempts_per_day=ATTEMPTS_PER_DAY))
        with self._step("fleet generated"):
            arrived = sorted(_arrivals(fleet), key=lambda arrival: arrival.arrives_ms)
        now = midnight.timestamp() * 1000.0
        past = [arrival.event for arrival in arrived if arrival.arrives_ms < now]
        today = [arrival.event for arrival in arrived if arrival.arrives_ms >= now]
        with embedded_pair(self._folder / "services") as pair:
            settings = replace(
                Settings.from_environment(pair.environment()),
                artifacts=str(self._folder / "artifacts"),
                partitions=str(self._folder / "partitions"),
            )
            created = ensure_topics(settings, load_topics().values())
            self._say(f"broker and store are up, {len(created)} topics created")
            with ExitStack() as workers:
                for name in ("history", "joiner"):
                    workers.enter_context(self._worker(name, settings))
                with self._step(f"{len(past):,} events of {HISTORY_DAYS} days sent and processed"):
                    self._send(settings, past)
                    self._wait_for(settings, past)
                report = self._night(settings)
                workers.enter_context(self._worker("ranking", settings))
                submissions = [event for event in today if isinstance(event, JobSubmitted)]
                with self._step(f"{len(submissions):,} submissions of today ranked"):
                    self._send(settings, submissions)
                    lists = self._lists(settings, submissions)
            outcome = self._outcome(settings, today, lists, len(arrived))
        return outcome, report, _example(lists)

    @contextmanager
    def _worker(self, name: str, settings: Settings) -> Iterator[None]:
        command, log = [sys.executable, "-m", "leap", "worker", name], self._folder / f"{name}.log"
        with child(
            command, log, lambda: "partitions assigned" in log.read_text(), settings.to_environment(), PATIENCE_S
        ):
            yield

    @contextmanager
    def _step(self, what: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self._seconds[what] = round(time.monotonic() - started, 1)
        self._say(f"{what} in {self._seconds[what]} s")

    def _send(self, settings: Settings, events: Iterable[Event]) -> None:
        with Launcher(settings) as launcher:
            for event in events:
                match event:
                    case JobSubmitted():
                        launcher.submitted(event)
                    case JobAllocated():
                        launcher.allocated(event)
                    case JobCompleted():
                        launcher.completed(event)
            left = launcher.close(PATIENCE_S)
        if left:
            raise RuntimeError(f"{left} events were not delivered; see {self._folder}/services/broker.log")

    def _wait_for(self, settings: Settings, events: list[Event]) -> None:
        """Until each attempt that can be joined is joined, and each success is in the statistics once."""
        submitted = {event.attempt_id for event in events if isinstance(event, JobSubmitted)}
        completed = {event.attempt_id: event for event in events if isinstance(event, JobCompleted)}
        joined = submitted & completed.keys()
        counted = sum(event.measured() is not None for event in completed.values())
        store = HistoryStore(connect(settings.redis_url), settings.redis_prefix)

        def done() -> bool:
            seen = {decode(message.value, JobAttempt).attempt_id for message in _read(settings, ATTEMPTS)}
            return seen >= joined and _observed(store) >= counted

        self._until(done, "the workers to catch up")
        if _observed(store) != counted:
            raise RuntimeError(f"{_observed(store)} attempts in the statistics where {counted} succeeded")
        self._say(f"{counted:,} finished attempts counted, each once; {len(joined):,} joined")

    def _night(self, settings: Settings) -> Report:
        partitions = Partitions(Path(settings.partitions))
        night = Night(
            partitions,
            LocalStore(Path(settings.artifacts)),
            load_catalog(),
            ingest=connectors.ingest_attempts(settings),
            snapshot=connectors.snapshot(settings, THROUGHPUT),
            announce=connectors.announce(settings),
        )
        with self._step("night run"):
            report = night.run(Plan(night=datetime.now(UTC).date(), window_days=HISTORY_DAYS))
        self._say(f"artifact {report.artifact} {'is in production' if report.promoted else 'was not promoted'}")
        return report

    def _lists(self, settings: Settings, submissions: list[JobSubmitted]) -> dict[str, PreferenceList]:
        wanted = {submission.attempt_id for submission in submissions}
        lists: dict[str, PreferenceList] = {}

        def done() -> bool:
            answers = (decode(message.value, PreferenceList) for message in _read(settings, PREFERENCES))
            lists.update((answer.attempt_id, answer) for answer in answers)
            return lists.keys() >= wanted

        self._until(done, "a preference list of each submission")
        return lists

    def _until(self, done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not done():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {PATIENCE_S:.0f} s for {what}; the logs are in {self._folder}")
            time.sleep(0.2)

    def _outcome(
        self, settings: Settings, today: list[Event], lists: dict[str, PreferenceList], events: int
    ) -> Outcome:
        submitted = {event.attempt_id: event for event in today if isinstance(event, JobSubmitted)}
        completed = {event.attempt_id: event for event in today if isinstance(event, JobCompleted) and event.measured()}
        rows = frame(
            JobAttempt(attempt_id=name, family="", submitted=submitted[name], completed=completed[name])
            for name in sorted(submitted.keys() & completed.keys())
        )
        measured = np.exp(log_target(rows, THROUGHPUT))
        predicted = np.array(
            [
                _predicted(lists[name], kind)
                for name, kind in zip(rows["attempt_id"], rows["hardware_type"], strict=True)
            ]
        )
        partitions = Partitions(Path(settings.partitions))
        history = partitions.read(partitions.days())
        looked_up = LookupTable.learn(history, np.exp(log_target(history, THROUGHPUT))).predict(rows)
        leap, table = accuracy(predicted, measured), accuracy(looked_up, measured)
        there = accuracy(predicted[~np.isnan(looked_up)], measured[~np.isnan(looked_up)])
        if leap is None or table is None or there is None:
            raise RuntimeError(
                f"nothing to score: no artifact was promoted; see the reports under {settings.partitions}"
            )
        answered = sum(bool(lists[name].ranked) for name in submitted)
        return Outcome(
            attempts=len(submitted),
            coverage=round(100.0 * answered / len(submitted), 1),
            w20=leap.w20,
            w5=leap.w5,
            lookup_table={"w20": table.w20, "w5": table.w5, "coverage": table.coverage},
            w20_where_table_covers=there.w20,
            events=events,
            history_attempts=len(history),
            seconds=self._seconds,
        )


def _arrivals(fleet: Fleet) -> Iterator[Arrival]:
    for day in range(fleet.config.days):
        yield from arrivals(fleet.day(day))


def _read(settings: Settings, topic: str) -> Iterator[Message]:
    return read_range(settings, settings.topic(topic))


def _observed(store: HistoryStore) -> int:
    """Observations of all families."""
    buckets = store.buckets(THROUGHPUT)
    return sum(
        statistics.n for bucket in buckets for key, statistics in bucket.statistics.items() if key.of == "family"
    )


def _predicted(answer: PreferenceList, hardware_type: str) -> float:
    """Samples/s predicted for one hardware type, ranked or not; NaN where there is no prediction."""
    throughput = {candidate.hardware_type: candidate.throughput for candidate in answer.ranked}
    throughput |= {left_out.hardware_type: left_out.throughput or np.nan for left_out in answer.excluded}
    return throughput.get(hardware_type, np.nan)


def _example(lists: dict[str, PreferenceList]) -> PreferenceList:
    """The list with the most to see."""
    return max(lists.values(), key=lambda answer: (len(answer.ranked) + len(answer.excluded), answer.attempt_id))
