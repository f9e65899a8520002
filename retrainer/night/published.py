"""A recipe of the night, judged as it serves: written, read back, with the interval that a night would state."""

from pathlib import Path
from tempfile import TemporaryDirectory

from leap.predictor.models.conformal import Interval, calibrate
from leap.predictor.models.serving import Prediction
from leap.predictor.models.serving import load as load_model
from leap.predictor.routing.provenance import basis
from leap.retrainer.dataset.training_set import TrainingSet, imputed_of, vocabulary_of
from leap.retrainer.night.recipes import RECIPES
from leap.retrainer.night.window import LEAST_ATTEMPTS, split_latest


class Published:
    """A recipe by its name.

    Fitted again, a recipe that can goes on from its last fit: every fit has the rows of the one before, and newer.

    Parameters
    ----------
    calibrated
        Whether an interval is wanted: then the latest attempts are first held out, as a night does.

    Attributes
    ----------
    interval
        None where it is not wanted, or the attempts are too few.
    """

    interval: Interval | None = None

    def __init__(self, recipe: str, *, calibrated: bool = False) -> None:
        self._recipe = RECIPES[recipe](1)
        self._calibrated = calibrated

    def fit(self, training: TrainingSet) -> "Published":
        """Learn `training.y` from rows in the order of submission."""
        if self._calibrated and len(training) >= LEAST_ATTEMPTS:
            earlier, latest = split_latest(training, int(training.submitted_day.max()) + 1)
            judged = training.where(latest)
            said = self._fit(training.where(earlier)).predict(judged)
            self.interval = calibrate(judged.y, said.mean, said.spread, basis(judged.pairs))
        return self._fit(training)

    def predict(self, attempts: TrainingSet) -> Prediction:
        """ln throughput of (n,) attempts on the hardware type that each ran on."""
        return self._model.predict(attempts.pairs, attempts.matrix(self._vocabulary, self._imputed))

    def save(self, folder: Path) -> None:
        """Write what serving would load."""
        self._recipe.save(folder)

    def _fit(self, training: TrainingSet) -> "Published":
        self._vocabulary, self._imputed = vocabulary_of(training), imputed_of(training)
        features = training.matrix(self._vocabulary, self._imputed)
        self._recipe.fit(training, features)
        with TemporaryDirectory() as folder:  # what is mapped from there stays, when its name is gone
            self.save(Path(folder))
            self._model = load_model(Path(folder), features.shape[1])
        return self
