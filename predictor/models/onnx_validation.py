"""What an ONNX graph may consist of, read from its bytes before anything runs: the few operators that Leap exports.

ONNX Runtime takes any graph: loops, constants that unfold to terabytes, trees that look at features beyond the row
(measured: it reads foreign memory). The onnx package would be heavier than all of serving, so the protobuf fields
are walked here, and whatever is not known is refused.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

MAX_NODES = 512
#: Longest constant, by its bytes in the file: weights of trees are no constants.
MAX_CONSTANT_BYTES = 65_536
#: Of one message: many empty ones, of two bytes each, would unfold to gigabytes.
MAX_FIELDS = 16_384
TREES = "TreeEnsemble"
OPERATORS = {"Add", "Clip", "Concat", "Constant", "CumSum", "Div", "GatherElements", "Max", "Mul", "ReduceSum", "Slice"}
OPERATORS |= {"Softmax", "Squeeze", "Sub", "TopK"}

# Numbers of the fields that may be there, from the published onnx.proto.
MODEL = {1: "ir_version", 2: "producer_name", 3: "producer_version", 4: "domain", 5: "model_version", 6: "doc_string"}
MODEL |= {7: "graph", 8: "opset_import", 14: "metadata_props"}
GRAPH = {1: "node", 2: "name", 10: "doc_string", 11: "input", 12: "output", 13: "value_info"}
NODE = {1: "input", 2: "output", 3: "name", 4: "op_type", 5: "attribute", 6: "doc_string", 7: "domain"}
ATTRIBUTE = {1: "name", 2: "f", 3: "i", 4: "s", 5: "t", 7: "floats", 8: "ints", 13: "doc_string", 20: "type"}
TENSOR = {1: "dims", 2: "data_type", 4: "float_data", 5: "int32_data", 7: "int64_data", 8: "name", 9: "raw_data"}

#: Those that hold no bytes. A parser passes over a field of another form than declared, so none may be there.
NUMBERS = {"ir_version", "model_version", "f", "i", "floats", "ints", "type", "dims", "data_type"}
NUMBERS |= {"float_data", "int32_data", "int64_data"}

#: Attributes of trees that are looked at.
WATCHED = ("n_targets", "nodes_featureids", "tree_roots")

INTS_TAG = 8 << 3
_WIDTHS = {1: 8, 5: 4}


def check(data: bytes) -> int:
    """Return if a graph (a serialized ModelProto) holds nothing but what Leap exports.

    Returns
    -------
    int
        How many columns a row must have for its trees.

    Raises
    ------
    ValueError
        If it holds anything else; the message says what.
    """
    try:
        graphs = [value for name, value in _fields(memoryview(data), MODEL, "model") if name == "graph"]
        if len(graphs) != 1:
            raise ValueError(f"{len(graphs)} graphs")
        nodes = [value for name, value in _fields(graphs[0], GRAPH, "graph") if name == "node"]
        if len(nodes) > MAX_NODES:
            raise ValueError(f"{len(nodes)} operators, over the limit of {MAX_NODES}")
        trees: set[bytes] = set()
        return max((_check_node(node, trees) for node in nodes), default=0)
    except (IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"not whole: {error}") from error


def _check_node(node: memoryview, trees: set[bytes]) -> int:
    """Columns that an operator needs; its outputs are added to `trees` if it is one of trees."""
    parts: dict[str, list[memoryview]] = {name: [] for name in NODE.values()}
    for name, value in _fields(node, NODE, "operator"):
        parts[name].append(value)
    kind = bytes(parts["op_type"][-1]).decode() if parts["op_type"] else ""
    domain = bytes(parts["domain"][-1]).decode() if parts["domain"] else ""
    if kind == TREES and domain == "ai.onnx.ml":
        trees |= {bytes(output) for output in parts["output"]}
        return _check_trees(parts["attribute"])
    if kind not in OPERATORS or domain:
        raise ValueError(f"operator {kind!r:.60} of domain {domain!r:.60}, which no model of Leap has")
    if kind == "Concat" and not {bytes(one) for one in parts["input"]} <= trees:
        raise ValueError("a Concat of something else than trees")  # a few of them would double without end
    for attribute in parts["attribute"]:
        if len(attribute) > MAX_CONSTANT_BYTES:
            raise ValueError(f"an attribute of {len(attribute)} bytes, over the limit of {MAX_CONSTANT_BYTES}")
        constants = [value for name, value in _fields(attribute, ATTRIBUTE, "attribute") if name == "t"]
        fields = [field for constant in constants for field in _fields(constant, TENSOR, "constant")]
        # Several may be packed into one field, and parts of one constant be scattered; each ends in a byte below 128.
        dimensions = sum(byte < 128 for name, value in fields if name == "dims" for byte in value)
        if dimensions > 1:
            raise ValueError(f"a constant of {dimensions} dimensions")
    return 0


def _check_trees(attributes: list[memoryview]) -> int:
    numbers: dict[str, NDArray[np.int64]] = {}
    outputs = []
    for attribute in attributes:
        name, rest = _name(attribute)
        data = bytes(rest)
        if any(other.encode() in data for other in WATCHED):
            raise ValueError(f"an attribute {name!r:.60} with another name behind it")  # the last would hold
        if name == "n_targets":
            outputs += [bytes(value) for field, value in _fields(rest, ATTRIBUTE, "attribute") if field == "i"]
        elif name in WATCHED:
            numbers[name] = _integers(rest, name)
    if outputs != [b"\1"]:
        raise ValueError("trees of another number of targets than one")  # each takes memory in every row
    looked_at = numbers.get("nodes_featureids", np.zeros(0, np.int64))
    if not len(looked_at) or looked_at.min() < 0:
        raise ValueError("trees that look at no features")
    if len(numbers.get("tree_roots", ())) > len(looked_at):
        raise ValueError("more trees than nodes")  # loading takes time by their product
    return int(looked_at.max()) + 1


def _fields(data: memoryview, known: dict[int, str], what: str) -> Iterator[tuple[str, memoryview]]:
    """Name and content of each field of a message; that of a number is its encoding."""
    at = count = 0
    while at < len(data):
        count += 1
        if count > MAX_FIELDS:
            raise ValueError(f"{what} of over {MAX_FIELDS} fields")
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if number not in known:
            raise ValueError(f"{what} with field {number}, which no model of Leap has")
        if wire != 2 and known[number] not in NUMBERS:
            raise ValueError(f"{what} with a number for its {known[number]}")
        if wire == 2:
            length, at = _varint(data, at)
            end = at + length
        elif wire == 0:
            end = _varint(data, at)[1]
        elif wire in _WIDTHS:
            end = at + _WIDTHS[wire]
        else:
            raise ValueError(f"{what} that is no protobuf")
        if end > len(data):
            raise ValueError(f"{what} that is cut short")
        yield known[number], data[at:end]
        at = end


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """Number that begins at a position, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _name(attribute: memoryview) -> tuple[str, memoryview]:
    """Name of an attribute, which stands first, and what follows."""
    tag, at = _varint(attribute, 0)
    if tag != (1 << 3 | 2):
        raise ValueError("an attribute that does not begin with its name")
    length, at = _varint(attribute, at)
    return bytes(attribute[at : at + length]).decode(), attribute[at + length :]


def _integers(data: memoryview, name: str) -> NDArray[np.int64]:
    """The integers of an attribute, each after its tag, and nothing else but its type.

    Some hundred thousand of them are no work for Python's loops.
    """
    raw = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(raw < 128) + 1
    starts = np.concatenate([[0], ends[:-1]])
    tags, values = starts[::2], slice(1, None, 2)
    first, last = starts[values], ends[values]
    is_type = (raw[tags[: len(first)]] == (20 << 3 & 127 | 128)) if len(tags) else np.zeros(0, bool)
    if len(ends) % 2 or np.any((raw[tags] != INTS_TAG) & ~is_type[: len(tags)]) or np.any(last - first > 9):
        raise ValueError(f"{name} are not plain integers")
    found = (raw[first] & 127).astype(np.int64)
    longer = np.flatnonzero(last - first > 1)
    for place in range(1, int((last - first).max(initial=0))):
        longer = longer[first[longer] + place < last[longer]]
        found[longer] |= (raw[first[longer] + place] & 127).astype(np.int64) << 7 * place
    plain: NDArray[np.int64] = found[~is_type]
    return plain
