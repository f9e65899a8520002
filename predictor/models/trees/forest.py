"""Regression trees as flat arrays, followed by plain numpy for up to 64 rows at a time.

Rows that share a path share its cost: a level of all trees is the list of the nodes that any row has reached, each
with the set of these rows as the bits of one integer. For a list of 20 candidates, which differ in a few columns, 5,500
inner nodes of 800 trees of 125 nodes are visited, where every candidate by itself would visit 90,000.
"""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats, Indices
from leap.predictor.features.matrix import Matrix
from leap.predictor.models.arrays import Arrays, ArraySpec

#: Rows that are followed together: the bits of the widest integer.
BLOCK = 64
#: Splits whose comparisons are worked out together, so that they stay in the processor's cache.
AT_ONCE = 4096
#: The paper's cascade over 750,000 rows has 3,640 trees of 1,900,000 nodes, 60 levels deep, in 26 targets.
MAX_NODES, MAX_SPLITS, MAX_DEPTH, MAX_TARGETS = 1 << 23, 1 << 20, 512, 256
LEAF = -1

_NUMBERS = ArraySpec("i8", ("targets",), low=1, high=MAX_NODES)
#: Arrays of a forest by attribute.
SPECS: dict[str, ArraySpec] = {
    "features": ArraySpec("i8", (), low=1, high=1 << 16),
    "split_feature": ArraySpec("i4", ("splits",), low=0),
    "split_threshold": ArraySpec("f4", ("splits",), low=-np.inf, high=np.inf),
    "split_missing_left": ArraySpec("?", ("splits",)),
    "node_split": ArraySpec("i4", ("nodes",), low=LEAF),
    "leaf_value": ArraySpec("f8", ("leaves",)),
    "trees": _NUMBERS,
    "baseline": ArraySpec("f8", ("targets",)),
}

Masks = NDArray[np.unsignedinteger]


