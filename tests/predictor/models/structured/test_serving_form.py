"""What serves against its equations, and artifacts as they were before."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats, Indices, Rows, take
from leap.predictor.history.hash_index import Keys
from leap.predictor.models.structured import gp_prior
from leap.predictor.models.structured.estimator import StructuredRecipe
from leap.predictor.models.structured.exact_history import LEVELS
from leap.predictor.models.structured.family_effects import KEYS
from leap.predictor.models.structured.model import Structured
from tests.predictor.models.structured import slow_reference
from tests.predictor.models.structured.prior_rows import TABLE, TYPES, attempts

CANDIDATES = np.array([*TYPES, "H200-SXM-141GB", "no such hardware"], dtype=object)


@pytest.fixture(scope="module")
def model() -> Structured:
    rows, y = attempts(500)
    return StructuredRecipe(TABLE, ("sequence_length",)).fit(rows, y).model_


def jobs() -> Rows:
    """Known and unknown model types, families and numbers of accelerators, some without a batch."""
    rows = dict(attempts(24, seed=11, models=8, days=40)[0])
    rows["family"] = np.where(np.arange(24) % 5 == 0, "", rows["family"]).astype(object)
    rows["batch_size"] = np.where(np.arange(24) % 4 == 1, np.nan, rows["batch_size"])
    rows["accelerators"] = np.where(np.arange(24) % 7 == 2, 4096.0, rows["accelerators"])
    return rows


def spread(rows: Rows) -> tuple[Rows, Indices, NDArray[np.object_]]:
    """Every job with every candidate."""
    job = np.arange(len(rows["day"])).repeat(len(CANDIDATES))
    return rows, job, np.tile(CANDIDATES, len(rows["day"]))


def as_rows(rows: Rows, job: Indices, hardware_type: NDArray[np.object_]) -> Rows:
    return {**take(rows, job), "hardware_type": hardware_type}


@pytest.mark.parametrize("kept", [gp_prior.SERVED_BLOCKS, 2])
def test_candidates_are_estimated_as_the_equations_say(
    model: Structured, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.setattr(gp_prior, "SERVED_BLOCKS", kept)
    asked = spread(jobs())
    served = model.estimate_candidates(*asked).combined
    mean, deviation = slow_reference.estimate(model, as_rows(*asked))
    np.testing.assert_allclose(served.mean, mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(served.deviation, deviation, rtol=1e-9)


@pytest.mark.parametrize("order", ["one job", "a row each", "candidate by candidate"])
def test_rows_do_not_depend_on_the_others(model: Structured, order: str) -> None:
    rows, job, hardware_type = spread(jobs())
    whole = model.estimate_candidates(rows, job, hardware_type).combined
    if order == "one job":
        first = len(CANDIDATES)
        other = model.estimate_candidates(take(rows, np.array([0])), job[:first], hardware_type[:first]).combined
        expected: tuple[Floats, Floats] = whole.mean[:first], whole.deviation[:first]
    elif order == "a row each":
        other, expected = model.estimate(as_rows(rows, job, hardware_type)).combined, (whole.mean, whole.deviation)
    else:
        mixed = np.argsort(np.tile(np.arange(len(CANDIDATES)), len(rows["day"])), kind="stable")
        other = model.estimate_candidates(rows, job[mixed], hardware_type[mixed]).combined
        expected = whole.mean[mixed], whole.deviation[mixed]
    np.testing.assert_allclose(other.mean, expected[0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(other.deviation, expected[1], rtol=1e-9)


def test_float32_matrices_lose_less_than_a_millionth(model: Structured) -> None:
    """Those that follow the whitening: `BlockPosterior.root` and `coupling`."""
    loaded = Structured.from_arrays(model.arrays())
    mean, deviation = slow_reference.estimate(loaded, as_rows(*spread(jobs())))
    served = loaded.estimate_candidates(*spread(jobs())).combined
    np.testing.assert_allclose(served.mean, mean, rtol=0, atol=1e-6)
    np.testing.assert_allclose(served.deviation, deviation, rtol=1e-6)


def as_before(model: Structured) -> dict[str, NDArray[Any]]:
    """Arrays as artifacts had them when each group had a table of its own, and each kind of key its hashes."""
    stored = model.arrays()
    kernel, prior = model.prior.kernel, model.prior
    del stored["prior/kernel.mixing"], stored["prior/batch_range"]
    stored["prior/kernel.tables"] = np.tensordot(kernel.mixing, kernel.tables, axes=1)
    stored["prior/trained"] = np.ones(len(kernel.tables[0]), dtype=bool)
    for column, end in enumerate(("low", "high")):
        ranges = np.zeros((len(prior.batch_range), len(kernel.centre)))
        ranges[:, 1] = prior.batch_range[:, column]
        stored[f"prior/block.{end}"], stored[f"prior/{end}"] = ranges[:-1], ranges[-1]
    keys = Keys.from_rows(attempts(500)[0])
    for part, kinds, name in (("process", KEYS, "weights"), ("history", LEVELS, "statistics")):
        table = model.process.table if part == "process" else model.history.table
        for kind, columns in enumerate(kinds):
            hashes = np.unique(keys.of(columns))
            values = table.find(
                [hashes if other == kind else hashes[:1].repeat(len(hashes)) for other in range(4)], 0.0
            )
            values = values[kind].astype(np.float32)
            stored[f"{part}/hashes.{kind}"] = hashes
            stored[f"{part}/{name}.{kind}"] = values[:, :2] if part == "process" else values
            if part == "process" and kind == 0:
                stored["process/fading"] = values[:, 2:]
        del stored[f"{part}/hashes"], stored[f"{part}/values"]
    return stored


def test_arrays_of_before_are_served_as_they_were(model: Structured) -> None:
    ours, theirs = (Structured.from_arrays(stored) for stored in (model.arrays(), as_before(model)))
    asked = spread(jobs())
    now, before = ours.estimate_candidates(*asked).combined, theirs.estimate_candidates(*asked).combined
    np.testing.assert_allclose(now.mean, before.mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(now.deviation, before.deviation, rtol=1e-9)
