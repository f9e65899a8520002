"""Posterior of the structured prior, one model type at a time: what training knows and serving does not need.

With G the features of a model type's own process, F those of the shared part and L the diagonal of noise, everything
is a function of G'G, G'F, F'F (each weighted by 1 / L), so cost is linear in configurations.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leap.predictor.features.batch import Floats, Indices
from leap.predictor.models.structured.gp_prior import BlockPosterior
from leap.predictor.models.structured.inputs import Inputs
from leap.predictor.models.structured.kernel import Kernel, SharedFeatureMap
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
    residual_variance
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
    residual_variance: Floats
    shared: Floats
    y: Floats

    def solve(self, noise: Floats) -> "BlockSolve":
        """Sums under (n,) variances of noise."""
        weight = 1 / (noise + self.residual_variance)  # W = (noise + k - |phi|^2)^-1, a diagonal
        local = self.local * weight[:, None]
        # R R^T = (Phi^T W Phi + I)^-1
        root = np.linalg.inv(np.linalg.cholesky(local.T @ self.local + np.eye(len(self.landmarks)))).T
        cross, own = local.T @ self.shared, local.T @ self.y
        # C = R R^T Phi^T W S and R R^T Phi^T W y
        coupling, own_weights = root @ (root.T @ cross), root @ (root.T @ own)
        shared = self.shared * weight[:, None]
        # The shared weights' likelihood: precision S^T W S - S^T W Phi C, moment S^T W y - S^T W Phi R R^T Phi^T W y
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
    residual = np.maximum(kernel.diagonal(points) - np.square(local).sum(axis=1), 0.0)
    return ModelTypeBlock(rows, points, landmarks, whiten, local, residual, shared(points), units.y[rows] - mean)


def shared_posterior(solved: Sequence[BlockSolve]) -> tuple[Floats, Floats]:
    """(d,) mean and (d, d) root of the covariance of the shared weights, whose prior is standard normal."""
    precision = np.eye(len(solved[0].moment)) + sum(block.precision for block in solved)
    root = np.linalg.inv(np.linalg.cholesky(precision)).T  # S S^T = (I + sum of precisions)^-1
    return root @ (root.T @ sum(block.moment for block in solved)), root  # S S^T times the sum of moments


def select_landmarks(kernel: Kernel, points: Inputs, most: int) -> tuple[Indices, Floats, Floats]:
    """Pivot rows (m,), whitening matrix L^-T (m, m) with K_mm = L L^T, and K(candidates, pivots).

    Pivoted Cholesky: the configuration that the landmarks so far explain least comes next, until they explain all.
    """
    candidates = np.unique(np.linspace(0, len(points) - 1, min(CANDIDATES, len(points))).astype(np.intp))
    covariance = kernel(points.take(candidates), points.take(candidates))
    residual = np.diag(covariance).copy()
    enough = TOLERANCE * residual.max(initial=0.0)
    columns = np.zeros((len(candidates), min(most, len(candidates))))  # of L, for all candidates
    chosen: list[int] = []
    for step in range(columns.shape[1]):
        pivot = int(residual.argmax())
        if residual[pivot] <= enough:
            break
        column = covariance[:, pivot] - columns[:, :step] @ columns[pivot, :step]
        columns[:, step] = column / np.sqrt(column[pivot])
        residual = np.maximum(residual - columns[:, step] ** 2, 0.0)
        residual[pivot] = 0.0
        chosen.append(pivot)
    lower = np.tril(columns[chosen, : len(chosen)])
    return candidates[chosen], np.asarray(np.linalg.inv(lower).T, dtype=float), covariance[:, chosen]
