"""Models of the transformers library, traced and recorded, have the figures that others publish and count.

Neither PyTorch nor the library is in the lock (5.6 GB installed). `hf_traces.jsonl.xz` holds what `hf_model.trace`
made of the configurations in `hf_configurations.py`, by the versions that each line names; `record_hf_traces.py`
wrote it. That the library still makes such models is not seen here.
"""

import lzma
from functools import cache
from pathlib import Path

import msgspec
import pytest

from leap.predictor.describe.torch_trace import Trace
from leap.predictor.features.architecture import summary
from leap.predictor.features.operator_classes import operator_class
from leap.schemas.codec import MAX_MESSAGE_BYTES
from leap.schemas.launch import ModelDefinition
from tests.predictor.describe.hf_configurations import CONFIGURATIONS

PRODUCTS = {"matmul", "conv", "attention"}


class Recorded(msgspec.Struct):
    """A line of the file."""

    name: str
    torch: str
    transformers: str
    trace: Trace


@cache
def recorded() -> dict[str, ModelDefinition]:
    with lzma.open(Path(__file__).parent / "hf_traces.jsonl.xz") as lines:
        read = [msgspec.json.decode(line, type=Recorded) for line in lines]
    return {line.name: line.trace.definition() for line in read}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_parameters_are_those_published(name: str) -> None:
    operators = recorded()[name].operators
    assert sum(operator.parameters for operator in operators) == CONFIGURATIONS[name].parameters


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_products_cost_what_another_counter_counts(name: str) -> None:
    operators = recorded()[name].operators
    products = sum(operator.flops for operator in operators if operator_class(operator.kind) in PRODUCTS)
    assert products == CONFIGURATIONS[name].flops


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_what_has_no_class_costs_next_to_nothing(name: str) -> None:
    operators = recorded()[name].operators
    other = sum(operator.flops for operator in operators if operator_class(operator.kind) == "other")
    assert other < 1e-4 * sum(operator.flops for operator in operators)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_definition_fits_into_a_message(name: str) -> None:
    assert len(msgspec.json.encode(recorded()[name])) < MAX_MESSAGE_BYTES / 2


def test_precision_is_that_of_the_configuration() -> None:
    bits = {name: recorded()[name].precision for name in ("gpt2", "llama-2-7b", "mixtral-8x7b")}
    assert bits == {"gpt2": "fp32", "llama-2-7b": "fp16", "mixtral-8x7b": "bf16"}


def test_a_mixture_computes_with_the_experts_that_a_token_goes_through() -> None:
    products = [each for each in recorded()["mixtral-8x7b"].operators if each.parameters == 8 * 4096 * 14_336]
    assert len(products) == 32  # the way down, once a layer
    assert {each.kind for each in products} == {"matmul"}
    assert {each.flops for each in products} == {2.0 * 2 * 2048 * 14_336 * 4096}


def test_attention_says_how_many_heads_it_has() -> None:
    values = summary(recorded()["llama-3.2-1b"])
    assert (values["heads"], values["head_dim"], values["sequence"]) == (32, 64, 2048)
