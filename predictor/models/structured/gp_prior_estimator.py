"""The structured prior in its training form: a scikit-learn estimator over rows of attempts."""

from collections.abc import Sequence
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator
from threadpoolctl import threadpool_limits

from leap.predictor.features.batch import Floats, HardwareTable, Indices, Rows
from leap.predictor.models.structured.fitc_posterior import model_type_block, shared_posterior
from leap.predictor.models.structured.gp_prior import Prior, PriorEstimate
from leap.predictor.models.structured.inputs import BATCH, COLUMNS, InputEncoder, Queries, compress, stated
from leap.predictor.models.structured.kernel_terms import hardware_kernels, kernel_of, terms
from leap.predictor.models.structured.marginal_likelihood import learn
from leap.predictor.models.structured.replicates import (
    Replicates,
    aggregate_replicates,
    grouped_median,
    student_t_reweight,
)
from leap.schemas.hardware import SPECIFICATIONS

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
    steps
        Steps of the optimiser; 0 keeps `variances`.
    reweightings
        Times that noise is taken anew from the residuals; 0 for normal noise.

    Attributes
    ----------
    prior_
        The serving form.
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
        steps: int = 40,
        reweightings: int = 3,
    ) -> None:
        self.hardware = hardware
        self.extras = extras
        self.landmarks = landmarks
        self.learned_from = learned_from
        self.variances = variances
        self.steps = steps
        self.reweightings = reweightings

    @threadpool_limits.wrap(limits=1)
    def fit(self, rows: Rows, y: Floats) -> Self:
        """Learn from rows (see `InputEncoder.points`) and (n,) ln throughput."""
        self.encoding_ = _encode(rows, self.hardware, self.extras)
        points = self.encoding_.points(rows)
        self.units_ = aggregate_replicates(points, y - points.x[:, 0])
        self.tables_ = _tables(self.hardware, self.encoding_)
        self.terms_ = terms(self.extras)
        self.columns_ = (*COLUMNS, *self.extras)
        self.centre_ = np.median(self.units_.points.x, axis=0)
        self.variances_ = self._learn()
        self.prior_ = self._condition(self.units_)
        return self

    def predict(self, rows: Rows) -> Floats:
        """(n,) ln throughput."""
        return self.prior_.predict(rows).mean

    def out_of_fold(self, rows: Rows, y: Floats, fold: Indices) -> PriorEstimate:
        """Estimates of the training rows, each from the rows of the other folds, variances kept."""
        points = self.encoding_.points(rows)
        mean, deviation = np.empty(len(y)), np.empty(len(y))
        for held_out in np.unique(fold):
            kept, others = np.flatnonzero(fold != held_out), np.flatnonzero(fold == held_out)
            prior = self._condition(aggregate_replicates(points.take(kept), y[kept] - points.x[kept, 0]))
            asked = aggregate_replicates(points.take(others), y[others])
            expected, variance = prior.posterior(Queries.of(asked.points))
            mean[others] = expected[asked.of_row] + points.x[others, 0]
            deviation[others] = np.sqrt(variance + prior.noise)[asked.of_row]
        return PriorEstimate(mean, deviation)

    def _learn(self) -> Floats:
        if self.variances is not None and not self.steps:
            return self.variances
        chosen = _sample(self.units_, self.learned_from)
        units = Replicates(self.units_.points.take(chosen), self.units_.y[chosen], self.units_.count[chosen], chosen)
        return learn(self.terms_, self.tables_, self.columns_, self.centre_, units, self.variances, self.steps)

    def _condition(self, units: Replicates) -> Prior:
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


def _tables(hardware: HardwareTable, encoding: InputEncoder) -> dict[str, Floats]:
    """Hardware kernels in the order of the encoding, the type that is not known last."""
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
    spread = np.nanstd(numbers, axis=0)
    listed = position != hardware.unlisted
    standard = (numbers - np.nanmedian(numbers, axis=0)) / np.where(spread > 0, spread, 1.0)
    return hardware_kernels(np.nan_to_num(standard), listed, hardware.vendor[position])


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
