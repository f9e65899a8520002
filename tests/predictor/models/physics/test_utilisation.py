"""The process of utilisation: against a dense Gaussian process, and what it says of models that never ran."""

from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
import pytest

from leap.predictor.features import architecture
from leap.predictor.features.batch import Floats, Rows, strings, take
from leap.predictor.models.physics.calibration import CLASS, GROUPS, MODEL, factors
from leap.predictor.models.physics.encoding import parts_of
from leap.predictor.models.physics.estimator import (
    HardwareNumbers,
    UtilisationForm,
    condition_utilisation,
    learn_utilisation,
)
from leap.predictor.models.physics.likelihood import EXPECTED, Parameters, UtilisationLikelihood
from leap.predictor.models.physics.utilisation import Cells, Utilisation
from leap.predictor.models.structured.estimator import StructuredRecipe
from leap.predictor.models.structured_arrays import check
from tests.predictor.models.structured.prior_rows import SPEED, TABLE, TYPES

FLOPS = architecture.NAMES.index("flops")


def defined(count: int, seed: int = 0, models: int = 60) -> tuple[Rows, Floats]:
    """Rows of models that reach a share of the hardware which rises with their FLOP, from 1e9 to 1e13 a sample."""
    rng = np.random.default_rng(seed)
    model, hardware = rng.integers(models, size=count), rng.choice(TYPES, size=count)
    flops = 10 ** np.linspace(9, 13, models)[model]
    values = np.full((count, len(architecture.NAMES)), np.nan)
    values[:, FLOPS] = flops
    rows: Rows = {
        "model_type": strings([f"net{'abcdefgh'[n % 8]}_{n}" for n in model]),
        "hardware_type": strings(hardware.tolist()),
        "family": strings([""] * count),
        "trainers": np.ones(count),
        "accelerators": np.full(count, 8.0),
        "batch_size": np.full(count, 256.0),
        "configuration": np.zeros(count, np.uint64),
        "day": np.sort(rng.integers(20, size=count)).astype(float),
        "architecture": values,
    }
    speed = np.array([SPEED[name] for name in hardware.tolist()])
    y = 30 + speed - np.log(flops) + np.tanh(np.log10(flops) - 11) + np.log(8.0)
    return rows, y + 0.02 * rng.standard_normal(count)


def test_a_model_that_never_ran_is_predicted_by_its_work() -> None:
    rows, y = defined(500)
    number = np.array([int(name.split("_")[1]) for name in rows["model_type"]])
    new = number % 5 == 0
    estimate = StructuredRecipe(TABLE).fit(take(rows, ~new), y[~new]).estimate(take(rows, new)).combined
    off = np.abs(estimate.mean - y[new])
    assert np.median(off) < 0.06
    assert 0.6 < np.mean(off <= 1.2816 * estimate.deviation) <= 1.0
    assert np.median(estimate.deviation) < 0.3
    silent = {**take(rows, new), "architecture": np.full((int(new.sum()), len(architecture.NAMES)), np.nan)}
    unknown = StructuredRecipe(TABLE).fit(take(rows, ~new), y[~new]).estimate(silent).combined
    assert np.median(unknown.deviation) > 2 * np.median(estimate.deviation)


def test_gradient_is_that_of_the_loss() -> None:
    rng = np.random.default_rng(0)
    count = 25
    cells = UtilisationLikelihood(
        x=rng.standard_normal((count, 3)),
        names=rng.integers(2, size=(count, 2)).astype(np.uint64),
        model=rng.integers(4, size=(count, 4)).astype(np.uint64),
        hardware=rng.integers(3, size=count),
        years=rng.standard_normal(count),
        y=rng.standard_normal(count),
    )
    start = Parameters.expected(3, 2)
    logs = start.logs() + 0.3 * rng.standard_normal(len(start.logs()))
    gradient = cells._loss(start.of_logs(logs))[1]
    for place in range(len(logs)):
        step = np.zeros(len(logs))
        step[place] = 1e-5
        ends = [cells._loss(start.of_logs(logs + sign * step))[0] for sign in (1, -1)]
        assert gradient[place] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-3, abs=1e-4)


