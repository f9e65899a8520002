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
REWINDS = counter(
    "leap_rewinds_total",
    "Times that a store lacked what had been committed, so that partitions were read again.",
    "After a failover or a restored store this is the cure; growing without one: look at the store's persistence.",
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
    "Messages between the position and the end of a partition; not renewed while one batch is handled.",
    "Growing: add workers, up to one for each partition.",
    ["worker", "topic", "partition"],
)
BATCH_BEGUN = gauge(
    "leap_batch_begun_timestamp_seconds",
    "When the batch in hand was begun, in seconds since 1970; 0 while there is none.",
    "Long ago: the batch hangs, or fails and is tried again; see leap_batch_failures_total.",
    ["worker"],
)
BROKER_ANSWERED = gauge(
    "leap_broker_answered_timestamp_seconds",
    "When the broker last said where the partitions end, in seconds since 1970.",
    "Long ago: the broker is down or cannot be reached; `leap doctor` says which.",
    ["worker"],
)
LISTS = counter(
    "leap_preference_lists_total",
    "Preference lists by outcome: ranked, or the reason for no opinion.",
    "A growing reason names what to mend; `no artifact` needs a night, `internal error` is a bug: see the log.",
    ["outcome"],
)
ARTIFACT_MADE = gauge(
    "leap_artifact_made_timestamp_seconds",
    "When the artifact in use was made, in seconds since 1970; 0 while there is none.",
    "More than a day and a half ago: nights fail, or are not promoted; `leap artifact list` and the reports say why.",
    ["target"],
)
ARTIFACT_FOLLOWED = gauge(
    "leap_artifact_followed_timestamp_seconds",
    "When the artifact in use was last seen to be the one in production, in seconds since 1970.",
    "Long ago: the artifact store does not answer, or what is in production does not load; see the log.",
    ["target"],
)
HISTORY_UPDATES = counter(
    "leap_history_updates_total",
    "Updates of single statistics by outcome: added, duplicate (attempt seen before), redelivered.",
    "Duplicates growing: a producer sends completions twice. Redelivered growing: see leap_rebalances_total.",
    ["outcome"],
)
NIGHT_FAILURES = counter(
    "leap_night_failures_total",
    "Nights that failed under `leap retrain --every day` and are tried again.",
    "Growing: the log names the step and the cause; production stays as it was.",
)
LIVE_SHARE = gauge(
    "leap_live_share",
    "Share of the last day, 0 to 1, absent where there is none: `w20`, `w10`, `w5` of finished attempts, "
    "`coverage`, `ranked` lists, `attempts_ranked`, `hours_ranked`, `first_choice`, `interval`, "
    "`skew` of the history served.",
    "w20 falling: see the page for the model or hardware type that fell; ranked falling: see leap_live_no_opinion; "
    "skew above 0: no night for a day and a half, or `leap history audit` finds a fault.",
    ["what"],
)
LIVE_RATIO = gauge(
    "leap_live_ratio",
    "Median of predicted over measured of the last day; 1 is right.",
    "Away from 1 by more than a few percent: the fleet changed since the night; run `leap retrain`.",
)
LIVE_SCORED = gauge(
    "leap_live_scored",
    "Attempts behind leap_live_share.",
    "Near 0 while jobs finish: is the ranking worker up?",
)
LIVE_NO_OPINION = gauge(
    "leap_live_no_opinion",
    "Empty lists of the last day, by reason.",
    "`no artifact` needs a night, `internal error` is a bug: see the log of the ranking worker.",
    ["reason"],
)
LIVE_REJECTED = counter(
    "leap_live_rejected_total",
    "Messages that the monitor could not use.",
    "Growing: the workers that own the topic set them aside; see the dead letters.",
    ["topic"],
)


def expect(worker: str, topics: Sequence[str]) -> None:
    """Export the counters of a worker at 0: one that first appears at 1 has not increased for Prometheus."""
    for metric in (BATCH_FAILURES, REBALANCES, REWINDS, COMMITS_REFUSED):
        metric.labels(worker)
    for topic in topics:
        CONSUMED.labels(worker, topic)
        DEAD_LETTERS.labels(worker, topic)
