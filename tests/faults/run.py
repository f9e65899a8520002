"""Run faults one after the other, each against a stream of its own."""

import itertools
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from leap.schemas.events import JobCompleted
from tests.artifacts import night_over, past
from tests.faults.brokers import three_brokers
from tests.faults.fault import Fault
from tests.faults.scene import Scene, Services, scene
from tests.faults.stores import one_store, six_stores
from tests.faults.stream import events
from tests.faults.verdict import Verdict, judge


@dataclass(frozen=True)
class Row:
    """What came of a fault.

    Attributes
    ----------
    times
        How often it struck.
    deaths
        Exit status of workers to how many ended with it; -9 is killed.
    rewound
        How often a worker found that the store had lost something.
    in_flight
        Most events that were sent and not committed by all groups when it struck.
    seconds
        From its first event to the end of recovery.
    recovered_s
        From the end of the last strike until everything is sent, committed and counted.
    """

    fault: str
    events: int
    times: int
    deaths: dict[int, int]
    rewound: int
    in_flight: int
    seconds: float
    recovered_s: float
    verdict: Verdict

    def to_json(self) -> dict[str, Any]:
        """Flatten it."""
        row = asdict(self)
        verdict: dict[str, Any] = row.pop("verdict")
        return row | verdict


@contextmanager
def services(folder: Path) -> Iterator[Services]:
    """Run three brokers, Redis and a Redis Cluster, and train an artifact, for all faults."""
    with ExitStack() as stack:
        store, _ = night_over(folder / "trained", past())
        yield Services(
            stack.enter_context(three_brokers(folder / "brokers")),
            stack.enter_context(one_store(folder / "redis")),
            stack.enter_context(six_stores(folder / "cluster")),
            store,
        )


def run(fault: Fault, running: Services, folder: Path, count: int, rate: float, seed: int = 0) -> Row:
    """Strike again and again while the stream runs, then wait, then judge."""
    switches = fault.on_cluster, fault.proxied, fault.mortality, fault.clocks_move
    with scene(running, folder, count, rate, seed, *switches) as setting:
        began = time.monotonic()
        times = _strike(fault, setting)
        struck = time.monotonic()
        setting.sender.join()
        setting.workers.mortality = 0.0
        counted = sum(isinstance(event, JobCompleted) for event in events(count)) + len(setting.extra)
        quiet = setting.await_quiet(counted)
        recovered_s, seconds = quiet - struck, quiet - began
    setting.evidence.gather(setting.settings, setting.lag, folder)
    verdict = judge(itertools.chain(events(count), setting.extra), setting.refused, setting.evidence)
    deaths, rewound = dict(setting.workers.ended), setting.workers.logged("store lost committed updates")
    return Row(fault.name, count, times, deaths, rewound, setting.in_flight, seconds, recovered_s, verdict)


def _strike(fault: Fault, setting: Scene) -> int:
    times = 0
    while not setting.lag():  # the stream is there
        time.sleep(0.05)
    while setting.sender.sending or not times:
        time.sleep(fault.pause_s * setting.rng.uniform(0.5, 1.5))
        fault.strike(setting)
        times += 1
    return times
