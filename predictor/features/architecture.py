"""Features of the model definition: 44 values that sum up its operators, or that it states as totals.

All are per sample and for the forward pass, as the definition states them. A job without a definition has
NaN in every one of them; a value that does not apply to a model (heads of one without attention), or that totals
leave out, is NaN.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.operator_classes import CLASSES, OTHER, operator_class
from leap.predictor.features.spec import Described
from leap.schemas.launch import ModelDefinition, ModelTotals, Operator

Floats = NDArray[np.float64]

#: Forward passes that a training step costs: one forward, and the backward pass twice its FLOP and bytes.
FORWARD_PASSES_PER_STEP = 3.0
_COUNTED = (*CLASSES, OTHER)
_CODES = {name: code for code, name in enumerate(_COUNTED)}
_WITH_PARAMETERS = ("matmul", "conv", "embedding", "attention", "recurrent", OTHER)
_WITH_FLOPS = ("matmul", "conv", "embedding", "attention", "recurrent", "elementwise")
_NAMED_BITS = {"amp": 16.0, "mixed": 16.0, "half": 16.0, "single": 32.0, "double": 64.0}

_NO_DEFINITION = "without a definition"
_NO_PARAMETERS, _NO_FLOPS = "where the model has no parameters", "where it states no FLOP"
_EMBEDDING = "where no table states it"
_OUTPUT, _ATTENTION = "where no output states it", "where no attention states it"


def _of_operators(formula: str, unit: str = "", missing: str = _NO_DEFINITION) -> Described:
    return Described(formula, unit, missing)


#: Name to its formula over the operators o and edges of the definition; the order of the columns.
TABLE: dict[str, Described] = {
    "operators": _of_operators("number of o"),
    "edges": _of_operators("number of edges"),
    "depth": _of_operators("o on the longest path"),
    "width": _of_operators("operators / depth"),
    "fan_out": _of_operators("most edges that leave one o"),
    "fan_in": _of_operators("most edges that enter one o"),
    "kinds": _of_operators("number of distinct kinds of o"),
    "parameters": _of_operators("Σ parameters", "values"),
    "flops": _of_operators("Σ flops", "FLOP per sample"),
    "bytes": _of_operators("Σ bytes", "bytes per sample"),
    "intensity": _of_operators("flops / bytes", "FLOP per byte", "where it states no bytes"),
    "flops_per_parameter": _of_operators("flops / parameters", "FLOP per sample and value", _NO_PARAMETERS),
    **{f"{name}_operators": _of_operators(f"number of o of class {name}") for name in _COUNTED},
    **{
        f"{name}_parameter_share": _of_operators(f"Σ parameters of class {name} / parameters", "share", _NO_PARAMETERS)
        for name in _WITH_PARAMETERS
    },
    **{
        f"{name}_flop_share": _of_operators(f"Σ flops of class {name} / flops", "share", _NO_FLOPS)
        for name in _WITH_FLOPS
    },
    "largest_parameter_share": _of_operators("max parameters of one o / parameters", "share", _NO_PARAMETERS),
    "largest_flop_share": _of_operators("max flops of one o / flops", "share", _NO_FLOPS),
    "embedding_rows": _of_operators("Σ rows of class embedding", "rows", _EMBEDDING),
    "embedding_largest": _of_operators("max rows of class embedding", "rows", _EMBEDDING),
    "embedding_dim": _of_operators("mean dim of class embedding", "values", _EMBEDDING),
    "heads": _of_operators("mean heads of class attention", "", _ATTENTION),
    "head_dim": _of_operators("mean head_dim of class attention", "values", _ATTENTION),
    "layer_width": _of_operators("max last dimension of an output", "values", _OUTPUT),
    "activations": _of_operators("Σ values of the output", "values per sample"),
    "largest_activation": _of_operators("max values of one output", "values per sample"),
    "sequence": _of_operators("max second last dimension of an output of class attention", "positions", _ATTENTION),
    "precision_bits": _of_operators("bits of the definition's precision", "bits", "where it states none that is known"),
}
NAMES: tuple[str, ...] = tuple(TABLE)
#: What grows with the model.
TOTALS: tuple[str, ...] = ("operators", "parameters", "flops", "bytes", "embedding_rows", "activations")


@lru_cache(maxsize=1 << 10)
def bits_of(precision: str | None) -> float:
    """Bits of a number format; NaN for none that is known.

    Examples
    --------
    >>> bits_of("bf16"), bits_of("fp8_mx"), bits_of("NVFP4"), bits_of("amp"), bits_of("O2")
    (16.0, 8.0, 4.0, 16.0, nan)
    """
    name = (precision or "").lower()
    found = re.search(r"(?:f|fp|bf|tf|float|bfloat|int|uint)(4|8|16|32|64)(?!\d)", name)
    return float(found.group(1)) if found else _NAMED_BITS.get(name, np.nan)


def summary(model: ModelDefinition) -> dict[str, float]:
    """The values of one definition; those that do not apply, or that its totals leave out, are left out.

    Linear in operators and edges. An edge of a cycle adds nothing to the depth.

    Examples
    --------
    >>> layer = Operator(kind="linear", shape=(8,), parameters=72, flops=128.0, bytes=352.0)
    >>> values = summary(ModelDefinition(operators=(layer, layer), edges=((0, 1),)))
    >>> values["depth"], values["parameters"], values["matmul_flop_share"]
    (2.0, 144.0, 1.0)
    >>> summary(ModelDefinition(totals=ModelTotals(training_flops=3e9, bytes=1e8)))
    {'flops': 1000000000.0, 'bytes': 100000000.0, 'intensity': 10.0}
    """
    values = _of_totals(model.totals) if model.totals else _of_graph(model.operators, model.edges)
    for name, part, whole in _RATIOS:
        if part in values and values.get(whole, 0) > 0:
            values[name] = values[part] / values[whole]
    bits = bits_of(model.precision)
    if not np.isnan(bits):
        values["precision_bits"] = bits
    return {name: float(values[name]) for name in NAMES if name in values}


def to_totals(model: ModelDefinition) -> ModelDefinition:
    """The definition with totals in the place of its operators: what is learned from is the same."""
    totals = {name: value for name, value in summary(model).items() if name in ModelTotals.__struct_fields__}
    return ModelDefinition(totals=ModelTotals(**totals), precision=model.precision, name=model.name)


_RATIOS = (
    ("width", "operators", "depth"),
    ("intensity", "flops", "bytes"),
    ("flops_per_parameter", "flops", "parameters"),
)


def _of_totals(totals: ModelTotals) -> dict[str, float]:
    values = totals.values()
    if "training_flops" in values:
        values["flops"] = values.pop("training_flops") / FORWARD_PASSES_PER_STEP
    return values


def _of_graph(operators: Sequence[Operator], edges: tuple[tuple[int, ...], ...]) -> dict[str, float]:
    kinds = [operator.kind for operator in operators]
    class_of_kind = {kind: operator_class(kind) for kind in set(kinds)}
    code = np.array([_CODES[class_of_kind[kind]] for kind in kinds])
    sums = [(operator.parameters, operator.flops, operator.bytes, _elements(operator)) for operator in operators]
    parameters, flops, moved, outputs = np.array(sums, dtype=np.float64).T
    depth, fan_out, fan_in = _graph(len(operators), edges)
    values: dict[str, float] = {
        "operators": len(operators),
        "edges": len(edges),
        "depth": depth,
        "fan_out": fan_out,
        "fan_in": fan_in,
        "kinds": len(class_of_kind),
        "parameters": parameters.sum(),
        "flops": flops.sum(),
        "bytes": moved.sum(),
        "activations": outputs.sum(),
        "largest_activation": outputs.max(),
    }
    counts = np.bincount(code, minlength=len(_COUNTED)).tolist()
    values |= {f"{name}_operators": count for name, count in zip(_COUNTED, counts, strict=True)}
    values |= _shares(parameters, "parameter", code, _WITH_PARAMETERS)
    values |= _shares(flops, "flop", code, _WITH_FLOPS)
    values |= _stated({"layer_width": _largest(operators, -1)})
    values |= _embeddings(_of_class(operators, code, "embedding"))
    values |= _attention(_of_class(operators, code, "attention"))
    return values


def _elements(operator: Operator) -> float:
    product = 1.0
    for size in operator.shape:
        product *= max(size, 1)
    return product if operator.shape else 0.0


def _of_class(operators: Sequence[Operator], code: NDArray[np.intp], name: str) -> list[Operator]:
    return [operators[row] for row in np.flatnonzero(code == _CODES[name]).tolist()]


def _shares(amounts: Floats, of: str, code: NDArray[np.intp], classes: Sequence[str]) -> dict[str, float]:
    total = amounts.sum()
    if total <= 0:
        return {}
    of_class = (np.bincount(code, amounts, minlength=len(_COUNTED)) / total).tolist()
    shares = {f"{name}_{of}_share": of_class[_CODES[name]] for name in classes}
    return shares | {f"largest_{of}_share": float(amounts.max() / total)}


def _mean_attribute(operators: list[Operator], name: str) -> float | None:
    stated = [operator.attributes[name] for operator in operators if name in operator.attributes]
    return float(np.mean(stated)) if stated else None


def _largest(operators: Sequence[Operator], axis: int) -> float | None:
    """Largest of one dimension of the outputs, of those that have it and do not leave it open."""
    sizes = [operator.shape[axis] for operator in operators if len(operator.shape) >= -axis]
    return max((float(size) for size in sizes if size > 0), default=None)


def _stated(values: dict[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in values.items() if value is not None}


def _embeddings(tables: list[Operator]) -> dict[str, float]:
    rows = [table.attributes["rows"] for table in tables if "rows" in table.attributes]
    return _stated(
        {
            "embedding_rows": sum(rows) if rows else None,
            "embedding_largest": max(rows) if rows else None,
            "embedding_dim": _mean_attribute(tables, "dim"),
        }
    )


def _attention(operators: list[Operator]) -> dict[str, float]:
    return _stated(
        {
            "heads": _mean_attribute(operators, "heads"),
            "head_dim": _mean_attribute(operators, "head_dim"),
            "sequence": _largest(operators, -2),
        }
    )


def _graph(count: int, edges: tuple[tuple[int, ...], ...]) -> tuple[int, int, int]:
    """Depth (Kahn's algorithm), greatest out-degree and greatest in-degree.

    Targets lie in one list, by source: a list for each operator would have Python look for garbage among them.
    """
    if not edges:
        return 1, 0, 0
    ends = np.fromiter(chain.from_iterable(edges), dtype=np.intp, count=2 * len(edges))
    source, target = ends[::2], ends[1::2]
    leaving, entering = np.bincount(source, minlength=count), np.bincount(target, minlength=count)
    level = [1] * count
    if (source < target).all() and (source[1:] >= source[:-1]).all():  # in topological order, as describers write them
        for start, end in edges:
            if level[end] <= level[start]:
                level[end] = level[start] + 1
        return max(level), int(leaving.max()), int(entering.max())
    targets = target[np.argsort(source, kind="stable")].tolist()
    first = [0, *np.cumsum(leaving).tolist()]
    waiting = entering.tolist()
    ready = [node for node in range(count) if not waiting[node]]
    for node in ready:  # which grows meanwhile
        deeper = level[node] + 1
        for following in targets[first[node] : first[node + 1]]:
            level[following] = max(level[following], deeper)
            waiting[following] -= 1
            if not waiting[following]:
                ready.append(following)
    return max(level), int(leaving.max()), int(entering.max())
