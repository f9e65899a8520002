"""Input of the checks of :mod:`leap.streams.doctor.runner`, and the exception they raise."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from confluent_kafka.admin import AdminClient

from leap.schemas.errors import LeapError
from leap.schemas.topics import Topic, load_topics
from leap.streams.kafka.clients import admin_config
from leap.streams.runtime.acl import ROLES
from leap.streams.runtime.settings import Settings

#: Deadline of a check, and the shorter timeout of one request, in seconds.
DEADLINE_S = 4.5
ANSWER_S = 3.0
AS_OPERATOR = "run leap doctor as an operator (docs/security.md)"


class CheckFailed(LeapError):
    """A check failed; the text says what is wrong.

    Attributes
    ----------
    remedy
        What to do.
    can_wait
        Report a warning: nothing is lost or wrong yet.
    """

    def __init__(self, finding: str, remedy: str, can_wait: bool = False) -> None:
        super().__init__(finding)
        self.remedy = remedy
        self.can_wait = can_wait


@dataclass(frozen=True)
class CheckContext:
    """Settings, role and clocks of a run.

    Attributes
    ----------
    role
        Role whose permissions are checked (:data:`leap.streams.runtime.acl.ROLES`); empty is all roles.
    now
        Seconds since 1970.
    monotonic
        Seconds of a monotonic clock.
    """

    settings: Settings
    role: str = ""
    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic

    @cached_property
    def admin(self) -> AdminClient:
        """Shared by all checks: it must outlive its requests, or the client library crashes."""
        return AdminClient(admin_config(self.settings))

    def roles(self) -> list[str]:
        """Roles whose permissions are checked."""
        return [self.role] if self.role else list(ROLES)

    def declared(self) -> dict[str, Topic]:
        """Topic declarations by prefixed name."""
        return {self.settings.topic(name): topic for name, topic in load_topics().items()}


def duration(seconds: float) -> str:
    """Format a duration.

    >>> duration(42), duration(600), duration(5400), duration(180_000)
    ('42 s', '10 min', '1.5 h', '2.1 days')
    """
    for limit, size, unit in ((120.0, 1.0, "s"), (3600.0, 60.0, "min"), (172_800.0, 3600.0, "h")):
        if seconds < limit:
            return f"{round(seconds / size, 1 if unit == 'h' else None):g} {unit}"
    return f"{seconds / 86_400:.1f} days"
