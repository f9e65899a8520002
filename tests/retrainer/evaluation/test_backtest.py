"""The walk forward: what it lets an estimator see, what it scores, and the public runs in time order."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.evaluation.backtest import Backtest, column, seen, spans, summary, walk
from leap.retrainer.evaluation.median_chain import ChainOfMedians
from leap.retrainer.evaluation.rules import Chain
from tests.artifacts import past
from tests.commands import invoke
from tests.retrainer.evaluation.past_attempts import Witness, attempts


@pytest.mark.parametrize(("every", "expected"), [(1, [3, 3, 5, 6]), (2, [3, 3, 3, 6]), (9, [3, 3, 3, 3])])
def test_a_fit_sees_earlier_days_only(every: int, expected: list[float]) -> None:
    rows, witness = attempts([0.0, 0.9, 1.0, 5.1, 5.8, 6.0, 7.5]), Witness()
    predicted = walk(rows, lambda: witness, spans(rows, every, warm_up=2))
    np.testing.assert_array_equal(predicted, [np.nan, np.nan, np.nan, *expected])
    assert witness.fitted[0].submitted_day.max() == 1


def test_a_fit_of_a_round_sees_the_rounds_before() -> None:
    """A round that began before another ended is not seen by it from its first day on."""
    rows, witness = attempts([0.0, 1.0, 2.0, 5.0, 6.0, 6.5]), Witness()
    rounds = np.array(["1", "1", "2", "2", "1", "3"])
    predicted = walk(rows, lambda: witness, spans(rows, rounds, warm_up=1))
    np.testing.assert_array_equal(predicted, [np.nan, np.nan, 2, 2, np.nan, 4])
    assert witness.fitted[1].submitted_day.tolist() == [0, 1, 2, 5]


def test_runs_side_by_side_see_what_one_after_the_other_does() -> None:
    rng = np.random.default_rng(0)
    throughput, scale = np.exp(rng.normal(5, 1, 200)), rng.choice([8.0, 16.0], 200)
    rows = attempts(np.sort(rng.uniform(0, 30, 200)).tolist(), accelerators_per_trainer=scale, throughput=throughput)
    fits = spans(rows, 2, 10)
    alone, two = (walk(rows, Chain, fits, jobs) for jobs in (1, 2))
    np.testing.assert_array_equal(alone, two)
    assert np.isfinite(alone).sum() == (rows.submitted_day >= 10).sum()


@pytest.mark.parametrize(
    ("days", "remedy"), [([0.0, 0.5], "Use `leap holdout`"), ([0.0, 9.0], "span 10 days.* Shorten --warm-up")]
)
def test_a_short_table_says_what_to_do(days: list[float], remedy: str) -> None:
    with pytest.raises(ValueError, match=remedy):
        spans(attempts(days), 1, 45)


def test_seen_means_model_hardware_and_scale_on_an_earlier_day() -> None:
    scale, batch = [8.0, 8.0, 8.0, 16.0, 8.0], [1.0, 2.0, 3.0, 4.0, 5.0]
    rows = attempts([0.0, 0.5, 1.0, 1.0, 2.0], accelerators_per_trainer=scale, batch_size=batch).rows
    assert seen(rows).tolist() == [False, False, True, False, True]


def test_parts_are_scored_apart_and_no_answer_is_a_miss() -> None:
    rows = attempts([0.0, 1.0, 1.0, 1.0], accelerators_per_trainer=[8.0, 8.0, 16.0, 32.0])
    judged, predicted = np.array([False, True, True, True]), np.log([np.nan, 104.0, 150.0, np.nan])
    result = summary(rows, judged, predicted, np.array(["a", "a", "b", "b"]))
    assert result.all is not None and result.seen is not None and result.unseen is not None
    assert (result.all.n, result.all.w20, result.all.coverage) == (3, 33.3, 66.7)
    assert (result.seen.w5, result.unseen.w20) == (100.0, 0.0)
    assert {name: part and part.n for name, part in result.by.items()} == {"a": 1, "b": 2}


def test_chain_falls_back_to_the_more_general_key() -> None:
    past = attempts([0.0] * 3, accelerators_per_trainer=[8.0, 8.0, 16.0], batch_size=[64.0, 32.0, 64.0])
    chain = ChainOfMedians().fit(past.rows, np.log([10.0, 30.0, 80.0]))
    asked = attempts(
        [1.0] * 5,
        accelerators_per_trainer=[8.0, 8.0, 32.0, 32.0, 1.0],
        batch_size=[64.0, 1.0, 1.0, 1.0, 1.0],
        hardware_type=["B200", "B200", "B200", "T4", "B200"],
        model_type=["m", "m", "m", "m", "new"],
    )
    per_accelerator = np.median([10.0 / 8, 30.0 / 8, 80.0 / 16])
    expected = [10.0, np.sqrt(10.0 * 30.0), 32 * per_accelerator, 32 * per_accelerator, 1.0]
    np.testing.assert_allclose(np.exp(chain.predict(asked.rows)), expected)


def test_the_command_over_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAP_PARTITIONS", str(tmp_path))
    arguments = ["--warm-up", "3", "--every", "20", "--json"]
    nothing = invoke("backtest", *arguments)
    assert (nothing.exit_code, "has no attempts" in nothing.output) == (1, True)
    Partitions(tmp_path).ingest(past())
    done = invoke("backtest", *arguments, "--by", "hardware_type")
    found = msgspec.json.decode(done.stdout, type=dict[str, Backtest])
    assert list(found) == ["structured", "chain"]
    for scores in found.values():
        assert scores.all is not None and scores.all.n == 420
        assert sum(part.n for part in scores.by.values() if part) == 420
    assert "the first 3 days are for --warm-up" in done.stderr
    unmapped = invoke("backtest", str(Path(__file__)), *arguments)
    assert unmapped.exit_code == 1 and "--mapping" in unmapped.output


def test_chain_on_the_public_runs_is_the_reference(shared_data: Path) -> None:
    from leap.retrainer.cli.past import of_table
    from leap.schemas.hardware import load_catalog

    rows = of_table(shared_data / "mlperf-training" / "runs.csv", "mlperf", load_catalog())
    fits = spans(rows, 1)
    judged = np.any([now for _, now in fits], axis=0)
    result = summary(rows, judged, walk(rows, Chain, fits), column(rows, "round"))
    assert result.all is not None and result.seen is not None and result.unseen is not None
    # Published with the data, where a median of an even number is taken before the logarithm, and five attempts are
    # seen whose number of accelerators is not that of nodes times accelerators of a node.
    assert (result.all.n, result.seen.n, result.unseen.n) == (16_455, 12_480, 3_975)
    assert abs(result.all.w20 - 80.3) < 0.6 and abs(result.seen.w20 - 94.0) < 0.6
    assert len(result.by) == 10
