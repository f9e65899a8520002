"""Stores that stand still, die, and forget."""

import time

from tests.faults.fault import Fault
from tests.faults.scene import Scene


def paused(scene: Scene) -> None:
    scene.count()
    with scene.services.store.paused():
        time.sleep(scene.rng.uniform(0.5, 3.0))


def killed(scene: Scene) -> None:
    scene.count()
    scene.services.store.kill()
    time.sleep(scene.rng.uniform(0.2, 2.0))
    scene.services.store.start()


def emptied(scene: Scene) -> None:
    scene.count()
    with scene.services.store.client() as client:
        client.flushall()


def failed_over(scene: Scene) -> None:
    """The replica takes over without what its primary acknowledged at last.

    To stop it is not enough: what was sent to it would wait in its socket.
    """
    cluster = scene.services.cluster
    primary = scene.rng.choice([node for node in cluster.nodes if node.role() == "master"])
    scene.count()
    with cluster.replica_of(primary).paused():
        with primary.client() as client:
            client.execute_command("CLIENT KILL", "TYPE", "replica")
        time.sleep(scene.rng.uniform(0.5, 1.5))
        primary.kill()
    while sum(node.role() == "master" for node in cluster.nodes if node is not primary) < 3:
        time.sleep(0.05)
    primary.start()
    cluster.await_whole()


FAULTS = [
    Fault("Redis paused", paused),
    Fault("Redis killed and started", killed),
    Fault("Redis loses its data", emptied, pause_s=8.0),
    Fault("Redis Cluster fails over with writes lost", failed_over, on_cluster=True, pause_s=4.0),
]
