"""Commands that need an artifact and nothing else: ``leap rank`` and ``leap artifact``."""

import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer
import yaml
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from leap.predictor.artifacts.manifest import FILE as MANIFEST
from leap.predictor.artifacts.manifest import ArtifactError, decode
from leap.predictor.artifacts.open import open_store
from leap.predictor.artifacts.signing import SigningKey
from leap.predictor.artifacts.store import ArtifactStore, Pointer, pointer_or_none, prune
from leap.predictor.cli.errors import fail
from leap.predictor.routing import schedulers as outputs
from leap.predictor.routing.explain import explain
from leap.predictor.routing.rollout import premium_efficiency
from leap.schemas import codec
from leap.schemas.distribution import install_command
from leap.schemas.events import THROUGHPUT, JobSubmitted, PreferenceList
from leap.schemas.safe_yaml import read_yaml


class Output(StrEnum):
    """Who is to read a preference list."""

    json = "json"
    list = "list"
    kubernetes = "kubernetes"
    skypilot = "skypilot"
    ray = "ray"


app = typer.Typer(no_args_is_help=True, help="List, show, promote and remove artifacts.")

Artifacts = Annotated[str, typer.Option(envvar="LEAP_ARTIFACTS", help="Path or fsspec URL of the artifacts.")]
Target = Annotated[str, typer.Option(help="Prediction target.")]
Json = Annotated[bool, typer.Option("--json", help="JSON, for a program to read.")]
TrustedKeys = Annotated[
    str, typer.Option(envvar="LEAP_TRUSTED_KEYS", help="File of public keys, of which one must have signed.")
]
Version = Annotated[str, typer.Argument(help="As `leap artifact list` names it.")]
STORE = ".leap/artifacts"

console = Console(width=None if sys.stdout.isatty() else 120)


def rank(
    job: Annotated[Path, typer.Argument(help="A JobSubmitted event as JSON.", exists=True, dir_okay=False)],
    artifacts: Artifacts = STORE,
    version: Annotated[str | None, typer.Option(help="Rank with this artifact, not the one in production.")] = None,
    trusted_keys: TrustedKeys = "",
    as_json: Json = False,
    output: Annotated[Output | None, typer.Option("--as", help="In the words of another scheduler.")] = None,
    names: Annotated[
        Path | None, typer.Option(help="YAML: hardware type to what that scheduler calls it.", exists=True)
    ] = None,
    explained: Annotated[bool, typer.Option("--explain", help="The terms of every score, in words.")] = False,
) -> None:
    """Rank the hardware types of one job and show every candidate."""
    from leap.predictor.routing.router import Router  # loads numpy, which the other commands need not wait for

    try:
        submission = codec.decode(job.read_bytes(), JobSubmitted)
    except codec.Rejected as rejected:
        raise fail(f"{job}: {rejected}. `leap schemas show job-submitted` tells what is expected") from None
    if sum((as_json, output is not None, explained)) > 1:
        raise fail("--json, --as and --explain are three ways to answer; name one")
    try:
        router = Router(open_store(artifacts, trusted_keys=trusted_keys), version=version)
    except ValueError as error:
        raise fail(str(error)) from None
    router.load()
    if router.artifact is None:
        raise fail(f"nothing of {THROUGHPUT} is in production under {artifacts}; `leap retrain` makes an artifact")
    [answer] = router.rank_many([submission])
    if as_json or output is Output.json:
        print(codec.encode(answer).decode())
    elif output:
        print(_in_words_of(output, answer, submission, _names(names)), end="")
    elif explained:
        print(explain(answer, submission, router.artifact.catalog, None, premium_efficiency(os.environ)))
    else:
        console.print(as_table(answer))


def _in_words_of(output: Output, answer: PreferenceList, submission: JobSubmitted, names: outputs.Names) -> str:
    """One hardware type a line, or YAML, which is JSON's superset for whoever pastes it."""
    if output is Output.list:
        return "".join(f"{name}\n" for name in outputs.hardware_types(answer, names))
    made: dict[Output, Callable[[], object]] = {
        Output.kubernetes: lambda: outputs.kubernetes(answer, names),
        Output.skypilot: lambda: outputs.skypilot(answer, submission.config.accelerators_per_trainer, names),
        Output.ray: lambda: outputs.ray(answer, names),
    }
    try:
        return yaml.safe_dump(made[output](), sort_keys=False)
    except ValueError as error:
        raise fail(str(error)) from None


def _names(path: Path | None) -> outputs.Names:
    if path is None:
        return outputs.SAME
    try:
        return msgspec.convert(read_yaml(path), dict[str, str])
    except ValueError as error:
        raise fail(f"{path}: {error}; expected lines such as `H100-SXM-80GB: H100`") from None


def as_table(answer: PreferenceList) -> Table:
    """Every candidate of a preference list: the ranked, best first, then the excluded."""
    title = f"{answer.attempt_id} · {answer.family} · {answer.artifact or 'no artifact'}"
    if answer.no_opinion:
        title += f" · no opinion: {answer.no_opinion}"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    table.add_column("")
    table.add_column("hardware type", no_wrap=True)
    for name in ("samples/s", "80% interval", "USD/h", "score"):
        table.add_column(name, justify="right")
    table.add_column("basis (observations), or why excluded")
    for place, found in enumerate(answer.ranked, 1):
        outside = f"; outside training: {', '.join(found.outside)}" if found.outside else ""
        table.add_row(
            str(place),
            found.hardware_type + (" (pinned)" if found.hardware_type == answer.pinned else ""),
            _number(found.throughput),
            f"{_number(found.lower)} to {_number(found.upper)}",
            f"{found.cost_per_hour:,.2f}",
            _number(found.score),
            f"{found.basis} ({found.observations}){outside}",
        )
    for left_out in answer.excluded:
        table.add_row("–", left_out.hardware_type, _number(left_out.throughput), "", "", "", left_out.reason)
    return table


