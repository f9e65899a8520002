"""Wait until the workers have processed what a backfill has sent."""

import time
from collections.abc import Callable, Mapping

from leap.schemas.errors import LeapError
from leap.schemas.topics import load_topics
from leap.streams.kafka.range_reader import committed
from leap.streams.runtime.acl import ROLES
from leap.streams.runtime.liveness import Partition
from leap.streams.runtime.settings import Settings

#: Who makes of events what a training run reads.
WORKERS = ("history", "joiner")
POLL_S = 0.2
PATIENCE_S = 30.0


class NotProcessed(LeapError, RuntimeError):
    """The workers do not go on with what was sent; the text names the worker and how much it lacks."""


def wait_until_processed(
    settings: Settings,
    ends: Mapping[Partition, int],
    on_left: Callable[[int], None] = lambda left: None,
    patience_s: float = PATIENCE_S,
) -> None:
    """Return once history worker and joiner have committed all up to `ends`.

    Parameters
    ----------
    ends
        (topic on the broker, partition) to the offset after the last event that was sent.
    on_left
        Called with the number of messages that are left, of both.
    patience_s
        Seconds without any progress after which to give up.

    Raises
    ------
    NotProcessed
        If nothing has been processed for so long.
    """
    least, moved_at = float("inf"), time.monotonic()
    while any(left := {worker: _left(settings, worker, ends) for worker in WORKERS}.values()):
        count = sum(left)
        on_left(count)
        if count < least:
            least, moved_at = count, time.monotonic()
        if time.monotonic() - moved_at > patience_s:
            behind = ", ".join(f"{worker} {number:,}" for worker, number in zip(WORKERS, left, strict=True) if number)
            raise NotProcessed(
                f"nothing has been processed for {patience_s:.0f} s; messages left: {behind}. All events are sent, so "
                "only start the workers, with `leap worker` or `leap up`"
            )
        time.sleep(POLL_S)


def _left(settings: Settings, worker: str, ends: Mapping[Partition, int]) -> int:
    """Messages before `ends` that a worker has not committed."""
    role = ROLES[worker].name
    names = {settings.topic(name) for name, topic in load_topics().items() if role in topic.consumers}
    count = 0
    for name in names & {topic for topic, _ in ends}:
        done = {number: offset for (_, number), offset in committed(settings, worker, name).items()}
        count += sum(max(0, end - done.get(number, 0)) for (topic, number), end in ends.items() if topic == name)
    return count
