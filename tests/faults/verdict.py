"""What has become of the stream, worked out apart from the workers."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from predictor.statistics import Statistics
from schemas.codec import MAX_DECODED_BYTES, decode
from schemas.events import THROUGHPUT, DeadLetter, JobAttempt, JobCompleted, JobSubmitted, PreferenceList
from schemas.topics import ATTEMPTS, COMPLETED, DEAD_LETTERS, PREFERENCES, SUBMITTED
from streams.history_store import HistoryStore
from streams.observations import Key
from streams.ranges import read_range
from streams.redis_client import connect
from streams.settings import Settings
from tests.faults.stream import Event

EXACT = 1e-9


@dataclass
class Verdict:
    """Nothing but `no_opinion` may be other than 0.

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
        Offsets that are missing in the topics of submissions and completions.
    misplaced
        Completions that should have been set aside and were not, or the other way round.
    """

    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    unanswered: int = 0
    no_opinion: Counter[str] = field(default_factory=Counter)
    unjoined: int = 0
    gaps: int = 0
    misplaced: int = 0

    @property
    def good(self) -> bool:
        """Whether nothing is lost, doubled or wrong."""
        return not any((self.lost, self.doubled, self.wrong, self.unanswered, self.unjoined, self.gaps, self.misplaced))


def judge(settings: Settings, stream: Iterable[Event], refused: Iterable[JobCompleted]) -> Verdict:
    """Compare what the topics and the store hold with the stream.

    Parameters
    ----------
    stream
        All that was sent and counts, each event once.
    refused
        Completions that must have been set aside.
    """
    verdict = Verdict()
    submissions: dict[str, JobSubmitted] = {}
    completions: dict[str, JobCompleted] = {}
    for event in stream:
        if isinstance(event, JobSubmitted):
            submissions[event.attempt_id] = event
        else:
            completions[event.attempt_id] = event
    _statistics(settings, completions.values(), verdict)

    answered: dict[str, PreferenceList] = {}
    for message in read_range(settings, settings.topic(PREFERENCES)):
        answer = decode(message.value, PreferenceList)
        answered[answer.attempt_id] = answer
    verdict.unanswered = len(submissions.keys() - answered.keys())
    verdict.no_opinion.update(answer.no_opinion for answer in answered.values() if answer.no_opinion)

    joined: dict[str, JobAttempt] = {}
    for message in read_range(settings, settings.topic(ATTEMPTS)):
        row = decode(message.value, JobAttempt, MAX_DECODED_BYTES)
        joined[row.attempt_id] = row
    both = submissions.keys() & completions.keys()
    same = sum(name in joined and joined[name].completed == completions[name] for name in both)
    verdict.unjoined = len(both) - same + len(joined.keys() - both)

    for topic in (SUBMITTED, COMPLETED):
        offsets: dict[int, list[int]] = defaultdict(list)
        for message in read_range(settings, settings.topic(topic)):
            offsets[message.partition].append(message.offset)
        verdict.gaps += sum(found[-1] + 1 - len(found) for found in offsets.values())

    letters = [decode(row.value, DeadLetter, 2**21) for row in read_range(settings, settings.topic(DEAD_LETTERS))]
    aside = {(letter.worker, decode(letter.value, JobCompleted).attempt_id) for letter in letters}
    expected = {(worker, event.attempt_id) for worker in ("history", "joiner") for event in refused}
    verdict.misplaced = len(aside ^ expected)
    return verdict


def _statistics(settings: Settings, completions: Iterable[JobCompleted], verdict: Verdict) -> None:
    expected: dict[Key, list[tuple[float, float]]] = defaultdict(list)
    for event in completions:
        pair = event.finished_at.timestamp(), float(np.log(event.measurements[THROUGHPUT]))
        expected[Key("family", event.job_name)].append(pair)
        expected[Key("family_hardware", event.job_name, event.hardware_type)].append(pair)
        expected[Key("model_type", event.model_type or "")].append(pair)
    with connect(settings.redis_url) as client:
        store = HistoryStore(client, settings.redis_prefix)
        found = {key: held for bucket in store.buckets(THROUGHPUT) for key, held in bucket.statistics.items()}
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
