"""The structured prior in its training form: a scikit-learn estimator over rows of attempts."""

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from threadpoolctl import threadpool_limits

from leap.predictor.features.batch import Floats, HardwareTable, Indices, Rows, take
from leap.predictor.models.physics.calibration import GROUPS, factors, held_out, never_ran
from leap.predictor.models.physics.encoding import beginnings
from leap.predictor.models.physics.estimator import (
    HardwareNumbers,
    UtilisationForm,
    condition_utilisation,
    learn_utilisation,
)
from leap.predictor.models.physics.utilisation import Utilisation
from leap.predictor.models.structured.fitc_posterior import model_type_block, shared_posterior
from leap.predictor.models.structured.gp_prior import Prior, PriorEstimate
from leap.predictor.models.structured.inputs import (
    BATCH,
    COLUMNS,
    InputEncoder,
    Inputs,
    Queries,
    compress,
    stated,
    with_batch,
)
from leap.predictor.models.structured.kernel_terms import hardware_kernels, kernel_of, terms
from leap.predictor.models.structured.marginal_likelihood import learn
from leap.predictor.models.structured.replicates import (
    Replicates,
    aggregate_replicates,
    grouped_median,
    student_t_reweight,
)
from leap.schemas.hardware import SPECIFICATIONS

#: Times that parts of the window are held out to see how far off deviations are; once of so many units.
HELD_OUT, MANY_UNITS = 3, 5_000
#: Configurations of a model type, on average, that variances are learned from.
LEAST_OF_A_MODEL = 20
#: Most of one model type: memory grows with their square (0.3 GB at 1,000), time with their cube.
MOST_OF_A_MODEL = 1000


