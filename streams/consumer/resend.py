"""Which messages workers have refused, and sending them again: each at most once until it is refused again."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from leap.schemas.codec import Rejected, decode
from leap.schemas.events import DeadLetter
from leap.schemas.topics import DEAD_LETTERS, load_topics
from leap.streams.consumer.dead_letters import CUT
from leap.streams.kafka.clients import CheckedProducer
from leap.streams.kafka.message import Message, Resent
from leap.streams.kafka.range_reader import read_range
from leap.streams.runtime.settings import Settings

CLOCK_SKEW = timedelta(hours=1)


@dataclass
class Refused:
    """A message that workers refused, once or, sent again, several times.

    Attributes
    ----------
    origin
        Topic, partition and offset at which it was first.
    letters
        Position to worker to its dead letter there, oldest position first.
    """

    origin: str
    letters: dict[str, dict[str, DeadLetter]] = field(default_factory=dict)

    @property
    def latest(self) -> dict[str, DeadLetter]:
        """Worker to its dead letter, where the message was last refused."""
        return list(self.letters.values())[-1]

    @property
    def letter(self) -> DeadLetter:
        """One of the latest, with the original bytes."""
        return next(iter(self.latest.values()))

    @property
    def is_whole(self) -> bool:
        """Whether all of its bytes were kept."""
        return not self.letter.reason.startswith(CUT)


def refused(
    settings: Settings,
    since: datetime,
    takes: Callable[[DeadLetter], bool] = lambda letter: True,
    tell: Callable[[str], object] = lambda text: None,
) -> list[Refused]:
    """Messages refused since a time, whose latest letters a filter takes, in the order of their first letters.

    Parameters
    ----------
    tell
        Called with a sentence for every message of the topic that is no dead letter.
    """
    found: dict[str, Refused] = {}
    limit = load_topics()[DEAD_LETTERS].max_message_bytes
    for message in sorted(
        read_range(settings, settings.topic(DEAD_LETTERS), since), key=lambda each: each.timestamp_ms
    ):
        try:
            letter = decode(message.value, DeadLetter, limit)
        except Rejected as error:
            tell(f"not a dead letter: {message.topic} at {message.partition}/{message.offset}: {error}")
            continue
        position = _position(letter)
        origin = message.resent.origin if message.resent else position
        letters = found.setdefault(origin, Refused(origin)).letters
        letters.setdefault(position, {})[letter.worker] = letter
    return [each for each in found.values() if any(map(takes, each.latest.values()))]


def waiting(settings: Settings, chosen: Iterable[Refused]) -> Iterator[Refused]:
    """Of refused messages those to send again: whole, and not sent again since they were last refused."""
    whole = [each for each in chosen if each.is_whole]
    positions = _sent_again(settings, whole)
    for each in whole:
        if positions.get(each.origin, set()) <= each.letters.keys():
            yield each


def send_again(settings: Settings, messages: Iterable[Refused]) -> int:
    """Send the original bytes to their topics, for the workers that refused them; the others had handled them."""
    producer = CheckedProducer(settings)
    count = 0
    for each in messages:
        resent = Resent(frozenset(each.latest), each.origin)
        producer.produce(each.letter.topic, each.letter.value or b"", each.letter.key, trace=resent.headers)
        count += 1
    producer.flush()
    return count


def _sent_again(settings: Settings, messages: Iterable[Refused]) -> dict[str, set[str]]:
    """Origin to the positions at which it was sent again."""
    since: dict[str, datetime] = {}
    for each in messages:
        first = min(letter.rejected_at for letter in next(iter(each.letters.values())).values())
        since[each.letter.topic] = min(first, since.get(each.letter.topic, first))
    positions: dict[str, set[str]] = {}
    for topic, begin in since.items():
        for message in read_range(settings, topic, begin - CLOCK_SKEW):
            if message.resent:
                positions.setdefault(message.resent.origin, set()).add(_position(message))
    return positions


def _position(at: Message | DeadLetter) -> str:
    return f"{at.topic}/{at.partition}/{at.offset}"
