"""``leap history``: look at the running statistics, make them anew, and check them."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leap.predictor.cli.errors import fail, writable
from leap.predictor.cli.options import Json, Target
from leap.predictor.cli.terminal import printable
from leap.predictor.features.job_family import family as derived_family
from leap.schemas.events import THROUGHPUT
from leap.streams.cli.common import read_settings

if TYPE_CHECKING:
    from leap.predictor.history.welford import Statistics
    from leap.streams.history.store import HistoryStore
    from leap.streams.runtime.settings import Settings

app = typer.Typer(no_args_is_help=True, help="Running statistics of finished attempts, per family.")

NEAREST = 5


def _families(context: typer.Context, incomplete: str) -> list[str]:
    """For the completion of a shell: families in the store; none if it does not answer."""
    try:
        with _open() as (_, store):
            keys = [
                key for bucket in store.buckets(context.params.get("target") or THROUGHPUT) for key in bucket.statistics
            ]
    except Exception:  # a shell that waits for a line to be completed shows no errors
        return []
    return sorted({key.name for key in keys if key.of == "family" and key.name.startswith(incomplete)})


Family = Annotated[str, typer.Argument(help="A family, or the name of any of its jobs.", autocompletion=_families)]


@app.command()
def show(family: Family, target: Target = THROUGHPUT, as_json: Json = False) -> None:
    """Show what is known of a family, over all hardware and on each type; a job's name does as well.

    Attempts whose completion states a shape stand apart, for each accelerator of theirs.

    Example:
      leap history show resnet50-train
    """
    with _open() as (_, store):
        for name in (family, derived_family(family)):  # a stated family is taken as it is
            statistics = {
                key: value
                for key, value in store.bucket(target, name).statistics.items()
                if key.name == name and key.of != "model_type"
            }
            if statistics:
                break
        else:
            near = ", ".join(_nearest(store, target, name)) or "none; the history has no families yet"
            raise fail(f"no history of family {name!r} for {target}. Nearest names: {near}")
    rows = {(key.per_accelerator, key.hardware_type): _row(value) for key, value in statistics.items()}
    if as_json:
        told = _by_hardware(rows, False) | {"per_accelerator": _by_hardware(rows, True)}
        print(json.dumps({"family": name, "target": target} | told))
        return
    print(f"{printable(name)}: {target}")
    print(f"{'':24} {'attempts':>8} {'typical':>12} {'spread':>8} {'last':>12}  finished")
    for (per_accelerator, hardware_type), row in sorted(rows.items()):
        label = (printable(hardware_type) or "all hardware") + ", each" * per_accelerator
        spread = "" if row["deviation"] is None else f"x{math.exp(row['deviation']):.2f}"
        print(f"{label:24} {row['n']:8} {row['typical']:12.5g} {spread:>8} {row['latest']:12.5g}  {row['last_at']}")


@app.command()
def backup(
    file: Annotated[
        Path, typer.Argument(help="Backup: gzipped JSON lines, some 80 bytes a family.", callback=writable)
    ],
) -> None:
    """Write all statistics to a file from which they can be restored, while workers go on.

    Example:
      leap history backup history.gz
    """
    from leap.streams.history.backup import write_backup

    with _open() as (settings, store):
        print(f"{write_backup(store, settings.targets, file)} statistics in {file}")


@app.command()
def rebuild(as_json: Json = False) -> None:
    """Replay all completions into a new generation of keys, then switch to it; workers go on meanwhile.

    Example:
      leap history rebuild
    """
    _rebuild(None, as_json)


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(help="What `leap history backup` wrote.", exists=True, dir_okay=False)],
    as_json: Json = False,
) -> None:
    """Fill the store from a backup, catch up with the topic, then switch to the result.

    Example:
      leap history restore history.gz
    """
    _rebuild(file, as_json)


@app.command()
def audit(target: Target = THROUGHPUT, as_json: Json = False) -> None:
    """Recompute the statistics from what the topics keep and compare; fails if one lacks something or differs.

    Example:
      leap history audit
    """
    from leap.streams.history.audit import audit as compare

    with _open() as (settings, store):
        if target not in settings.targets:
            raise fail(f"no target {target!r}: LEAP_TARGETS has {', '.join(settings.targets)}")
        done = compare(settings, store, target)
    rows = [
        {
            "kind": difference.key.kind,
            "name": difference.key.name,
            "hardware_type": difference.key.hardware_type or None,
            "stored": difference.stored and _row(difference.stored),
            "expected": difference.expected and _row(difference.expected),
        }
        for difference in done.differences
    ]
    if as_json:
        print(json.dumps({"compared": done.compared, "ahead": done.ahead, "differences": rows}))
    else:
        print(f"{done.compared} statistics compared, {len(rows)} differ")
        if not done.whole:
            print(f"{done.ahead} have more than the topics still keep, and could not be checked further")
        for row in rows[:20]:
            print(printable(f"  {row['kind']} {row['name']} {row['hardware_type'] or ''}"))
            print(f"    stored   {row['stored']}\n    expected {row['expected']}")
    if rows:
        raise fail(
            "`leap history rebuild` makes the statistics anew from the completions that the topic keeps"
            if done.whole
            else "completions have expired from the topic: `leap history restore` takes them from a backup"
        )


def _rebuild(file: Path | None, as_json: bool) -> None:
    from leap.streams.history.rebuild import rebuild as replay

    def progress(messages: int) -> None:
        typer.echo(f"\r{messages} completions replayed", nl=False, err=True)

    with _open() as (settings, store):
        done = replay(settings, store, settings.targets, file, progress)
    typer.echo(err=True)
    if as_json:
        print(json.dumps(asdict(done)))
    else:
        print(
            f"generation {done.generation} is in use for {', '.join(done.targets)}: {done.messages} messages "
            f"replayed, {done.rejected} rejected, {done.repeated} sent more than once"
        )
    if done.missing:
        raise fail(f"up to {done.missing} completions between the backup and the oldest that the topic keeps are lost")


@contextmanager
def _open() -> Iterator[tuple["Settings", "HistoryStore"]]:
    from leap.streams.history.store import HistoryStore
    from leap.streams.redis_store.client import connect

    settings = read_settings()
    with connect(settings.redis_url) as client:
        yield settings, HistoryStore(client, settings.redis_prefix)


def _by_hardware(rows: dict[tuple[bool, str], dict[str, Any]], per_accelerator: bool) -> dict[str, Any]:
    overall = rows.get((per_accelerator, ""), {})
    hardware = {name: row for (per, name), row in rows.items() if per == per_accelerator and name}
    return overall | {"hardware": hardware}


def _row(statistics: "Statistics") -> dict[str, Any]:
    """Mean, deviation and last are of the natural logarithm, as kept; typical and latest are measurements."""
    return {
        "n": statistics.n,
        "mean": statistics.mean,
        "deviation": None if statistics.n < 2 else statistics.deviation,
        "last": statistics.last,
        "last_at": datetime.fromtimestamp(statistics.last_at, UTC).isoformat(),
        "typical": math.exp(statistics.mean),
        "latest": math.exp(statistics.last),
    }


def _nearest(store: "HistoryStore", target: str, name: str) -> list[str]:
    """Families that share the most letters in threes with a name."""
    wanted = _threes(name)
    scored = []
    for bucket in store.buckets(target):
        for key in bucket.statistics:
            if key.of == "family":
                threes = _threes(key.name)
                scored.append((len(wanted & threes) / len(wanted | threes), key.name))
    return [name for score, name in sorted(scored, reverse=True)[:NEAREST] if score > 0]


def _threes(name: str) -> set[str]:
    padded = f"  {name.lower()} "
    return {padded[begin : begin + 3] for begin in range(len(padded) - 2)}
