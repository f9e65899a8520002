"""``leap bootstrap``: give a hardware type that has never run its first history."""

from datetime import timedelta
from typing import Annotated

import msgspec
import typer

from leap.predictor.cli.errors import fail
from leap.predictor.cli.options import Json, Target
from leap.schemas.events import THROUGHPUT
from leap.streams.cli.common import read_settings

app = typer.Typer(no_args_is_help=True, help="Give a hardware type that has never run its first history.")


@app.command()
def plan(
    hardware: Annotated[str, typer.Option(help="Hardware type, by its name in the catalog.")],
    jobs: Annotated[int, typer.Option(min=1, max=1000, help="How many jobs to run there.")] = 20,
    window: Annotated[int, typer.Option(min=1, help="Days of past attempts to choose from.")] = 30,
    target: Target = THROUGHPUT,
    as_json: Json = False,
) -> None:
    """Choose the few jobs that stand for most attempts; run them there, and their completions do the rest.

    Example:
      leap bootstrap plan --hardware H100-SXM-80GB --jobs 20
    """
    from leap.predictor.features.batch import HardwareTable
    from leap.retrainer.bootstrap import plan as choose
    from leap.retrainer.dataset.partitions import Partitions
    from leap.schemas.hardware import load_catalog

    settings = read_settings()
    catalog = load_catalog(settings.catalog)
    known = catalog.resolve(hardware)
    if known is None:
        raise fail(f"{hardware} is not in the catalog: {catalog.why_unlisted(hardware)}; see `leap catalog list`")
    partitions = Partitions(settings.partitions, catalog)
    days = partitions.days()
    if not days:
        raise fail(f"no partitions under {settings.partitions} (LEAP_PARTITIONS); `leap retrain` makes them")
    rows = partitions.read(day for day in days if day > days[-1] - timedelta(days=window))
    try:
        picks = choose(rows, HardwareTable(catalog), known, jobs, target)
    except ValueError as error:
        raise fail(str(error)) from None
    if as_json:
        print(msgspec.json.encode(picks).decode())
        return
    print(f"{'attempts':>8}  {'hours':>9}  {'USD':>10}  {'trainers':>8}  {'batch':>9}  job")
    for pick in picks:
        hours, cost, batch = map(_number, (pick.accelerator_hours, pick.cost, pick.batch_size))
        print(
            f"{pick.attempts:>7.1f}%  {hours:>9}  {cost:>10}  {pick.num_trainers:>8,.0f}  "
            f"{batch:>9}  {pick.family} ({pick.model_type}), as {pick.attempt_id}"
        )
    total = sum(pick.accelerator_hours or 0.0 for pick in picks)
    share = sum(pick.attempts for pick in picks)
    print(f"{len(picks)} jobs of {share:.0f}% of the attempts, {total:,.1f} accelerator-hours on {known}")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"
