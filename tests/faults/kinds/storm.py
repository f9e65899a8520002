"""Everything that can break in one deployment, in any order."""

from tests.faults.fault import Fault
from tests.faults.kinds import brokers, clock, network, stores, workers
from tests.faults.scene import Scene

STRIKES = (workers.killed, workers.come_and_go, brokers.killed, stores.failed_over, network.sent_again, clock.moved)


def storm(scene: Scene) -> None:
    for strike in scene.rng.sample(STRIKES, len(STRIKES)):
        strike(scene)


STORM = Fault("one after the other in one deployment", storm, on_cluster=True, clocks_move=True)
FAULTS = [STORM]
