"""What came true of the attempts that a problem holds out, kept beside the predictions: scores, intervals, ceilings."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats
from leap.predictor.models.accuracy import Accuracy, accuracy, within
from leap.retrainer.ablation.problem import Problem, Source
from leap.retrainer.evaluation.groups import Mask

RESAMPLES = 1000
SPLIT, CEILING = "split_", "ceiling_"
PLAIN = ("y", "family", "model_type", "hardware_type")


@dataclass(frozen=True)
class Truth:
    """Columns over (n,) held-out attempts.

    Attributes
    ----------
    y
        ln of the measured throughput.
    family
        Number of the job family: attempts of one family err together.
    model_type, hardware_type
        Names.
    splits
        Name to mask, as of the problem from which nothing was taken away.
    ceilings
        Name to ln throughput.
    """

    y: Floats
    family: NDArray[np.intp]
    model_type: NDArray[np.str_]
    hardware_type: NDArray[np.str_]
    splits: dict[str, Mask]
    ceilings: dict[str, Floats]

    @classmethod
    def of(cls, problem: Problem) -> "Truth":
        """The truth of a problem."""
        held_out = problem.held_out
        jobs = held_out.pairs.jobs
        return cls(
            y=held_out.y,
            family=np.unique(jobs.family.astype(str), return_inverse=True)[1],
            model_type=jobs.model_type.astype(str),
            hardware_type=held_out.pairs.hardware_type.astype(str),
            splits=dict(problem.splits),
            ceilings=dict(problem.ceilings),
        )

    def scores(self, mean: Floats) -> dict[str, Accuracy | None]:
        """Split to the scores of (n,) predicted ln throughput."""
        return {name: accuracy(np.exp(mean[of]), np.exp(self.y[of])) for name, of in self.splits.items()}

    def within_20(self, mean: Floats) -> Mask:
        """(n,) whether predicted ln throughput counts in w20; what is not predicted does not."""
        return within(np.exp(mean), np.exp(self.y), 20)

    def resampled(self, mean: Floats, of: Mask) -> Floats:
        """(`RESAMPLES`,) w20 of some attempts, families drawn with replacement; of the same attempts the same draws."""
        of = of & ~np.isnan(mean)
        hit = self.within_20(mean)[of]
        family = np.unique(self.family[of], return_inverse=True)[1]
        hits, attempts = np.bincount(family, hit), np.bincount(family)
        drawn = np.random.default_rng(0).multinomial(len(hits), np.full(len(hits), 1 / len(hits)), RESAMPLES)
        w20: Floats = 100.0 * (drawn @ hits) / (drawn @ attempts)
        return w20


def truth_of(source: Source, seed: int, folder: Path) -> Truth:
    """Read it, or work it out and keep it."""
    path = folder / f"truth-{sha256(msgspec.json.encode((source, seed))).hexdigest()[:12]}.npz"
    if not path.exists():
        truth = Truth.of(source.problem(seed))
        columns: dict[str, NDArray[Any]] = {SPLIT + name: mask for name, mask in truth.splits.items()}
        columns |= {CEILING + name: best for name, best in truth.ceilings.items()}
        columns |= {name: getattr(truth, name) for name in PLAIN}
        np.savez(path, allow_pickle=False, **columns)
    with np.load(path) as stored:
        plain = {name: stored[name] for name in PLAIN}
        splits = {name.removeprefix(SPLIT): stored[name] for name in stored.files if name.startswith(SPLIT)}
        ceilings = {name.removeprefix(CEILING): stored[name] for name in stored.files if name.startswith(CEILING)}
    return Truth(**plain, splits=splits, ceilings=ceilings)
