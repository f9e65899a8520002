"""Model definitions from the ``config.json`` that stands beside a model's weights.

The model is the one that the transformers library makes of it, on the meta device: no weights are loaded or made,
nothing is fetched, and no code that a configuration points to is run. What is quantised is described in the type
that it is computed in.
"""

import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import msgspec

from leap.predictor.describe.builder import NotDescribed
from leap.predictor.describe.hf_inputs import fit_image, input_shapes
from leap.predictor.describe.torch_module import export
from leap.predictor.describe.torch_trace import Trace
from leap.schemas.launch import ModelDefinition

MAX_CONFIG_BYTES = 4 * 2**20


class _Named(msgspec.Struct):
    """What a configuration says of its model's class."""

    model_type: str
    architectures: tuple[str, ...] | None = None


def describe(path: Path, sizes: Mapping[str, int]) -> ModelDefinition:
    """The model that a configuration makes.

    Parameters
    ----------
    path
        ``config.json``.
    sizes
        What a sample measures where not as the model's own: ``tokens``, ``image_size`` in pixels, ``samples`` of
        sound.

    Raises
    ------
    NotDescribed
        If PyTorch or transformers is not installed, the file is not such a configuration, a size does not fit it,
        or its model cannot be traced.
    """
    return trace(path, sizes).definition()


def trace(path: Path, sizes: Mapping[str, int]) -> Trace:
    """What PyTorch says of the model that a configuration makes; see `describe`."""
    if path.stat().st_size > MAX_CONFIG_BYTES:
        raise NotDescribed(f"{path}: over {MAX_CONFIG_BYTES:,} bytes, which no configuration has")
    text = path.read_bytes()
    try:
        named, fields = msgspec.json.decode(text, type=_Named), msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotDescribed(f"{path}: {error}; a Hugging Face config.json with a model_type is expected") from None
    try:
        model, inputs = _build(named, fields, sizes)
    except NotDescribed as error:
        raise NotDescribed(f"{path}: {error}") from None
    except Exception as error:  # whatever the library raises on fields that do not fit each other
        raise NotDescribed(f"{path}: cannot be built: {type(error).__name__}: {str(error)[:500]}") from None
    return export(str(path), model, (), inputs)


def _build(named: _Named, fields: dict[str, Any], sizes: Mapping[str, int]) -> tuple[Any, dict[str, Any]]:
    """The model on the meta device, and its inputs by name."""
    try:
        import torch
        import transformers
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "transformers"):
            raise
        raise NotDescribed(
            "describing a configuration needs PyTorch and transformers; run: pip install torch 'transformers>=5'"
        ) from None
    if named.model_type not in transformers.CONFIG_MAPPING:
        raise NotDescribed(
            f"model_type {named.model_type!r} is not known to transformers {transformers.__version__}; install one "
            "that knows it, or describe the model's ONNX file, or its module with --torch"
        )
    config = transformers.CONFIG_MAPPING[named.model_type].from_dict(fields)
    fit_image(config, sizes)
    for part in (config, config.get_text_config()):
        part.use_cache = False  # a cache is for generating
    model_class = _class(named, config)
    with torch.device("meta"):
        model = model_class._from_config(config)
        head = model.get_output_embeddings()
        # The library ties the head of t5 and mt5 even so, and of their later versions it is not.
        if head is not None and fields.get("tie_word_embeddings") is False:
            head.weight = torch.nn.Parameter(torch.zeros(*head.weight.shape, dtype=model.dtype))
        _share_rows(model.modules())
        shapes = input_shapes(config, inspect.signature(model.forward).parameters, sizes)
        types = {name: torch.int64 if name.endswith(("ids", "mask")) else model.dtype for name in shapes}
        return model, {name: torch.zeros(*shape, dtype=types[name]) for name, shape in shapes.items()}


def _class(named: _Named, config: Any) -> Any:
    """Class of the model that the configuration names."""
    import transformers

    name = named.architectures[0] if named.architectures else None
    module = resolve_name(transformers.AutoModel._model_mapping[type(config)].__module__)
    known = [name for name in module.__all__ if not name.endswith("PreTrainedModel")]
    if name is None or name not in known:
        raise NotDescribed(f"the first of architectures is {name!r}; write one of {', '.join(known)} in a copy")
    return getattr(module, name)


def _share_rows(modules: Iterable[Any]) -> None:
    """Let each expert of a Switch Transformer take an equal share of the rows.

    The library calls them one by one on the rows that chose them, which only values tell. As many rows are
    computed: each goes through one expert.
    """
    import torch

    for module in modules:
        if type(module).__name__ == "SwitchTransformersTop1Router":
            classifier = module.classifier.to(module.dtype)
            classifier.to = lambda _, classifier=classifier: classifier  # the forward pass would cast it again
        elif type(module).__name__ == "SwitchTransformersExperts":

            def shared(rows: Any, _chosen: Any, weights: Any, experts: Any = module) -> Any:
                shares = zip(experts.values(), rows.tensor_split(len(experts)), strict=True)
                return torch.cat([expert(share) for expert, share in shares], 0) * weights

            module.forward = shared
