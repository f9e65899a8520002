"""Classes of operators are those that Leap's own describers write."""

from collections.abc import Callable
from typing import Any

import onnx
import pytest

from leap.predictor.describe import onnx_flops, torch_trace
from leap.predictor.features.architecture import NAMES, summary, to_totals
from leap.predictor.features.operator_classes import CLASSES, OTHER, operator_class
from leap.schemas.launch import ModelDefinition, ModelTotals, Operator
from tests.builders import MODEL

REDUCTIONS = {schema.name for schema in onnx.defs.get_all_schemas() if schema.name.startswith("Reduce")}
WITH_FORMULA = {*onnx_flops._FORMULAS, *onnx_flops._NORMS, *onnx_flops._POOLS, *onnx_flops._READS_ALL, *REDUCTIONS}


@pytest.mark.parametrize("op_type", sorted(WITH_FORMULA))
def test_what_has_a_formula_has_a_class(op_type: str) -> None:
    assert operator_class(onnx_flops.kind(op_type, False)) != OTHER


def test_norms_and_products_have_the_class_of_their_formula() -> None:
    of: dict[str, set[Callable[..., Any]]] = {
        "matmul": {onnx_flops._matmul, onnx_flops._gemm, onnx_flops._einsum},
        "conv": {onnx_flops._conv, onnx_flops._conv_transpose},
        "recurrent": {onnx_flops._recurrent},
        "attention": {onnx_flops._attend},
    }
    for op_type, formula in onnx_flops._FORMULAS.items():
        assert formula in of[operator_class(op_type)], op_type
    assert {operator_class(op_type) for op_type in onnx_flops._NORMS} == {"norm"}


def test_kinds_of_traced_modules_have_a_class() -> None:
    assert OTHER not in {operator_class(kind) for kind in torch_trace.KINDS.values()}


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ("Pow LeakyRelu HardSwish HardSigmoid PRelu Swish Mish Elu Softplus", "elementwise"),
        ("LogSoftmax Neg Max Where Reciprocal ReduceMean TopK", "elementwise"),
        ("_log_softmax native_dropout rsqrt leaky_relu hardtanh mean _adaptive_avg_pool2d clamp", "elementwise"),
        ("_embedding_bag _embedding_bag_forward_only EmbeddingBag embedding_lookup", "embedding"),
        ("mv addmv dot baddbmm", "matmul"),
        ("layer_norm rms_norm RMSNorm native_layer_norm _fused_rms_norm", "norm"),
        ("_scaled_dot_product_flash_attention MultiHeadAttention", "attention"),
        ("mkldnn_rnn_layer", "recurrent"),
        ("Reshape view permute NonMaxSuppression", OTHER),
    ],
)
def test_other_kinds(kinds: str, expected: str) -> None:
    assert {kind: operator_class(kind) for kind in kinds.split()} == dict.fromkeys(kinds.split(), expected)


def test_a_kind_is_of_one_class() -> None:
    every = [kind for kinds in CLASSES.values() for kind in kinds]
    assert len(every) == len(set(every))
    assert all(kind == kind.lower().replace("_", "") for kind in every)


def test_tables_of_an_embedding_bag_are_tables() -> None:
    """Placement counts half the bytes of this share."""
    bag = Operator(kind="_embedding_bag_forward_only", shape=(16,), parameters=300)
    values = summary(ModelDefinition(operators=(bag, Operator(kind="matmul", shape=(4,), parameters=100))))
    assert (values["embedding_operators"], values["embedding_parameter_share"]) == (1, 0.75)


def test_totals_give_the_features_of_the_operators() -> None:
    attention = Operator(kind="attention", shape=(4, 8), flops=64.0, attributes={"heads": 2, "head_dim": 4})
    full = ModelDefinition(operators=(*MODEL.operators, attention), edges=(*MODEL.edges, (3, 4)), precision="bf16")
    assert summary(to_totals(full)) == summary(full)
    assert set(summary(full)) == set(NAMES)
    assert set(ModelTotals.__struct_fields__) - {"training_flops"} == set(NAMES) - {
        "width", "intensity", "flops_per_parameter"
    }  # fmt: skip
