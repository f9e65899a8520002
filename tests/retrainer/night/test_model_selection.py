"""The comparison: what becomes of a recipe that cannot be judged."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from leap.predictor.features.matrix import CandidateRows, Matrix
from leap.predictor.models.cascade import BinnedCascade
from leap.predictor.models.serving import Prediction
from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.dataset.training_set import TrainingSet
from leap.retrainer.night import model_selection as comparing
from leap.retrainer.night.model_selection import Comparison, RecipeResult, select_champion
from leap.retrainer.night.recipes import RECIPES, Trees
from leap.retrainer.night.window import Window, open_window
from leap.schemas.events import THROUGHPUT
from tests.artifacts import NIGHT, past
from tests.builders import CATALOG


class Fake:
    """A recipe that learns nothing, and the model that is read back: every pair gets the same."""

    def __init__(self, mean: float, spread: float | None = None) -> None:
        self.mean, self.spread = mean, spread

    def build(self, n_jobs: int) -> "Fake":
        """See `RECIPES`."""
        return self

    def fit(self, data: TrainingSet, features: Matrix) -> None:
        """See :class:`leap.retrainer.night.recipes.Recipe`."""

    def save(self, folder: Path) -> None:
        """See :class:`leap.retrainer.night.recipes.Recipe`."""

    def predict(self, pairs: CandidateRows, matrix: Matrix) -> Prediction:
        """See :class:`leap.predictor.models.serving.Model`."""
        mean, spread = (None if value is None else np.full(len(matrix), value) for value in (self.mean, self.spread))
        assert mean is not None
        return Prediction(mean, spread)


@pytest.fixture
def window(tmp_path: Path) -> Window:
    partitions = Partitions(tmp_path / "partitions")
    partitions.ingest(past(10, 4))
    return open_window(partitions, NIGHT, 30, CATALOG, THROUGHPUT)


def compared(window: Window, folder: Path, fakes: dict[str, Fake], monkeypatch: pytest.MonkeyPatch) -> Comparison:
    for name, fake in fakes.items():
        monkeypatch.setitem(RECIPES, name, fake.build)
    monkeypatch.setattr(comparing, "load_model", lambda place, features: fakes[place.name])
    return select_champion(window.training, window.held_out, tuple(fakes), folder, 1)


@pytest.mark.parametrize(
    ("fake", "error"),
    [
        (Fake(np.nan), "ValueError: 8 of 8 predictions are not finite"),
        (Fake(5.0, spread=0.0), "ValueError: a predicted spread is zero, negative or missing"),
        (Fake(5.0, spread=np.nan), "ValueError: a predicted spread is zero, negative or missing"),
    ],
)
def test_a_recipe_that_cannot_be_judged_is_a_row_and_the_others_go_on(
    window: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake: Fake, error: str
) -> None:
    found = compared(window, tmp_path / "recipes", {"broken": fake, "sound": Fake(-99.0, spread=1.0)}, monkeypatch)
    broken, sound = found.table
    assert (broken.all, (broken.error or "").startswith(error)) == (None, True)
    assert (found.champion, found.folder.name) == (sound, "sound")
    np.testing.assert_allclose(found.predicted, np.exp(-99.0))


def test_where_none_can_be_judged_it_says_why_of_each(
    window: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RuntimeError, match="no recipe could be trained: broken: ValueError: 8 of 8 predictions"):
        compared(window, tmp_path / "recipes", {"broken": Fake(np.nan)}, monkeypatch)


def test_the_row_of_a_cascade_says_how_many_rows_moved(
    window: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cascade = BinnedCascade(n_bins=2, rounds=2, stop_below=0.0, max_iter=3, min_samples_leaf=4)
    monkeypatch.setitem(RECIPES, "small", lambda n_jobs: Trees(cascade))
    [row] = select_champion(window.training, window.held_out, ("small",), tmp_path / "recipes", 1).table
    assert row.moved == tuple(cascade.moved_)
    assert len(row.moved) == 2
    assert msgspec.json.decode(msgspec.json.encode(row), type=RecipeResult) == row
