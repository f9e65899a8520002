"""The benchmark of a night and the walk over nights, at the least size that still exercises all of them."""

from pathlib import Path

import pytest

from leap.retrainer.bench import night as night_bench
from leap.retrainer.bench.night_series import OneNight, walk
from leap.streams.runtime.settings import Settings


def test_a_benched_night_finds_the_store_as_the_partitions(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(night_bench, "MAX_FAMILIES", 500)
    found = night_bench.bench(settings, 3000, ("boosted",), 1, tmp_path)
    assert 0.8 * 3000 < found.rows < 1.1 * 3000
    assert set(found.steps) == {"absorb", "window", "train", "evaluate", "snapshot", "publish", "prune"}
    assert found.families >= 510
    assert (found.store.behind, found.store.unequal) == (0, 0)
    assert found.store.ahead >= found.families - 500
    assert found.peak_gib > 0.1


def test_each_night_of_a_walk_is_scored_and_told(tmp_path: Path) -> None:
    told: list[OneNight] = []
    found = walk(2, 100, ("boosted",), tmp_path, told.append)
    assert found.nights == told
    assert [one.night for one in told] == ["2026-01-31", "2026-02-01"]
    assert all(one.held_out >= 200 for one in told)
    assert (told[1].production_w20 is None) is (not told[0].promoted)
    assert (found.w20_least, found.w20_greatest) == (min(one.w20 for one in told), max(one.w20 for one in told))
