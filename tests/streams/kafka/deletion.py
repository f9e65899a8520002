"""Deletion of a topic."""

import time

from confluent_kafka.admin import AdminClient

from leap.streams.kafka.clients import admin_config
from leap.streams.runtime.settings import Settings


def delete_topic(settings: Settings, name: str) -> None:
    """Delete a topic and wait until it is gone: brokers list it for a moment after they have answered."""
    admin = AdminClient(admin_config(settings))
    admin.delete_topics([name])[name].result(60)
    while name in admin.list_topics(timeout=60).topics:  # pytest-timeout ends it
        time.sleep(0.02)
