"""Model definitions from the ``config.json`` that stands beside a model's weights."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol

import msgspec
from msgspec import Meta, Struct

from leap.predictor.describe.builder import Graph, NotDescribed, Size
from leap.predictor.describe.hf_t5 import T5
from leap.predictor.describe.hf_text import GPT2, Bert, Llama, Mistral, Mixtral
from leap.predictor.describe.hf_vision import ResNet, ViT
from leap.schemas.launch import ModelDefinition

MAX_CONFIG_BYTES = 4 * 2**20
#: Precision, as frameworks write it, to Leap's name.
PRECISIONS = {"float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}


class Family(Protocol):
    """Fields of a configuration, and how its operators follow from them."""

    HEADS: ClassVar[tuple[str, ...]]

    @property
    def size(self) -> Size:
        """What a sample of the model may measure."""

    def build(self, graph: Graph, head: str, labels: int, size: int, /) -> None:
        """Add the operators for one sample of that size."""


FAMILIES: dict[str, type[Family]] = {
    "bert": Bert,
    "gpt2": GPT2,
    "llama": Llama,
    "mistral": Mistral,
    "mixtral": Mixtral,
    "resnet": ResNet,
    "t5": T5,
    "vit": ViT,
}


class _Common(Struct):
    """What every configuration may say."""

    model_type: str
    architectures: Annotated[tuple[str, ...], Meta(max_length=16)] | None = None
    torch_dtype: str | None = None
    dtype: str | None = None
    id2label: dict[str, Any] | None = None
    num_labels: Annotated[int, Meta(ge=1, le=2**24)] | None = None

    @property
    def labels(self) -> int:
        """Outputs of a classifier."""
        return self.num_labels or len(self.id2label or ()) or 2


def describe(path: Path, sizes: Mapping[str, int]) -> ModelDefinition:
    """The model that a configuration makes.

    Parameters
    ----------
    path
        ``config.json``.
    sizes
        ``tokens`` of a sample, or ``image_size`` in pixels; what is not given is the model's own, but of text
        at most 2,048 tokens.

    Raises
    ------
    NotDescribed
        If the file is not such a configuration, its kind of model is not known, or a size does not fit it.
    """
    if path.stat().st_size > MAX_CONFIG_BYTES:
        raise NotDescribed(f"{path}: over {MAX_CONFIG_BYTES:,} bytes, which no configuration has")
    text = path.read_bytes()
    try:
        common = msgspec.json.decode(text, type=_Common)
        family = FAMILIES.get(common.model_type)
        if family is None:
            known = ", ".join(FAMILIES)
            raise NotDescribed(
                f"{path}: model_type {common.model_type!r} is not known, only {known}; describe its ONNX file, or "
                "the module with --torch"
            )
        config = msgspec.json.decode(text, type=family)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotDescribed(f"{path}: {error}; a Hugging Face config.json with a model_type is expected") from None
    written = common.dtype or common.torch_dtype or "float32"
    precision = PRECISIONS.get(written.removeprefix("torch."))
    if precision is None:
        raise NotDescribed(f"{path}: precision {written!r} is not one of {', '.join(PRECISIONS)}")
    name, head = _head(path, common, family)
    graph = Graph(name, precision)
    config.build(graph, head, common.labels, _chosen(path, config.size, sizes))
    return graph.definition()


def _head(path: Path, common: _Common, family: type[Family]) -> tuple[str, str]:
    """Name of the model, and which of its family's heads it has; the first where nothing says."""
    prefix = family.__name__
    if not common.architectures:
        return f"{prefix}{family.HEADS[0]}", family.HEADS[0]
    name = common.architectures[0]
    head = name.removeprefix(prefix)
    if head not in family.HEADS:
        known = ", ".join(f"{prefix}{each}" for each in family.HEADS)
        raise NotDescribed(f"{path}: architecture {name!r} is not known, only {known}; choose the nearest in a copy")
    return name, head


def _chosen(path: Path, size: Size, sizes: Mapping[str, int]) -> int:
    if strange := sizes.keys() - {size.name}:
        raise NotDescribed(f"{path}: no size {', '.join(sorted(strange))}; this model has {size.name}")
    value = sizes.get(size.name, size.usual)
    if not size.least <= value <= size.most:
        raise NotDescribed(f"{path}: {size.name} {value} is not from {size.least} to {size.most}, as this model takes")
    return value
