"""The fault behind every alert, brought upon real services, and its remedy."""

import itertools
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.artifacts.open import open_store
from leap.predictor.artifacts.store import Pointer
from leap.retrainer.dataset.partitions import Partitions
from leap.schemas.codec import encode
from leap.schemas.events import (
    SUCCEEDED,
    THROUGHPUT,
    Event,
    JobAllocated,
    JobCompleted,
    PreferenceList,
    RankedCandidate,
)
from leap.schemas.topics import ALLOCATED, COMPLETED, PREFERENCES, SUBMITTED, load_topics
from leap.streams.kafka.clients import CheckedProducer, admin_config, consumer_config
from leap.streams.redis_store.client import connect
from tests.artifacts import past
from tests.builders import submission
from tests.deploy.quick import POISON, SLOW
from tests.deploy.stack import Stack

OLD = timedelta(hours=40)
FLOOD = 30_000
#: Of a store, so that a batch takes longer than the alert waits, and the client does not give up.
HANG_S = 8.0
SLOW_STORE_S = 1.0

NUMBERS = itertools.count()


def now() -> datetime:
    return datetime.now(UTC)


def send(stack: Stack, topic: str, *events: Event | bytes) -> None:
    """Send events and wait until the broker has them."""
    producer = CheckedProducer(stack.settings)
    for number, event in enumerate(events):
        value = event if isinstance(event, bytes) else encode(event)
        producer.produce(topic, value, str(number).encode())
    producer.flush()


def submitted(job_name: str = "team/job-3x") -> Event:
    return submission(f"s-{next(NUMBERS)}", job_name=job_name, model_type="model-3", at=now())


def completed(measured: float = 100.0, name: str = "") -> Event:
    return JobCompleted(
        attempt_id=name or f"c-{next(NUMBERS)}",
        job_name="team/job-3x",
        hardware_type="fast",
        started_at=now() - timedelta(minutes=5),
        finished_at=now(),
        status=SUCCEEDED,
        measurements={THROUGHPUT: measured},
    )


def allocated() -> Event:
    return JobAllocated(
        attempt_id=f"p-{next(NUMBERS)}", hardware_type="fast", hosts=1, accelerators=8, allocated_at=now()
    )


