"""Is there a broker? Asked once, before anything that would wait for one much longer."""

import logging
import re
from collections.abc import Sequence

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._metadata import ClusterMetadata

from leap.schemas.errors import BrokerError
from leap.streams.kafka.clients import admin_config
from leap.streams.runtime.settings import Settings

#: Seconds to answer: of a first try, after which a refusal is believed, and of all.
TRIES_S = (0.5, 2.5)
#: What surrounds the words of an error: address and state of a connection, as the client's developers need them.
_AROUND = re.compile(r"^\S+/bootstrap: |^\S+:\d+/\d+: | \(after \d+ms in state .*\)|: increase receive\.message.*")

_silent = logging.Logger(__name__)  # outside of the tree of loggers: the error says it all
_silent.addHandler(logging.NullHandler())


def broker_metadata(settings: Settings) -> ClusterMetadata:
    """Topics and brokers, from a broker that answers within 3 s.

    Raises
    ------
    BrokerError
        If none does; the text says which were asked, and why it failed.
    """
    errors: list[KafkaError] = []
    admin = AdminClient(admin_config(settings) | {"error_cb": errors.append, "logger": _silent})
    for seconds in TRIES_S:
        try:
            return admin.list_topics(timeout=seconds)
        except KafkaException:
            admin.poll(0)  # errors of connections come through the callback alone
            if any(error.code() == KafkaError._ALL_BROKERS_DOWN for error in errors):
                break
    raise BrokerError(f"no broker at {settings.bootstrap_servers}: {_reason(errors)}")


def _reason(errors: Sequence[KafkaError]) -> str:
    """Why the first connection failed, in words."""
    for error in errors:
        if error.code() == KafkaError._BAD_MSG:
            return "what answers there is not Kafka"
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            return _AROUND.sub("", error.str())
    return "it closes the connection" if errors else f"no answer within {sum(TRIES_S):g} s"
