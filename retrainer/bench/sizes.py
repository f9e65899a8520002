"""What an event, a family and an attempt take in Kafka, in the store, in a partition and in an artifact."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import msgspec
import pandas as pd
from cramjam import lz4

from leap.predictor.routing.router import Router
from leap.retrainer.bench.model import Trained
from leap.retrainer.dataset.feature_table import normalise
from leap.retrainer.dataset.partitions import Partitions
from leap.schemas.codec import encode
from leap.schemas.events import THROUGHPUT
from leap.schemas.hardware import Catalog
from leap.schemas.topics import ALLOCATED, ATTEMPTS, COMPLETED, PREFERENCES, SUBMITTED
from leap.streams.history.store import WINDOW, HistoryStore
from leap.streams.history.updates import Key, Observation
from leap.streams.joining.attempt import Part, join_parts, merge_part, to_part
from leap.streams.joining.part_store import PartStore
from leap.streams.redis_store.client import Client, connect
from leap.streams.runtime.settings import Settings
from leap.streams.simulator.events import arrivals, attempt_columns
from leap.streams.simulator.fleet import Fleet, FleetConfig

#: Messages that a producer packs into one compressed batch while it waits 5 ms, at a few thousand a second.
PACKED = 20
BATCH = 2500
FULL_FAMILIES = 500
AT = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes, each the mean over a day of a simulated fleet.

    Attributes
    ----------
    families
        In the store while it was measured, each with two hardware types.
    store_family
        Of one of them after three attempts: its own statistic and those of both types.
    store_statistic_full
        Of one statistic that remembers as many attempts as it can, 256.
    store_attempt
        Of the parts of one attempt that waits to be joined.
    events
        Topic to the bytes of an event as JSON.
    events_packed
        The same in a batch of 20, compressed with LZ4 as producers do.
    partition_attempt
        Of an attempt in a daily partition.
    artifact
        Of the files of a model of the size of production, without history.
    """

    families: int
    store_family: float
    store_statistic_full: float
    store_attempt: float
    events: dict[str, float]
    events_packed: dict[str, float]
    partition_attempt: float
    artifact: int


def bench(settings: Settings, trained: Trained, families: int, folder: Path) -> Sizes:
    """Fill the store and measure it; encode a day of events and measure them."""
    fleet = Fleet(FleetConfig(days=1, attempts_per_day=2500))
    parts = _parts(fleet, trained)
    events = {topic: [encode(event) for event in messages] for topic, messages in parts.items()}
    events[ATTEMPTS] = _rows(parts, fleet.catalog)
    settings = replace(settings, redis_prefix=f"bench-{os.getpid()}")
    client = connect(settings.redis_url)
    store, waiting = HistoryStore(client, settings.redis_prefix), PartStore(client, settings.redis_prefix)
    used = [_used(client)]
    _apply(store, _observations(families, 3))
    used.append(_used(client))
    _apply(store, _observations(FULL_FAMILIES, WINDOW, "full"))
    used.append(_used(client))
    open_attempts = {event.attempt_id: dict([to_part(event)]) for event in parts[SUBMITTED]}
    waiting.add(open_attempts)
    used.append(_used(client))
    partitions = Partitions(folder / "partitions")
    rows = normalise(pd.DataFrame(attempt_columns(fleet.day(0))))
    partitions.merge(rows)
    version = trained.store.folder(THROUGHPUT, trained.store.versions(THROUGHPUT)[-1])
    return Sizes(
        families=families,
        store_family=round((used[1] - used[0]) / families, 1),
        # Of each family one, and on two hardware types one half each.
        store_statistic_full=round((used[2] - used[1]) / (2 * FULL_FAMILIES), 1),
        store_attempt=round((used[3] - used[2]) / len(open_attempts), 1),
        events={topic: round(sum(map(len, messages)) / len(messages)) for topic, messages in events.items()},
        events_packed={topic: round(_packed(messages) / len(messages)) for topic, messages in events.items()},
        partition_attempt=round(sum(partitions.sizes().values()) / len(rows), 1),
        artifact=sum(path.stat().st_size for path in version.iterdir() if not path.name.startswith("history")),
    )


def _parts(fleet: Fleet, trained: Trained) -> dict[str, list[Part]]:
    """Topic to the events of a day, and the lists that answer submissions with 20 candidates."""
    of_topic: dict[str, list[Part]] = {topic: [] for topic in (SUBMITTED, ALLOCATED, COMPLETED)}
    for _, topic, _, event in arrivals(fleet.day(0)):
        if isinstance(event, Part):
            of_topic[topic].append(event)
    router = Router(trained.store)
    router.refresh()
    return of_topic | {PREFERENCES: list(router.rank_many(trained.submissions))}


def _rows(parts: Mapping[str, list[Part]], catalog: Catalog) -> list[bytes]:
    """What the joiner makes of each attempt that has all of its parts."""
    kept: dict[str, dict[str, str]] = {}
    for event in (event for topic in (SUBMITTED, ALLOCATED, COMPLETED) for event in parts[topic]):
        merge_part(kept.setdefault(event.attempt_id, {}), *to_part(event))
    return [
        encode(join_parts(attempt, catalog))
        for attempt in kept.values()
        if attempt.keys() >= {"submitted", "completed"}
    ]


def _observations(families: int, attempts: int, name: str = "family") -> Iterator[Observation]:
    """Attempts of families in turn, each family on two hardware types."""
    for number in range(attempts):
        for family in range(families):
            called = f"team-{family % 40}/{name}-{family:06d}-training"
            keys = (Key("family", called), Key("family_hardware", called, ("H100-SXM-80GB", "L40S")[number % 2]))
            offset = number * families + family
            yield Observation(f"{name}/0", offset, f"{name}-{offset}", THROUGHPUT, 7.0 + number / 7, AT + offset, keys)


def _apply(store: HistoryStore, observations: Iterable[Observation]) -> None:
    rest = iter(observations)
    while some := list(islice(rest, BATCH)):
        store.apply(some)


def _used(client: Client) -> int:
    return int(client.info("memory")["used_memory"])


def _packed(events: list[bytes]) -> int:
    return sum(len(lz4.compress(b"".join(events[first : first + PACKED]))) for first in range(0, len(events), PACKED))
