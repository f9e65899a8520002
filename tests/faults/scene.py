"""A deployment of its own for each fault: topics, keys, workers, and a launcher that sends the stream."""

import random
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from leap.predictor.artifacts.local_store import LocalStore
from leap.schemas.events import JobCompleted
from leap.schemas.topics import load_topics
from leap.streams.kafka.topic_admin import ensure_topics
from leap.streams.runtime.settings import Settings
from tests.faults.brokers import Brokers
from tests.faults.evidence import Evidence, statistics
from tests.faults.lag import Lag
from tests.faults.stores import Cluster, Store
from tests.faults.stream import Sender
from tests.faults.workers import Workers
from tests.proxy import Proxy

WORKERS = {"history": 2, "joiner": 1, "ranking": 1}
RECOVERY_S = 300.0
PATIENCE_S = 30.0
STILL_S = 1.0


@dataclass(frozen=True)
class Services:
    """What runs for all faults."""

    brokers: Brokers
    store: Store
    cluster: Cluster
    artifacts: LocalStore


@dataclass
class Scene:
    """What a fault strikes.

    Attributes
    ----------
    store_proxy
        Between the workers and the store, for the faults that ask for it.
    extra
        Completions that a fault has sent beside the stream, and that count.
    refused
        Those that must be set aside.
    in_flight
        Most events that were sent and not yet committed by all groups when a fault struck.
    evidence
        Of topics that are deleted since; all of it at the end.
    """

    services: Services
    settings: Settings
    folder: Path
    workers: Workers
    sender: Sender
    lag: Lag
    store_proxy: Proxy
    rng: random.Random
    extra: list[JobCompleted] = field(default_factory=list)
    refused: list[JobCompleted] = field(default_factory=list)
    in_flight: int = 0
    evidence: Evidence = field(default_factory=Evidence)

    def count(self) -> None:
        """Take note of what is in flight."""
        self.in_flight = max(self.in_flight, self.lag() or 0)

    def await_quiet(self, counted: int | None = None) -> float:
        """Wait until every group has committed everything, and the store has counted so many completions.

        A store that never gets there is for the verdict to tell, so of that no more is asked after a while. A worker
        that has rewound commits again what it reads again, also when all is counted: so it has to stay so for a second.

        Returns
        -------
        float
            Since when it has been quiet, by the monotonic clock.

        Raises
        ------
        TimeoutError
            If it takes five minutes.
        """
        began = since = time.monotonic()
        patience = began + PATIENCE_S
        while time.monotonic() - since < STILL_S:
            left = self.lag() != 0
            if left:
                if time.monotonic() - began > RECOVERY_S:
                    raise TimeoutError(f"{self.lag()} messages are left after {RECOVERY_S:.0f} s; see {self.folder}")
                patience = time.monotonic() + PATIENCE_S
            if left or (counted is not None and self._counted() != counted and time.monotonic() < patience):
                since = time.monotonic()
            time.sleep(0.1)
        return since

    def _counted(self) -> int:
        return sum(held.n for key, held in statistics(self.settings).items() if key.kind == "family")


@contextmanager
def scene(
    services: Services,
    folder: Path,
    count: int,
    rate: float,
    seed: int,
    on_cluster: bool = False,
    proxied: bool = False,
    mortality: float = 0.0,
    clocks_move: bool = False,
) -> Iterator[Scene]:
    """Set a scene: everything runs and the stream has begun.

    Parameters
    ----------
    count, rate
        Events of the stream, and how many a second are sent.
    seed
        Of what the fault chooses.
    on_cluster
        The store is the Redis Cluster.
    proxied
        Workers reach brokers and store through proxies.
    mortality
        Share of batches between whose write and commit a worker kills itself.
    clocks_move
        The wall clocks of workers can be set.
    """
    folder.mkdir(parents=True)
    fresh = uuid.uuid4().hex[:8]
    target: Store = services.cluster.nodes[0] if on_cluster else services.store
    with Proxy("127.0.0.1", target.port, seed=seed) as proxy:
        settings = Settings.from_environment(
            {
                "LEAP_KAFKA_BOOTSTRAP_SERVERS": services.brokers.direct,
                "LEAP_KAFKA_SESSION_TIMEOUT_MS": "3000",
                "LEAP_KAFKA_HEARTBEAT_INTERVAL_MS": "500",
                "LEAP_TOPIC_PREFIX": f"{fresh}-",
                "LEAP_REDIS_PREFIX": fresh,
                "LEAP_REDIS_URL": target.url,
                "LEAP_ARTIFACTS": str(services.artifacts.root),
            }
        )
        ensure_topics(settings, load_topics().values())
        environment = settings.to_environment()
        if proxied:
            environment["LEAP_KAFKA_BOOTSTRAP_SERVERS"] = services.brokers.proxied
            environment["LEAP_REDIS_URL"] = f"redis://127.0.0.1:{proxy.port}/0"
        workers = Workers(Settings.from_environment(environment), folder, mortality, clocks_move)
        with workers.running(WORKERS):
            sender = Sender(settings, count, rate)
            yield Scene(services, settings, folder, workers, sender, Lag(settings), proxy, random.Random(seed))
