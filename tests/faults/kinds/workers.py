"""Workers that die, come and go."""

import time
from concurrent.futures import ThreadPoolExecutor

from tests.faults.brokers import Broker
from tests.faults.fault import Fault
from tests.faults.scene import Scene
from tests.faults.workers import KINDS


def killed(scene: Scene) -> None:
    scene.count()
    scene.workers.kill(scene.rng)


def killed_between_write_and_commit(scene: Scene) -> None:
    """Workers kill themselves so; a strike is one that did."""
    scene.count()
    dead = scene.workers.ended[-9]
    while scene.sender.sending and scene.workers.ended[-9] == dead:
        time.sleep(0.1)


def come_and_go(scene: Scene) -> None:
    kind = scene.rng.choice(KINDS)
    scene.workers.add(kind)
    time.sleep(scene.rng.uniform(2.0, 4.0))
    scene.count()
    scene.workers.remove(kind)


def ended_without_brokers(scene: Scene) -> None:
    """Workers are told to end while no broker answers: in time, and what they had in hand comes again."""
    brokers = scene.services.brokers.members
    scene.count()
    for broker in brokers:
        broker.kill()
    for kind in KINDS:
        scene.workers.remove(kind)
    with ThreadPoolExecutor(len(brokers)) as starting:
        list(starting.map(Broker.start, brokers))
    for kind in KINDS:
        scene.workers.add(kind)


FAULTS = [
    Fault("workers killed at any moment", killed),
    Fault("workers killed between write and commit", killed_between_write_and_commit, mortality=0.1, pause_s=0.0),
    Fault("workers added and removed", come_and_go, pause_s=2.0),
    Fault("workers ended while brokers are down", ended_without_brokers, pause_s=15.0),
]
