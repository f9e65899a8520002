"""A trial before a swap: an artifact ranks the jobs that it carries, and must answer as it did when it was made.

Digests say that its files are those that were written. This says that what is read from them still works here.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from leap.predictor.artifacts import artifact as artifacts
from leap.predictor.artifacts.artifact import Artifact
from leap.predictor.artifacts.manifest import ArtifactError
from leap.predictor.routing.ranking import Policy, rank
from leap.predictor.storage.bounded import bounded_read
from leap.schemas.codec import Rejected, decode, encode
from leap.schemas.events import JobSubmitted, PreferenceList

FILE = "examples.json"
MAX_EXAMPLES = 8
MAX_BYTES = 1_048_576
#: Relative difference between numbers that are the same.
TOLERANCE = 1e-6

Numbers = dict[str, tuple[float | None, ...]]


class TrialError(ArtifactError):
    """An artifact does not answer its examples as it did when it was made; the text says how."""


class Example(msgspec.Struct, frozen=True):
    """A submission and its preference list, as JSON."""

    submission: msgspec.Raw
    answer: msgspec.Raw


_decoder = msgspec.json.Decoder(Annotated[tuple[Example, ...], Meta(max_length=MAX_EXAMPLES)])


def save_examples(folder: Path, artifact: Artifact, submissions: Sequence[JobSubmitted]) -> None:
    """Write up to 8 submissions, with the lists that an artifact gives, among its files."""
    chosen = submissions[:MAX_EXAMPLES]
    answers = rank(artifact, chosen, Policy(), artifact.manifest.created_at)
    pairs = zip(chosen, answers, strict=True)
    examples = [Example(*(msgspec.Raw(encode(event)) for event in pair)) for pair in pairs]
    (folder / FILE).write_bytes(msgspec.json.encode(examples))


def load(folder: Path) -> Artifact:
    """Load an artifact and try its examples; one that was made without them is not tried.

    Raises
    ------
    ArtifactError
        As :func:`leap.predictor.artifacts.artifact.load`.
    TrialError
        If an example is not answered as it was.
    """
    artifact = artifacts.load(folder)
    if FILE not in artifact.manifest.files:
        return artifact
    try:
        examples = _decoder.decode(_read(folder / FILE))
        submissions = [decode(bytes(example.submission), JobSubmitted) for example in examples]
        expected = [decode(bytes(example.answer), PreferenceList) for example in examples]
        answers = rank(artifact, submissions, Policy(), artifact.manifest.created_at)
    except Exception as error:  # what a hostile file ends in cannot be foreseen
        reason = str(error) if isinstance(error, ArtifactError | Rejected) else f"{type(error).__name__}: {error}"
        raise TrialError(f"{folder / FILE}: its examples are not ranked: {reason}; {_REMEDY}") from error
    for before, now in zip(expected, answers, strict=True):
        if difference := _difference(before, now):
            raise TrialError(f"{folder / FILE}: {now.attempt_id} is answered otherwise: {difference}; {_REMEDY}")
    return artifact


_REMEDY = "promote another artifact, or run a night with this version of Leap"


def _read(path: Path) -> bytes:
    data = bounded_read(path, MAX_BYTES)
    if len(data) > MAX_BYTES:
        raise ArtifactError(f"over the limit of {MAX_BYTES} bytes")
    return data


def _difference(before: PreferenceList, now: PreferenceList) -> str | None:
    """The first hardware type with other numbers, or ranked where it was not; the order follows from the scores."""
    expected, actual = _numbers(before), _numbers(now)
    for name in expected.keys() | actual.keys():
        if not _same(expected.get(name), actual.get(name)):
            return f"{name} {actual.get(name)}, was {expected.get(name)}"
    return None


def _numbers(answer: PreferenceList) -> Numbers:
    numbers: Numbers = {candidate.hardware_type: (candidate.throughput,) for candidate in answer.excluded}
    return numbers | {
        candidate.hardware_type: (
            candidate.throughput,
            candidate.lower,
            candidate.upper,
            candidate.cost_per_hour,
            candidate.score,
        )
        for candidate in answer.ranked
    }


def _same(before: tuple[float | None, ...] | None, now: tuple[float | None, ...] | None) -> bool:
    if before is None or now is None or len(before) != len(now):
        return False
    return np.allclose(np.array(now, float), np.array(before, float), rtol=TOLERANCE, atol=0.0, equal_nan=True)
