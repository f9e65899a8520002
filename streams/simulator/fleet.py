"""The simulated fleet: days of attempts as columns, reproducible from a seed.

>>> fleet = Fleet(FleetConfig(days=3, attempts_per_day=200))
>>> batch = fleet.day(0)
>>> len(batch) == len(fleet.truth(batch)) == len(batch.family)
True
"""

import datetime as dt
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

import numpy as np

from leap.schemas.events import Event
from leap.schemas.hardware import Catalog, load_catalog
from leap.streams.simulator import constants as c
from leap.streams.simulator.day_batch import DayBatch
from leap.streams.simulator.events import Arrival, arrivals
from leap.streams.simulator.job_families import Bools, Configurations, Families, make_families
from leap.streams.simulator.latent_effects import LatentEffects, draw_latent_effects
from leap.streams.simulator.model_types import Floats, Ints, ModelTypes, make_model_types
from leap.streams.simulator.roofline import Machines, roofline_throughput
from leap.streams.simulator.scheduler import allocate, eligibility

DAY_S = 86_400
_TYPES, _FAMILIES, _HABITS, _HIDDEN, _DAY, _TODAY, _RUN = range(7)  # independent random streams


@dataclass(frozen=True)
class FleetConfig:
    """Size and seed of a fleet.

    Parameters
    ----------
    seed
        Random seed.
    start, days
        First day and number of days.
    attempts_per_day
        Mean number of submissions per day. The numbers of model types and hardware types scale with it, so that a
        small fleet has history too: 660 and 26 at 25,000 attempts, 66 and 12 at 250.
    hidden_seed
        Random seed of efficiencies and noise; default `seed`. Fleets that differ only in it send the same submissions.

    Raises
    ------
    ValueError
        If a size is out of range.
    """

    seed: int = 0
    start: dt.date = dt.date(2026, 1, 1)
    days: int = 60
    attempts_per_day: int = 25_000
    hidden_seed: int | None = None

    def __post_init__(self) -> None:
        if not (1 <= self.days <= 400 and 10 <= self.attempts_per_day <= 1_000_000):
            raise ValueError(
                f"a fleet has 1 to 400 days of 10 to 1,000,000 attempts, not {self.days} of {self.attempts_per_day}"
            )

    @property
    def scale(self) -> float:
        """Size relative to the published fleet, 0 to 1."""
        return min(1.0, self.attempts_per_day / 25_000)

    def rng(self, stream: int, day: int = 0) -> np.random.Generator:
        """Random generator of a stream and day."""
        hidden = stream in (_HIDDEN, _TODAY, _RUN) and self.hidden_seed is not None
        seed = self.hidden_seed if hidden else self.seed
        return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(stream, day)))