class StructuredPrior(BaseEstimator):
    """Gaussian process over configurations with a shared linear part and one block per model type.

    Parameters
    ----------
    hardware
        The catalog as columns.
    extras
        Further numeric columns to use.
    landmarks
        Most landmarks of a model type; one with fewer configurations is exact.
    learned_from
        Most configurations that the variances are learned from.
    variances
        Those of an earlier fit with the same extras, as a warm start.
    form
        That of the process of utilisation of an earlier fit, as a warm start.
    steps
        Steps of the optimisers; 0 keeps `variances` and `form`.
    reweightings
        Times that noise is taken anew from the residuals; 0 for normal noise.

    Attributes
    ----------
    prior_
        The serving form.
    form_
        Of the process of utilisation.
    variances_
        (terms + 2,) variances of terms and noises.
    """

    def __init__(
        self,
        hardware: HardwareTable,
        extras: Sequence[str] = (),
        landmarks: int = 128,
        learned_from: int = 4000,
        variances: Floats | None = None,
        form: UtilisationForm | None = None,
        calibration: Floats | None = None,
        steps: int = 40,
        reweightings: int = 3,
    ) -> None:
        self.hardware = hardware
        self.extras = extras
        self.landmarks = landmarks
        self.learned_from = learned_from
        self.variances = variances
        self.form = form
        self.calibration = calibration
        self.steps = steps
        self.reweightings = reweightings

    @threadpool_limits.wrap(limits=1)
    def fit(self, rows: Rows, y: Floats) -> Self:
        """Learn from rows (see `InputEncoder.points`) and (n,) ln throughput."""
        self.encoding_ = _encode(rows, self.hardware, self.extras)
        points = self.encoding_.points(rows)
        types, listed = _hardware_numbers(self.hardware, self.encoding_)
        self.types_, self.tables_ = types, hardware_kernels(types.x, listed, types.vendor)
        rows = with_batch(rows, points.x)
        self.form_ = learn_utilisation(rows, y - points.x[:, 0], points.hardware, types, self.steps, self.form)
        utilisation, rest = self._without_utilisation(rows, y - points.x[:, 0], points)
        self.units_ = aggregate_replicates(points, rest)
        self.terms_ = terms(self.extras)
        self.columns_ = (*COLUMNS, *self.extras)
        self.centre_ = np.median(self.units_.points.x, axis=0)
        self.variances_ = self._learn()
        self.calibration_ = np.ones(GROUPS) if self.calibration is None else self.calibration
        if self.steps:
            self.calibration_ = self._calibrate(rows, y, points)
        self.prior_ = self._condition(self.units_, utilisation, points)
        return self

    def _calibrate(self, rows: Rows, y: Floats, points: Inputs) -> Floats:
        """What deviations are off by, of model types, hardware types, pairs and scales that are held out."""
        self.calibration_, found = np.ones(GROUPS), []
        beginning = beginnings(np.asarray(rows["model_type"]))
        for seed in range(HELD_OUT if len(self.units_.y) < MANY_UNITS else 1):
            held = held_out(points.model, points.hardware, np.round(points.x[:, 0], 6), beginning, seed)
            kept, others = np.flatnonzero(~held), np.flatnonzero(held)
            if not len(kept) or not len(others):
                continue
            known = points.take(kept)
            utilisation, rest = self._without_utilisation(take(rows, kept), y[kept] - known.x[:, 0], known)
            prior = self._condition(aggregate_replicates(known, rest), utilisation, known)
            others = others[np.unique(self.units_.of_row[others], return_index=True)[1]]
            asked, model, hardware = take(rows, others), points.model[others], points.hardware[others]
            said, ran = prior.predict(asked), prior.ran
            assert ran is not None
            group = never_ran(ran, model, hardware, utilisation.akin(asked))
            found.append((y[others] - said.mean, said.deviation, group, model, hardware, beginning[others]))
        return factors(*map(np.concatenate, zip(*found, strict=True))) if found else np.ones(GROUPS)

    def _without_utilisation(self, rows: Rows, y: Floats, points: Inputs) -> tuple[Utilisation, Floats]:
        """The process of utilisation of rows, and what it leaves of (n,) ln throughput per accelerator."""
        utilisation = condition_utilisation(self.form_, rows, y, points.hardware, self.types_)
        return utilisation, y - utilisation.log_throughput_of(rows, points.hardware)

    def predict(self, rows: Rows) -> Floats:
        """(n,) ln throughput."""
        return self.prior_.predict(rows).mean

    def out_of_fold(self, rows: Rows, y: Floats, fold: Indices) -> PriorEstimate:
        """Estimates of the training rows, each from the rows of the other folds, variances kept."""
        points = self.encoding_.points(rows)
        rows = with_batch(rows, points.x)
        mean, deviation = np.empty(len(y)), np.empty(len(y))
        for one in np.unique(fold):
            kept, others = np.flatnonzero(fold != one), np.flatnonzero(fold == one)
            if not len(kept):
                mean[others], deviation[others] = y.mean(), 1.0
                continue
            known = points.take(kept)
            utilisation, rest = self._without_utilisation(take(rows, kept), y[kept] - known.x[:, 0], known)
            prior = self._condition(aggregate_replicates(known, rest), utilisation, known)
            asked = aggregate_replicates(points.take(others), y[others])
            expected, variance = prior.posterior(Queries.of(asked.points))
            mean[others] = expected[asked.of_row] + points.x[others, 0]
            mean[others] += utilisation.log_throughput_of(take(rows, others), points.hardware[others])
            deviation[others] = np.sqrt(variance + prior.noise)[asked.of_row]
        return PriorEstimate(mean, deviation)

    def _learn(self) -> Floats:
        if self.variances is not None and not self.steps:
            return self.variances
        chosen = _sample(self.units_, self.learned_from)
        units = Replicates(self.units_.points.take(chosen), self.units_.y[chosen], self.units_.count[chosen], chosen)
        return learn(self.terms_, self.tables_, self.columns_, self.centre_, units, self.variances, self.steps)

    def _condition(self, units: Replicates, utilisation: Utilisation, points: Inputs) -> Prior:
        kernel, shared = kernel_of(self.terms_, self.variances_, self.tables_, self.columns_, self.centre_)
        common, single = self.variances_[-2:]
        base = common + single / units.count
        noise, mean = base.copy(), float(self.units_.y.mean())
        of_model = [np.flatnonzero(units.points.model == model) for model in range(len(self.encoding_.models))]
        parts = [model_type_block(kernel, shared, units, rows, mean, self.landmarks) for rows in of_model]
        for step in range(self.reweightings + 1):
            solved = [part.solve(noise[part.rows]) for part in parts]
            weights, root = shared_posterior(solved)
            if step == self.reweightings:
                break
            for part, sums in zip(parts, solved, strict=True):
                residual, variance = part.fitted(sums, weights, root)
                # E of the squared noise of an attempt, given its residual from the posterior mean
                given = noise[part.rows] * sums.weight
                square = (given * residual) ** 2 + noise[part.rows] * (1 - given * (1 - variance * sums.weight))
                noise[part.rows] = student_t_reweight(base[part.rows], square)
        batch = units.points.x[:, BATCH]
        ranges = [(batch[rows].min(initial=np.inf), batch[rows].max(initial=-np.inf)) for rows in of_model]
        ranges.append((batch.min(initial=np.inf), batch.max(initial=-np.inf)))
        ran = np.zeros((len(of_model) + 1, len(self.types_.x)), dtype=bool)
        ran[points.model, points.hardware] = True
        return Prior(
            encoding=self.encoding_,
            kernel=kernel,
            shared=shared,
            mean=mean,
            weights=weights,
            root=root,
            noise=float(common + single),
            batch_range=np.array(ranges),
            blocks=tuple(part.block(sums, weights) for part, sums in zip(parts, solved, strict=True)),
            utilisation=utilisation,
            ran=ran,
            calibration=self.calibration_,
        )