@app.command("list")
def list_artifacts(artifacts: Artifacts = STORE, target: Target = THROUGHPUT, as_json: Json = False) -> None:
    """All artifacts of a target, oldest first."""
    store = open_store(artifacts)
    try:
        pointer = store.pointer(target)
    except ArtifactError as error:  # the remedy, to promote one, needs the names
        typer.secho(str(error), fg="red", err=True)
        pointer = None
    versions = store.versions(target)
    if not versions:
        raise fail(f"no artifacts of {target} under {artifacts}; `leap retrain` makes one")
    if as_json:
        print(msgspec.json.encode({"production": pointer, "versions": versions}).decode())
        return
    for version in versions:
        print(f"{version}{'  in production' if pointer and pointer.version == version else ''}")


@app.command()
def show(version: Version, artifacts: Artifacts = STORE, target: Target = THROUGHPUT) -> None:
    """The manifest of one artifact, as JSON."""
    data = (open_store(artifacts).folder(target, version) / MANIFEST).read_bytes()
    decode(data)
    print(data.decode())


@app.command()
def promote(
    version: Version,
    artifacts: Artifacts = STORE,
    target: Target = THROUGHPUT,
    reason: Annotated[str, typer.Option(help="Why, for the record.")] = "promoted by hand",
    trusted_keys: TrustedKeys = "",
) -> None:
    """Move production to an artifact."""
    _move(open_store(artifacts, trusted_keys=trusted_keys), target, version, reason, pinned=False)


@app.command()
def pin(
    version: Version, artifacts: Artifacts = STORE, target: Target = THROUGHPUT, trusted_keys: TrustedKeys = ""
) -> None:
    """Move production to an artifact and hold it there: nights do not move it until `leap artifact promote`."""
    _move(open_store(artifacts, trusted_keys=trusted_keys), target, version, "pinned by hand", pinned=True)


@app.command()
def rollback(artifacts: Artifacts = STORE, target: Target = THROUGHPUT, trusted_keys: TrustedKeys = "") -> None:
    """Move production back to what it was before."""
    store = open_store(artifacts, trusted_keys=trusted_keys)
    pointer = store.pointer(target)
    if pointer is None or pointer.previous is None:
        raise fail(f"production of {target} has no version before it; see `leap artifact list`")
    _move(store, target, pointer.previous, f"rolled back from {pointer.version}", pinned=False)


@app.command()
def sign(
    version: Version,
    key: Annotated[Path, typer.Option(envvar="LEAP_SIGNING_KEY", help="File of an Ed25519 private key (PEM).")],
    artifacts: Artifacts = STORE,
    target: Target = THROUGHPUT,
) -> None:
    """Put a signature beside those that an artifact has."""
    signing_key = SigningKey(key)
    open_store(artifacts).sign(target, version, signing_key)
    print(f"{version} is signed by {signing_key.fingerprint}")


@app.command()
def verify(
    version: Version, artifacts: Artifacts = STORE, target: Target = THROUGHPUT, trusted_keys: TrustedKeys = ""
) -> None:
    """Load an artifact and rank its examples as a launcher would, and say what is wrong with it."""
    from leap.predictor.routing.trial import load  # loads numpy

    manifest = load(open_store(artifacts, trusted_keys=trusted_keys).folder(target, version)).manifest
    print(f"{version} can be served: {manifest.recipe}, {manifest.rows} rows{', signed' if trusted_keys else ''}")


@app.command()
def export(
    version: Version,
    onnx: Annotated[Path, typer.Option(help="File to write the graph to.")],
    artifacts: Artifacts = STORE,
    target: Target = THROUGHPUT,
) -> None:
    """Write the trees of an artifact as an ONNX graph, over the features that `leap artifact show` names."""
    from leap.predictor.artifacts.artifact import load  # loads numpy
    from leap.predictor.models.serving import TreesModel

    try:
        from leap.predictor.models.trees.onnx_export import export_graph
    except ModuleNotFoundError as error:
        raise fail(f"a graph needs the package {error.name}; run: {install_command('onnx')}") from None
    artifact = load(open_store(artifacts).folder(target, version))
    if not isinstance(artifact.model, TreesModel):
        raise fail(f"{version}: the recipe {artifact.manifest.recipe} has no trees, and no ONNX graph")
    onnx.write_bytes(export_graph(artifact.model.trees))
    print(f"{onnx}: {artifact.manifest.recipe}, {len(artifact.manifest.features)} features")


@app.command("prune")
def prune_artifacts(
    keep: Annotated[int, typer.Option(help="Newest artifacts to keep.", min=1)] = 30,
    artifacts: Artifacts = STORE,
    target: Target = THROUGHPUT,
) -> None:
    """Remove old artifacts, never the one in production nor the one before it."""
    for version in prune(open_store(artifacts), target, keep):
        print(f"removed {version}")


def _move(store: ArtifactStore, target: str, version: str, reason: str, *, pinned: bool) -> None:
    from leap.predictor.routing.trial import load  # loads numpy

    pointer = pointer_or_none(store, target)
    before = pointer.version if pointer else None
    # To hold production where it is must not lose the way back.
    previous = pointer.previous if pointer and version == before else before
    moved = Pointer(version=version, previous=previous, reason=reason, moved_at=datetime.now(UTC), pinned=pinned)
    load(store.folder(target, version))
    store.move(target, moved, pointer)
    print(f"production of {target}: {version} (was {before or 'nothing'}){', pinned' if pinned else ''}")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"