@dataclass(frozen=True)
class Forest:
    """Trees that add up to one number for each target.

    Nodes stand in level order over all trees: the roots, those of the first target first; then, in the order of their
    parents, the two children of every inner node, right before left. So which nodes are leaves says where every child
    is: no array can lead back, out of the trees, or twice to one node.

    Attributes
    ----------
    features
        Columns of a row.
    split_feature, split_threshold, split_missing_left
        (splits,) A row goes left where ``row[feature] <= threshold``, or where that is missing and missing goes left.
        Trees share the splits that they have in common.
    node_split
        (nodes,) position of the node's split; `LEAF` of a leaf.
    leaf_value
        (leaves,) in the order of the nodes. Multiples of a power of two that is so large that sums are exact: in
        whatever order they are added, a row has one prediction, alone or in a batch.
    trees, baseline
        (targets,) number of trees, and what they add to.

    Raises
    ------
    ValueError
        If the arrays are no forest, or one that is larger than any of Leap.
    """

    features: int
    split_feature: NDArray[np.int32]
    split_threshold: NDArray[np.float32]
    split_missing_left: NDArray[np.bool_]
    node_split: NDArray[np.int32]
    leaf_value: Floats
    trees: NDArray[np.int64]
    baseline: Floats

    def __post_init__(self) -> None:
        if len(self.trees) > MAX_TARGETS or len(self.split_feature) > MAX_SPLITS or len(self.node_split) > MAX_NODES:
            raise ValueError(
                f"{len(self.trees)} targets, {len(self.split_feature)} splits and {len(self.node_split)} nodes, over "
                f"the limits of {MAX_TARGETS}, {MAX_SPLITS} and {MAX_NODES}"
            )
        if np.any(self.split_feature >= self.features):
            raise ValueError(f"a split looks at column {self.split_feature.max()} of {self.features}")
        if np.any(self.node_split >= len(self.split_feature)):
            raise ValueError(f"a node has split {self.node_split.max()} of {len(self.split_feature)}")
        inner = np.count_nonzero(self.node_split >= 0)
        if len(self.leaf_value) != len(self.node_split) - inner or self._roots + 2 * inner != len(self.node_split):
            raise ValueError(
                f"there are {len(self.node_split)} nodes and {len(self.leaf_value)} leaves, which are none of "
                f"{self._roots} trees with {inner} inner nodes"
            )
        self._serving  # what is not level order is found now, not by a launch  # noqa: B018

    @property
    def _roots(self) -> int:
        return int(self.trees.sum())

    def predict(self, rows: Matrix) -> Floats:
        """(rows, targets) sums for rows of float32; missing values are NaN.

        Raises
        ------
        ValueError
            If the rows have not as many columns as the trees know, or are not float32.
        """
        if rows.ndim != 2 or rows.shape[1] != self.features or rows.dtype != np.float32:
            raise ValueError(f"rows are {rows.dtype} {rows.shape}, the trees take float32 (rows, {self.features})")
        blocks = [self._sums(rows[start : start + BLOCK]) for start in range(0, len(rows), BLOCK)]
        return np.concatenate([np.empty((0, len(self.trees))), *blocks])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays, as `SPECS` says."""
        return {field.name: np.asarray(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_arrays(cls, stored: Arrays) -> "Forest":
        """The forest that `arrays` describes."""
        return cls(int(stored["features"]), *(stored[field.name] for field in fields(cls)[1:]))

    @cached_property
    def _serving(self) -> "_Serving":
        inner = self.node_split >= 0
        value = np.zeros(len(inner))
        value[~inner] = self.leaf_value
        return _Serving(
            column=self.split_feature.astype(np.intp) + np.where(self.split_missing_left, 0, self.features),
            split=self.node_split.astype(np.intp),
            child=self._roots + 2 * (np.cumsum(inner) - 1),
            value=value,
            target=spread(inner, np.repeat(np.arange(len(self.trees), dtype=np.int16), self.trees)),
        )

    def _sums(self, rows: Matrix) -> Floats:
        """(rows, targets) of up to 64 rows."""
        serving = self._serving
        bits = next(width for width in (8, 16, 32, 64) if len(rows) <= width)
        nodes, reached = self._leaves(self._passing(rows, bits), (1 << len(rows)) - 1)
        members = np.unpackbits(reached.view(np.uint8), bitorder="little").reshape(-1, bits)[:, : len(rows)]
        if len(self.trees) == 1:
            return (serving.value.take(nodes) @ members.astype(np.float64) + self.baseline)[:, None]
        target = serving.target.take(nodes)
        order = np.argsort(target, kind="stable")
        ends = np.cumsum(np.bincount(target, minlength=len(self.trees)))
        sums = np.empty((len(rows), len(self.trees)))
        for position, (start, end) in enumerate(zip(ends - np.diff(ends, prepend=0), ends, strict=True)):
            of_target = order[start:end]
            sums[:, position] = serving.value.take(nodes.take(of_target)) @ members.take(of_target, axis=0).astype(
                float
            )
        return sums + self.baseline

    def _passing(self, rows: Matrix, bits: int) -> Masks:
        """(splits,) which of the rows go left, as integers of so many bits."""
        columns = np.zeros((2 * self.features, bits), dtype=np.float32)
        columns[: self.features, : len(rows)] = np.where(np.isnan(rows), np.float32(-np.inf), rows).T
        columns[self.features :, : len(rows)] = rows.T  # NaN is not below any threshold
        left = np.empty((len(self.split_feature), bits), dtype=np.bool_)
        for start in range(0, len(left), AT_ONCE):
            some = slice(start, start + AT_ONCE)
            values = columns.take(self._serving.column[some], axis=0)
            np.less_equal(values, self.split_threshold[some, None], out=left[some])
        return np.packbits(left.ravel(), bitorder="little").view(f"<u{bits // 8}")

    def _leaves(self, passing: Masks, everything: int) -> tuple[Indices, Masks]:
        """Leaves that any row ends in, and for each the rows that do."""
        serving = self._serving
        nodes = np.arange(self._roots)
        rows = np.full(len(nodes), everything, dtype=passing.dtype)
        leaves, ended = [], []
        while True:
            split = serving.split.take(nodes)
            inner = np.flatnonzero(split >= 0)
            if len(inner) < len(nodes):
                leaf = np.flatnonzero(split < 0)
                leaves.append(nodes.take(leaf))
                ended.append(rows.take(leaf))
                if not len(inner):
                    return np.concatenate(leaves), np.concatenate(ended)
                nodes, rows, split = nodes.take(inner), rows.take(inner), split.take(inner)
            left = rows & passing.take(split)
            right_child = serving.child.take(nodes)
            nodes = np.concatenate((right_child, right_child + 1))
            rows = np.concatenate((rows ^ left, left))
            taken = np.flatnonzero(rows)
            nodes, rows = nodes.take(taken), rows.take(taken)


@dataclass(frozen=True)
class _Serving:
    """What follows from a forest's arrays: (splits,) columns of rows without and with NaN side by side, and by node
    its split, its right child, its value and its target.
    """

    column: Indices
    split: Indices
    child: Indices
    value: Floats
    target: NDArray[np.int16]


def spread(inner: NDArray[np.bool_], of_root: NDArray[Any]) -> NDArray[Any]:
    """(nodes,) what each root has, of all nodes of its tree, in level order.

    Raises
    ------
    ValueError
        If nodes are left that no root leads to, or trees are deeper than `MAX_DEPTH`.
    """
    of_node = np.empty(len(inner), dtype=of_root.dtype)
    start, level = 0, of_root
    for _ in range(MAX_DEPTH):
        of_node[start : start + len(level)] = level
        start, level = start + len(level), np.repeat(level[inner[start : start + len(level)]], 2)
        if not len(level):
            break
    if len(level) or start != len(inner):
        raise ValueError(f"of {len(inner)} nodes no tree of at most {MAX_DEPTH} levels has {len(inner) - start}")
    return of_node
