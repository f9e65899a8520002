"""Latent efficiencies behind the measured throughput, in ln throughput; unknown to launchers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leap.streams.simulator import constants as c
from leap.streams.simulator.job_families import Families, fresh
from leap.streams.simulator.model_types import Floats, Ints, ModelTypes


@dataclass(frozen=True)
class LatentEffects:
    """Efficiencies of model types, families, their pairs with hardware types, and their drift.

    `drift` is day × family: a random walk with a jump now and then (a regression or an improvement).
    `day_effect` and `run_noise` are standard deviations per family; the draws are made day by day.
    """

    type_: Floats
    type_hardware: Floats
    family: Floats
    family_hardware: NDArray[np.float32]
    drift: NDArray[np.float32]
    day_effect: Floats
    run_noise: Floats

    def fixed(self, kind: Ints, family: Ints, hardware: Ints) -> Floats:
        """Time-independent part of the efficiency."""
        pairs = self.type_hardware[kind, hardware] + self.family_hardware[family, hardware]
        return np.asarray(self.type_[kind] + self.family[family] + pairs)

    def of_day(self, day: int, rng: np.random.Generator) -> Floats:
        """Part of each family's efficiency specific to `day`, including drift."""
        return np.asarray(self.drift[day] + rng.normal(0, 1, len(self.family)) * self.day_effect)

    def noise(self, family: Ints, rng: np.random.Generator) -> Floats:
        """Label noise of a run of each given family: mostly narrow, with some slow runs."""
        slowdown = np.minimum(rng.exponential(c.SLOWDOWN, len(family)), c.SLOWEST)
        slow = (rng.random(len(family)) < c.SLOW_RUNS) * slowdown
        return np.asarray(rng.normal(0, 1, len(family)) * self.run_noise[family] - slow)


def family_prior() -> float:
    """Median of a family's efficiency before its first run.

    Most families run their type's stock recipe, so the median is close to that of the stock families.
    """
    rng = np.random.default_rng(0)
    return float(np.median(_family(100_000, rng)))


def draw_latent_effects(
    types: ModelTypes, families: Families, machines: int, days: int, rng: np.random.Generator
) -> LatentEffects:
    """Draw the latent effects of every model type and family."""
    count = len(families)
    drift = np.empty((days, count), dtype=np.float32)
    level = np.zeros(count, dtype=np.float32)
    for day, draws in enumerate(fresh(rng).spawn(days)):
        level += fresh(draws).normal(0, c.DRIFT_PER_DAY, count)
        level += (fresh(draws).random(count) < c.JUMPS_PER_DAY) * fresh(draws).laplace(0, c.JUMP, count)
        drift[day] = level
    return LatentEffects(
        type_=fresh(rng).normal(0, c.TYPE, len(types)),
        type_hardware=fresh(rng).normal(0, c.TYPE_HARDWARE, (len(types), machines)),
        family=_family(count, rng),
        family_hardware=fresh(rng).normal(0, c.FAMILY_HARDWARE, (count, machines)).astype(np.float32),
        drift=drift,
        day_effect=c.DAY_EFFECT * fresh(rng).lognormal(0, c.DAY_EFFECT_SPREAD, count),
        run_noise=c.RUN_NOISE * fresh(rng).lognormal(0, c.RUN_NOISE_SPREAD, count),
    )


def _family(count: int, rng: np.random.Generator) -> Floats:
    tuned = (fresh(rng).random(count) < c.TUNED_SHARE) * fresh(rng).exponential(c.FAMILY_TUNED, count)
    return np.asarray(fresh(rng).normal(0, c.FAMILY_STOCK, count) + tuned)
