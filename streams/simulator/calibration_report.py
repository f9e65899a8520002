"""Published and simulated statistics side by side, and the two accuracy bounds."""

from collections.abc import Iterable
from typing import Literal

import msgspec
import numpy as np

from leap.streams.simulator import marginals as m
from leap.streams.simulator.ceilings import Known
from leap.streams.simulator.events import joined
from leap.streams.simulator.fleet import Fleet

WARM_UP_DAYS = 7  # earlier, hardly any family has a history


class Marginal(msgspec.Struct, frozen=True):
    """One published statistic and its simulated value."""

    name: str
    published: float
    simulated: float
    is_: Literal["about", "at least", "at most"] = "about"
    percent: bool = False

    @property
    def within(self) -> bool:
        """Whether they agree: within 10%, or 3 points of a percentage."""
        if self.is_ == "at least":
            return self.simulated >= self.published
        if self.is_ == "at most":
            return self.simulated <= self.published
        tolerance = max(0.1 * self.published, 3.0 if self.percent else 0.0)
        return abs(self.simulated - self.published) <= tolerance


class Description(msgspec.Struct, frozen=True):
    """A fleet in figures.

    Attributes
    ----------
    days, submissions
        Size of the simulation.
    marginals
        Published and simulated statistics.
    hardware
        Hardware type to share of the attempts (percent), median throughput (samples/s) and 95/5 ratio.
    label_noise, reachable
        The accuracy bounds, after a week of history.
    known_family
        Percent of attempts whose family has run on an earlier day.
    """

    days: int
    submissions: int
    marginals: tuple[Marginal, ...]
    hardware: dict[str, tuple[float, float, float]]
    label_noise: m.FleetAccuracy
    reachable: m.FleetAccuracy
    known_family: float


def describe(fleet: Fleet, days: Iterable[int]) -> Description:
    """Simulate `days` (at least two, in order) and compute the statistics.

    Takes 100 bytes per attempt. The published figures are for 25,000 attempts per day over two windows of 30 days; a
    small fleet has fewer types, and its extremes are random.
    """
    parts, truths, reached, known = [], [], [], []
    submissions, knowledge = 0, Known(fleet)
    for day in days:
        batch = fleet.day(day)
        rows = np.flatnonzero(joined(batch))
        submissions += len(batch)
        family, hardware = batch.family[rows], batch.hardware[rows]
        config = (batch.config.trainers[rows], batch.config.batch[rows])
        parts.append((np.full(len(rows), day), batch.model_type[rows], hardware, *config, batch.measured[rows]))
        truths.append(fleet.expected(batch, rows, hardware) * np.exp(fleet.today(batch)[rows]))
        reached.append(knowledge.reachable(batch, rows))
        known.append(knowledge.families[family])
        knowledge.learn(batch, rows)
    attempts = m.Attempts(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    first, last = int(attempts.day[0]), int(attempts.day[-1])
    settled = attempts.day >= first + min(WARM_UP_DAYS, (last - first + 1) // 2)
    truth, reachable = np.concatenate(truths)[settled], np.concatenate(reached)[settled]
    spread = m.by_hardware(attempts)
    share = np.bincount(attempts.hardware) / len(attempts.hardware)
    return Description(
        days=len(parts),
        submissions=submissions,
        marginals=_marginals(attempts, spread, submissions / len(parts), len(fleet.types)),
        hardware={fleet.hardware[index]: (100 * float(share[index]), *values) for index, values in spread.items()},
        label_noise=m.fleet_accuracy(truth, attempts.measured[settled]),
        reachable=m.fleet_accuracy(reachable, attempts.measured[settled]),
        known_family=float(100 * np.concatenate(known)[settled].mean()),
    )


def _marginals(
    attempts: m.Attempts, spread: dict[int, tuple[float, float]], per_day: float, types: int
) -> tuple[Marginal, ...]:
    medians, ratios = zip(*spread.values(), strict=True)
    table = m.lookup_table(attempts)
    return (
        Marginal("attempts a day", 25_000, per_day),
        Marginal("model types", 660, len(np.unique(attempts.model_type))),
        Marginal("share of the 560 rarest types, %", 22, m.tail_share(attempts.model_type, types), percent=True),
        Marginal("hardware types", 21, len(np.unique(attempts.hardware)), "at least"),
        Marginal("smallest throughput, samples/s", 10, float(attempts.measured.min()), "at most"),
        Marginal("largest throughput, samples/s", 1e6, float(attempts.measured.max()), "at least"),
        Marginal("within two decades, %", 91, m.two_decades(attempts.measured), percent=True),
        Marginal("95/5 percentile ratio, all", 133, m.percentile_ratio(attempts.measured)),
        Marginal("95/5 ratio, narrowest hardware type", 42, min(ratios)),
        Marginal("95/5 ratio, widest hardware type", 701, max(ratios)),
        Marginal("medians of two hardware types, at most times apart", 3, max(medians) / min(medians)),
        Marginal("under a key of 1.5 times or more, %", 56, m.wide_keys(attempts), percent=True),
        Marginal("lookup table: model types", 19, table.model_types),
        Marginal("lookup table: coverage, %", 13.3, table.coverage, percent=True),
        Marginal("lookup table: w10, %", 33.4, table.accuracy.w10, percent=True),
        Marginal("lookup table: w15, %", 45.0, table.accuracy.w15, percent=True),
        Marginal("lookup table: w20, %", 53.2, table.accuracy.w20, percent=True),
        Marginal("lookup table: median ratio", 1.11, table.accuracy.ratio),
    )


def as_table(description: Description) -> str:
    """The report as text, one statistic per line."""
    lines = [f"{description.days} days, {description.submissions:,} submissions", ""]
    lines.append(f"{'':52}{'published':>12}{'simulated':>14}")
    for marginal in description.marginals:
        published = f"{'' if marginal.is_ == 'about' else marginal.is_ + ' '}{marginal.published:,g}"
        verdict = "" if marginal.within else "outside"
        lines.append(f"{marginal.name:44}{published:>20}{marginal.simulated:>14,.4g}  {verdict}".rstrip())
    lines += ["", f"{'hardware type':24}{'share %':>8}{'median/s':>12}{'95/5':>8}"]
    for name, (share, median, ratio) in sorted(description.hardware.items(), key=lambda item: -item[1][0]):
        lines.append(f"{name:24}{share:8.1f}{median:12,.0f}{ratio:8.0f}")
    lines += ["", f"{'ceiling':24}{'w20':>8}{'w10':>8}{'w5':>8}{'MdAPE':>8}"]
    for name, ceiling in (("label noise", description.label_noise), ("reachable at launch", description.reachable)):
        lines.append(f"{name:24}{ceiling.w20:8.1f}{ceiling.w10:8.1f}{ceiling.w5:8.1f}{ceiling.mdape:8.1f}")
    lines.append(f"{description.known_family:.1f}% of the attempts are of a family that ran on an earlier day")
    return "\n".join(lines)
