"""The statistics of the fleet, worked out by hand; the published ones, on every fifth day; the two ceilings."""

from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

from leap.streams.cli.simulator import app
from leap.streams.simulator import constants, marginals
from leap.streams.simulator.calibration_report import Description, Marginal, as_table, describe
from leap.streams.simulator.fleet import Fleet, FleetConfig
from leap.streams.simulator.marginals import Attempts
from leap.streams.simulator.plots import write_plots


@pytest.fixture(scope="module")
def published() -> Description:
    """The fleet of the published size, every fifth day of its sixty."""
    return describe(Fleet(FleetConfig()), range(0, 60, 5))


def attempts(day: list[int], measured: list[float], batch: list[int] | None = None) -> Attempts:
    zeros = np.zeros(len(day), dtype=np.int64)
    sizes = zeros if batch is None else np.array(batch)
    return Attempts(np.array(day), zeros, zeros, zeros + 1, sizes, np.array(measured))


def test_every_published_marginal_is_met(published: Description) -> None:
    outside = [marginal for marginal in published.marginals if not marginal.within]
    assert not outside
    assert len(published.marginals) == 18


def test_published_accuracy_is_plausible_under_the_ceilings(published: Description) -> None:
    # Published: w20 77, w5 43, MdAPE 6.9 (a learned model). Every day is known here but for the four before it.
    assert published.label_noise.w20 > 77 + 10 and published.label_noise.w5 > 43 + 15
    assert published.label_noise.mdape < 4
    assert 77 < published.reachable.w20 < published.label_noise.w20 - 4
    assert published.label_noise.ratio == pytest.approx(1.0, abs=0.02)
    assert published.reachable.ratio == pytest.approx(1.0, abs=0.03)


def test_history_is_informative() -> None:
    fleet = Fleet(FleetConfig(days=20, attempts_per_day=2000))
    known = describe(fleet, range(20))
    fresh = describe(fleet, [0, 19])  # what has run on the first day only is known on the last
    assert known.known_family > fresh.known_family + 10
    assert known.reachable.w20 > fresh.reachable.w20 + 5


@pytest.mark.parametrize(
    ("is_", "percent", "published", "simulated", "within"),
    [
        ("about", False, 100, 110, True),
        ("about", False, 100, 111, False),
        ("about", True, 13.3, 16.2, True),
        ("about", True, 13.3, 16.4, False),
        ("about", True, 91, 82, True),
        ("at least", False, 21, 20, False),
        ("at most", False, 10, 9.5, True),
    ],
)
def test_tolerance(
    is_: Literal["about", "at least", "at most"], percent: bool, published: float, simulated: float, within: bool
) -> None:
    assert Marginal("x", published, simulated, is_, percent).within is within


def test_two_decades_finds_the_best_window() -> None:
    assert marginals.two_decades(np.array([1.0, 10.0, 100.0, 1000.0, 1e6])) == 60.0


def test_tail_share_is_that_of_the_rarest() -> None:
    # 66 types, the 10 most popular with 8 attempts each, the other 56 with one: 56 of 136.
    kinds = np.concatenate([np.repeat(np.arange(10), 8), np.arange(10, 66)])
    assert marginals.tail_share(kinds, 66) == pytest.approx(100 * 56 / 136)


def test_wide_keys_compares_percentiles_of_frequent_keys() -> None:
    rng = np.random.default_rng(0)
    sizes, values = [1] * 40 + [2] * 60 + [3] * 5, []
    for spread, count in ((0.05, 40), (0.4, 60), (3.0, 5)):
        values += np.exp(rng.normal(0, spread, count)).tolist()
    table = attempts([1] * 105, values, sizes)
    for size, wide in ((1, False), (2, True)):
        low, high = np.quantile(table.measured[table.batch == size], (0.1, 0.9))
        assert (high > 1.5 * low) is np.bool_(wide)
    assert marginals.wide_keys(table) == 60.0  # the key seen five times does not count


def test_lookup_table_is_the_mean_of_busy_keys_of_the_window_before() -> None:
    count = int(1 / constants.TABLE_SHARE) + 1
    before = [1.0, 3.0] * (count // 2)
    rare = [7.0]  # makes less than the share of the window, so it does not enter
    now = [2.0, 2.1, 2.5, 7.0]
    table = attempts([0] * (len(before) + 1) + [1] * 4, before + rare + now, [8] * len(before) + [9] + [8, 8, 8, 9])
    result = marginals.lookup_table(table)
    assert (result.coverage, result.model_types) == (75.0, 1)
    assert result.accuracy.w5 == 66.7  # 2.0 for 2.0 and 2.1, not for 2.5
    with pytest.raises(ValueError, match="the fleet is too small"):
        marginals.lookup_table(attempts([0, 1], [1.0, 1.0], [1, 2]))


def test_accuracy_with_the_share_within_15_percent() -> None:
    scores = marginals.fleet_accuracy(np.array([1.0, 1.1, 1.15, 1.2, 2.0]), np.ones(5))
    assert (scores.w10, scores.w15, scores.w20) == (40, 60, 80)


def test_table_and_figures(published: Description, tmp_path: Path) -> None:
    text = as_table(published)
    assert "medians of two hardware types" in text and "outside" not in text
    for path in write_plots(published, tmp_path / "figures"):
        svg = path.read_text()
        assert ElementTree.fromstring(svg).tag.endswith("svg") and svg.count("<text") > 15
        assert "nan" not in svg


def test_commands(tmp_path: Path) -> None:
    runner = CliRunner()
    written = runner.invoke(
        app, ["generate", str(tmp_path / "events.jsonl"), "--days", "2", "--attempts-per-day", "50"]
    )
    assert written.exit_code == 0, written.output
    assert len((tmp_path / "events.jsonl").read_text().splitlines()) > 200
    shown = runner.invoke(app, ["describe", "--days", "4", "--attempts-per-day", "200", "--json"])
    assert shown.exit_code == 0 and '"label_noise"' in shown.stdout
    refused = runner.invoke(app, ["describe", "--days", "1", "--attempts-per-day", "10"])
    assert refused.exit_code == 1
