"""Which model and which inputs a configuration makes, with stand-ins for PyTorch and the library.

What the real ones make of it is in `test_hf_traces.py`.
"""

import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from leap.predictor.describe import hf_model
from leap.predictor.describe.builder import NotDescribed
from leap.predictor.describe.hf_inputs import fit_image, input_shapes
from leap.predictor.describe.torch_trace import Trace

EMPTY = Trace("Made", {}, {}, {}, ())
TIED = SimpleNamespace(shape=(10, 4))


class Config(SimpleNamespace):
    """A configuration of the library."""

    is_encoder_decoder = False

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "Config":
        if fields.get("hidden_size") == -1:
            raise ValueError("hidden_size must be positive")
        return cls(**fields)

    def get_text_config(self) -> Any:
        return getattr(self, "text_config", self)


class Model:
    """A model of the library, of which only the forward pass's arguments matter."""

    dtype = "float32"

    def __init__(self, config: Config) -> None:
        self.config, self.head = config, SimpleNamespace(weight=TIED)

    @classmethod
    def _from_config(cls, config: Config) -> "Model":
        return cls(config)

    def forward(self, input_ids: Any = None, labels: Any = None) -> None: ...

    def modules(self) -> list[Any]:
        return []

    def get_output_embeddings(self) -> Any:
        return self.head


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What is given to PyTorch to trace."""
    modeling = ModuleType("modeling_stand_in")
    modeling.__dict__.update(__all__=["TinyModel", "TinyPreTrainedModel", "TinyForCausalLM"], TinyForCausalLM=Model)
    torch = ModuleType("torch")
    torch.__dict__.update(
        device=lambda kind: nullcontext(kind),
        zeros=lambda *shape, dtype: (shape, dtype),
        int64="int64",
        nn=SimpleNamespace(Parameter=lambda tensor: tensor),
    )
    mapping = {Config: SimpleNamespace(__module__=modeling.__name__)}
    transformers = ModuleType("transformers")
    transformers.__dict__.update(
        __version__="5.24.0",
        CONFIG_MAPPING={"tiny": Config},
        AutoModel=SimpleNamespace(_model_mapping=mapping),
    )
    for module in (modeling, torch, transformers):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    calls: list[tuple[Any, ...]] = []

    def export(*arguments: Any) -> Trace:
        calls.append(arguments)
        return EMPTY

    monkeypatch.setattr(hf_model, "export", export)
    return calls


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def written(text: str | None = None, **fields: Any) -> Path:
        path = tmp_path / "config.json"
        fields = {"model_type": "tiny", "architectures": ["TinyForCausalLM"], **fields}
        path.write_bytes((json.dumps(fields) if text is None else text).encode(errors="surrogateescape"))
        return path

    return written


def test_the_named_class_is_traced_on_one_sample(exported: list[Any], write: Callable[..., Path]) -> None:
    path = write(max_position_embeddings=512, vocab_size=10)
    assert hf_model.trace(path, {"tokens": 16}) is EMPTY
    [(place, model, positional, named)] = exported
    assert (place, positional, named) == (str(path), (), {"input_ids": ((1, 16), "int64")})
    assert isinstance(model, Model)
    assert model.config.vocab_size == 10
    assert model.config.use_cache is False


@pytest.mark.parametrize(("tied", "weight"), [(True, TIED), (False, ((10, 4), "float32"))])
def test_a_head_is_tied_as_the_file_says(
    exported: list[Any], write: Callable[..., Path], tied: bool, weight: Any
) -> None:
    hf_model.trace(write(tie_word_embeddings=tied), {})
    assert exported[0][1].head.weight == weight


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"model_type": "mambo"}, "model_type 'mambo' is not known to transformers 5.24.0"),
        ({"architectures": ["TinyForPoetry"]}, "'TinyForPoetry'; write one of TinyModel, TinyForCausalLM in a copy"),
        ({"architectures": None}, "the first of architectures is None; write one of"),
        ({"architectures": ["TinyPreTrainedModel"]}, "write one of"),
        ({"hidden_size": -1}, "cannot be built: ValueError: hidden_size must be positive"),
        ({"text": '{"hidden_size": 1}'}, "missing required field `model_type`"),
        ({"text": "[" * 100_000}, "a Hugging Face config.json"),
        ({"text": "\udcff"}, "a Hugging Face config.json"),
        ({"text": " " * (hf_model.MAX_CONFIG_BYTES + 1)}, "which no configuration has"),
    ],
)
def test_what_is_wrong_is_said(
    exported: list[Any], write: Callable[..., Path], fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(NotDescribed, match=said):
        hf_model.trace(write(**fields), {})
    assert not exported


VISION = Config(image_size=336)


@pytest.mark.parametrize(
    ("config", "taken", "sizes", "shapes"),
    [
        (Config(), {"input_ids"}, {}, {"input_ids": (1, 2048)}),
        (Config(max_position_embeddings=512), {"input_ids"}, {}, {"input_ids": (1, 512)}),
        (Config(max_position_embeddings=131_072), {"input_ids"}, {"tokens": 4096}, {"input_ids": (1, 4096)}),
        (Config(n_positions=512), {"input_ids"}, {}, {"input_ids": (1, 512)}),
        (Config(n_positions=512), {"input_ids"}, {"tokens": 1024}, {"input_ids": (1, 1024)}),
        (
            Config(),
            {"input_ids", "decoder_input_ids"},
            {"tokens": 8},
            {"input_ids": (1, 8), "decoder_input_ids": (1, 8), "attention_mask": (1, 8)},
        ),
        (Config(image_size=[32, 64], num_channels=1), {"pixel_values"}, {}, {"pixel_values": (1, 1, 32, 64)}),
        (Config(), {"pixel_values"}, {}, {"pixel_values": (1, 3, 224, 224)}),
        (Config(), {"pixel_values"}, {"image_size": 64}, {"pixel_values": (1, 3, 64, 64)}),
        (
            Config(vision_config=VISION, text_config=Config(max_position_embeddings=77)),
            {"input_ids", "pixel_values"},
            {},
            {"pixel_values": (1, 3, 336, 336), "input_ids": (1, 77)},
        ),
        (
            Config(num_mel_bins=80, max_source_positions=1500, max_target_positions=448),
            {"input_features", "decoder_input_ids"},
            {},
            {"input_features": (1, 80, 3000), "decoder_input_ids": (1, 448)},
        ),
        (Config(), {"input_values"}, {"samples": 8000}, {"input_values": (1, 8000)}),
    ],
)
def test_a_sample_measures_what_the_model_takes(
    config: Config, taken: set[str], sizes: dict[str, int], shapes: dict[str, tuple[int, ...]]
) -> None:
    assert input_shapes(config, taken, sizes) == shapes


def test_a_model_is_made_for_images_of_the_size_asked_for() -> None:
    config = Config(image_size=224, vision_config=Config(image_size=336))
    fit_image(config, {"image_size": 384})
    assert (config.image_size, config.vision_config.image_size) == (384, 384)


@pytest.mark.parametrize(
    ("config", "taken", "sizes", "said"),
    [
        (Config(max_position_embeddings=1024), {"input_ids"}, {"tokens": 1025}, "tokens 1025 is not from 1 to 1024"),
        (Config(), {"input_ids"}, {"tokens": 0}, "tokens 0 is not from 1"),
        (Config(), {"pixel_values"}, {"tokens": 5}, "no size tokens; this model has image_size"),
        (Config(), {"input_features"}, {}, "says nothing of the size of input_features"),
        (Config(), {"point_cloud"}, {}, "takes neither text nor images nor sound"),
    ],
)
def test_a_size_must_be_one_that_the_model_takes(
    config: Config, taken: set[str], sizes: dict[str, int], said: str
) -> None:
    with pytest.raises(NotDescribed, match=said):
        input_shapes(config, taken, sizes)
