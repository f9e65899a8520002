"""Importance by permutation (Breiman 2001, Random Forests): what w20 loses when a feature is shuffled."""

from collections.abc import Mapping, Sequence

import numpy as np

from predictor.features import matrix
from predictor.features.matrix import Matrix
from retrainer.report.rows import Subject

ROWS = 600
REPEATS = 2


def by_feature(subject: Subject) -> list[tuple[str, float]]:
    """Feature to points of w20 lost, most important first; empty for a replay."""
    return _losses(subject, {name: (name,) for name in _names(subject)})


def by_category(subject: Subject) -> list[tuple[str, float]]:
    """The same for all features of a category shuffled together."""
    return _losses(subject, matrix.categories(subject.artifact.manifest.vocabulary) if subject.artifact else {})


def _names(subject: Subject) -> tuple[str, ...]:
    return subject.artifact.manifest.features if subject.artifact else ()


def _losses(subject: Subject, groups: Mapping[str, Sequence[str]]) -> list[tuple[str, float]]:
    """Mean over repeats. Experts that look into the history or the job itself see what is in the matrix only."""
    if subject.artifact is None or subject.held_out is None:
        return []
    artifact, data = subject.artifact, subject.held_out
    data = data.where(np.arange(len(data)) % max(1, len(data) // ROWS) == 0)
    features = artifact.matrix(data.pairs)

    def w20(changed: Matrix) -> float:
        mean = artifact.model.predict(data.pairs, changed).mean
        return 100.0 * float(np.mean(np.abs(np.expm1(mean - data.y)) <= 0.2))

    whole, rng = w20(features), np.random.default_rng(0)
    place = {name: column for column, name in enumerate(artifact.manifest.features)}
    losses = {}
    for group, names in groups.items():
        columns = [place[name] for name in names if name in place]
        if not columns or not (np.ptp(np.nan_to_num(features[:, columns]), axis=0) > 0).any():
            continue
        found = []
        for _ in range(REPEATS):
            changed = features.copy()
            changed[:, columns] = changed[rng.permutation(len(changed))][:, columns]
            found.append(whole - w20(changed))
        losses[group] = float(np.mean(found))
    # All zero is a model that does not look at the matrix, of which shuffling it says nothing.
    return sorted(losses.items(), key=lambda item: -item[1]) if any(losses.values()) else []