@contextmanager
def every(seconds: float, do: Callable[[], None]) -> Iterator[None]:
    """Do something again and again in the background until the block ends."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(seconds):
            do()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


class Switched:
    """Something done again and again between `begin` and `end`."""

    def __init__(self, do: Callable[[], None], seconds: float = 0.05) -> None:
        self._do, self._seconds, self._stack = do, seconds, ExitStack()

    def begin(self) -> None:
        self._stack.enter_context(every(self._seconds, self._do))

    def end(self) -> None:
        self._stack.close()


def history(stack: Stack) -> None:
    """The store refuses, then loses all; the group does not come to rest; the only worker ends."""
    store = stack.stores["history"]
    service = ExitStack()

    def start() -> None:
        service.enter_context(stack.service("history"))

    with every(0.1, lambda: send(stack, COMPLETED, completed())):
        start()
        stack.wait(lambda: bool(stack.query('leap_consumed_total{worker="history"} > 0')), "the history worker")
        stack.fault("LeapBatchesFail", lambda: setattr(store, "refuse", True), lambda: setattr(store, "refuse", False))
        stack.fault("LeapRewound", lambda: forget(stack), lambda: None, "history")
        other = Switched(lambda: come_and_go(stack, "history"))
        stack.fault("LeapRebalances", other.begin, other.end)
        stack.fault("LeapWorkerMissing", service.close, start, "history")
    service.close()


def forget(stack: Stack) -> None:
    """Remove the running statistics from the store, as a failover to an empty replica does."""
    store = connect(stack.settings.redis_url)
    for key in list(store.scan_iter(f"{stack.settings.redis_prefix}:history:*")):
        store.delete(key)


def come_and_go(stack: Stack, group: str) -> None:
    """Join a consumer group and leave it."""
    assigned = threading.Event()
    settings = replace(stack.settings, kafka={**stack.settings.kafka, "heartbeat.interval.ms": "200"})
    consumer = Consumer(consumer_config(settings, group))
    consumer.subscribe([COMPLETED], on_assign=lambda *_: assigned.set())
    while not assigned.is_set():
        consumer.poll(0.1)
    consumer.close()


def joiner(stack: Stack) -> None:
    """A message that is none; a slow store under a flood; a store that does not answer."""
    store = stack.stores["joiner"]
    with stack.service("joiner"):
        stack.wait(lambda: bool(stack.query('leap_broker_answered_timestamp_seconds{worker="joiner"}')), "the joiner")
        stack.fault("LeapDeadLetters", lambda: send(stack, ALLOCATED, b"{"), lambda: None, ALLOCATED)

        def flood() -> None:
            store.delay_s = SLOW_STORE_S
            send(stack, ALLOCATED, *(allocated() for _ in range(FLOOD)))

        stack.fault("LeapBehind", flood, lambda: setattr(store, "delay_s", 0.0), "joiner")

        def hang() -> None:
            store.delay_s = HANG_S
            send(stack, ALLOCATED, allocated())

        stack.fault("LeapBatchHangs", hang, lambda: setattr(store, "delay_s", 0.0), "joiner")


def ranking(stack: Stack, trained: LocalStore) -> None:
    """No artifact, an old one, one that does not load; a bug; slow batches; a broker that refuses the lists."""
    root = stack.folder / "ranking" / "artifacts"
    store = LocalStore(root)
    environment = stack.environment("ranking")
    assert environment["LEAP_ARTIFACTS"] == str(root)

    def rollback() -> None:
        command = [sys.executable, "-m", "leap", "artifact", "rollback", "--artifacts", str(root)]
        subprocess.run(command, check=True, capture_output=True)

    with stack.service("ranking"), every(0.05, lambda: send(stack, SUBMITTED, submitted())):
        stack.fault("LeapNoOpinion", lambda: None, lambda: publish(store, trained, timedelta()))
        stack.fault("LeapArtifactOld", lambda: publish(store, trained, OLD), rollback)
        stack.fault("LeapArtifactNotFollowed", lambda: tear(store), rollback)
        poison = Switched(lambda: send(stack, SUBMITTED, submitted(POISON)))
        slow = Switched(lambda: send(stack, SUBMITTED, submitted(SLOW)))
        with ThreadPoolExecutor() as beside:
            slowed = beside.submit(stack.fault, "LeapRankingSlow", slow.begin, slow.end)
            stack.fault("LeapRankingFails", poison.begin, poison.end)
            slowed.result()
        declared = load_topics()[PREFERENCES].max_message_bytes
        stack.fault(
            "LeapUndelivered", lambda: limit(stack, PREFERENCES, 64), lambda: limit(stack, PREFERENCES, declared)
        )


def publish(store: LocalStore, trained: LocalStore, age: timedelta) -> None:
    """Promote the trained artifact as if it had been made so long ago."""
    pointer = trained.pointer(THROUGHPUT)
    assert pointer is not None
    version = f"aged-{age.total_seconds():.0f}"
    draft = store.root.parent / version
    shutil.copytree(trained.folder(THROUGHPUT, pointer.version), draft)
    manifest = draft / "manifest.json"
    content = msgspec.json.decode(manifest.read_bytes())
    content |= {"version": version, "created_at": (now() - age).isoformat()}
    manifest.write_bytes(msgspec.json.encode(content))
    store.add(THROUGHPUT, draft)
    move(store, version)


def tear(store: LocalStore) -> None:
    """Promote an artifact of which a file is not what the manifest says."""
    pointer = store.pointer(THROUGHPUT)
    assert pointer is not None
    torn = store.root / THROUGHPUT / "torn"
    shutil.copytree(store.folder(THROUGHPUT, pointer.version), torn)
    (torn / "trees.json").write_bytes(b"torn")
    move(store, "torn")


def move(store: LocalStore, version: str) -> None:
    serving = store.pointer(THROUGHPUT)
    before = serving.version if serving else None
    store.move(THROUGHPUT, Pointer(version=version, previous=before, reason="test", moved_at=now()), serving)


def limit(stack: Stack, topic: str, size: int) -> None:
    """Set the size that the broker takes for a topic."""
    entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient(admin_config(stack.settings))
    for answer in admin.incremental_alter_configs([resource]).values():
        answer.result()


def monitor(stack: Stack) -> None:
    """The fleet runs at a third of what was predicted, then as predicted."""

    def run(count: int, measured: float) -> None:
        names = [f"m-{next(NUMBERS)}" for _ in range(count)]
        candidate = RankedCandidate(
            hardware_type="fast", throughput=100.0, lower=90.0, upper=110.0, cost_per_hour=1.0,
            throughput_per_cost=100.0, score=100.0, basis="family history",
        )  # fmt: skip
        before = now() - timedelta(minutes=6)
        lists = [PreferenceList(attempt_id=name, ranked=(candidate,), decided_at=before) for name in names]
        send(stack, PREFERENCES, *lists)
        send(stack, COMPLETED, *(completed(measured, name) for name in names))

    with stack.service("monitor"):
        stack.fault("LeapAccuracyFell", lambda: run(120, 33.0), lambda: run(480, 101.0))


def night(stack: Stack) -> None:
    """There is nothing to learn from, then there is."""
    start = now().replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=12)
    partitions = Path(stack.environment("retrain")["LEAP_PARTITIONS"])
    with stack.service("retrain", "--recipe", "boosted"):
        stack.fault(
            "LeapNightFails",
            lambda: None,
            lambda: Partitions(partitions).ingest(past(days=12, a_day=30, start=start)),
        )
    store = open_store(stack.environment("retrain")["LEAP_ARTIFACTS"])
    assert store.pointer(THROUGHPUT) is not None, "the night that was tried again has published"


def broker(stack: Stack) -> None:
    """Nothing gets through to the broker."""
    with stack.service("joiner"):
        stack.wait(lambda: bool(stack.query('leap_broker_answered_timestamp_seconds{worker="joiner"}')), "the joiner")
        stack.fault(
            "LeapBrokerSilent",
            lambda: setattr(stack.broker, "refuse", True),
            lambda: setattr(stack.broker, "refuse", False),
            "joiner",
        )


#: Alerts that the scenarios above fire.
ALERTS = {
    "LeapArtifactNotFollowed",
    "LeapArtifactOld",
    "LeapAccuracyFell",
    "LeapBatchHangs",
    "LeapBatchesFail",
    "LeapBehind",
    "LeapBrokerSilent",
    "LeapDeadLetters",
    "LeapNightFails",
    "LeapNoOpinion",
    "LeapRankingFails",
    "LeapRankingSlow",
    "LeapRebalances",
    "LeapRewound",
    "LeapUndelivered",
    "LeapWorkerMissing",
}
