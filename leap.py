"""The ``leap`` command: each floor's commands under one name.

A floor whose extra is not installed is left out, and its commands say what to install.
"""

from importlib import import_module

import typer

#: Command, where it is defined, and the extra that brings what it imports. A name that is a group is an app.
COMMANDS: tuple[tuple[str, str, str], ...] = (
    ("demo", "retrainer.cli:demo", "retrainer"),
    ("rank", "predictor.cli:rank", ""),
    ("artifact", "predictor.cli:app", ""),
    ("describe", "predictor.describe_cli:describe", ""),
    ("schemas", "schemas.cli:app", ""),
    ("topics", "streams.topics_cli:app", "streams"),
    ("worker", "streams.worker_cli:app", "streams"),
    ("history", "streams.history_cli:app", "streams"),
    ("switch", "streams.switch_cli:app", "streams"),
    ("services", "streams.services_cli:services", "embedded"),
    ("letters", "streams.letters_cli:letters", "streams"),
    ("doctor", "streams.doctor_cli:doctor", "streams"),
    ("explain", "streams.explain_cli:explain", "streams"),
    ("backfill", "streams.backfill_cli:backfill", "streams"),
    ("fleet", "streams.fleet.cli:app", "streams"),
    ("retrain", "retrainer.cli:retrain", "retrainer"),
    ("backtest", "retrainer.backtest_cli:backtest", "retrainer"),
    ("holdout", "retrainer.backtest_cli:holdout", "retrainer"),
    ("ablate", "retrainer.ablation.cli:ablate", "retrainer"),
    ("replay", "retrainer.replay_cli:replay", "retrainer"),
    ("report", "retrainer.report_cli:report", "retrainer"),
    ("bootstrap", "retrainer.bootstrap_cli:app", "retrainer"),
    ("bench", "retrainer.bench_cli:app", "retrainer"),
)

FLOORS = ("schemas", "predictor", "streams", "retrainer")

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    help="Look before you launch: predicted training throughput per hardware type, as a ranked preference list.",
)


def _mount(name: str, place: str, extra: str) -> None:
    module, attribute = place.split(":")
    try:
        found = getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        missing = error.name
        if not extra or (missing or "").partition(".")[0] in FLOORS:
            raise

        def explain() -> None:
            typer.secho(f"{missing} is not installed; run: pip install 'leap[{extra}]'", fg="red", err=True)
            raise typer.Exit(1)

        app.command(name, help=f"(needs the extra {extra})")(explain)
        return
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name)
    else:
        app.command(name)(found)


def main() -> None:
    """Run the command."""
    for name, place, extra in COMMANDS:
        _mount(name, place, extra)
    app()


if __name__ == "__main__":
    main()
