"""How far a store has a topic, and how it is noticed that it has lost something.

A store keeps a fence for each source, the highest offset that it has had of it. Whoever writes says from which
offset on: a store whose fence is before that has lost what was committed in between.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from leap.streams.kafka.message import Message, Rewind
from leap.streams.runtime.liveness import Partition

#: MessagePack, which scripts read.
packed = msgspec.msgpack.Encoder().encode


class OffsetRange(NamedTuple):
    """Offsets of a source from `begin` to before `end`. All before `begin` have been applied."""

    begin: int
    end: int


class StoreDataLost(RuntimeError):
    """The store lacks what had been applied, as a replica does that takes over without the last writes.

    Attributes
    ----------
    begins
        Source to the offset from which on it has to be applied again.
    """

    def __init__(self, begins: Mapping[str, int]) -> None:
        super().__init__(f"the store has lost what was applied: apply again from {begins}")
        self.begins = begins

    def rewind(self, partitions: Mapping[str, Partition]) -> Rewind:
        """What a worker raises, which knows the sources' partitions."""
        return Rewind({partitions[source]: begin for source, begin in self.begins.items()})


def source(message: Message) -> str:
    """Name where a message stands, in one topic."""
    return f"{message.topic_id}/{message.partition}"


def offset_ranges(messages: Iterable[Message], name: Callable[[Message], str] = source) -> dict[str, OffsetRange]:
    """Tell which offsets messages stand for, in order within each partition."""
    ranges: dict[str, OffsetRange] = {}
    for message in messages:
        key = name(message)
        begin = ranges[key].begin if key in ranges else message.position
        ranges[key] = OffsetRange(begin, message.offset + 1)
    return ranges


def encode_ranges(ranges: Mapping[str, OffsetRange]) -> bytes:
    """What a script is told: MessagePack of the fields of the fences, begins and ends."""
    ends = [span.end for span in ranges.values()]
    return packed((["@" + name for name in ranges], [span.begin for span in ranges.values()], ends))


def check_fences(ranges: Mapping[str, OffsetRange], fences: Iterable[Sequence[int]]) -> None:
    """Compare with what scripts answered: for each part of the store the fences before the call.

    Raises
    ------
    Lost
        If one is before where its span begins.
    """
    reached = [min(column) for column in zip(*fences, strict=True)]
    lost = {
        name: fence + 1 for (name, span), fence in zip(ranges.items(), reached, strict=False) if fence + 1 < span.begin
    }
    if lost:
        raise StoreDataLost(lost)
