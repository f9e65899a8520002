"""``leap artifact``: list, show, promote, sign and remove artifacts."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from leap.predictor.artifacts.manifest import ArtifactError, decode
from leap.predictor.artifacts.open import open_store
from leap.predictor.artifacts.signing import SigningKey
from leap.predictor.artifacts.store import ArtifactStore, Pointer, pointer_or_none, prune
from leap.predictor.cli.completion import versions
from leap.predictor.cli.errors import fail, writable
from leap.predictor.cli.options import STORE, Artifacts, Json, Target, TrustedKeys
from leap.predictor.cli.terminal import printable
from leap.predictor.storage.whole_file import write_whole
from leap.schemas.distribution import install_command
from leap.schemas.events import THROUGHPUT

app = typer.Typer(no_args_is_help=True, help="List, show, promote and remove artifacts.")

Version = Annotated[str, typer.Argument(help="As `leap artifact list` names it.", autocompletion=versions)]


@app.command("list")
def list_artifacts(
    artifacts: Artifacts = STORE,
    target: Target = THROUGHPUT,
    partitions: Annotated[
        str, typer.Option(envvar="LEAP_PARTITIONS", help="Path or fsspec URL of the reports, which say why.")
    ] = ".leap/partitions",
    as_json: Json = False,
) -> None:
    """List all artifacts of a target, oldest first: date, recipe, w20, rows, and why one was not promoted.

    Example:
      leap artifact list
    """
    from leap.predictor.artifacts.inventory import inventory

    store = open_store(artifacts)
    try:
        pointer = store.pointer(target)
    except ArtifactError as error:  # the remedy, to promote one, needs the names
        typer.secho(str(error), fg="red", err=True)
        pointer = None
    rows = inventory(store, target, pointer, partitions)
    if not rows:
        raise fail(f"no artifacts of {target} under {artifacts}; `leap retrain` makes one")
    if as_json:
        told = {"production": pointer, "versions": [row.version for row in rows], "artifacts": rows}
        print(msgspec.json.encode(told).decode())
        return
    for row in rows:
        print(printable(row.in_words()))


@app.command()
def show(version: Version, artifacts: Artifacts = STORE, target: Target = THROUGHPUT) -> None:
    """Print the manifest of one artifact, as JSON.

    Example:
      leap artifact show 20260101T003000
    """
    data = open_store(artifacts).manifest(target, version)
    decode(data)
    print(data.decode())


@app.command()
def promote(
    version: Version,
    artifacts: Artifacts = STORE,
    target: Target = THROUGHPUT,
    reason: Annotated[str, typer.Option(help="Why; kept in the pointer.")] = "promoted by hand",
    trusted_keys: TrustedKeys = "",
) -> None:
    """Move production to an artifact.

    Example:
      leap artifact promote 20260101T003000 --reason "passed the replay"
    """
    _move(open_store(artifacts, trusted_keys=trusted_keys), target, version, reason, pinned=False)


@app.command()
def pin(
    version: Version, artifacts: Artifacts = STORE, target: Target = THROUGHPUT, trusted_keys: TrustedKeys = ""
) -> None:
    """Move production to an artifact and hold it there: training does not move it until `leap artifact promote`.

    Example:
      leap artifact pin 20260101T003000
    """
    _move(open_store(artifacts, trusted_keys=trusted_keys), target, version, "pinned by hand", pinned=True)


@app.command()
def rollback(artifacts: Artifacts = STORE, target: Target = THROUGHPUT, trusted_keys: TrustedKeys = "") -> None:
    """Move production back to what it was before.

    Example:
      leap artifact rollback
    """
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
    """Add a signature to an artifact.

    Example:
      leap artifact sign 20260101T003000 --key signing.pem
    """
    signing_key = SigningKey(key)
    open_store(artifacts).sign(target, version, signing_key)
    print(f"{version} is signed by {signing_key.fingerprint}")


@app.command()
def verify(
    version: Version, artifacts: Artifacts = STORE, target: Target = THROUGHPUT, trusted_keys: TrustedKeys = ""
) -> None:
    """Load an artifact and rank its examples as a launcher would, and say what is wrong with it.

    Example:
      leap artifact verify 20260101T003000 --trusted-keys trusted.pem
    """
    from leap.predictor.routing.trial import load  # loads numpy

    manifest = load(open_store(artifacts, trusted_keys=trusted_keys).folder(target, version)).manifest
    print(f"{version} can be served: {manifest.recipe}, {manifest.rows} rows{', signed' if trusted_keys else ''}")


@app.command()
def export(
    version: Version,
    onnx: Annotated[Path, typer.Option(help="File to write the graph to.", callback=writable)],
    artifacts: Artifacts = STORE,
    target: Target = THROUGHPUT,
) -> None:
    """Write the trees of an artifact as an ONNX graph, over the features that `leap artifact show` names.

    Example:
      leap artifact export 20260101T003000 --onnx model.onnx
    """
    from leap.predictor.artifacts.artifact import load  # loads numpy
    from leap.predictor.models.serving import TreesModel

    try:
        from leap.predictor.models.trees.onnx_export import export_graph
    except ModuleNotFoundError as error:
        raise fail(f"a graph needs the package {error.name}; run: {install_command('onnx')}") from None
    artifact = load(open_store(artifacts).folder(target, version))
    if not isinstance(artifact.model, TreesModel):
        raise fail(f"{version}: the recipe {artifact.manifest.recipe} has no trees, and no ONNX graph")
    write_whole(onnx, export_graph(artifact.model.trees))
    print(f"{onnx}: {artifact.manifest.recipe}, {len(artifact.manifest.features)} features")


@app.command("prune")
def prune_artifacts(
    keep: Annotated[int, typer.Option(help="Newest artifacts to keep.", min=1)] = 30,
    artifacts: Artifacts = STORE,
    target: Target = THROUGHPUT,
) -> None:
    """Remove old artifacts, never the one in production nor the one before it.

    Example:
      leap artifact prune --keep 30
    """
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
