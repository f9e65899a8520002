"""How well hardware types are ranked where jobs agree in all else, beside what was measured.

A context is what jobs agree in, such as model type and number of accelerators. Of its hardware types some are held out
and others are not: all are ranked by what one fit predicts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

from leap.predictor.features.batch import Floats, Indices, Rows
from leap.predictor.models.structured.replicates import group_codes, grouped_median

SAME: tuple[str, ...] = ("model_type", "accelerators")

#: Context to its (Kendall's tau, loss of throughput by the first choice), one for each fit that ranked it.
Rankings = dict[int, list[tuple[float, float]]]


@dataclass(frozen=True)
class Contexts:
    """The contexts of (n,) attempts.

    Attributes
    ----------
    context
        (n,) number of the context; -1 of one that ran on one hardware type only.
    cell
        (n,) context and hardware type.
    measured
        (cells,) median of ln throughput.
    """

    context: Indices
    cell: Indices
    measured: Floats

    @classmethod
    def of(cls, rows: Rows, y: Floats, same: Sequence[str] = SAME) -> "Contexts":
        """The contexts of attempts that agree in `same`."""
        context = group_codes(*(rows[name] for name in same))
        cell = group_codes(context, rows["hardware_type"])
        first = np.unique(cell, return_index=True)[1]
        several = np.bincount(context[first])[context] > 1
        return cls(np.where(several, context, -1), cell, grouped_median(cell, y, len(first)))

    def around(self, judged: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """(n,) attempts of the contexts that some judged attempts are in."""
        return np.isin(self.context, np.setdiff1d(self.context[judged], [-1]))

    def rank(self, asked: Indices, score: Floats) -> Rankings:
        """Rank the contexts of attempts at `asked` by (asked,) scores, the highest first; NaN stands last.

        A context of which nothing has a score is not ranked.
        """
        ranked: Rankings = {}
        cell, row = np.unique(self.cell[asked], return_inverse=True)
        of_cell = grouped_median(row, np.nan_to_num(score, nan=-np.inf), len(cell))
        context = np.full(len(self.measured), -1)
        context[self.cell] = self.context
        for number in np.setdiff1d(context[cell], [-1]).tolist():
            here = context[cell] == number
            if np.isneginf(of_cell[here]).all():
                continue
            ranked[number] = [_compared(of_cell[here], self.measured[cell[here]])]
        return ranked


def mean_ranking(parts: Sequence[Rankings]) -> tuple[float, float] | None:
    """Mean tau and regret over contexts, of each the mean over the fits that ranked it; None without any."""
    of_context: Rankings = {}
    for part in parts:
        for number, found in part.items():
            of_context.setdefault(number, []).extend(found)
    if not of_context:
        return None
    tau, regret = np.mean([np.mean(found, axis=0) for found in of_context.values()], axis=0)
    return float(tau), float(regret)


def _compared(score: Floats, measured: Floats) -> tuple[float, float]:
    tau = kendalltau(score, measured).statistic
    lost = -np.expm1(measured[score.argmax()] - measured.max())
    return float(np.nan_to_num(tau)), float(lost)  # tau is not defined where all scores are equal
