"""All Prometheus metrics of Leap, each with its meaning and a remedy."""

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
    """Declare a histogram; `buckets` are upper bounds, by default the client library's for seconds."""
    return Histogram(*_declare(name, meaning, remedy, labels), buckets=buckets or Histogram.DEFAULT_BUCKETS)


PRODUCED = counter(
    "leap_produced_total",
    "Events acknowledged by the broker.",
    "Flat in a busy hour: see leap_undelivered_total.",
    ["topic"],
)
UNDELIVERED = counter(
    "leap_undelivered_total",
    "Events rejected by the broker or timed out; their batch is retried.",
    "Increasing: the broker is down, or its limits are below the declared ones; the log has its answer.",
    ["topic"],
)
CONSUMED = counter(
    "leap_consumed_total",
    "Messages processed and committed.",
    "Flat while leap_lag_messages increases: the worker is stuck; see leap_batch_failures_total.",
    ["worker", "topic"],
)
BATCH_SECONDS = histogram(
    "leap_batch_seconds",
    "From a batch until it is committed: processing, and acknowledgement; several batches while more keep arriving.",
    "Increasing: Redis or the broker is slow; if it is the worker, add partitions and workers.",
    ["worker"],
)
BATCH_FAILURES = counter(
    "leap_batch_failures_total",
    "Failed batches; each is retried.",
    "Increasing: the log has the error, most often an unavailable Redis or broker.",
    ["worker"],
)
REBALANCES = counter(
    "leap_rebalances_total",
    "Partition assignments.",
    "Increasing without scaling: workers crash, or exceed max.poll.interval.ms.",
    ["worker"],
)
REWINDS = counter(
    "leap_rewinds_total",
    "Rewinds: Redis lacked updates whose offsets were committed, so partitions were re-read.",
    "Expected after a failover or a restore of Redis; increasing without one: check its persistence.",
    ["worker"],
)
COMMITS_REFUSED = counter(
    "leap_commits_refused_total",
    "Commits rejected after a rebalance; the messages are redelivered to the new owner.",
    "Increasing: see leap_rebalances_total.",
    ["worker"],
)
DEAD_LETTERS = counter(
    "leap_dead_letters_total",
    "Messages sent to the dead-letter topic.",
    "Increasing: a producer sends invalid events; the dead letters have the reasons.",
    ["worker", "topic"],
)
LAG = gauge(
    "leap_lag_messages",
    "Consumer lag of a partition; not updated while a batch is in flight.",
    "Increasing: add workers, up to one per partition.",
    ["worker", "topic", "partition"],
)
BATCH_BEGUN = gauge(
    "leap_batch_begun_timestamp_seconds",
    "Start of the in-flight batch, seconds since 1970; 0 if there is none.",
    "Long ago: the batch hangs, or keeps failing; see leap_batch_failures_total.",
    ["worker"],
)
BROKER_ANSWERED = gauge(
    "leap_broker_answered_timestamp_seconds",
    "Last successful request for end offsets, seconds since 1970.",
    "Long ago: the broker is down or unreachable; `leap doctor` says which.",
    ["worker"],
)
LISTS = counter(
    "leap_preference_lists_total",
    "Preference lists by outcome: `ranked`, or the reason for no opinion.",
    "The reason names the problem; `no artifact`: run `leap retrain`; `internal error` is a bug: see the log.",
    ["outcome"],
)
ARTIFACT_MADE = gauge(
    "leap_artifact_made_timestamp_seconds",
    "Creation time of the artifact in use, seconds since 1970; 0 if there is none.",
    "More than 36 hours ago: training runs fail or are not promoted; `leap artifact list` and the reports say why.",
    ["target"],
)
ARTIFACT_FOLLOWED = gauge(
    "leap_artifact_followed_timestamp_seconds",
    "Last time that the artifact in use was confirmed to be in production, seconds since 1970.",
    "Long ago: the artifact store is unavailable, or the production artifact does not load; see the log.",
    ["target"],
)
ARTIFACT_REFUSED = gauge(
    "leap_artifact_refused",
    "1 while the artifact in production is refused by its trial, and the one before it serves.",
    "The log says which example it answers otherwise: promote another, or run `leap retrain` with this version.",
    ["target"],
)
HISTORY_UPDATES = counter(
    "leap_history_updates_total",
    "Statistic updates by outcome: added, duplicates (attempt seen before), redelivered.",
    "Duplicates increasing: a producer sends completions twice. Redelivered increasing: see leap_rebalances_total.",
    ["outcome"],
)
NIGHT_FAILURES = counter(
    "leap_night_failures_total",
    "Failed training runs of `leap retrain --every day`; each is retried.",
    "Increasing: the log has the step and the error; production is unchanged.",
)
LIVE_SHARE = gauge(
    "leap_live_share",
    "Shares over the last day, 0 to 1, absent without data: `w20`, `w10`, `w5` (predicted within 20, 10, 5%), "
    "`coverage`, `ranked` lists, `attempts_ranked`, `hours_ranked`, `first_choice`, `interval`, "
    "`skew` (lists with a stale history).",
    "w20 dropping: the monitor's page shows which model or hardware types; ranked dropping: see leap_live_no_opinion; "
    "skew above 0: no training run for 36 hours, or a fault that `leap history audit` finds.",
    ["what"],
)
LIVE_RATIO = gauge(
    "leap_live_ratio",
    "Median of predicted/measured over the last day; ideal 1.",
    "Off by more than a few percent: the fleet changed since training; run `leap retrain`.",
)
LIVE_SCORED = gauge(
    "leap_live_scored",
    "Attempts that leap_live_share is computed from.",
    "Near 0 while jobs finish: check that the ranking worker is up.",
)
LIVE_NO_OPINION = gauge(
    "leap_live_no_opinion",
    "Empty preference lists of the last day, by reason.",
    "`no artifact`: run `leap retrain`; `internal error` is a bug: see the log of the ranking worker.",
    ["reason"],
)
LIVE_REJECTED = counter(
    "leap_live_rejected_total",
    "Invalid messages that the monitor skipped.",
    "Increasing: see the dead letters of the workers that consume the topic.",
    ["topic"],
)


def expect(worker: str, topics: Sequence[str]) -> None:
    """Export a worker's counters at 0: Prometheus sees no increase in a counter that first appears at 1."""
    for metric in (BATCH_FAILURES, REBALANCES, REWINDS, COMMITS_REFUSED):
        metric.labels(worker)
    for topic in topics:
        CONSUMED.labels(worker, topic)
        DEAD_LETTERS.labels(worker, topic)
