"""What has become of the stream, worked out apart from the workers."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from leap.predictor.history.welford import Statistics
from leap.schemas.codec import decode
from leap.schemas.events import THROUGHPUT, JobCompleted, JobSubmitted
from leap.streams.history.updates import Key
from tests.faults.evidence import Evidence
from tests.faults.stream import Event

EXACT = 1e-9
#: What Kubernetes gives the history worker and the joiner; the ranking worker has more.
MEMORY_MIB = 512.0


@dataclass
class Verdict:
    """Nothing but `no_opinion` and `peak_mib` may be other than 0.

    Attributes
    ----------
    lost, doubled
        Completions that a statistic lacks or has too often.
    wrong
        Statistics whose mean, deviation or last value is not what NumPy says.
    unanswered
        Submissions without a preference list.
    no_opinion
        Reason to the number of lists that are empty for it.
    unjoined
        Attempts with submission and completion that are not in the feature table's log, or differ there.
    gaps
        Offsets of the topics that a group has not handled, or that lie between its commit and the end.
    misplaced
        Completions that should have been set aside and were not, or the other way round.
    peak_mib
        Largest resident memory of a worker; up to 512.
    """

    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    unanswered: int = 0
    no_opinion: Counter[str] = field(default_factory=Counter)
    unjoined: int = 0
    gaps: int = 0
    misplaced: int = 0
    peak_mib: float = 0.0

    @property
    def good(self) -> bool:
        """Whether nothing is lost, doubled or wrong, and no worker too large."""
        counts = self.lost, self.doubled, self.wrong, self.unanswered, self.unjoined, self.gaps, self.misplaced
        return not any(counts) and self.peak_mib <= MEMORY_MIB


def judge(stream: Iterable[Event], refused: Iterable[JobCompleted], evidence: Evidence) -> Verdict:
    """Compare the evidence with the stream.

    Parameters
    ----------
    stream
        All that was sent and counts, each event once.
    refused
        Completions that must have been set aside.
    """
    verdict = Verdict(peak_mib=evidence.peak_mib)
    submissions: dict[str, JobSubmitted] = {}
    completions: dict[str, JobCompleted] = {}
    for event in stream:
        if isinstance(event, JobSubmitted):
            submissions[event.attempt_id] = event
        else:
            completions[event.attempt_id] = event
    _statistics(completions.values(), evidence.statistics, verdict)

    answered = {answer.attempt_id: answer for answer in evidence.answers}
    verdict.unanswered = len(submissions.keys() - answered.keys())
    verdict.no_opinion.update(answer.no_opinion for answer in answered.values() if answer.no_opinion)

    joined = {row.attempt_id: row for row in evidence.rows}
    both = submissions.keys() & completions.keys()
    same = sum(name in joined and joined[name].completed == completions[name] for name in both)
    verdict.unjoined = len(both) - same + len(joined.keys() - both)

    for place, committed, end in evidence.standings:
        verdict.gaps += _missing(evidence.handled.get(place, ()), min(committed, end)) + abs(end - committed)

    aside = {(letter.worker, decode(letter.value, JobCompleted).attempt_id) for letter in evidence.letters}
    expected = {(worker, event.attempt_id) for worker in ("history", "joiner") for event in refused}
    verdict.misplaced = len(aside ^ expected)
    return verdict


def _missing(spans: Iterable[tuple[int, int]], end: int) -> int:
    """Count the offsets before the end that are in no span.

    Each is a message: no producer here has transactions, whose markers take offsets too, and no topic is compacted.
    """
    missing = reached = 0
    for first, last in sorted(spans):
        missing += max(0, min(first, end) - reached)
        reached = max(reached, last + 1)
    return missing + max(0, end - reached)


def _statistics(completions: Iterable[JobCompleted], found: Mapping[Key, Statistics], verdict: Verdict) -> None:
    expected: dict[Key, list[tuple[float, float]]] = defaultdict(list)
    for event in completions:
        pair = event.finished_at.timestamp(), float(np.log(event.measurements[THROUGHPUT]))
        expected[Key("family", event.job_name)].append(pair)
        expected[Key("family_hardware", event.job_name, event.hardware_type)].append(pair)
        expected[Key("model_type", event.model_type or "")].append(pair)
    for key in expected.keys() | found.keys():
        pairs, held = expected.get(key, []), found.get(key)
        n = held.n if held else 0
        verdict.lost += max(0, len(pairs) - n)
        verdict.doubled += max(0, n - len(pairs))
        if held and len(pairs) == n:
            verdict.wrong += not _equal(held, pairs)


def _equal(held: Statistics, pairs: list[tuple[float, float]]) -> bool:
    values = np.array([value for _, value in pairs])
    deviation = values.std(ddof=1) if len(values) > 1 else 0.0
    return bool(
        np.isclose(held.mean, values.mean(), rtol=EXACT, atol=EXACT)
        and (len(values) < 2 or np.isclose(held.deviation, deviation, rtol=EXACT, atol=EXACT))
        and (held.last_at, held.last) == max(pairs)
    )
