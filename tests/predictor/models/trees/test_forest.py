"""A forest: what it adds up, and arrays that are none."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from leap.predictor.models.trees import forest as forests
from leap.predictor.models.trees.forest import LEAF, Forest
from leap.predictor.models.trees.model import Combination, Trees
from leap.predictor.models.trees.nodes import Nodes, forest_of


def arrays(**changed: Any) -> dict[str, Any]:
    """Two trees over two columns: x0 <= 1 (else x1 <= 5, missing left), and a leaf; of one target."""
    return {
        "features": np.array(2),
        "split_feature": np.array([0, 1], np.int32),
        "split_threshold": np.array([1.0, 5.0], np.float32),
        "split_missing_left": np.array([False, True]),
        "node_split": np.array([0, LEAF, 1, LEAF, LEAF, LEAF], np.int32),
        "leaf_value": np.array([0.5, 10.0, 30.0, 20.0]),
        "trees": np.array([2]),
        "baseline": np.array([100.0]),
        **changed,
    }


def rows(*values: tuple[float, float]) -> NDArray[np.float32]:
    return np.array(values, np.float32)


def test_every_row_gets_the_leaves_that_it_ends_in() -> None:
    nan, inf = np.nan, np.inf
    asked = rows((1, 9), (1.5, 5), (1.5, 6), (nan, nan), (nan, 6), (-inf, nan), (inf, -inf))
    expected = [10.0, 20.0, 30.0, 20.0, 30.0, 10.0, 20.0]
    assert Forest.from_arrays(arrays()).predict(asked)[:, 0].tolist() == [100.5 + value for value in expected]


def test_targets_are_added_up_apart() -> None:
    forest = Forest.from_arrays(arrays(trees=np.array([1, 1]), baseline=np.array([100.0, 7.0])))
    assert forest.predict(rows((1, 9), (2, 6))).tolist() == [[110.0, 7.5], [130.0, 7.5]]
    assert forest.predict(rows()[:0].reshape(0, 2)).shape == (0, 2)


@pytest.mark.parametrize("asked", [np.zeros((2, 3), np.float32), np.zeros((2, 2)), np.zeros(2, np.float32)])
def test_refuses_rows_of_another_shape_or_type(asked: NDArray[Any]) -> None:
    with pytest.raises(ValueError, match=r"the trees take float32 \(rows, 2\)"):
        Forest.from_arrays(arrays()).predict(asked)


ASTRAY: dict[str, tuple[dict[str, Any], str]] = {
    "beyond the row": ({"split_feature": np.array([0, 2], np.int32)}, "column 2 of 2"),
    "beyond the splits": ({"node_split": np.array([0, LEAF, 2, LEAF, LEAF, LEAF], np.int32)}, "split 2 of 2"),
    "leaf too few": ({"leaf_value": np.zeros(3)}, "3 leaves"),
    "node too many": ({"node_split": np.full(7, LEAF, np.int32), "leaf_value": np.zeros(7)}, "there are 7 nodes"),
    "more trees than nodes": ({"trees": np.array([2**40])}, "there are 6 nodes"),
    "unreachable": ({"node_split": np.array([LEAF, LEAF, 0, 1, LEAF, LEAF], np.int32)}, "no tree of at most 512"),
}  # fmt: skip


@pytest.mark.parametrize(("changed", "match"), ASTRAY.values(), ids=ASTRAY)
def test_refuses_arrays_that_are_no_forest(changed: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        Forest.from_arrays(arrays(**changed))


def chain(depth: int) -> dict[str, Any]:
    """One tree in which every right child is a leaf."""
    node_split = np.array([0, *[LEAF, 0] * (depth - 1), LEAF, LEAF], np.int32)
    return arrays(node_split=node_split, leaf_value=np.zeros(depth + 1), trees=np.array([1]))


def test_a_chain_is_followed_to_its_limit_and_refused_beyond() -> None:
    deepest = forests.MAX_DEPTH - 1
    assert Forest.from_arrays(chain(deepest)).predict(rows((0, 0))).tolist() == [[100.0]]
    for depth in (deepest + 1, 20_000):
        with pytest.raises(ValueError, match="no tree of at most 512 levels"):
            Forest.from_arrays(chain(depth))


@pytest.mark.parametrize(
    ("limit", "match"), [("MAX_NODES", "6 nodes"), ("MAX_SPLITS", "2 splits"), ("MAX_TARGETS", "1 targets")]
)
def test_a_forest_is_bounded(monkeypatch: pytest.MonkeyPatch, limit: str, match: str) -> None:
    monkeypatch.setattr(forests, limit, 0)
    with pytest.raises(ValueError, match=f"{match}.*over the limits"):
        Forest.from_arrays(arrays())


@pytest.mark.parametrize(("combination", "targets"), [("single", 2), ("mean", 1), ("median", 1)])
def test_a_combination_has_its_targets(combination: str, targets: int) -> None:
    forest = Forest.from_arrays(arrays(trees=np.array([2] if targets == 1 else [1, 1]), baseline=np.zeros(targets)))
    with pytest.raises(ValueError, match=f"{targets} targets"):
        Trees(forest, Combination(combination))


def nodes(**changed: Any) -> Nodes:
    """One tree of three nodes."""
    made = Nodes(
        is_leaf=np.array([False, True, True]),
        left=np.array([1, 0, 0]),
        right=np.array([2, 0, 0]),
        feature=np.array([0, 0, 0]),
        threshold=np.zeros(3, np.float32),
        missing_left=np.zeros(3, bool),
        value=np.array([0.0, 1.0, 2.0]),
        roots=np.array([0]),
        baseline=0.0,
    )
    return made._replace(**changed)


def test_nodes_become_a_forest() -> None:
    forest = forest_of(1, [nodes(), nodes(value=np.array([0.0, 3.0, 4.0]))])
    assert len(forest.split_feature) == 1, "trees share the splits that they have in common"
    assert forest.predict(np.array([[-1], [1]], np.float32)).tolist() == [[1.0, 3.0], [2.0, 4.0]]


def test_nodes_that_lead_in_a_circle_are_refused() -> None:
    with pytest.raises(ValueError, match="levels or"):
        forest_of(1, [nodes(left=np.array([0, 0, 0]))])


def test_leaves_are_so_round_that_their_sums_are_exact() -> None:
    random = np.random.default_rng(3)
    values = random.normal(size=3000)
    forest = forest_of(1, [nodes(value=np.array([0.0, *pair])) for pair in values.reshape(-1, 2)[:200]])
    one = forest_of(
        1,
        [
            Nodes(
                is_leaf=np.ones(3000, bool),
                left=np.zeros(3000, int),
                right=np.zeros(3000, int),
                feature=np.zeros(3000, int),
                threshold=np.zeros(3000, np.float32),
                missing_left=np.zeros(3000, bool),
                value=values,
                roots=np.arange(3000),
                baseline=0.0,
            )
        ],
    )
    assert np.abs(forest.leaf_value - values[:400].reshape(-1, 2)[:, ::-1].ravel()).max() <= 2**-50
    sums = {float(random.permutation(one.leaf_value).cumsum()[-1]) for _ in range(20)}
    assert len(sums) == 1
    assert np.abs(one.leaf_value - values).max() < 1e-12
