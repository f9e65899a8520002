"""What workers leave behind of each batch that they have handled, for the judge: they may be dead by then."""

import os
import resource
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from leap.streams.kafka.message import Message

#: Consumer group, topic, its id, and a partition.
Place = tuple[str, str, str, int]


class Handled(msgspec.Struct, frozen=True):
    """A batch.

    Attributes
    ----------
    spans
        Where messages stood: a place, and the first and the last of offsets without a gap.
    peak_mib
        Largest resident memory of the worker until then.
    epoch_s
        Time by the worker's wall clock less that of the machine's monotonic one, which all processes share.
    """

    spans: list[tuple[Place, int, int]]
    peak_mib: float
    epoch_s: float


def epoch_s() -> float:
    """What :class:`Handled` says, of this process."""
    return time.time() - time.monotonic()


def leave(folder: Path, group: str, batch: Sequence[Message]) -> None:
    """Write a line into the file of this process."""
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    handled = Handled([(place, first, last) for place, first, last in _spans(group, batch)], peak_mib, epoch_s())
    with (folder / f"{group}-{os.getpid()}.trail").open("ab") as file:
        file.write(msgspec.json.encode(handled) + b"\n")


def follow(folder: Path) -> Iterator[Handled]:
    """Read what all have left; a line that a kill has cut was of a batch that was not committed."""
    decode = msgspec.json.Decoder(Handled).decode
    for path in folder.glob("*.trail"):
        *lines, _ = path.read_bytes().split(b"\n")
        yield from map(decode, lines)


def _spans(group: str, batch: Sequence[Message]) -> Iterator[tuple[Place, int, int]]:
    open_spans: dict[Place, tuple[int, int]] = {}
    for message in batch:
        place = group, message.topic, message.topic_id, message.partition
        first, last = open_spans.get(place, (message.offset, message.offset - 1))
        if message.offset != last + 1:
            yield place, first, last
            first = message.offset
        open_spans[place] = first, message.offset
    for place, (first, last) in open_spans.items():
        yield place, first, last