def _encode(rows: Rows, hardware: HardwareTable, extras: Sequence[str]) -> InputEncoder:
    numbers = [compress(rows[name], np.nan) for name in extras]
    present = [values[~np.isnan(values)] for values in numbers]
    models, model = np.unique(np.asarray(rows["model_type"], dtype=str), return_inverse=True)
    known = np.flatnonzero(stated(rows["batch_size"]) & stated(rows["accelerators"]))
    batch = np.log(np.asarray(rows["batch_size"], dtype=float)[known] / rows["accelerators"][known])
    any_model = np.median(batch) if len(batch) else 0.0
    of_model = grouped_median(model[known], batch, len(models)) if len(batch) else np.full(len(models), np.nan)
    return InputEncoder(
        models=models,
        hardware=np.union1d(np.array(hardware.names, dtype=str), np.asarray(rows["hardware_type"], dtype=str)),
        extras=np.array(extras, dtype=str),
        fill=np.array([np.median(values) if len(values) else 0.0 for values in present]),
        batch=np.append(np.where(np.isnan(of_model), any_model, of_model), any_model),
    )


def _hardware_numbers(hardware: HardwareTable, encoding: InputEncoder) -> tuple[HardwareNumbers, NDArray[np.bool_]]:
    """Hardware types in the order of the encoding, the type that is not known last, and which of them are listed."""
    position = hardware.index([*encoding.hardware.tolist(), ""])
    of = {name: hardware.specifications[position, column] for column, name in enumerate(SPECIFICATIONS)}
    peak = np.fmax(of["fp16_tflops"], of["bf16_tflops"])
    chosen = (
        np.where(np.isnan(peak), of["fp32_tflops"], peak),
        of["memory_bandwidth_gb_s"],
        np.where(np.isnan(of["interconnect_gb_s"]), of["host_link_gb_s"], of["interconnect_gb_s"]),
        of["tdp_w"],
        of["memory_gb"],
    )
    numbers = np.log(np.column_stack(chosen))
    numbers[:, np.isnan(numbers).all(axis=0)] = 0.0  # known of no type: none differs in it
    spread, usual = np.nanstd(numbers, axis=0), np.nanmedian(numbers, axis=0)
    standard = np.nan_to_num((numbers - usual) / np.where(spread > 0, spread, 1.0))
    rate = np.where(np.isnan(numbers), usual, numbers)[:, :2].mean(axis=1)
    return HardwareNumbers(standard, rate, hardware.vendor[position]), position != hardware.unlisted


def _sample(units: Replicates, most: int) -> Indices:
    """Subsample at most `most` replicates: whole model types, capped at `MOST_OF_A_MODEL` each.

    So the variance within a model type stays identifiable.
    """
    shuffle = np.random.default_rng(0).permutation(len(units.y))
    model = units.points.model[shuffle]
    names, code = np.unique(model, return_inverse=True)
    ordered = np.argsort(code, kind="stable")
    nth = np.empty_like(code)
    nth[ordered] = np.arange(len(code)) - np.searchsorted(code[ordered], code[ordered])
    drawn = np.random.default_rng(1).permutation(len(names)) < max(1, most // LEAST_OF_A_MODEL)
    order = np.lexsort((nth, ~drawn[code]))[:most]
    return np.sort(shuffle[order[drawn[code[order]] & (nth[order] < MOST_OF_A_MODEL)]])
