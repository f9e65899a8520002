"""Importance by permutation (Breiman 2001, Random Forests): what w20 loses when attempts exchange something.

Inputs are exchanged before features are made of them: so any model can be asked, and what follows from an input (its
ratios, its history) goes with it. Of trees single features are asked too, as the paper does.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from leap.predictor.artifacts.artifact import Artifact
from leap.predictor.features.batch import NAMES, NUMBERS, Floats, Indices
from leap.predictor.features.matrix import CandidateRows
from leap.predictor.models.accuracy import within
from leap.predictor.models.serving import TreesModel
from leap.retrainer.dataset.point_in_time import COLUMNS
from leap.retrainer.dataset.training_set import TrainingSet
from leap.retrainer.report.subject import Subject

ROWS = 600
REPEATS = 2
#: Category to its inputs: numbers and names of a configuration, and what else tells one attempt from another.
CATEGORIES: dict[str, tuple[str, ...]] = {
    "scale": NUMBERS,
    "architecture": ("architecture",),
    "hardware": ("hardware_type",),
    "history": ("family",),
    "names": ("model_type", *NAMES, "extra"),
}
LABELS = {"family": "family, and its history"}

What = TypeVar("What")


def by_category(subject: Subject) -> list[tuple[str, float]]:
    """Category to points of w20 lost, most important first; empty for a replay."""
    return _by_inputs(subject, CATEGORIES)


def by_feature(subject: Subject) -> list[tuple[str, float]]:
    """The same for features one by one, or for inputs where the model does not take features."""
    if subject.artifact is None or not isinstance(subject.artifact.model, TreesModel):
        inputs = [name for names in CATEGORIES.values() for name in names]
        return _by_inputs(subject, {LABELS.get(name, name.replace("_", " ")): (name,) for name in inputs})
    columns = {name: column for column, name in enumerate(subject.artifact.manifest.features)}

    def exchanged(artifact: Artifact, attempts: TrainingSet, column: int, order: Indices) -> Floats:
        features = artifact.features(attempts.pairs).matrix
        features[:, column] = features[order, column]
        return artifact.model.predict(attempts.pairs, features).mean

    return _losses(subject, columns, exchanged)


def exchange(pairs: CandidateRows, inputs: Sequence[str], order: Indices) -> CandidateRows:
    """Pairs, one an attempt, each with these inputs of the attempt at `order`, and the history that they lead to."""
    other, numbers, names = pairs.jobs.take(order), pairs.jobs.numbers.copy(), pairs.jobs.names.copy()
    whole: dict[str, Any] = {}
    for name in inputs:
        if name in NUMBERS:
            numbers[:, NUMBERS.index(name)] = other.number(name)
        elif name in NAMES:
            names[:, NAMES.index(name)] = other.names[:, NAMES.index(name)]
        elif name != "hardware_type":
            whole[name] = getattr(other, name)
    return CandidateRows(
        jobs=replace(pairs.jobs, numbers=numbers, names=names, **whole),
        table=pairs.table,
        job=pairs.job,
        hardware_type=pairs.hardware_type[order] if "hardware_type" in inputs else pairs.hardware_type,
        history={
            kind: statistics[order] if {*COLUMNS[kind]} & {*inputs} else statistics
            for kind, statistics in pairs.history.items()
        },
    )


def _by_inputs(subject: Subject, groups: Mapping[str, Sequence[str]]) -> list[tuple[str, float]]:
    def exchanged(artifact: Artifact, attempts: TrainingSet, inputs: Sequence[str], order: Indices) -> Floats:
        pairs = exchange(attempts.pairs, inputs, order)
        return artifact.predict(artifact.features(pairs)).mean

    return _losses(subject, groups, exchanged)


def _losses(
    subject: Subject, groups: Mapping[str, What], exchanged: Callable[[Artifact, TrainingSet, What, Indices], Floats]
) -> list[tuple[str, float]]:
    """Mean over repeats, without what changes nothing."""
    if subject.artifact is None or subject.held_out is None:
        return []
    artifact, data = subject.artifact, subject.held_out
    data = data.where(np.arange(len(data)) % max(1, len(data) // ROWS) == 0)

    def w20(mean: Floats) -> float:
        return 100.0 * float(within(np.exp(mean), np.exp(data.y), 20).mean())

    whole, rng = w20(artifact.predict(artifact.features(data.pairs)).mean), np.random.default_rng(0)
    orders = [rng.permutation(len(data)) for _ in range(REPEATS)]
    losses = {
        name: float(np.mean([whole - w20(exchanged(artifact, data, what, order)) for order in orders]))
        for name, what in groups.items()
    }
    return sorted(((name, loss) for name, loss in losses.items() if loss), key=lambda item: -item[1])
