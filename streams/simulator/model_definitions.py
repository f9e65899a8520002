"""Model definitions of the simulated fleet, one builder per domain.

A builder takes a size between 0 and 1 (the smallest and the largest model of its domain) and returns the
operators of the forward pass, per sample, with the usual arithmetic: a matrix product of t rows costs
2 t m n operations, a convolution 2 h w k k c_in c_out, attention 4 t t d. Bytes are those of activations
(two bytes each, read and written) and of embedding rows; weights are read once per step, not per sample.
"""

from collections.abc import Callable
from typing import NamedTuple

from leap.schemas.launch import ModelDefinition, Operator

_SHOWN_LAYERS = 12  # deeper stacks are given as 12 groups, so that a submission stays a few kB


class Sized(NamedTuple):
    """A model definition and the tokens per sample that it was written for (0: it has none)."""

    definition: ModelDefinition
    tokens: int


def matmul(name: str, rows: float, width_in: int, width_out: int, repeats: float = 1.0) -> Operator:
    """A dense layer over `rows` rows, `repeats` times."""
    return Operator(
        kind="matmul",
        name=name,
        shape=(-1, width_out),
        parameters=round(repeats * width_in * width_out),
        flops=2.0 * repeats * rows * width_in * width_out,
        bytes=2.0 * repeats * rows * (width_in + width_out),
        attributes={"width_in": width_in, "width_out": width_out, "repeats": repeats},
    )


def conv(name: str, side: int, channels_in: int, channels_out: int, kernel: int = 3) -> Operator:
    """A convolution with a square output of `side` pixels."""
    weights = kernel * kernel * channels_in * channels_out
    return Operator(
        kind="conv",
        name=name,
        shape=(channels_out, side, side),
        parameters=weights,
        flops=2.0 * side * side * weights,
        bytes=2.0 * side * side * (channels_in + channels_out),
        attributes={"kernel": kernel, "channels_in": channels_in, "channels_out": channels_out},
    )


