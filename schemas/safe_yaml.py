"""Safe YAML parsing: plain data of bounded size and depth."""

from pathlib import Path
from typing import Any

import yaml

from leap.schemas.errors import LeapError

MAX_BYTES = 1 << 20
MAX_DEPTH = 64


class YamlError(LeapError, ValueError):
    """Invalid YAML; the message says what is wrong, and where."""


class _Plain(yaml.SafeLoader):
    """Rejects aliases, by which a few lines can expand to gigabytes, and deep nesting."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise YamlError(f"an alias near line {self.line + 1}; write out what it stands for")
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise YamlError(f"nested deeper than {MAX_DEPTH} near line {self.line + 1}")
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


def read_yaml(path: Path, limit: int = MAX_BYTES) -> Any:
    """Read a file.

    Raises
    ------
    YamlError
        If it is larger than `limit` bytes, not UTF-8 or not YAML.
    OSError
        If it cannot be read.
    """
    with path.open("rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise YamlError(f"over {limit} bytes")
    return parse_yaml(data)


def parse_yaml(data: bytes) -> Any:
    """Read bytes.

    Raises
    ------
    YamlError
        If they are not UTF-8 or not YAML.

    Examples
    --------
    >>> parse_yaml(b"[1, {a: b}]")
    [1, {'a': 'b'}]
    """
    try:
        return yaml.load(data.decode("utf-8"), Loader=_Plain)
    except YamlError:
        raise
    except Exception as error:  # besides YAMLError, exceptions of the constructors for dates, numbers and tags
        raise YamlError(f"not YAML in UTF-8: {error}") from error
