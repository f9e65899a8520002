"""Inputs of one sample for a model of the transformers library; nothing here needs the library."""

from collections.abc import Collection, Mapping
from typing import Any

from leap.predictor.describe.builder import NotDescribed

#: Tokens of a sample where nothing says how many and the model does not take fewer.
USUAL_TOKENS = 2048
#: Pixels of an image's side where the configuration does not say.
USUAL_SIDE = 224
#: Values of a sound where nothing says how many: one second.
USUAL_SAMPLES = 16_000
#: Size to the inputs that it measures.
INPUTS = {
    "tokens": ("input_ids", "decoder_input_ids"),
    "image_size": ("pixel_values",),
    "samples": ("input_values",),
}


def fit_image(config: Any, sizes: Mapping[str, int]) -> None:
    """Make the configuration that of a model for images of the size that is asked for, where it states one."""
    parts: list[Any] = [config, getattr(config, "vision_config", None)]
    for part in parts:
        if "image_size" in sizes and hasattr(part, "image_size"):
            part.image_size = sizes["image_size"]


def input_shapes(config: Any, taken: Collection[str], sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Shapes of all inputs that the model takes, by name; the first dimension is one.

    Parameters
    ----------
    config
        Of the model, with the attributes of the library.
    taken
        Names of the arguments of its forward pass.
    sizes
        What a sample measures where not as the model's own, by a name of `INPUTS`.

    Raises
    ------
    NotDescribed
        If a size is none of the model's or too large for it, or the model takes none of these inputs.
    """
    measured = [size for size, names in INPUTS.items() if set(names) & set(taken)]
    if strange := sizes.keys() - set(measured):
        raise NotDescribed(f"no size {', '.join(sorted(strange))}; this model has {', '.join(measured) or 'none'}")
    shapes: dict[str, tuple[int, ...]] = {}
    if "input_features" in taken:
        shapes["input_features"] = _spectrogram(config)
    if "pixel_values" in taken:
        shapes["pixel_values"] = _image(config, sizes)
    if "input_values" in taken:
        shapes["input_values"] = (1, sizes.get("samples", USUAL_SAMPLES))
    if "tokens" in measured:
        shapes |= _text(config, taken, sizes)
    if not shapes:
        raise NotDescribed("takes neither text nor images nor sound; describe the module with --torch")
    return shapes


def _text(config: Any, taken: Collection[str], sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    text = config.get_text_config()
    most = getattr(text, "max_position_embeddings", None) or getattr(text, "max_target_positions", None)
    usual = most or getattr(text, "n_positions", None) or USUAL_TOKENS  # what t5 was trained with is no limit
    tokens = sizes.get("tokens", min(usual, USUAL_TOKENS))
    if not 1 <= tokens <= (most or tokens):
        raise NotDescribed(f"tokens {tokens} is not from 1 to {most or 'any number'}, as this model takes")
    names = [name for name in INPUTS["tokens"] if name in taken]
    if len(names) == 2:
        names.append("attention_mask")  # not all of these make their own
    return dict.fromkeys(names, (1, tokens))


def _image(config: Any, sizes: Mapping[str, int]) -> tuple[int, ...]:
    stated = getattr(config, "vision_config", config)
    side = sizes.get("image_size") or getattr(stated, "image_size", None) or USUAL_SIDE
    height, width = side if isinstance(side, list | tuple) else (side, side)
    return (1, getattr(stated, "num_channels", 3), height, width)


def _spectrogram(config: Any) -> tuple[int, ...]:
    """As long as the model takes, before a convolution halves it."""
    try:
        return (1, config.num_mel_bins, 2 * config.max_source_positions)
    except AttributeError:
        raise NotDescribed("the configuration says nothing of the size of input_features; use --torch") from None