class Fleet:
    """A fleet of `config`, on the hardware of `catalog` (default: the built-in one)."""

    def __init__(self, config: FleetConfig, catalog: Catalog | None = None) -> None:
        self.config = config
        self.catalog = load_catalog() if catalog is None else catalog
        hardware_count = max(12, round(len(c.POOLS) * config.scale**0.2))
        names = sorted(c.POOLS, key=lambda name: -c.POOLS[name].capacity)[:hardware_count]
        self.hardware: tuple[str, ...] = tuple(sorted(names))
        self.machines = Machines.of([self.catalog[name] for name in self.hardware])
        kinds = max(12, round(c.MODEL_TYPES * config.scale**0.5))
        self.types: ModelTypes = make_model_types(kinds, config.rng(_TYPES))
        alive = config.attempts_per_day / c.ATTEMPTS_PER_FAMILY_DAY
        self.families: Families = make_families(self.types, alive, config.days, config.rng(_FAMILIES))
        self.eligible, self.habit = eligibility(
            self.types, self.families, self.machines, self.hardware, config.rng(_HABITS)
        )

    @cached_property
    def hidden(self) -> LatentEffects:
        """The latent efficiencies, which appear in events only through the measured throughput."""
        rng = self.config.rng(_HIDDEN)
        return draw_latent_effects(self.types, self.families, len(self.hardware), self.config.days, rng)

    def open_on(self, day: int) -> Bools:
        """Whether each hardware type exists on `day`; the newest is added halfway through."""
        return np.array([name != c.NEW_HARDWARE or day >= self.config.days // 2 for name in self.hardware])

    def day(self, day: int) -> DayBatch:
        """The attempts of a day (from 0), independent of the days requested before.

        Raises
        ------
        ValueError
            If the day is out of range.
        """
        if not 0 <= day < self.config.days:
            raise ValueError(f"day {day} is not one of the fleet's {self.config.days} days")
        rng = self.config.rng(_DAY, day)
        family, submitted = self._submissions(day, rng)
        count = len(family)
        current = self.families.variant[day, family].astype(np.int64)
        other = rng.integers(0, c.VARIANTS, count)
        variant = np.where(rng.random(count) < c.OTHER_VARIANT, other, current)
        candidates = self.eligible[family] & self.open_on(day)
        wish = self.habit[family] + rng.gumbel(0, 0.4, (count, len(self.hardware)))
        pools = np.array([c.POOLS[name].capacity for name in self.hardware])
        capacity = pools / pools.sum() * self.config.attempts_per_day / 24 * c.CAPACITY_HEADROOM
        hardware = allocate(candidates, wish, submitted // 3_600_000, capacity)

        submitted = submitted + self.midnight(day)
        allocated = submitted + 500 + (rng.exponential(90_000, count)).astype(np.int64)
        started = allocated + 5_000 + (rng.exponential(40_000, count)).astype(np.int64)
        hours = np.clip(rng.lognormal(0.3, 1.0, count), 0.03, 20.0)
        batch = DayBatch(
            day=day,
            date=self.config.start + dt.timedelta(days=day),
            types=self.types,
            families=self.families,
            hardware_types=self.hardware,
            family=family,
            variant=variant,
            config=self.families.configurations.take(family, variant),
            candidates=candidates,
            hardware=hardware,
            submitted=submitted,
            allocated=allocated,
            started=started,
            finished=started + (hours * 3_600_000).astype(np.int64),
            measured=np.zeros(count),
            run=rng.random((count, 4)),
        )
        noise = self.today(batch) + self.hidden.noise(family, self.config.rng(_RUN, day))
        batch.measured[:] = self.expected(batch, np.arange(count), hardware) * np.exp(noise)
        return batch

    def events(self, days: Iterable[int]) -> Iterator[tuple[str, str, Event]]:
        """(topic, key, event) of several consecutive days in order of arrival; late events come days later."""
        held: list[Arrival] = []
        for day in days:
            batch = self.day(day)
            held = sorted([*held, *arrivals(batch)], key=attrgetter("arrives_ms"))
            due = bisect_left(held, self.midnight(day + 1), key=attrgetter("arrives_ms"))
            yield from (arrival[1:] for arrival in held[:due])
            del held[:due]
        yield from (arrival[1:] for arrival in held)

    def midnight(self, day: int) -> int:
        """Start of a day, milliseconds since 1970."""
        return 1000 * (int(dt.datetime.combine(self.config.start, dt.time(), dt.UTC).timestamp()) + day * DAY_S)

    def truth(self, batch: DayBatch) -> Floats:
        """Noise-free samples/s of every attempt on every candidate (attempt × `hardware`, NaN elsewhere)."""
        row, hardware = np.nonzero(batch.candidates)
        today = self.today(batch)
        table = np.full(batch.candidates.shape, np.nan)
        table[row, hardware] = self.expected(batch, row, hardware) * np.exp(today[row])
        return table

    def today(self, batch: DayBatch) -> Floats:
        """Daily component of the ln efficiency of each attempt's family."""
        return np.asarray(self.hidden.of_day(batch.day, self.config.rng(_TODAY, batch.day))[batch.family])

    def expected(self, batch: DayBatch, row: Ints, hardware: Ints, fixed: bool = True) -> Floats:
        """Samples/s of attempts `row` on `hardware`: the roofline, with the fixed efficiencies if `fixed`."""
        family = batch.family[row]
        kind = self.families.model_type[family]
        config = Configurations(**{name: column[row] for name, column in vars(batch.config).items()})
        bare = roofline_throughput(self.types, kind, config, self.machines, hardware)
        return np.asarray(bare * np.exp(self.hidden.fixed(kind, family, hardware))) if fixed else bare

    def _submissions(self, day: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Family and millisecond of the day of each submission, sorted; fewer at weekends and at night."""
        weekday = (self.config.start + dt.timedelta(days=day)).weekday()
        volume = self.config.attempts_per_day * (0.9 if weekday >= 5 else 1.04) * rng.normal(1.0, 0.01)
        alive, share = self.families.alive_on(day, self.types)
        family = np.repeat(alive, rng.multinomial(max(1, round(volume)), share))
        moment = rng.random(len(family))
        moment = (moment + 0.06 * np.sin(2 * np.pi * moment)) % 1.0
        order = np.argsort(moment, kind="stable")
        return family[order], (moment[order] * DAY_S * 1000).astype(np.int64)
