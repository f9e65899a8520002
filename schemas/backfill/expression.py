"""User-defined arithmetic over columns; parsed, never evaluated as Python."""

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping

MAX_LENGTH = 1000
MAX_DEPTH = 50

_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
#: Name to the number of arguments and the function.
_FUNCTIONS: dict[str, tuple[int, Callable[..., float]]] = {
    "min": (2, min), "max": (2, max), "floor": (1, math.floor), "ceil": (1, math.ceil)
}  # fmt: skip
_QUOTED = re.compile("`([^`]+)`")
_ALLOWED = (
    "write + - * /, numbers, min(a, b), max(a, b), floor(a), ceil(a), and names of columns, "
    "between backticks where they have more than letters, digits and _"
)


class Expression:
    """``+ - * /``, parentheses, numbers, column names, ``min(a, b)``, ``max(a, b)``, ``floor(a)`` and ``ceil(a)``.

    A column whose name has more than letters, digits and underscores stands between backticks.

    Raises
    ------
    ValueError
        If the text contains anything else; the message says what.

    Examples
    --------
    >>> Expression("batch / max(nodes, 1)").evaluate({"batch": 64, "nodes": 0})
    64.0
    >>> Expression("ceil(`GPU Count` / 8)").evaluate({"GPU Count": 12})
    2.0
    >>> Expression("__import__('os')")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: `__import__('os')` in an expression: write + - * /, numbers, min(a, b), ...
    """

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise ValueError(f"an expression of {len(text)} characters is over the limit of {MAX_LENGTH}")
        quoted: dict[str, str] = {}
        plain = _QUOTED.sub(lambda name: quoted.setdefault(name[0], f"_quoted_{len(quoted)}_"), text)
        try:
            self._root = ast.parse(plain, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ValueError(f"`{text}` is not an expression: {error}; {_ALLOWED}") from error
        names = {stand_in: name.strip("`") for name, stand_in in quoted.items()}
        for node in ast.walk(self._root):
            if isinstance(node, ast.Name):
                node.id = names.get(node.id, node.id)
        columns: list[str] = []
        try:
            _check(self._root, columns, 0)
        except RecursionError as error:  # raised by ast.unparse for the error message
            raise ValueError(f"an expression nested more than {MAX_DEPTH} deep") from error
        self.columns = tuple(dict.fromkeys(columns))

    def evaluate(self, row: Mapping[str, float]) -> float:
        """Evaluate with the columns of `row`.

        Raises
        ------
        ValueError
            If the result is not finite or divides by zero.
        """
        try:
            value = float(_evaluate(self._root, row))
        except (ZeroDivisionError, OverflowError) as error:
            raise ValueError(f"{error}") from error
        if not math.isfinite(value):
            raise ValueError(f"the result is {value}")
        return value


def _check(node: ast.expr, columns: list[str], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ValueError(f"an expression nested more than {MAX_DEPTH} deep")
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            pass
        case ast.Name(id=name):
            columns.append(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            _check(operand, columns, depth + 1)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            _check(left, columns, depth + 1)
            _check(right, columns, depth + 1)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if (
            name in _FUNCTIONS and len(arguments) == _FUNCTIONS[name][0]
        ):
            for argument in arguments:
                _check(argument, columns, depth + 1)
        case _:
            raise ValueError(f"`{ast.unparse(node)}` in an expression: {_ALLOWED}")


def _evaluate(node: ast.expr, row: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.Name(id=name):
            return row[name]
        case ast.UnaryOp(operand=operand):
            return -_evaluate(operand, row)
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_evaluate(left, row), _evaluate(right, row))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _FUNCTIONS[name][1](*(_evaluate(argument, row) for argument in arguments))
    raise AssertionError(f"_check let {ast.dump(node)} through")
