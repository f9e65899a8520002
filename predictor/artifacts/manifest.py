"""The manifest of an artifact: what it is, what it was made from, and what each of its files must be."""

import hashlib
import re
from datetime import datetime
from pathlib import Path
from typing import Annotated, Self

import msgspec
from msgspec import Meta

from leap.predictor.features.history import Imputation
from leap.predictor.features.target_encoding import TargetEncoder
from leap.predictor.models.conformal import Interval
from leap.schemas.errors import LeapError

#: Raise it when a loader of the version before could misread an artifact. Procedure: add the new form, keep
#: the loader of the old one for a retention period, keep an artifact of the old one in the tests, then drop.
FORMAT = 1
FILE = "manifest.json"
MAX_MANIFEST_BYTES = 16 * 1024 * 1024
MAX_FILES = 128
#: Of all files together. A night at 750,000 rows makes some 50 MB.
MAX_TOTAL_BYTES = 2 * 2**30
#: Flat and plain: no path of an artifact can leave its directory.
FILE_NAME = re.compile(r"[a-z0-9][a-z0-9_]{0,63}\.(json|onnx|npy)")


class ArtifactError(LeapError, ValueError):
    """An artifact that must not be served; the text says which file and what to do."""


class FileEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Length and SHA-256 (hexadecimal) of one file."""

    bytes: Annotated[int, Meta(ge=0, le=2**33)]
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]

    @classmethod
    def of(cls, path: Path) -> Self:
        """Those of a file as it is now."""
        with path.open("rb") as file:
            return cls(bytes=path.stat().st_size, sha256=hashlib.file_digest(file, "sha256").hexdigest())


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """Least and greatest value of a feature in the training window."""

    low: float
    high: float


class Manifest(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One artifact; equal to itself alone, so that what follows from it is kept.

    Attributes
    ----------
    version
        Its name: target, time and digest.
    window_from, window_to
        First and last day of attempts that it was trained on.
    recipe
        The champion's name in the recipe table.
    features, features_digest
        Columns of the matrix that its model takes, and :func:`leap.predictor.features.matrix.digest` of them.
    ranges
        Feature to its range in training.
    interval
        Calibrated on the held-out day.
    metrics
        Figures of the held-out day.
    libraries
        Versions that trained it.
    fences
        Source (topic id/partition) to the greatest offset of a completion in its history: later ones are not in
        it. None if the history was worked out from the feature table.
    files
        Every other file of the directory.
    """

    format: int = FORMAT
    version: str
    target: str
    created_at: datetime
    window_from: str
    window_to: str
    rows: int
    recipe: str
    features: tuple[str, ...]
    features_digest: str
    vocabulary: TargetEncoder
    imputed: Imputation
    ranges: dict[str, Range]
    interval: Interval
    metrics: dict[str, float]
    catalog_digest: str
    libraries: dict[str, str]
    fences: dict[str, int] = {}
    files: Annotated[dict[str, FileEntry], Meta(max_length=MAX_FILES)]


def encode(manifest: Manifest) -> bytes:
    """Indented JSON."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1)


def decode(data: bytes) -> Manifest:
    """Read a manifest.

    Raises
    ------
    ArtifactError
        If it is not one of this format.
    """
    if len(data) > MAX_MANIFEST_BYTES:
        raise ArtifactError(f"{FILE}: over the limit of {MAX_MANIFEST_BYTES} bytes")
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ArtifactError(f"{FILE}: {error}; publish the artifact again") from error
    if manifest.format != FORMAT:
        raise ArtifactError(f"{FILE}: format {manifest.format}, this version reads {FORMAT}; upgrade or retrain")
    for name in manifest.files:
        if not FILE_NAME.fullmatch(name):
            raise ArtifactError(f"{FILE}: {name!r} is not a file name of an artifact; do not trust its source")
    if (size := sum(entry.bytes for entry in manifest.files.values())) > MAX_TOTAL_BYTES:
        raise ArtifactError(f"{FILE}: files of {size} bytes, over the limit of {MAX_TOTAL_BYTES}")
    return manifest
