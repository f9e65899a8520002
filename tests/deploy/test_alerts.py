"""Every alert fires by its fault and ends by its remedy: real workers, broker, store and Prometheus."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from leap.predictor.artifacts.local_store import LocalStore
from tests.deploy import faults
from tests.deploy.stack import Stack


@pytest.mark.real("needs Apache Kafka, redis-server and prometheus")
@pytest.mark.timeout(600)
def test_every_alert_fires_by_its_fault_and_ends_by_its_remedy(stack: Stack, artifact_store: LocalStore) -> None:
    with ThreadPoolExecutor() as side_by_side:
        scenarios = [
            side_by_side.submit(faults.history, stack),
            side_by_side.submit(faults.joiner, stack),
            side_by_side.submit(faults.ranking, stack, artifact_store),
            side_by_side.submit(faults.monitor, stack),
            side_by_side.submit(faults.night, stack),
        ]
        for scenario in scenarios:
            scenario.result()
    faults.broker(stack)  # apart from the others, which it would stop
    assert stack.ended == faults.ALERTS
