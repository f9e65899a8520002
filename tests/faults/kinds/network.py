"""Connections that break or are slow."""

import time

from tests.faults.fault import Fault
from tests.faults.scene import Scene

LOST = 0.05
DELAY_S = 0.1
# Of a batch that takes some 20 ms on its own.
HUNDREDFOLD_S = 2.0


def replies_lost(scene: Scene) -> None:
    scene.count()
    scene.store_proxy.lost = LOST
    time.sleep(2.0)
    scene.store_proxy.lost = 0.0


def slow(scene: Scene) -> None:
    proxies = [scene.store_proxy, *(broker.proxy for broker in scene.services.brokers.members)]
    for proxy in proxies:
        proxy.delay_s = scene.rng.uniform(0.0, DELAY_S)
    time.sleep(3.0)
    scene.count()
    for proxy in proxies:
        proxy.delay_s = 0.0


def store_slow(scene: Scene) -> None:
    scene.store_proxy.delay_s = HUNDREDFOLD_S
    time.sleep(6.0)
    scene.count()
    scene.store_proxy.delay_s = 0.0


def brokers_slow(scene: Scene) -> None:
    for broker in scene.services.brokers.members:
        broker.proxy.delay_s = DELAY_S * 5
    time.sleep(6.0)
    scene.count()
    for broker in scene.services.brokers.members:
        broker.proxy.delay_s = 0.0


def sent_again(scene: Scene) -> None:
    scene.sender.send_again()
    scene.count()


FAULTS = [
    Fault("Redis replies lost after the write", replies_lost, proxied=True),
    Fault("network slow to brokers and Redis", slow, proxied=True),
    Fault("Redis slower by 100 times", store_slow, proxied=True, pause_s=2.0),
    Fault("brokers slower by 100 times", brokers_slow, proxied=True, pause_s=2.0),
    Fault("batches sent again", sent_again),
]
