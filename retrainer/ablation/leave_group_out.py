"""What is lost when a hardware type or model family has never run: judged on its own attempts, with and without."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd

from leap.predictor.features.batch import Floats
from leap.predictor.models.conformal import calibrate
from leap.retrainer.ablation.run import Result
from leap.retrainer.evaluation.groups import removed


class Loss(msgspec.Struct, frozen=True):
    """One family on the attempts of what was taken away, mean over seeds.

    Attributes
    ----------
    attempts
        Of all seeds together.
    w20_with, w20_without
        Where it had run before, and where it had not.
    low, high
        95% bootstrap interval of the points of w20 lost, families of jobs drawn with replacement.
    coverage
        Percent of these attempts inside the 80% interval, which was calibrated on the other held-out attempts.
    """

    name: str
    without: str
    attempts: int
    w20_with: float
    w20_without: float
    low: float
    high: float
    coverage: float


def losses(results: Sequence[Result], folder: Path) -> list[Loss]:
    """One line a family and removal, for which there is a result with and one without."""
    done = {(result.name, result.run.seed, result.run.without): result for result in results if not result.error}
    table = []
    for name, without in dict.fromkeys((name, without) for name, _, without in done if "=" in without):
        pairs = [
            (done[name, seed, ""], result)
            for (other, seed, away), result in done.items()
            if (other, away) == (name, without) and (name, seed, "") in done
        ]
        judgements = [judged for whole, result in pairs for judged in _judge(whole, result, folder)]
        if judgements:
            attempts, with_, without_, inside = np.array([judged[:4] for judged in judgements]).T
            low, high = np.quantile(np.mean([judged[4] for judged in judgements], axis=0), (0.025, 0.975))
            table.append(
                Loss(
                    name=name,
                    without=without,
                    attempts=int(attempts.sum()),
                    w20_with=round(float(with_.mean()), 1),
                    w20_without=round(float(without_.mean()), 1),
                    low=round(float(low), 1),
                    high=round(float(high), 1),
                    coverage=round(float(inside.mean()), 1),
                )
            )
    return table


def as_text(table: Sequence[Loss]) -> str:
    """A table for the terminal."""
    lines = [f"{'':12} {'taken away':28}{'attempts':>9}{'with':>7}{'without':>9}{'lost':>7}{'95%':>14}{'covered':>9}"]
    for loss in table:
        lost = loss.w20_with - loss.w20_without
        lines.append(
            f"{loss.name:12} {loss.without:28}{loss.attempts:9}{loss.w20_with:7.1f}{loss.w20_without:9.1f}{lost:7.1f}"
            f"{loss.low:7.1f}-{loss.high:6.1f}{loss.coverage:9.1f}"
        )
    return "\n".join(lines)


def _judge(whole: Result, reduced: Result, folder: Path) -> Iterator[tuple[int, float, float, float, Floats]]:
    """Attempts, w20 with and without, percent in the interval, and draws of the loss; nothing without attempts."""
    truth, predicted = reduced.truth(folder), reduced.predicted(folder)
    names = pd.DataFrame({"model_type": truth.model_type, "hardware_type": truth.hardware_type})
    away = removed(names, reduced.run.without)
    if not away.any():
        return
    mean, spread, basis = predicted["mean"], predicted["spread"], predicted["basis"]
    has_spread = not np.isnan(spread).any()
    others = ~away & ~np.isnan(mean)
    interval = calibrate(truth.y[others], mean[others], spread[others] if has_spread else None, basis[others])
    lower, upper = interval.bounds(mean[away], spread[away] if has_spread else None, basis[away])
    inside = 100 * float(np.mean((truth.y[away] >= lower) & (truth.y[away] <= upper)))
    means = [whole.predicted(folder)["mean"], mean]
    with_, without = (100 * float(truth.within_20(of)[away].mean()) for of in means)
    draws = truth.resampled(means[0], away) - truth.resampled(mean, away)
    yield int(away.sum()), with_, without, inside, draws
