"""Brokers that die, and topics that change under the workers."""

import time
from functools import partial

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from leap.schemas.topics import COMPLETED, PREFERENCES, SUBMITTED, load_topics
from leap.streams.kafka.clients import admin_config
from leap.streams.kafka.topic_admin import TopicError, ensure_topics, topic_ids
from tests.faults.fault import Fault
from tests.faults.scene import Scene

MORE_PARTITIONS = 3


def killed(scene: Scene) -> None:
    broker = scene.rng.choice(scene.services.brokers.members)
    scene.count()
    broker.kill()
    time.sleep(scene.rng.uniform(1.0, 3.0))
    broker.start()


def grown(scene: Scene) -> None:
    admin, name = AdminClient(admin_config(scene.settings)), scene.settings.topic(COMPLETED)
    count = len(admin.list_topics(name, timeout=10).topics[name].partitions) + MORE_PARTITIONS
    scene.count()
    admin.create_partitions([NewPartitions(name, count)])[name].result(10)


def created_again(topic: str, scene: Scene) -> None:
    """What is deleted unread is gone by intention, so everything is read before."""
    admin, name = AdminClient(admin_config(scene.settings)), scene.settings.topic(topic)
    with scene.sender.paused:
        scene.await_quiet()
        scene.evidence.keep(scene.settings, scene.lag, topic)
        before = topic_ids(scene.settings, [name])[name]
        admin.delete_topics([name])[name].result(10)
        while not _created(scene, name, before):
            time.sleep(0.1)


def _created(scene: Scene, name: str, before: str) -> bool:
    """Brokers learn one after the other that a topic is gone, and that it is there again."""
    try:
        ensure_topics(scene.settings, load_topics().values())
        return topic_ids(scene.settings, [name])[name] != before
    except TopicError:
        return False


FAULTS = [
    Fault("broker of three killed and started", killed),
    Fault("partitions added to a topic", grown, pause_s=5.0),
    *(
        Fault(f"{topic} deleted and created", partial(created_again, topic), pause_s=5.0)
        for topic in (COMPLETED, SUBMITTED, PREFERENCES)  # all that workers read and that is sent here
    ),
]
