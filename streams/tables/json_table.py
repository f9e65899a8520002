"""Tables as JSON: a row an object, in lines or in one document; what is nested gets names with dots."""

import ast
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leap.streams.tables.table import PROBLEM, OpenTable, Row, TableError, check_names
from leap.streams.tables.text_table import find_encoding
from leap.streams.tables.unpacking import open_unpacked

MAX_LINE = 16 << 20
#: A document is read whole, lines are not.
MAX_DOCUMENT = 1 << 30
MAX_COLUMNS = 100_000
#: What names an object in a list, instead of its position: Kubernetes' conditions and variables, MLflow's parameters.
_KEYS = ("type", "name", "key")


def json_table(path: Path) -> OpenTable:
    """Open JSON lines, or a document that is a list of objects or has one (``items`` of `kubectl get jobs -o json`).

    Raises
    ------
    TableError
        If it is neither, or an object has two values of one name.
    """
    encoding, notes = find_encoding(path)
    try:
        with io.TextIOWrapper(open_unpacked(path), encoding) as file:
            first, second = file.readline(MAX_LINE), file.readline(MAX_LINE)
        if isinstance(_parsed(first), dict) and isinstance(_parsed(second), dict):
            records = None
        else:
            records = _records(path, encoding)
    except ValueError as error:
        raise TableError(f"{path}: cannot be read as JSON: {error}") from error

    def rows() -> Iterator[Row]:
        return _lines(path, encoding) if records is None else map(flattened, records)

    names = list(dict.fromkeys(name for row in rows() for name in row if name != PROBLEM))
    return OpenTable(check_names(path, names), rows, notes)


def flattened(value: Any, prefix: str = "") -> Row:
    """Leaves of nested data by their paths.

    Objects in a list are reached by their position, and by their type, name or key too. One that is a pair of name and
    value is the value.

    >>> flattened({"a": {"b": 1}, "env": [{"name": "MODEL", "value": "bert"}]})
    {'a.b': 1, 'env.0': 'bert', 'env.MODEL': 'bert'}
    """
    row: Row = {}
    waiting = [(prefix, value)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict) and value:
            below = list(value.items())
        elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            below = _items(value)
        else:
            row[path] = value
            continue
        if len(row) + len(waiting) > MAX_COLUMNS:
            raise ValueError(f"an object of more than {MAX_COLUMNS:,} values")
        waiting += reversed([(f"{path}.{name}" if path else str(name), item) for name, item in below])
    return row


def nested(cell: Any) -> Any:
    """What a cell holds, from JSON or, as trackers' exports have it, from Python's notation.

    Raises
    ------
    ValueError
        If it is neither.
    """
    if not isinstance(cell, str):
        return cell
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(cell)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise ValueError("neither JSON nor a Python dictionary") from None


def _items(values: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    found: dict[str, Any] = {}
    for position, item in enumerate(values):
        name = next((item[key] for key in _KEYS if isinstance(item.get(key), str)), None)
        pair = name is not None and "value" in item and "type" not in item
        found[str(position)] = item["value"] if pair else item
        if name:
            found.setdefault(name, found[str(position)])
    return list(found.items())


def _records(path: Path, encoding: str) -> list[dict[str, Any]]:
    with io.TextIOWrapper(open_unpacked(path), encoding) as file:
        text = file.read(MAX_DOCUMENT)
    if len(text) == MAX_DOCUMENT:
        raise ValueError("a document over 1 GiB; write one object a line")
    document = _loaded(text)
    lists = [document] if isinstance(document, list) else []
    if isinstance(document, dict):
        lists = [value for value in document.values() if isinstance(value, list) and value and _objects(value)]
        lists = lists or [[document]]
    if len(lists) != 1 or not _objects(lists[0]):
        raise ValueError("no list of objects, one a job; write such a list, or one object a line")
    return lists[0]


def _objects(values: list[Any]) -> bool:
    return all(isinstance(value, dict) for value in values)


def _lines(path: Path, encoding: str) -> Iterator[Row]:
    with io.TextIOWrapper(open_unpacked(path), encoding) as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE), ""), 1):
            if not line.strip():
                continue
            try:
                value = _loaded(line)
            except TableError as error:
                raise TableError(f"{path}: line {number}: {error}") from error
            except ValueError as error:
                yield {PROBLEM: f"not JSON: {error}"}
                continue
            yield flattened(value) if isinstance(value, dict) else {PROBLEM: "no JSON object"}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        raise TableError(f"duplicate names in an object: {next(name for name in names if names.count(name) > 1)!r}")
    return value


def _loaded(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _parsed(line: str) -> Any:
    try:
        return _loaded(line)
    except TableError:
        return {}
    except ValueError:
        return None
