"""What came true of the attempts that a problem holds out, kept beside the predictions: scores, intervals, ceilings."""

from dataclasses import dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from predictor.evidence import basis
from predictor.jobs import Floats
from retrainer.ablation.problem import Mask, Problem, Source
from retrainer.evaluate import Scores, scores

RESAMPLES = 1000
SPLIT, CEILING = "split_", "ceiling_"


@dataclass(frozen=True)
class Truth:
    """Columns over (n,) held-out attempts.

    Attributes
    ----------
    y
        ln of the measured throughput.
    family
        Number of the job family: attempts of one family err together.
    basis, model_type, hardware_type
        What a prediction rests on, and names.
    splits
        Name to mask, as of the problem from which nothing was taken away.
    ceilings
        Name to ln throughput.
    """

    y: Floats
    family: NDArray[np.intp]
    basis: NDArray[np.str_]
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
            basis=basis(held_out.pairs),
            model_type=jobs.model_type.astype(str),
            hardware_type=held_out.pairs.hardware_type.astype(str),
            splits=dict(problem.splits),
            ceilings=dict(problem.ceilings),
        )

    def scores(self, mean: Floats) -> dict[str, Scores | None]:
        """Split to the scores of (n,) predicted ln throughput."""
        return {name: scores(np.exp(mean[of]), np.exp(self.y[of])) for name, of in self.splits.items()}

    def resampled(self, mean: Floats, split: str = "all") -> Floats:
        """(`RESAMPLES`,) w20 over families drawn with replacement: the draws are the same for all that answer alike."""
        of = self.splits[split] & ~np.isnan(mean)
        within = np.abs(np.expm1(mean[of] - self.y[of])) <= 0.2
        family = np.unique(self.family[of], return_inverse=True)[1]
        hits, attempts = np.bincount(family, within), np.bincount(family)
        drawn = np.random.default_rng(0).multinomial(len(hits), np.full(len(hits), 1 / len(hits)), RESAMPLES)
        found: Floats = 100.0 * (drawn @ hits) / (drawn @ attempts)
        return found


def truth_of(source: Source, seed: int, folder: Path) -> Truth:
    """Read it, or work it out and keep it."""
    path = folder / f"truth-{sha256(msgspec.json.encode((source, seed))).hexdigest()[:12]}.npz"
    if not path.exists():
        truth = Truth.of(source.problem(seed))
        columns: dict[str, NDArray[Any]] = {SPLIT + name: mask for name, mask in truth.splits.items()}
        columns |= {CEILING + name: best for name, best in truth.ceilings.items()}
        columns |= {
            one.name: getattr(truth, one.name) for one in fields(truth) if one.name not in ("splits", "ceilings")
        }
        np.savez(path, allow_pickle=False, **columns)
    with np.load(path) as stored:
        plain = {name: stored[name] for name in stored.files if not name.startswith((SPLIT, CEILING))}
        splits = {name.removeprefix(SPLIT): stored[name] for name in stored.files if name.startswith(SPLIT)}
        ceilings = {name.removeprefix(CEILING): stored[name] for name in stored.files if name.startswith(CEILING)}
    return Truth(**plain, splits=splits, ceilings=ceilings)