def attention(name: str, tokens: float, width: int, heads: int, repeats: float = 1.0) -> Operator:
    """Attention of every token to every token."""
    return Operator(
        kind="attention",
        name=name,
        shape=(-1, width),
        flops=4.0 * repeats * tokens * tokens * width,
        bytes=2.0 * repeats * tokens * 4 * width,
        attributes={"heads": heads, "head_dim": width // heads, "repeats": repeats},
    )


def norm(name: str, rows: float, width: int, repeats: float = 1.0) -> Operator:
    """A layer normalisation."""
    return Operator(
        kind="norm",
        name=name,
        shape=(-1, width),
        parameters=round(2 * repeats * width),
        flops=5.0 * repeats * rows * width,
        bytes=4.0 * repeats * rows * width,
        attributes={"repeats": repeats},
    )


def embedding(name: str, rows: int, dim: int, lookups: float) -> Operator:
    """A table of which a sample reads `lookups` rows."""
    return Operator(
        kind="embedding",
        name=name,
        shape=(-1, dim),
        parameters=rows * dim,
        flops=lookups * dim,
        bytes=4.0 * lookups * dim,
        attributes={"rows": rows, "dim": dim, "lookups": lookups},
    )


def _define(operators: list[Operator], name: str) -> ModelDefinition:
    edges = tuple((i, i + 1) for i in range(len(operators) - 1))
    return ModelDefinition(operators=tuple(operators), edges=edges, name=name)


def _blocks(tokens: float, width: int, layers: int, expansion: int = 4) -> list[Operator]:
    shown = min(layers, _SHOWN_LAYERS)
    per_group, heads = layers / shown, max(1, width // 64)
    return [
        operator
        for layer in range(shown)
        for operator in (
            norm(f"layer{layer}.norm", tokens, width, 2 * per_group),
            matmul(f"layer{layer}.qkv", tokens, width, 3 * width, per_group),
            attention(f"layer{layer}.attention", tokens, width, heads, per_group),
            matmul(f"layer{layer}.out", tokens, width, width, per_group),
            matmul(f"layer{layer}.up", tokens, width, expansion * width, per_group),
            matmul(f"layer{layer}.down", tokens, expansion * width, width, per_group),
        )
    ]


def recommendation(size: float, name: str) -> Sized:
    """Embedding tables, their pairwise interaction, and dense layers; 0.1 to 15 GFLOP a sample."""
    tables, dim, width = 8 + int(16 * size), 64 << int(2.9 * size), 64 * round(10 ** (2.25 + 0.7 * size))
    operators = [
        embedding(f"table{i}", int(10 ** (4.5 + 1.8 * size + 0.6 * (i % 3))), dim, 20.0 * (1 + i % 5))
        for i in range(tables)
    ]
    operators += [matmul("bottom0", 1, 512, width), matmul("bottom1", 1, width, dim)]
    operators += [matmul("interaction", tables, dim, tables), matmul("top0", 1, tables * tables + dim, width)]
    operators += [matmul(f"top{i}", 1, width, width) for i in range(1, 5 + int(6 * size))]
    return Sized(_define([*operators, matmul("head", 1, width, 1)], name), 0)


def transformer(size: float, name: str) -> Sized:
    """A language model of 30 million to 50 billion parameters."""
    width, layers = 64 * round(2 ** (2.0 + 1.8 * size + 2.8 * size**3)), 6 + round(60 * size**3)
    tokens = 512 << int(2.5 * size)
    head = matmul("head", tokens, width, 32_000)
    return Sized(
        _define([embedding("tokens", 32_000, width, tokens), *_blocks(tokens, width, layers), head], name),
        tokens,
    )


def convolution(size: float, name: str) -> Sized:
    """Five stages of convolutions over an image; 1 to 60 GFLOP."""
    base, depth, side = 8 * round(2 ** (2.4 + 2.6 * size)), 2 + round(5 * size), 224 + 32 * round(4 * size)
    operators = [conv("stem", side // 2, 3, base, 7)]
    for stage in range(4):
        width, pixels = base << stage, side >> (stage + 2)
        for block in range(depth):
            operators.append(conv(f"stage{stage}.{block}", pixels, width, width))
            operators.append(norm(f"stage{stage}.{block}.norm", pixels * pixels, width))
        operators.append(conv(f"stage{stage}.widen", pixels, width, 2 * width, 1))
    return Sized(_define([*operators, matmul("head", 1, base << 4, 1000)], name), 0)


def speech(size: float, name: str) -> Sized:
    """Attention and convolution over frames of sound."""
    width, layers, frames = 64 * round(2 ** (1.4 + 2.1 * size)), 8 + round(16 * size), 400 + int(1200 * size)
    operators = [conv("subsample", 40, 1, width // 4)]
    for layer, operator in enumerate(_blocks(frames, width, layers)):
        operators.append(operator)
        if layer % 6 == 5:
            operators.append(matmul(f"conv{layer // 6}", frames, width, width * 2))
    return Sized(_define([*operators, matmul("ctc", frames, width, 4096)], name), frames)


def diffusion(size: float, name: str) -> Sized:
    """A U-shaped denoiser of images: convolutions with attention at the coarse levels."""
    base, side, depth = 32 * round(2 ** (1.8 + 1.9 * size)), 32 << int(1.9 * size), 2 + round(2 * size)
    operators = [conv("stem", side, 4, base)]
    for level in (0, 1, 2, 3, 2, 1, 0):
        width, pixels = base << min(level, 2), side >> level
        for _ in range(depth):
            operators += [norm("norm", pixels * pixels, width), conv("conv", pixels, width, width)]
        if level >= 2:
            operators.append(attention("attention", pixels * pixels, width, 8))
    return Sized(_define([*operators, conv("head", side, base, 4)], name), 0)


def graph(size: float, name: str) -> Sized:
    """Rounds of gathering neighbours and mixing their features."""
    width, rounds, nodes = 32 * round(2 ** (2.3 + 2.6 * size)), 2 + round(4 * size), 200 + int(2800 * size)
    operators = [embedding("nodes", int(10 ** (5 + 2.5 * size)), width, nodes)]
    for layer in range(rounds):
        operators.append(embedding(f"gather{layer}", 1, width, 12.0 * nodes))
        operators.append(matmul(f"message{layer}", nodes, width, width))
        operators.append(matmul(f"update{layer}", nodes, 2 * width, width))
        operators.append(norm(f"norm{layer}", nodes, width))
    return Sized(_define([*operators, matmul("head", 1, width, 64)], name), 0)


BUILDERS: dict[str, Callable[[float, str], Sized]] = {
    "recommendation": recommendation,
    "transformer": transformer,
    "convolution": convolution,
    "speech": speech,
    "diffusion": diffusion,
    "graph": graph,
}
