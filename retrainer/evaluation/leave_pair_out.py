"""How well hardware types are ranked for a job whose model type never ran on them, beside sorting by specification.

A context is what jobs agree in, such as model type and number of accelerators; its hardware types are ranked by
predicted throughput and by what was measured. A job whose pair (model type and hardware type) is held out meets one
candidate that its model type never ran on among others that it did; harder is a context in which no pair was seen.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

from leap.predictor.features.batch import Floats, HardwareTable, Indices, Rows, take
from leap.predictor.models.structured.estimator import StructuredRecipe
from leap.predictor.models.structured.replicates import group_codes, grouped_median
from leap.retrainer.evaluation.median_chain import ChainOfMedians
from leap.schemas.hardware import SPECIFICATIONS

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


class LeavePairOut(msgspec.Struct, frozen=True):
    """Rankings of all contexts of at least two hardware types.

    One pair of every model type is held out at a time; a context is ranked as often as it has hardware types.

    Attributes
    ----------
    contexts, pairs
        Contexts, and (model type, hardware type) pairs in them.
    seen
        By the recipe, fitted on all rows.
    pair_held_out, chain_pair_held_out
        By the recipe and by the chain of medians, fitted without the rows of one pair of the context.
    no_pair_seen
        By the recipe; the prediction of each cell comes from a fit without the rows of its pair.
    model_held_out
        By the recipe, fitted without the rows of the context's model type.
    peak, bandwidth, price
        By specification, the highest first; what is not known stands last.
    """

    contexts: int
    pairs: int
    seen: Ranking
    pair_held_out: Ranking
    chain_pair_held_out: Ranking
    no_pair_seen: Ranking
    model_held_out: Ranking
    peak: Ranking
    bandwidth: Ranking
    price: Ranking


def evaluate_leave_pair_out(
    rows: Rows, y: Floats, recipe: StructuredRecipe, table: HardwareTable, same: Sequence[str] = SAME
) -> LeavePairOut:
    """Fit on (n,) ln throughput and rank.

    Raises
    ------
    ValueError
        If no context ran on two hardware types.
    """
    cells = _Cells.of(rows, y, same)
    model, pair = group_codes(rows["model_type"]), group_codes(rows["model_type"], rows["hardware_type"])
    ranked = np.unique(pair[cells.chosen])
    recipe.fit(rows, y)
    of_model = model[cells.chosen][np.unique(pair[cells.chosen], return_index=True)[1]]
    # Turned by one from model type to model type, so that no hardware type is left out of all at once.
    turn = np.array([np.count_nonzero(of_model[:n] == of_model[n]) + of_model[n] for n in range(len(ranked))])
    turn %= np.bincount(of_model)[of_model]
    pairs = [np.isin(pair, ranked[turn == n]) for n in range(turn.max() + 1)]
    models = [model == number for number in np.unique(of_model)]
    position = table.index(rows["hardware_type"][cells.chosen].tolist())
    by = {name: table.specifications[position, SPECIFICATIONS.index(name)] for name in SPECIFICATIONS}
    peak = np.fmax(by["fp16_tflops"], by["bf16_tflops"])

    def by_recipe(kept: Rows, y: Floats, ranked: Rows) -> Floats:
        return recipe.conditioned(kept, y).estimate(ranked).combined.mean

    def by_chain(kept: Rows, y: Floats, ranked: Rows) -> Floats:
        return ChainOfMedians().fit(kept, y).predict(ranked)

    without_pairs = cells.predict_without(pairs, rows, y, by_recipe)
    return LeavePairOut(
        contexts=len(np.unique(cells.context)),
        pairs=len(ranked),
        seen=cells.ranking(recipe.predict(rows)[cells.chosen]),
        pair_held_out=cells.one_held_out(without_pairs),
        chain_pair_held_out=cells.one_held_out(cells.predict_without(pairs, rows, y, by_chain)),
        no_pair_seen=cells.all_held_out(without_pairs),
        model_held_out=cells.all_held_out(cells.predict_without(models, rows, y, by_recipe)),
        peak=cells.ranking(np.where(np.isnan(peak), by["fp32_tflops"], peak)),
        bandwidth=cells.ranking(by["memory_bandwidth_gb_s"]),
        price=cells.ranking(table.price[position]),
    )


#: (k,) whether the rows that are ranked were left out of a fit, and (k,) what that fit predicts for them.
Without = tuple[NDArray[np.bool_], Floats]


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
        context = group_codes(*(rows[name] for name in same))
        cell = group_codes(context, rows["hardware_type"])
        of_cell = np.unique(cell, return_index=True)[1]
        several = np.bincount(context[of_cell])[context] > 1
        chosen = np.flatnonzero(several)
        if not len(chosen):
            raise ValueError(f"nothing that agrees in {', '.join(same)} ran on two hardware types")
        cell = group_codes(cell[chosen])
        first = np.unique(cell, return_index=True)[1]
        return cls(chosen, cell, context[chosen][first], grouped_median(cell, y[chosen], len(first)))

    def predict_without(
        self,
        parts: Sequence[NDArray[np.bool_]],
        rows: Rows,
        y: Floats,
        predict: Callable[[Rows, Floats, Rows], Floats],
    ) -> list[Without]:
        """What fits predict for the ranked rows, each fitted without one part of the rows."""
        ranked = take(rows, self.chosen)
        return [(part[self.chosen], predict(take(rows, ~part), y[~part], ranked)) for part in parts]

    def ranking(self, predicted: Floats) -> Ranking:
        """How (k,) predictions, or anything else that is high for the best, rank the cells; NaN stands last."""
        return self.one_held_out([(np.ones(len(self.chosen), dtype=bool), predicted)])

    def all_held_out(self, fits: Sequence[Without]) -> Ranking:
        """How they rank together, each cell by the fit that has not seen it."""
        predicted = np.full(len(self.chosen), np.nan)
        for left_out, values in fits:
            predicted[left_out] = values[left_out]
        return self.ranking(predicted)

    def one_held_out(self, fits: Sequence[Without]) -> Ranking:
        """How each fit ranks the contexts of which it left something out: mean over contexts of their mean."""
        of_context: dict[int, list[tuple[float, float]]] = {}
        for left_out, predicted in fits:
            score = grouped_median(self.cell, np.nan_to_num(predicted, nan=-np.inf), len(self.context))
            for context in np.unique(self.context[self.cell[left_out]]):
                of_context.setdefault(int(context), []).append(self._context(self.context == context, score))
        tau, regret = np.mean([np.mean(rankings, axis=0) for rankings in of_context.values()], axis=0)
        return Ranking(round(float(tau), 3), round(100.0 * float(regret), 1))

    def _context(self, cells: NDArray[np.bool_], score: Floats) -> tuple[float, float]:
        tau = kendalltau(score[cells], self.measured[cells]).statistic
        lost = -np.expm1(self.measured[cells][score[cells].argmax()] - self.measured[cells].max())
        return float(np.nan_to_num(tau)), float(lost)  # tau is not defined where all scores are equal
