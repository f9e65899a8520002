"""The short version of ``python -m tests.faults``."""

from pathlib import Path

import pytest

from leap.streams.embedded import Pair
from tests.faults.kinds.storm import STORM
from tests.faults.run import run, services
from tests.faults.table import table


@pytest.mark.timeout(300)
@pytest.mark.real("three brokers and a Redis Cluster")
def test_nothing_is_lost_or_doubled_whatever_breaks(backend: Pair, tmp_path: Path) -> None:
    with services(tmp_path / "services") as running:
        row = run(STORM, running, tmp_path / "storm", count=4_000, rate=400)
    assert row.times >= 1 and row.deaths[-9] >= 1 and row.in_flight > 0
    assert row.verdict.good, table([row])
    assert not row.verdict.no_opinion
