"""Every Prometheus metric of Leap: its meaning, and what to do when it looks wrong."""

from collections.abc import Sequence
from typing import NamedTuple

from prometheus_client import Counter, Gauge, Histogram


class Metric(NamedTuple):
    """One row of the table of metrics."""

    name: str
    meaning: str
    remedy: str
    labels: tuple[str, ...]


TABLE: list[Metric] = []


def _declare(name: str, meaning: str, remedy: str, labels: Sequence[str]) -> tuple[str, str, tuple[str, ...]]:
    TABLE.append(Metric(name, meaning, remedy, tuple(labels)))
    return name, meaning, tuple(labels)


def counter(name: str, meaning: str, remedy: str, labels: Sequence[str] = ()) -> Counter:
    """Declare a counter; `name` ends in ``_total``."""
    return Counter(*_declare(name, meaning, remedy, labels))


def gauge(name: str, meaning: str, remedy: str, labels: Sequence[str] = ()) -> Gauge:
    """Declare a gauge."""
    return Gauge(*_declare(name, meaning, remedy, labels))


def histogram(
    name: str, meaning: str, remedy: str, labels: Sequence[str] = (), buckets: Sequence[float] = ()
) -> Histogram:
    """Declare a histogram; `buckets` are upper bounds, by default those that suit seconds."""
    return Histogram(*_declare(name, meaning, remedy, labels), buckets=buckets or Histogram.DEFAULT_BUCKETS)


PRODUCED = counter(
    "leap_produced_total",
    "Events that the broker acknowledged.",
    "None in a busy hour: look at leap_undelivered_total.",
    ["topic"],
)
UNDELIVERED = counter(
    "leap_undelivered_total",
    "Events that the broker refused, or that timed out; their batch is tried again.",
    "Growing: the broker is down, or its limits are below those declared; see the log for its answer.",
    ["topic"],
)
CONSUMED = counter(
    "leap_consumed_total",
    "Messages whose batch was handled and whose offset was committed.",
    "None while leap_lag_messages grows: the worker is stuck; see leap_batch_failures_total.",
    ["worker", "topic"],
)
BATCH_SECONDS = histogram(
    "leap_batch_seconds",
    "Time to handle one batch, up to and including what it produced.",
    "Rising: the store or the broker is slow; more partitions and workers help when it is the worker.",
    ["worker"],
)
BATCH_FAILURES = counter(
    "leap_batch_failures_total",
    "Batches that failed and are tried again.",
    "Growing: the log names the cause, most often a store or broker that does not answer.",
    ["worker"],
)
REBALANCES = counter(
    "leap_rebalances_total",
    "Times that partitions were assigned.",
    "Growing without workers coming and going: they die, or take longer than max.poll.interval.ms.",
    ["worker"],
)
COMMITS_REFUSED = counter(
    "leap_commits_refused_total",
    "Commits refused because the partitions moved meanwhile; their messages come again elsewhere.",
    "Growing: see leap_rebalances_total.",
    ["worker"],
)
DEAD_LETTERS = counter(
    "leap_dead_letters_total",
    "Messages set aside whole in the dead-letter topic.",
    "Growing: a producer sends what the schema refuses; the dead letters say what and where.",
    ["worker", "topic"],
)
LAG = gauge(
    "leap_lag_messages",
    "Messages between the position and the end of a partition.",
    "Growing: add workers, up to one for each partition.",
    ["worker", "topic", "partition"],
)
