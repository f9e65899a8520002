"""``leap status``: what happened in the last week, on one page."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import typer

from leap.predictor.cli.errors import sentence
from leap.predictor.cli.options import Json
from leap.predictor.cli.terminal import printable
from leap.schemas.events import THROUGHPUT
from leap.streams.cli.common import read_settings

if TYPE_CHECKING:
    from leap.predictor.artifacts.inventory import Row
    from leap.streams.doctor.runner import Finding
    from leap.streams.monitor.aggregates import Figures
    from leap.streams.runtime.settings import Settings

Part = TypeVar("Part")
CHECKS = ("broker", "store", "history worker", "attempt joiner", "ranking worker")


class Prices(msgspec.Struct, frozen=True):
    """Prices of the catalog in use.

    Attributes
    ----------
    types, priced, unverified
        Number of hardware types, of those with a price, and of prices that are general knowledge.
    oldest, newest
        Dates that prices are of, as the catalog states them.
    """

    types: int
    priced: int
    unverified: int
    oldest: str
    newest: str


class Status(msgspec.Struct, kw_only=True):
    """The page; a part is None if it could not be had, and `missing` says why, by its name.

    Attributes
    ----------
    workers
        What the doctor finds of broker, store and workers, lag included.
    production, night
        The artifact that serves, and the one of the last night that left a report.
    figures
        Lists, accuracy, coverage, and what was routed.
    letters
        Worker and reason to the messages refused.
    """

    since: datetime
    until: datetime
    workers: "list[Finding]"
    production: "Row | None"
    night: "Row | None"
    figures: "Figures | None"
    letters: dict[str, dict[str, int]] | None
    prices: Prices | None
    missing: dict[str, str]


def status(
    days: Annotated[float, typer.Option(min=0.01, max=7, help="How far back to look.")] = 7.0, as_json: Json = False
) -> None:
    """Show the last week on one page: workers, lag, last night, accuracy, routing, dead letters, age of prices.

    Example:
      leap status --days 1
    """
    found = _gather(read_settings(), days)
    if as_json:
        print(msgspec.json.encode(found).decode())
    else:
        print(f"{found.since:%Y-%m-%d %H:%M} to {found.until:%Y-%m-%d %H:%M} UTC")
        for name, text in _lines(found):
            print(printable(f"{name:12}{text}"))
    if found.missing:
        raise typer.Exit(1)


def _gather(settings: "Settings", days: float) -> Status:
    from leap.streams.doctor.check import CheckContext
    from leap.streams.doctor.runner import CHECKS as ALL
    from leap.streams.doctor.runner import examine

    until = datetime.now(UTC)
    since = until - timedelta(days=days)
    missing: dict[str, str] = {}

    def part(name: str, ask: Callable[[], Part]) -> Part | None:
        if name in missing:
            return None
        try:
            return ask()
        except Exception as error:
            if (told := sentence(error)) is None:
                raise
            missing[name] = told
            return None

    rows = part("artifacts", lambda: _artifacts(settings)) or []
    nights = [row for row in rows if row.night]
    workers = examine(CheckContext(settings), [check for check in ALL if check.name in CHECKS])
    if workers[0].state == "fault":  # of the broker: nobody else needs to wait for it
        missing |= dict.fromkeys(("figures", "letters"), "requires broker")
    return Status(
        since=since,
        until=until,
        workers=workers,
        production=next((row for row in rows if row.production), None),
        night=max(nights, key=lambda row: row.night or "", default=None),
        figures=part("figures", lambda: _figures(settings, days, until)),
        letters=part("letters", lambda: _letters(settings, since)),
        prices=part("prices", lambda: _prices(settings)),
        missing=missing,
    )


def _artifacts(settings: "Settings") -> "list[Row]":
    from leap.predictor.artifacts.inventory import inventory
    from leap.predictor.artifacts.open import open_store

    store = open_store(settings.artifacts)
    return inventory(store, THROUGHPUT, store.pointer(THROUGHPUT), settings.partitions)


def _figures(settings: "Settings", days: float, until: datetime) -> "Figures":
    from leap.streams.monitor.aggregates import DAY_S, Monitor
    from leap.streams.monitor.app import LiveMonitor

    live = LiveMonitor(settings, Monitor(time.time, DAY_S * days))
    live.warm_up(until)
    return live.figures()


def _letters(settings: "Settings", since: datetime) -> dict[str, dict[str, int]]:
    from leap.streams.consumer.resend import refused

    counts: dict[str, Counter[str]] = {}
    for one in refused(settings, since):
        for worker, letter in one.latest.items():
            counts.setdefault(worker, Counter())[letter.reason] += 1
    return {worker: dict(reasons.most_common()) for worker, reasons in counts.items()}


def _prices(settings: "Settings") -> Prices:
    from leap.schemas.hardware import load_catalog

    catalog = load_catalog(settings.catalog)
    priced = [entry for entry in catalog.values() if entry.price_per_hour is not None]
    dates = sorted(entry.price_date for entry in priced if entry.price_date)
    known = sum("price_per_hour" in entry.unverified for entry in priced)
    return Prices(len(catalog), len(priced), known, *((dates[0], dates[-1]) if dates else ("", "")))


def _lines(found: Status) -> Iterator[tuple[str, str]]:
    """Name and text of each line."""
    for finding in found.workers:
        remedy = f" -> {finding.remedy}" if finding.remedy else ""
        yield (
            finding.check.removesuffix(" worker").removeprefix("attempt "),
            f"{finding.state}: {finding.found}{remedy}",
        )
    serving, night = found.production, found.night
    yield (
        "production",
        serving.in_words().partition("\n")[0] if serving else "none; `leap retrain` makes an artifact",
    )
    if night:
        yield "last night", f"{night.night}: {night.version} {'' if night.promoted else 'not '}promoted: {night.reason}"
    else:
        yield "last night", "none has left a report; `leap retrain` runs one"
    if found.figures:
        yield from _of_figures(found.figures)
    if found.letters is not None:
        yield "letters", str(sum(sum(reasons.values()) for reasons in found.letters.values()))
        for worker, reasons in found.letters.items():
            for reason, count in list(reasons.items())[:3]:
                yield "", f"{count} {worker}: {reason}"
    if prices := found.prices:
        age = f", dated {prices.oldest} to {prices.newest}" if prices.oldest else ""
        yield "prices", f"{prices.priced} of {prices.types} types{age}; {prices.unverified} are general knowledge"
    yield from ((name, f"not available: {reason}") for name, reason in found.missing.items())


def _of_figures(figures: "Figures") -> Iterator[tuple[str, str]]:
    silent = ", ".join(f"{count:,} {reason}" for reason, count in figures.no_opinion.items())
    yield "lists", f"{figures.lists:,}; {_percent(figures.ranked)} rank something{silent and f'; no opinion: {silent}'}"
    yield "routed", f"{_percent(figures.hours_ranked)} of accelerator-hours had a list in time"
    yield "", f"{_percent(figures.first_choice)} of the attempts with one ran on its first choice"
    scores = figures.accuracy
    told = f"w20 {scores.w20}, w5 {scores.w5}, MdAPE {scores.mdape}" if scores else "nothing to score"
    yield "accuracy", f"{told}, of {figures.scored:,} attempts"
    yield "coverage", f"{_percent(figures.coverage)} of what was measured had a prediction"
    yield "", f"{_percent(figures.interval)} of it lay in its interval, which means to hold 80%"


def _percent(share: Any) -> str:
    return "unknown share" if share is None else f"{share:.1f}%"
