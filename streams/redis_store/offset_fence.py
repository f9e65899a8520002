"""Offset fences: how a store detects redelivered updates, and that it has lost committed ones.

A store keeps a fence for each source: the highest offset applied. A writer states the offset at which its updates
begin; a store whose fence is below that has lost committed updates in between.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from leap.schemas.errors import LeapError
from leap.streams.kafka.message import Message, Rewind
from leap.streams.runtime.liveness import Partition

#: MessagePack, which Lua scripts decode.
packed = msgspec.msgpack.Encoder().encode


class OffsetRange(NamedTuple):
    """Offsets [begin, end) of a source; all offsets before `begin` have been applied."""

    begin: int
    end: int


class StoreDataLost(LeapError, RuntimeError):
    """The store lacks applied updates, for example after a failover to a replica that lags behind.

    Attributes
    ----------
    begins
        Source to the first offset that has to be applied again.
    """

    def __init__(self, begins: Mapping[str, int]) -> None:
        super().__init__(f"the store has lost applied updates; apply again from {begins}")
        self.begins = begins

    def rewind(self, partitions: Mapping[str, Partition]) -> Rewind:
        """The signal for the worker's loop, given the partition of each source."""
        return Rewind({partitions[source]: begin for source, begin in self.begins.items()})


def source(message: Message) -> str:
    """Source of a message within one topic: ``<topic id>/<partition>``."""
    return f"{message.topic_id}/{message.partition}"


def offset_ranges(messages: Iterable[Message], name: Callable[[Message], str] = source) -> dict[str, OffsetRange]:
    """Offsets that messages cover, by source; messages are in order within each partition."""
    ranges: dict[str, OffsetRange] = {}
    for message in messages:
        key = name(message)
        begin = ranges[key].begin if key in ranges else message.position
        ranges[key] = OffsetRange(begin, message.offset + 1)
    return ranges


def encode_ranges(ranges: Mapping[str, OffsetRange]) -> bytes:
    """Script argument: MessagePack of the names of the fence fields, begins and ends."""
    ends = [offsets.end for offsets in ranges.values()]
    return packed((["@" + name for name in ranges], [offsets.begin for offsets in ranges.values()], ends))


def check_fences(ranges: Mapping[str, OffsetRange], fences: Iterable[Sequence[int]]) -> None:
    """Compare ranges with the replies of scripts: the fences of each bucket before the call.

    Raises
    ------
    StoreDataLost
        If a fence is below the beginning of its range.
    """
    reached = [min(column) for column in zip(*fences, strict=True)]
    lost = {
        name: fence + 1
        for (name, offsets), fence in zip(ranges.items(), reached, strict=False)
        if fence + 1 < offsets.begin
    }
    if lost:
        raise StoreDataLost(lost)
