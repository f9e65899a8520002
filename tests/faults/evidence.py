"""What workers have left in topics and in the store."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from leap.predictor.history.welford import Statistics
from leap.schemas.codec import MAX_DECODED_BYTES, decode
from leap.schemas.events import THROUGHPUT, DeadLetter, JobAttempt, PreferenceList
from leap.schemas.topics import ATTEMPTS, DEAD_LETTERS, PREFERENCES
from leap.streams.history.store import HistoryStore
from leap.streams.history.updates import Key
from leap.streams.kafka.range_reader import read_range
from leap.streams.redis_store.client import connect
from leap.streams.runtime.settings import Settings
from tests.faults import trail
from tests.faults.lag import Lag, Standing
from tests.faults.trail import Place


@dataclass
class Evidence:
    """All that a verdict rests on.

    Attributes
    ----------
    standings
        Of each group in each partition, also of topics that are deleted since.
    handled
        First and last of the offsets that a group has handled in each.
    peak_mib
        Largest resident memory of a worker.
    """

    statistics: Mapping[Key, Statistics] = field(default_factory=dict)
    answers: list[PreferenceList] = field(default_factory=list)
    rows: list[JobAttempt] = field(default_factory=list)
    letters: list[DeadLetter] = field(default_factory=list)
    standings: list[Standing] = field(default_factory=list)
    handled: Mapping[Place, list[tuple[int, int]]] = field(default_factory=dict)
    peak_mib: float = 0.0

    def keep(self, settings: Settings, lag: Lag, topic: str) -> None:
        """Take what would be gone with a topic, which is about to be deleted; named as it is declared."""
        name = settings.topic(topic)
        self.standings += [standing for standing in lag.standings() if standing.place[1] == name]
        if topic == PREFERENCES:
            self.answers += [decode(message.value, PreferenceList) for message in read_range(settings, name)]

    def gather(self, settings: Settings, lag: Lag, folder: Path) -> None:
        """Take all that is there, and the trail of the workers."""
        self.statistics = statistics(settings)
        self.standings += lag.standings()
        for message in read_range(settings, settings.topic(PREFERENCES)):
            self.answers.append(decode(message.value, PreferenceList))
        for message in read_range(settings, settings.topic(ATTEMPTS)):
            self.rows.append(decode(message.value, JobAttempt, MAX_DECODED_BYTES))
        for message in read_range(settings, settings.topic(DEAD_LETTERS)):
            self.letters.append(decode(message.value, DeadLetter, 2**21))
        handled: dict[Place, list[tuple[int, int]]] = defaultdict(list)
        for batch in trail.follow(folder):
            self.peak_mib = max(self.peak_mib, batch.peak_mib)
            for place, first, last in batch.spans:
                handled[place].append((first, last))
        self.handled = handled


def statistics(settings: Settings) -> dict[Key, Statistics]:
    """Read all that the store has."""
    with connect(settings.redis_url) as client:
        store = HistoryStore(client, settings.redis_prefix)
        return {key: held for bucket in store.buckets(THROUGHPUT) for key, held in bucket.statistics.items()}
