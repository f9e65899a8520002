"""Models from configurations, against what others count.

Parameters are those that the models' cards publish. FLOPs are those of PyTorch's FlopCounterMode (2.15) over the
same configurations in the transformers library (5.23), on the meta device with eager attention; it counts products,
convolutions and attention.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from leap.predictor.describe.builder import NotDescribed
from leap.predictor.describe.hf_config import describe
from leap.predictor.features.architecture import summary
from leap.schemas import codec
from leap.schemas.events import JobSubmitted
from leap.schemas.launch import LaunchConfig, ModelDefinition

PUBLISHED: dict[str, tuple[dict[str, Any], int]] = {
    "bert-base-uncased": ({"model_type": "bert", "architectures": ["BertModel"]}, 109_482_240),
    "bert-base-uncased, as its file says": ({"model_type": "bert", "architectures": ["BertForMaskedLM"]}, 109_514_298),
    "bert, 2 labels": ({"model_type": "bert", "architectures": ["BertForSequenceClassification"]}, 109_483_778),
    "gpt2": ({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}, 124_439_808),
    "gpt2-xl": ({"model_type": "gpt2", "n_embd": 1600, "n_layer": 48, "n_head": 25}, 1_557_611_200),
    "llama-2-7b": ({"model_type": "llama", "torch_dtype": "float16"}, 6_738_415_616),
    "llama-3-8b": (
        {"model_type": "llama", "vocab_size": 128_256, "intermediate_size": 14_336, "num_key_value_heads": 8},
        8_030_261_248,
    ),
    "llama-3.2-1b": (
        {
            "model_type": "llama", "vocab_size": 128_256, "hidden_size": 2048, "intermediate_size": 8192,
            "head_dim": 64, "num_hidden_layers": 16, "num_key_value_heads": 8, "tie_word_embeddings": True,
        },
        1_235_814_400,
    ),
    "mistral-7b": ({"model_type": "mistral", "torch_dtype": "bfloat16"}, 7_241_732_096),
    "mixtral-8x7b": ({"model_type": "mixtral", "torch_dtype": "bfloat16"}, 46_702_792_704),
    "resnet-18": (
        {"model_type": "resnet", "layer_type": "basic", "depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512]}
        | {"num_labels": 1000},
        11_689_512,
    ),
    "resnet-50": ({"model_type": "resnet", "num_labels": 1000}, 25_557_032),
    "t5-small": ({"model_type": "t5"}, 60_506_624),
    "t5-v1_1-small": (
        {"model_type": "t5", "d_ff": 1024, "num_layers": 8, "num_heads": 6, "feed_forward_proj": "gated-gelu"}
        | {"tie_word_embeddings": False},
        76_961_152,
    ),
    "vit-base-patch16-224": ({"model_type": "vit", "id2label": {str(i): "" for i in range(1000)}}, 86_567_656),
}  # fmt: skip


def described(folder: Path, fields: dict[str, Any], **sizes: int) -> ModelDefinition:
    path = folder / "config.json"
    path.write_text(json.dumps(fields))
    return describe(path, sizes)


@pytest.mark.parametrize(("fields", "parameters"), PUBLISHED.values(), ids=PUBLISHED)
def test_parameters_are_those_published(tmp_path: Path, fields: dict[str, Any], parameters: int) -> None:
    model = described(tmp_path, fields)
    assert sum(operator.parameters for operator in model.operators) == parameters


@pytest.mark.parametrize(
    ("fields", "size", "counted"),
    [
        ({"model_type": "bert"}, {"tokens": 512}, 96_637_943_808),
        ({"model_type": "bert", "architectures": ["BertForMaskedLM"]}, {"tokens": 512}, 121_244_221_440),
        ({"model_type": "gpt2"}, {"tokens": 1024}, 291_648_307_200),
        ({"model_type": "llama"}, {"tokens": 2048}, 29_261_612_187_648),
        ({"model_type": "mistral"}, {"tokens": 2048}, 31_323_196_489_728),
        ({"model_type": "resnet", "num_labels": 1000}, {}, 8_178_368_512),
        (PUBLISHED["resnet-18"][0], {}, 3_628_146_688),
        ({"model_type": "t5"}, {"tokens": 512}, 71_605_157_888),
        ({"model_type": "vit", "num_labels": 1000}, {}, 35_127_656_448),
    ],
)
def test_products_cost_what_another_counter_counts(
    tmp_path: Path, fields: dict[str, Any], size: dict[str, int], counted: int
) -> None:
    model = described(tmp_path, fields, **size)
    assert sum(each.flops for each in model.operators if each.kind in ("matmul", "conv", "attention")) == counted


def test_a_mixture_computes_with_the_experts_that_a_token_goes_through(tmp_path: Path) -> None:
    fields = {"model_type": "mixtral", "num_hidden_layers": 1, "hidden_size": 64, "intermediate_size": 128}
    fields |= {"num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 10}
    few, many = (described(tmp_path, fields | {"num_local_experts": count}, tokens=8) for count in (4, 8))
    ups = [next(each for each in model.operators if each.name == "layer0.up") for model in (few, many)]
    assert [each.flops for each in ups] == [2.0 * 2 * 8 * 64 * 128] * 2
    assert [each.parameters for each in ups] == [4 * 64 * 128, 8 * 64 * 128]


def test_a_window_bounds_what_a_token_attends_to(tmp_path: Path) -> None:
    model = described(tmp_path, {"model_type": "mistral", "sliding_window": 128}, tokens=1024)
    attention = next(each for each in model.operators if each.kind == "attention")
    assert attention.flops == 4.0 * 1024 * 128 * 4096


def test_every_definition_is_taken_at_the_door(tmp_path: Path) -> None:
    for fields, _ in PUBLISHED.values():
        model = described(tmp_path, fields)
        job = JobSubmitted(
            attempt_id="a-1",
            job_name="trial",
            model_type=fields["model_type"],
            submitted_at=datetime(2026, 1, 1, tzinfo=UTC),
            config=LaunchConfig(num_trainers=1, accelerators_per_trainer=8),
            model=model,
        )
        assert codec.decode(codec.encode(job), JobSubmitted).model == model


def test_every_operator_but_the_first_is_joined(tmp_path: Path) -> None:
    for fields, _ in PUBLISHED.values():
        model = described(tmp_path, fields)
        read = {target for _, target in model.edges}
        given = {position for position, each in enumerate(model.operators) if position not in read}
        assert {model.operators[position].kind for position in given} <= {"embedding", "conv", "position_bias"}
        assert summary(model)["depth"] > 2 * fields.get("num_hidden_layers", 6)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"model_type": "mamba"}', "'mamba' is not known, only bert, gpt2"),
        ('{"model_type": "bert", "architectures": ["BertForPreTraining"]}', "only BertModel, BertForMaskedLM"),
        ('{"hidden_size": 1}', "missing required field `model_type`"),
        ('{"model_type": "llama", "hidden_size": -1}', r"\$.hidden_size"),
        ('{"model_type": "llama", "num_hidden_layers": 1000000}', r"\$.num_hidden_layers"),
        ('{"model_type": "llama", "num_attention_heads": 16777216}', "heads are more than the width"),
        ('{"model_type": "bert", "torch_dtype": "int3"}', "precision 'int3'"),
        ("[" * 100_000, "a Hugging Face config.json"),
        ("\udcff", "a Hugging Face config.json"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(NotDescribed, match=said):
        describe(path, {})


def test_a_size_must_be_one_that_the_model_takes(tmp_path: Path) -> None:
    with pytest.raises(NotDescribed, match="tokens 1025 is not from 1 to 1024"):
        described(tmp_path, {"model_type": "gpt2"}, tokens=1025)
    with pytest.raises(NotDescribed, match="no size tokens; this model has image_size"):
        described(tmp_path, {"model_type": "vit"}, tokens=5)


def test_the_largest_configuration_is_refused_not_built(tmp_path: Path) -> None:
    fields = {"model_type": "resnet", "depths": [2048] * 32, "hidden_sizes": [4] * 32}
    with pytest.raises(NotDescribed, match="more than 100,000 operators"):
        described(tmp_path, fields)


def test_json_is_small(tmp_path: Path) -> None:
    model = described(tmp_path, {"model_type": "llama", "num_hidden_layers": 80})
    assert len(msgspec.json.encode(model)) < 400_000
