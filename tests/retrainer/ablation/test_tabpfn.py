"""Learning in context: every row is asked once, beside its own neighbours, of a stand-in with TabPFN's interface."""

import sys
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import pytest

from leap.predictor.features.batch import Floats
from leap.predictor.features.matrix import Matrix
from leap.retrainer.ablation.problem import FleetSource, Problem
from leap.retrainer.ablation.text import tabpfn
from leap.retrainer.ablation.text.nearest_neighbours import Neighbours, grouped
from leap.retrainer.ablation.text.tabpfn import InContext, load


class NearestRow:
    """The target of the context's nearest row."""

    contexts: ClassVar[list[int]] = []

    def fit(self, X: Matrix, y: Floats) -> Self:
        self.X, self.y = np.nan_to_num(X), y
        self.contexts.append(len(y))
        return self

    def predict(self, X: Matrix) -> Floats:
        distance = np.abs(np.nan_to_num(X)[:, None, :] - self.X[None]) / (1 + np.abs(self.X))
        nearest: Floats = self.y[distance.sum(axis=2).argmin(axis=1)]
        return nearest


@pytest.fixture(scope="module")
def problem() -> Problem:
    return FleetSource(days=5, per_day=150).problem(0)


def test_a_group_shares_its_context_and_every_question_has_its_nearest_rows_in_it() -> None:
    nearest = np.array([[9, 1], [2, 3], [8, 9], [2, 4]])
    first, second = grouped(nearest, size=2, context=3)
    assert (first[0].tolist(), first[1].tolist()) == ([1, 3], [2, 3, 4])
    assert (second[0].tolist(), second[1].tolist()) == ([2, 0], [1, 8, 9])


def test_rows_are_predicted_from_what_is_like_them(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabpfn, "QUESTIONS", 16)
    monkeypatch.setattr(tabpfn, "CONTEXT", 100)
    NearestRow.contexts.clear()
    ((training, held_out),) = problem.folds()
    predicted = InContext(NearestRow).fit(training).predict(held_out).mean
    constant = np.median(np.abs(held_out.y - training.y.mean()))
    assert np.median(np.abs(predicted - held_out.y)) < 0.4 * constant
    assert NearestRow.contexts == [100] * -(-len(held_out) // 16)
    assert Neighbours(training).nearest(held_out, 10_000).shape[1] == len(training)


def test_what_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="no such file; give the checkpoint"):
        load(tmp_path / "weights.ckpt")
    (tmp_path / "weights.ckpt").touch()
    monkeypatch.setitem(sys.modules, "tabpfn", None)
    with pytest.raises(ValueError, match="pip install tabpfn"):
        load(tmp_path / "weights.ckpt")
