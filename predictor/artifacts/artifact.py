"""An artifact: an immutable directory that holds all that serving needs.

``manifest.json`` names every other file with its length and digest; nothing is read before it is verified.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from leap.predictor.artifacts import manifest as manifests
from leap.predictor.artifacts.manifest import ArtifactError, FileEntry, Manifest
from leap.predictor.artifacts.signing import FILE as SIGNATURES
from leap.predictor.features import matrix
from leap.predictor.features.batch import HardwareTable, Indices, JobBatch, strings
from leap.predictor.features.matrix import CandidateRows, RowFeatures
from leap.predictor.history.definitions import FILE as DEFINITIONS_FILE
from leap.predictor.history.definitions import MAX_BYTES, Definitions
from leap.predictor.history.snapshot import Snapshot
from leap.predictor.models.serving import Model, Prediction
from leap.predictor.models.serving import load as load_model
from leap.predictor.storage.bounded import bounded_read
from leap.predictor.storage.fsync import sync, sync_folder
from leap.predictor.storage.whole_file import naming
from leap.schemas.events import JobSubmitted
from leap.schemas.hardware import Catalog

CATALOG_FILE = "catalog.json"


@dataclass(frozen=True)
class Artifact:
    """A loaded artifact.

    Attributes
    ----------
    table
        The catalog in force when it was made, as columns.
    definitions
        What was known of each model type then.
    """

    manifest: Manifest
    model: Model
    snapshot: Snapshot
    catalog: Catalog
    table: HardwareTable
    definitions: Definitions

    def job_batch(self, submissions: Sequence[JobSubmitted]) -> JobBatch:
        """Columns of submissions; one without a definition has the one that is known of its model type."""
        return JobBatch.from_events(submissions, self.definitions.by_type)

    def candidate_rows(self, jobs: JobBatch, job: Indices, hardware_types: Sequence[str]) -> CandidateRows:
        """Rows of a job, by its position in `jobs`, and a hardware type each, with their history.

        A type whose chip is listed only in another form or memory size is taken for that entry.
        """
        names = list(map(self.catalog.known_as, hardware_types))
        history = self.snapshot.find(jobs, job, names)
        return CandidateRows(jobs, self.table, job, strings(names), history)

    def features(self, rows: CandidateRows) -> RowFeatures:
        """Features of rows, of which the matrix has the columns in the order that the model takes."""
        return RowFeatures(rows, self.manifest.vocabulary, self.manifest.imputed)

    def predict(self, features: RowFeatures) -> Prediction:
        """What the model says of every row; the matrix is built only for a model that reads it."""
        rows = features.rows
        read = features.matrix if self.model.reads_matrix else np.empty((len(rows), 0), dtype=np.float32)
        return self.model.predict(rows, read)


def load(folder: Path) -> Artifact:
    """Verify and load an artifact; its folder has the name of its version.

    Raises
    ------
    ArtifactError
        If it is another version, a file is missing, torn or not what the manifest says, or the features are not
        those of this version of Leap.
    """
    try:
        manifest = manifests.decode(bounded_read(folder / manifests.FILE, manifests.MAX_MANIFEST_BYTES))
        if manifest.version != folder.name:
            raise ArtifactError(f"{folder}: holds the artifact {manifest.version}; put it in its place")
        _verify(folder, manifest)
        features = matrix.names(manifest.vocabulary)
        if manifest.features_digest != matrix.digest(features) or manifest.features != features:
            raise ArtifactError(f"{folder}: its features are not those of this version; retrain or upgrade")
        catalog = Catalog.from_json((folder / CATALOG_FILE).read_bytes())
        if catalog.digest != manifest.catalog_digest:
            raise ArtifactError(f"{folder}/{CATALOG_FILE}: not the catalog that the manifest names")
        return Artifact(
            manifest=manifest,
            model=load_model(folder, len(features)),
            snapshot=Snapshot.load(folder),
            catalog=catalog,
            table=HardwareTable(catalog),
            definitions=_definitions(folder, manifest),
        )
    except ArtifactError:
        raise
    except Exception as error:  # what a hostile file ends in cannot be foreseen
        raise ArtifactError(f"{folder}: {error}; promote another artifact or publish this one again") from error


def _definitions(folder: Path, manifest: Manifest) -> Definitions:
    if DEFINITIONS_FILE not in manifest.files:  # an artifact of before they were kept
        return Definitions()
    return Definitions.from_json(bounded_read(folder / DEFINITIONS_FILE, MAX_BYTES))


def write(parent: Path, manifest: Manifest, catalog: Catalog, write_files: Callable[[Path], None]) -> Path:
    """Write an artifact beside its final name, make it durable, then rename it into place.

    Parameters
    ----------
    parent
        Directory that the artifact becomes a child of.
    manifest
        Without version and files, which follow from what is written.
    write_files
        Writes model and snapshot into the directory that it is given.

    Returns
    -------
    Path
        ``parent/version``. The same content and time give the same version and change nothing.
    """
    parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=parent))
    try:
        with naming(parent):
            write_files(draft)
            (draft / CATALOG_FILE).write_bytes(catalog.to_json())
        files = {path.name: FileEntry.of(path) for path in sorted(draft.iterdir())}
        digest = hashlib.sha256("".join(f"{name}:{entry.sha256};" for name, entry in files.items()).encode())
        version = f"{manifest.target}-{manifest.created_at:%Y%m%dT%H%M%SZ}-{digest.hexdigest()[:12]}"
        final = msgspec.structs.replace(manifest, version=version, files=files)
        (draft / manifests.FILE).write_bytes(manifests.encode(final))
        sync_folder(draft)
        destination = parent / version
        if not destination.exists():
            draft.chmod(0o755)
            draft.rename(destination)
            sync(parent)
        return destination
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _verify(folder: Path, manifest: Manifest) -> None:
    for name, entry in manifest.files.items():
        path = folder / name
        if path.is_symlink() or path.stat().st_size != entry.bytes:
            raise ArtifactError(f"{path}: not the {entry.bytes} bytes that the manifest names; fetch it again")
        if FileEntry.of(path) != entry:
            raise ArtifactError(f"{path}: its digest is not the manifest's; fetch it again")
    for name in (CATALOG_FILE, *Snapshot.REQUIRED):
        if name not in manifest.files:
            raise ArtifactError(f"{folder}: {name} is not in the manifest; publish the artifact again")
    # A file that nobody vouches for could take the place of one that is vouched for.
    for name in sorted({path.name for path in folder.iterdir()} - manifest.files.keys() - {manifests.FILE, SIGNATURES}):
        if not name.startswith("."):
            raise ArtifactError(f"{folder}: {name} is not in the manifest; remove it or promote another artifact")
