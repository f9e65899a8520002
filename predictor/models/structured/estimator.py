"""The structured recipe in its training form."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from threadpoolctl import threadpool_limits

from leap.predictor.features.batch import Floats, HardwareTable, Indices, Rows, take
from leap.predictor.models.physics.estimator import UtilisationForm
from leap.predictor.models.structured.exact_history import ExactHistory
from leap.predictor.models.structured.family_effects import FamilyVarianceComponents
from leap.predictor.models.structured.family_effects_estimator import fit_variance_components, posterior
from leap.predictor.models.structured.gating import Gate
from leap.predictor.models.structured.gating_estimator import PRIOR_GATE, OutOfSamplePredictions, fit_gate
from leap.predictor.models.structured.gp_prior_estimator import StructuredPrior
from leap.predictor.models.structured.model import Estimate, Structured

#: Refit the gate once the out-of-sample set has grown by this factor since the last fit.
REFIT_GROWTH = 1.05


class StructuredRecipe(BaseEstimator):
    """Structured prior, the families' process, exact history, and a gate.

    The gate is learned from what the others said of attempts that they had not seen.

    Parameters
    ----------
    hardware
        The catalog as columns.
    extras
        Further numeric columns.
    folds
        Families are split so many ways for the prior of other families, which the process' variances are learned from.
    rehearsed_days
        Latest days of the window that the gate is learned from where nothing was rehearsed before.
    learn_every
        Days after which variances are learned anew; between, and from the second time on, they start from the last.
    warm_start
        Keep variances, and rehearse with the model of the last fit: every fit has the rows of the last and newer.

    Attributes
    ----------
    model_
        The serving form.
    variances_, family_variances_
        Of the prior and of the families' process.
    """

    model_: Structured
    variances_: Floats
    form_: UtilisationForm
    calibration_: Floats
    family_variances_: FamilyVarianceComponents
    rehearsal_: OutOfSamplePredictions
    gate_: Gate
    taught_: int
    latest_: float
    learned_: float

    def __init__(
        self,
        hardware: HardwareTable,
        extras: Sequence[str] = (),
        landmarks: int = 128,
        folds: int = 3,
        rehearsed_days: int = 3,
        learn_every: float = 30.0,
        warm_start: bool = False,
    ) -> None:
        self.hardware = hardware
        self.extras = extras
        self.landmarks = landmarks
        self.folds = folds
        self.rehearsed_days = rehearsed_days
        self.learn_every = learn_every
        self.warm_start = warm_start

    @threadpool_limits.wrap(limits=1)  # thousands of small systems: threads would wait for one another
    def fit(self, rows: Rows, y: Floats) -> Self:
        """Learn from rows (see `Structured.estimate`) and (n,) ln throughput."""
        day = np.floor(np.asarray(rows["day"], dtype=float))
        going_on = self.warm_start and hasattr(self, "model_")
        if going_on:
            self._rehearse(self.model_, rows, y, day > self.latest_)
        learned = (self.variances_, self.form_, self.calibration_) if going_on else (None, None, None)
        due = not going_on or day.max() - self.learned_ >= self.learn_every
        prior = self._prior((20 if going_on else 40) if due else 0, *learned).fit(rows, y)
        if due:
            self.learned_ = float(day.max())
        self.variances_, self.form_, self.calibration_ = prior.variances_, prior.form_, prior.calibration_
        self.latest_ = float(day.max())
        if due:
            others = prior.out_of_fold(rows, y, fold_of(rows, self.folds)).mean
            self.family_variances_ = fit_variance_components(
                rows, y - others, self.family_variances_ if going_on else None
            )
        if not going_on:
            self.rehearsal_, self.gate_ = OutOfSamplePredictions.empty(), PRIOR_GATE
            for rehearsed in np.unique(day)[1:][-self.rehearsed_days :]:
                past = np.flatnonzero(day < rehearsed)
                self._rehearse(self.conditioned(take(rows, past), y[past]), rows, y, day == rehearsed)
        if not going_on or len(self.rehearsal_.y) >= self.taught_ * REFIT_GROWTH:
            self.gate_, self.taught_ = fit_gate(self.rehearsal_, self.gate_), len(self.rehearsal_.y)
        self.model_ = self._model(prior, rows, y)
        return self

    def predict(self, rows: Rows) -> Floats:
        """(n,) ln throughput."""
        return self.estimate(rows).combined.mean

    def estimate(self, rows: Rows) -> Estimate:
        """See `Structured.estimate`."""
        return self.model_.estimate(rows)

    def conditioned(self, rows: Rows, y: Floats) -> Structured:
        """The serving form over other rows, with variances and gate as they were learned."""
        return self._model(self._prior(0, self.variances_, self.form_, self.calibration_).fit(rows, y), rows, y)

    def _prior(
        self, steps: int, variances: Floats | None, form: UtilisationForm | None, calibration: Floats | None
    ) -> StructuredPrior:
        return StructuredPrior(
            self.hardware,
            self.extras,
            self.landmarks,
            variances=variances,
            form=form,
            calibration=calibration,
            steps=steps,
        )

    def _model(self, prior: StructuredPrior, rows: Rows, y: Floats) -> Structured:
        process = posterior(rows, y - prior.predict(rows), self.family_variances_)
        return Structured(prior.prior_, process, ExactHistory.of(rows, y), self.gate_)

    def _rehearse(self, model: Structured, rows: Rows, y: Floats, rehearsed: NDArray[np.bool_]) -> None:
        new = np.flatnonzero(rehearsed)
        if len(new):
            estimate = model.estimate(take(rows, new))
            self.rehearsal_ = self.rehearsal_.plus(OutOfSamplePredictions(estimate.prior, estimate.history, y[new]))


def with_refreshed_history(model: Structured, rows: Rows, y: Floats) -> Structured:
    """The same prior, variances and gate with the history of other attempts: (n,) ln throughput."""
    process = posterior(rows, y - model.prior.predict(rows).mean, model.process.variances)
    return replace(model, process=process, history=ExactHistory.of(rows, y))


def fold_of(rows: Rows, folds: int) -> Indices:
    """(n,) fold of each row: that of its family, or of its model type where it has none."""
    family = np.asarray(rows["family"], dtype=str)
    name = np.where(family == "", np.asarray(rows["model_type"], dtype=str), family)
    distinct, code = np.unique(name, return_inverse=True)
    return (np.random.default_rng(0).permutation(len(distinct)) % folds)[code]
