"""What commands of this layer share."""

import os

from leap.streams.runtime.settings import Settings


def read_settings() -> Settings:
    """Settings from the environment."""
    return Settings.from_environment(os.environ)