def fitted() -> tuple[Utilisation, UtilisationForm, Rows, Floats]:
    rows, y = defined(120, models=20)
    types = HardwareNumbers(
        x=np.array([[-1.0], [0.0], [1.0], [1.5], [0.0]]), rate=np.arange(5.0), vendor=strings([*"aaab", None])
    )
    hardware = np.array([TYPES.index(name) for name in rows["hardware_type"]])
    form = learn_utilisation(rows, y, hardware, types, steps=3)
    return condition_utilisation(form, rows, y, hardware, types), form, rows, y


def test_arrays_give_the_process_back() -> None:
    process, _, rows, _ = fitted()
    again = Utilisation.from_arrays(process.arrays())
    hardware = np.arange(len(rows["day"])) % 5
    np.testing.assert_array_equal(again.log_throughput_of(rows, hardware), process.log_throughput_of(rows, hardware))
    every, new = np.arange(len(hardware)), hardware > 2
    mean, variance = process.estimate(rows, every, hardware, new)
    np.testing.assert_allclose(process.log_throughput_of(rows, hardware), mean, rtol=1e-6)
    assert (variance[new] > 0).all() and not variance[~new].any()


def test_a_definition_is_known_once_it_was_stated() -> None:
    process, _, rows, _ = fitted()
    silent = {**rows, "architecture": np.full_like(rows["architecture"], np.nan)}
    hardware = np.zeros(len(rows["day"]), dtype=np.intp)
    np.testing.assert_allclose(process.log_throughput_of(silent, hardware), process.log_throughput_of(rows, hardware))


def test_variance_is_none_where_much_was_measured_and_all_of_it_where_nothing_is_like_it() -> None:
    process, _, rows, _ = fitted()
    asked = take(rows, np.array([0])), np.array([0]), np.array([0]), np.array([True])
    nothing = replace(process, cells=Cells(*(getattr(process.cells, one.name)[:0] for one in fields(process.cells))))
    seen, unseen = process.estimate(*asked)[1], nothing.estimate(*asked)[1]
    assert 0 <= seen[0] < unseen[0] == pytest.approx(process.variances.sum())


def test_factors_are_of_clusters_and_few_say_little() -> None:
    rng = np.random.default_rng(0)
    model, one = np.repeat(np.arange(40), 50), np.zeros(2000, dtype=np.intp)
    error = np.repeat(rng.standard_normal(40), 50)
    many = factors(error, np.full(2000, 0.1), np.full(2000, MODEL), model, one, model.astype(np.uint64))
    assert many[MODEL] == pytest.approx(10 ** (40 / 44), rel=0.4)
    few = factors(error[:50], np.full(50, 0.1), np.full(50, CLASS), model[:50], one[:50], model[:50].astype(np.uint64))
    assert len(few) == GROUPS
    assert abs(np.log(few[CLASS])) < np.log(many[MODEL])


@pytest.mark.parametrize(
    "name, damaged",
    [
        ("utilisation.cells.hardware", lambda array: array + 10_000),
        ("utilisation.encoding.centre", lambda array: array[:-1]),
        ("ran", None),
        ("calibration", None),
    ],
)
def test_damaged_arrays_are_refused(name: str, damaged: Callable[[Floats], Floats] | None) -> None:
    arrays = StructuredRecipe(TABLE, rehearsed_days=1).fit(*defined(60, models=4)).model_.arrays()
    check(arrays)
    of_before = {key: array for key, array in arrays.items() if not key.startswith(("prior/util", "prior/ran"))}
    check({key: array for key, array in of_before.items() if key != "prior/calibration"})
    array = arrays.pop(f"prior/{name}")
    with pytest.raises(ValueError, match="the artifact is damaged"):
        check(arrays if damaged is None else {**arrays, f"prior/{name}": damaged(array)})


def test_parts_of_names() -> None:
    assert parts_of("") == ("", "", "", "")
    assert parts_of("deepseekv3") == ("deepseekv", "deepseekv 3", "deepseekv 3", "deepseekv3")
    assert len(EXPECTED) == len(Parameters.expected(0, 0).variances)
