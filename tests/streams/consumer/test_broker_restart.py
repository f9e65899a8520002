"""What a worker does while its broker is killed and started again: on Apache Kafka, which remembers."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from leap.schemas.topics import COMPLETED, PREFERENCES, load_topics
from leap.streams.consumer.batch_loop import BatchLoop
from leap.streams.embedded import free_port
from leap.streams.kafka.clients import CheckedProducer, DeliveryError
from leap.streams.kafka.message import Message
from leap.streams.kafka.range_reader import read_range
from leap.streams.kafka.topic_admin import ensure_topics
from leap.streams.runtime.settings import Settings
from tests.services import real_kafka

COUNT = 300


@pytest.mark.real("the embedded broker forgets")
def test_nothing_is_lost_when_the_broker_is_killed(settings: Settings, tmp_path: Path) -> None:
    port = free_port()
    own = dict(settings.kafka) | {"bootstrap.servers": f"127.0.0.1:{port}"}
    settings = replace(settings, kafka=own)
    source, target = settings.topic(COMPLETED), settings.topic(PREFERENCES)
    outputs = CheckedProducer(settings)
    half = threading.Event()
    seen: list[int] = []

    def handle(batch: list[Message]) -> None:
        for message in batch:
            outputs.produce(target, message.value or b"", message.key)
        seen.extend(int(message.value or b"") for message in batch)
        if len(seen) > COUNT // 2:
            half.set()

    loop = BatchLoop(settings, "w", [source], handle, outputs=outputs, batch_size=10)
    worker = threading.Thread(target=loop.run, daemon=True)
    with real_kafka(tmp_path / "kafka", port, stop_s=0):
        ensure_topics(settings, load_topics().values())
        worker.start()
        launcher = CheckedProducer(settings)
        for number in range(COUNT):
            launcher.produce(source, b"%d" % number, b"%d" % number)
        launcher.flush()
        half.wait()
    launcher.produce(source, b"%d" % COUNT, b"x")
    with pytest.raises(DeliveryError) as caught:
        launcher.flush(0.5)
    assert caught.value.left == 1
    with real_kafka(tmp_path / "kafka", port):
        launcher.produce(source, b"%d" % COUNT, b"x")
        launcher.flush(60)
        while len(set(seen)) <= COUNT or loop.progress.stalled():
            worker.join(0.05)
            assert worker.is_alive()
        loop.stop()
        worker.join()
        written = {int(message.value or b"") for message in read_range(settings, target)}
    assert written == set(seen) == set(range(COUNT + 1))
