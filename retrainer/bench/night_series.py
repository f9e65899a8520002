"""A backtest of whole nights: one after the other over the simulated fleet, as production would have run them."""

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from statistics import median

import msgspec
import pandas as pd

from leap.predictor.artifacts.local_store import LocalStore
from leap.retrainer.dataset.feature_table import normalise
from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.night.pipeline import Night
from leap.retrainer.night.plan import Plan, Report
from leap.streams.simulator.events import attempt_columns
from leap.streams.simulator.fleet import Fleet, FleetConfig

WINDOW_DAYS = 30


class OneNight(msgspec.Struct, frozen=True, kw_only=True):
    """One night: scores of its champion on the held-out attempts, and of what was in production before it."""

    night: str
    held_out: int
    w20: float
    w5: float
    mdape: float
    production_w20: float | None
    lookup_w20: float | None
    promoted: bool
    reason: str
    seconds: float


class Nights(msgspec.Struct, frozen=True, kw_only=True):
    """All nights; w20 as median, least and greatest over them."""

    attempts_per_day: int
    recipes: tuple[str, ...]
    w20_median: float
    w20_least: float
    w20_greatest: float
    promoted: int
    seconds: float
    nights: list[OneNight]


def walk(
    count: int, attempts_per_day: int, recipes: tuple[str, ...], folder: Path, tell: Callable[[OneNight], None]
) -> Nights:
    """Run `count` nights; what a night sees is what had finished by then."""
    started = time.monotonic()
    fleet = Fleet(FleetConfig(days=WINDOW_DAYS + count, attempts_per_day=attempts_per_day))
    first = fleet.config.start + timedelta(days=WINDOW_DAYS)
    partitions, store = Partitions(folder / "partitions"), LocalStore(folder / "artifacts")
    for day in range(WINDOW_DAYS - 1):
        partitions.merge(normalise(pd.DataFrame(attempt_columns(fleet.day(day)))))
    nights = []
    for number in range(count):
        begun = time.monotonic()
        partitions.merge(normalise(pd.DataFrame(attempt_columns(fleet.day(WINDOW_DAYS - 1 + number)))))
        night = Night(partitions, store, fleet.catalog)
        report = night.run(Plan(night=first + timedelta(days=number), recipes=recipes, window_days=WINDOW_DAYS))
        nights.append(_brief(report, time.monotonic() - begun))
        tell(nights[-1])
    w20 = [night.w20 for night in nights]
    return Nights(
        attempts_per_day=attempts_per_day,
        recipes=recipes,
        w20_median=round(median(w20), 1),
        w20_least=min(w20),
        w20_greatest=max(w20),
        promoted=sum(night.promoted for night in nights),
        seconds=round(time.monotonic() - started, 1),
        nights=nights,
    )


def _brief(report: Report, seconds: float) -> OneNight:
    champion = next(row.all for row in report.recipes if row.recipe == report.champion)
    assert champion is not None
    return OneNight(
        night=report.night,
        held_out=report.held_out,
        w20=champion.w20,
        w5=champion.w5,
        mdape=champion.mdape,
        production_w20=report.production.w20 if report.production else None,
        lookup_w20=report.lookup.w20 if report.lookup else None,
        promoted=report.promoted,
        reason=report.reason,
        seconds=round(seconds, 1),
    )
