"""What commands of this layer share."""

import os
from collections.abc import Mapping

from leap.streams.runtime.settings import Settings

#: Whoever waits for a command need not read ten times a second that a broker is away; workers shall find it again.
SELDOM = {"LEAP_KAFKA_RECONNECT_BACKOFF_MS": "5000"}


def read_settings(defaults: Mapping[str, str] = SELDOM) -> Settings:
    """Settings from the environment."""
    own = any(name.startswith("LEAP_KAFKA_RECONNECT_") for name in os.environ)
    return Settings.from_environment(os.environ if own else {**defaults, **os.environ})
