"""The log of the Kafka client (librdkafka), as a part of Leap's own.

It comes with the next poll of a client, and goes where the logging of the process sends it: JSON lines in workers,
nowhere in commands, whose errors say what is wrong. Left to itself the client writes to standard error.
"""

import logging
import re
import time
from collections.abc import Callable

REPEAT_S = 10.0
#: What tells apart two lines about the same: the number of a client, how long it had tried, how often before.
_VARYING = re.compile(r"#\w+-\d+|\(after .*\)")


class Repeats(logging.Filter):
    """Leaves out a line that says what was said within the last 10 s: a client tries a broker that is away for ever.

    Parameters
    ----------
    clock
        Seconds on a monotonic clock.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._said_at: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is to be written."""
        now, text = self._clock(), _VARYING.sub("", record.getMessage())
        self._said_at = {said: said_at for said, said_at in self._said_at.items() if now - said_at < REPEAT_S}
        repeated = text in self._said_at
        self._said_at.setdefault(text, now)
        return not repeated


client_log = logging.getLogger(__name__)
client_log.addFilter(Repeats())
client_log.addHandler(logging.NullHandler())  # or Python would print errors where no logging is set up
