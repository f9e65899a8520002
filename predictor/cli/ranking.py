"""How ``leap rank`` shows a preference list: as a table, or in the format of another scheduler."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import yaml
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from leap.predictor.cli.errors import fail
from leap.predictor.cli.terminal import printable
from leap.predictor.routing import schedulers
from leap.predictor.routing.physics import Rate
from leap.predictor.routing.provenance import FAMILY_HISTORY
from leap.schemas.events import JobSubmitted, PreferenceList
from leap.schemas.hardware import Catalog
from leap.schemas.preference_candidates import RankedCandidate
from leap.schemas.safe_yaml import read_yaml

#: Names of candidates are shown as they are: none is markup.
console = Console(width=None if sys.stdout.isatty() else 120, markup=False, emoji=False)
NUMBERS = ("samples/s", "80% interval", "USD/h", "score")
#: Columns of a terminal below which a table has but the first of them.
NARROW = 80


def in_format(scheduler: str, answer: PreferenceList, submission: JobSubmitted, names: schedulers.Names) -> str:
    """One hardware type a line (``list``), or YAML, which is JSON's superset for whoever pastes it."""
    if scheduler == "list":
        return "".join(f"{name}\n" for name in schedulers.hardware_types(answer, names))
    formats: dict[str, Callable[[], object]] = {
        "kubernetes": lambda: schedulers.kubernetes(answer, names),
        "skypilot": lambda: schedulers.skypilot(answer, submission.config.accelerators_per_trainer, names),
        "ray": lambda: schedulers.ray(answer, names),
    }
    try:
        return yaml.safe_dump(formats[scheduler](), sort_keys=False)
    except ValueError as error:
        raise fail(str(error)) from None


def read_names(path: Path | None) -> schedulers.Names:
    """What a scheduler calls hardware types."""
    if path is None:
        return schedulers.SAME
    try:
        return msgspec.convert(read_yaml(path), dict[str, str])
    except ValueError as error:
        raise fail(f"{path}: {error}; expected lines such as `H100-SXM-80GB: H100`") from None


def as_table(answer: PreferenceList, rates: Mapping[str, Rate] | None = None) -> Table:
    """Every candidate of a preference list: the ranked, best first, then the excluded; less of each in 60 columns.

    Parameters
    ----------
    rates
        Hardware type to the rate that its prediction amounts to, where work is known.

    A candidate whose interval reaches into that of the first is marked: it may well be the better one.
    """
    title = f"{answer.attempt_id} · {answer.family} · {answer.artifact or 'no artifact'}"
    if answer.no_opinion:
        title += f" · no opinion: {answer.no_opinion}"
    narrow = console.width < NARROW
    table = Table(title=printable(title), title_justify="left", box=SIMPLE_HEAD, pad_edge=not narrow)
    table.add_column("")
    table.add_column("hardware type", overflow="fold")
    names = (*NUMBERS, *(("TFLOP/s each", "of peak") if rates else ()))
    for name in names[:1] if narrow else names:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("rests on (here / in all), or why excluded", overflow="fold")

    def add(rank: str, hardware_type: str, *numbers: str, text: str) -> None:
        table.add_row(rank, *map(printable, (hardware_type, *(numbers[:1] if narrow else numbers), text)))

    ties = tied(answer)
    for rank, candidate in enumerate(answer.ranked, 1):
        outside = f"; not seen in training: {', '.join(candidate.outside)}" if candidate.outside else ""
        add(
            f"{rank} ≈" if candidate.hardware_type in ties else str(rank),
            candidate.hardware_type + (" (pinned)" if candidate.hardware_type == answer.pinned else ""),
            _number(candidate.throughput),
            f"{_number(candidate.lower)} to {_number(candidate.upper)}",
            "" if candidate.cost_per_hour is None else f"{candidate.cost_per_hour:,.2f}",
            _number(candidate.score),
            *_rate(rates, candidate.hardware_type),
            text=f"{candidate.basis} {_attempts(candidate)}{outside}",
        )
    for excluded in answer.excluded:
        cells = _number(excluded.throughput), "", "", "", *_rate(rates, excluded.hardware_type)
        add("–", excluded.hardware_type, *cells, text=excluded.reason)
    return table


def tied(answer: PreferenceList) -> set[str]:
    """Hardware types whose interval, by what they cost, reaches into that of the first choice.

    Intervals are compared as scores are: divided by cost, unless the fastest is asked for.
    """
    bounds = {
        each.hardware_type: (each.lower * each.score / each.throughput, each.upper * each.score / each.throughput)
        for each in answer.ranked
        if each.lower is not None and each.upper is not None and each.throughput > 0
    }
    if len(bounds) < len(answer.ranked) or len(bounds) < 2:
        return set()
    least = bounds[answer.ranked[0].hardware_type][0]
    return {name for name, (_, highest) in list(bounds.items())[1:] if highest >= least}


def notes(answer: PreferenceList, catalog: Catalog) -> str:
    """What scores and marks of the table mean, and how old the prices are that decide."""
    if not answer.ranked:
        return ""
    fastest = answer.objective == "fastest"
    told = [f"Score: {'samples/s' if fastest else 'samples/s per USD/h'}."]
    if tied(answer):
        told.append("≈: its interval reaches into that of the first choice.")
    ranked = [catalog.get(each.hardware_type) for each in answer.ranked if each.cost_per_hour is not None]
    priced = [entry for entry in ranked if entry is not None and entry.price_date]
    if priced and not fastest:
        dates = sorted({entry.price_date for entry in priced if entry.price_date})
        told.append(f"Prices of the artifact's catalog are of {' to '.join(dict.fromkeys((dates[0], dates[-1])))}")
        unsure = [entry.name for entry in priced if "price_per_hour" in entry.unverified]
        told[-1] += f"; general knowledge: {', '.join(unsure)}." if unsure else "."
    return " ".join(told)


def _attempts(candidate: RankedCandidate) -> str:
    if candidate.basis != FAMILY_HISTORY:
        return f"({candidate.observations})"
    return f"({candidate.here} / {candidate.observations})"


def _rate(rates: Mapping[str, Rate] | None, hardware_type: str) -> tuple[str, ...]:
    if not rates:
        return ()
    if (rate := rates.get(hardware_type)) is None:
        return "", ""
    return _number(rate.achieved / 1e12), f"{rate.utilisation:.0%} {rate.precision}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"
