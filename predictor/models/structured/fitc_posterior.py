"""Posterior of the structured prior, one model type at a time: what training knows and serving does not need.

With G the features of a model type's own process, F those of the shared part and L the diagonal of noise, everything
is a function of G'G, G'F, F'F (each weighted by 1 / L), so cost is linear in configurations.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leap.predictor.features.batch import Floats, Indices
from leap.predictor.models.structured.gp_prior import BlockPosterior
from leap.predictor.models.structured.kernel import Inputs, Kernel, SharedFeatureMap
from leap.predictor.models.structured.replicates import Replicates

#: Landmarks stop where less than this share of the variance is left to explain.
TOLERANCE = 1e-6
#: Configurations of a model type that landmarks are chosen from, evenly over time.
CANDIDATES = 1500


@dataclass(frozen=True)
class ModelTypeBlock:
    """(n,) configurations of one model type.

    Attributes
    ----------
    rows
        (n,) their positions among all units.
    landmarks
        (m,) positions within `rows`.
    whiten
        See `BlockPosterior`.
    local
        (n, m) features of the model type's own process.
    left
        (n,) its variance that the landmarks do not explain.
    shared
        (n, d) features of the shared part.
    y
        (n,) centred targets.
    """

    rows: Indices
    points: Inputs
    landmarks: Indices
    whiten: Floats
    local: Floats
    left: Floats
    shared: Floats
    y: Floats

    def solve(self, noise: Floats) -> "BlockSolve":
        """Sums under (n,) variances of noise."""
        weight = 1 / (noise + self.left)
        local = self.local * weight[:, None]
        root = np.linalg.inv(np.linalg.cholesky(local.T @ self.local + np.eye(len(self.landmarks)))).T
        cross, own = local.T @ self.shared, local.T @ self.y
        coupling, own_weights = root @ (root.T @ cross), root @ (root.T @ own)
        shared = self.shared * weight[:, None]
        return BlockSolve(
            weight=weight,
            root=root,
            coupling=coupling,
            own=own_weights,
            precision=shared.T @ self.shared - cross.T @ coupling,
            moment=shared.T @ self.y - cross.T @ own_weights,
        )

    def block(self, solved: "BlockSolve", weights: Floats) -> BlockPosterior:
        """The serving form, given the mean of the shared weights."""
        return BlockPosterior(
            landmarks=self.points.take(self.landmarks),
            whiten=self.whiten,
            weights=solved.own - solved.coupling @ weights,
            root=solved.root,
            coupling=solved.coupling,
            low=self.points.x.min(axis=0, initial=np.inf),
            high=self.points.x.max(axis=0, initial=-np.inf),
        )

    def fitted(self, solved: "BlockSolve", weights: Floats, root: Floats) -> tuple[Floats, Floats]:
        """(n,) residual from the posterior mean, and (n,) posterior variance, at the configurations themselves."""
        mean = self.shared @ weights + self.local @ (solved.own - solved.coupling @ weights)
        variance = np.square(self.local @ solved.root).sum(axis=1)
        variance += np.square((self.shared - self.local @ solved.coupling) @ root).sum(axis=1)
        return self.y - mean, variance


@dataclass(frozen=True)
class BlockSolve:
    """Sums of one model type.

    Attributes
    ----------
    weight
        (n,) inverse variance of each configuration.
    root, coupling, own
        As in `BlockPosterior`; `own` are the local weights where the shared ones are zero.
    precision, moment
        (d, d) and (d,): what the model type says about the shared weights.
    """

    weight: Floats
    root: Floats
    coupling: Floats
    own: Floats
    precision: Floats
    moment: Floats


def model_type_block(
    kernel: Kernel, shared: SharedFeatureMap, units: Replicates, rows: Indices, mean: float, most: int
) -> ModelTypeBlock:
    """Features of the units of one model type at `rows`."""
    points = units.points.take(rows)
    landmarks, whiten, covariance = select_landmarks(kernel, points, most)
    local = (covariance if len(covariance) == len(points) else kernel(points, points.take(landmarks))) @ whiten
    left = np.maximum(kernel.diagonal(points) - np.square(local).sum(axis=1), 0.0)
    return ModelTypeBlock(rows, points, landmarks, whiten, local, left, shared(points), units.y[rows] - mean)


def shared_posterior(solved: Sequence[BlockSolve]) -> tuple[Floats, Floats]:
    """(d,) mean and (d, d) root of the covariance of the shared weights, whose prior is standard normal."""
    precision = np.eye(len(solved[0].moment)) + sum(each.precision for each in solved)
    root = np.linalg.inv(np.linalg.cholesky(precision)).T
    return root @ (root.T @ sum(each.moment for each in solved)), root


def select_landmarks(kernel: Kernel, points: Inputs, most: int) -> tuple[Indices, Floats, Floats]:
    """(m,) rows, (m, m) what makes covariance with them independent features, (candidates, m) that covariance.

    Pivoted Cholesky: the configuration that the landmarks so far explain least comes next, until they explain all.
    """
    candidates = np.unique(np.linspace(0, len(points) - 1, min(CANDIDATES, len(points))).astype(np.intp))
    covariance = kernel(points.take(candidates), points.take(candidates))
    left = np.diag(covariance).copy()
    enough = TOLERANCE * left.max(initial=0.0)
    features = np.zeros((len(candidates), min(most, len(candidates))))
    chosen: list[int] = []
    for step in range(features.shape[1]):
        pivot = int(left.argmax())
        if left[pivot] <= enough:
            break
        column = covariance[:, pivot] - features[:, :step] @ features[pivot, :step]
        features[:, step] = column / np.sqrt(column[pivot])
        left = np.maximum(left - features[:, step] ** 2, 0.0)
        left[pivot] = 0.0
        chosen.append(pivot)
    root = np.tril(features[chosen, : len(chosen)])
    return candidates[chosen], np.asarray(np.linalg.inv(root).T, dtype=float), covariance[:, chosen]
