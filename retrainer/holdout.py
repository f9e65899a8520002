"""How well hardware types are ranked for a job whose model type never ran on them, beside sorting by specification.

A context is what jobs agree in, such as model type and number of accelerators; its hardware types are ranked by
predicted throughput and by what was measured. Each prediction comes from rows without that model type on that hardware
type (a pair), or without that model type at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

from predictor.jobs import Floats, HardwareTable, Indices
from predictor.kernel import Rows
from predictor.structured_fit import StructuredRecipe
from predictor.units import codes, grouped_median
from retrainer.backtest import take
from schemas.hardware import SPECIFICATIONS

SAME: tuple[str, ...] = ("model_type", "accelerators")


class Ranking(msgspec.Struct, frozen=True):
    """How the hardware types of the contexts were ranked.

    Attributes
    ----------
    tau
        Mean of Kendall's rank correlation with what was measured.
    regret
        Mean loss of throughput by the first choice against the best, in percent.
    """

    tau: float
    regret: float


class Holdout(msgspec.Struct, frozen=True):
    """Rankings of all contexts of at least two hardware types.

    Attributes
    ----------
    contexts, pairs
        Contexts, and (model type, hardware type) pairs in them.
    seen
        By the recipe, fitted on all rows.
    pair_held_out
        Each prediction without the rows of its pair (one pair of every model type is left out at a time).
    model_held_out
        Each prediction without the rows of its model type.
    peak, bandwidth, price
        By specification, the highest first; what is not known stands last.
    """

    contexts: int
    pairs: int
    seen: Ranking
    pair_held_out: Ranking
    model_held_out: Ranking
    peak: Ranking
    bandwidth: Ranking
    price: Ranking


def measure(
    rows: Rows, y: Floats, recipe: StructuredRecipe, table: HardwareTable, same: Sequence[str] = SAME
) -> Holdout:
    """Fit on (n,) ln throughput and rank.

    Raises
    ------
    ValueError
        If no context ran on two hardware types.
    """
    cells = _Cells.of(rows, y, same)
    model, pair = codes(rows["model_type"]), codes(rows["model_type"], rows["hardware_type"])
    ranked = np.unique(pair[cells.chosen])
    recipe.fit(rows, y)
    of_model = model[cells.chosen][np.unique(pair[cells.chosen], return_index=True)[1]]
    # Turned by one from model type to model type, so that no hardware type is left out of all at once.
    turn = np.array([np.count_nonzero(of_model[:n] == of_model[n]) + of_model[n] for n in range(len(ranked))])
    turn %= np.bincount(of_model)[of_model]
    pairs = [np.isin(pair, ranked[turn == n]) for n in range(turn.max() + 1)]
    models = [model == one for one in np.unique(of_model)]
    position = table.index(rows["hardware_type"][cells.chosen].tolist())
    by = {name: table.specifications[position, SPECIFICATIONS.index(name)] for name in SPECIFICATIONS}
    peak = np.fmax(by["fp16_tflops"], by["bf16_tflops"])
    return Holdout(
        contexts=len(np.unique(cells.context)),
        pairs=len(ranked),
        seen=cells.ranking(recipe.predict(rows)[cells.chosen]),
        pair_held_out=cells.ranking(_without(rows, y, recipe, pairs)[cells.chosen]),
        model_held_out=cells.ranking(_without(rows, y, recipe, models)[cells.chosen]),
        peak=cells.ranking(np.where(np.isnan(peak), by["fp32_tflops"], peak)),
        bandwidth=cells.ranking(by["memory_bandwidth_gb_s"]),
        price=cells.ranking(table.price[position]),
    )


@dataclass(frozen=True)
class _Cells:
    """The contexts that ran on at least two hardware types.

    Attributes
    ----------
    chosen
        (k,) positions of their rows.
    cell
        (k,) context and hardware type of each.
    context
        (cells,) context.
    measured
        (cells,) median of y.
    """

    chosen: Indices
    cell: Indices
    context: Indices
    measured: Floats

    @classmethod
    def of(cls, rows: Rows, y: Floats, same: Sequence[str]) -> "_Cells":
        context = codes(*(rows[name] for name in same))
        cell = codes(context, rows["hardware_type"])
        of_cell = np.unique(cell, return_index=True)[1]
        several = np.bincount(context[of_cell])[context] > 1
        chosen = np.flatnonzero(several)
        if not len(chosen):
            raise ValueError(f"nothing that agrees in {', '.join(same)} ran on two hardware types")
        cell = codes(cell[chosen])
        first = np.unique(cell, return_index=True)[1]
        return cls(chosen, cell, context[chosen][first], grouped_median(cell, y[chosen], len(first)))

    def ranking(self, predicted: Floats) -> Ranking:
        """How (k,) predictions, or anything else that is high for the best, rank the cells; NaN stands last."""
        score = grouped_median(self.cell, np.nan_to_num(predicted, nan=-np.inf), len(self.context))
        found = [self._context(self.context == context, score) for context in np.unique(self.context)]
        tau, regret = np.mean(found, axis=0)
        return Ranking(round(float(tau), 3), round(100.0 * float(regret), 1))

    def _context(self, at: NDArray[np.bool_], score: Floats) -> tuple[float, float]:
        tau = kendalltau(score[at], self.measured[at]).statistic
        lost = -np.expm1(self.measured[at][score[at].argmax()] - self.measured[at].max())
        return float(np.nan_to_num(tau)), float(lost)  # tau is not defined where all scores are equal


def _without(rows: Rows, y: Floats, recipe: StructuredRecipe, parts: Sequence[NDArray[np.bool_]]) -> Floats:
    """(n,) predictions of the rows of each part, from the rows outside it; NaN for rows of none."""
    predicted = np.full(len(y), np.nan)
    for part in parts:
        kept = np.flatnonzero(~part)
        model = recipe.conditioned(take(rows, kept), y[kept])
        predicted[part] = model.estimate(take(rows, np.flatnonzero(part))).combined.mean
    return predicted
