"""Mappings as files: those that come with Leap, and what ``extends`` one of them."""

from pathlib import Path
from typing import Any

from leap.schemas.errors import LeapError
from leap.schemas.safe_yaml import YamlError, read_yaml

FOLDER = Path(__file__).parent.parent / "mappings"
MAX_BYTES = 262_144
MAX_EXTENDED = 4

#: Fields of which a mapping has one: to state the one takes the other away.
_EITHER = {"run_seconds": "finished_at", "finished_at": "run_seconds"}


class MappingError(LeapError, ValueError):
    """An invalid mapping; the text names the file, the field and a remedy."""


def shipped() -> tuple[str, ...]:
    """Names of the mappings that come with Leap."""
    return tuple(sorted(file.stem for file in FOLDER.glob("*.yaml")))


def read_mapping(name: str | Path, extended: int = 0) -> tuple[Path, Any]:
    """The file of a mapping, and its content with what it extends.

    A mapping with ``extends: slurm`` states only what differs from that one: its `derived`, `config`, `extra`,
    `measurements` and `table` are added entry by entry, everything else replaces.

    Raises
    ------
    MappingError
        If a file cannot be read, is not YAML, or extends others without end.
    """
    built_in = FOLDER / f"{name}.yaml"
    path = built_in if "/" not in str(name) and built_in.is_file() else Path(name)
    try:
        content = read_yaml(path, MAX_BYTES)
    except OSError as error:
        raise MappingError(f"{path}: {error.strerror}; give a file, or one of {', '.join(shipped())}") from error
    except YamlError as error:
        raise MappingError(f"{path}: {error}; is it a mapping?") from error
    if not isinstance(content, dict) or "extends" not in content:
        return path, content
    base = content.pop("extends")
    if not isinstance(base, str) or extended == MAX_EXTENDED:
        raise MappingError(f"{path}: extends: name one mapping, which may extend others {MAX_EXTENDED} deep")
    if base not in shipped():
        base = str(path.parent / base)
    return path, _merged(read_mapping(base, extended + 1)[1], content)


def _merged(base: Any, changes: dict[Any, Any]) -> dict[Any, Any]:
    merged = dict(base) if isinstance(base, dict) else {}
    for name, value in changes.items():
        merged.pop(_EITHER.get(name), None)
        if isinstance(value, dict) and isinstance(merged.get(name), dict) and name in _GROUPS:
            merged[name] = {**merged[name], **value}
        else:
            merged[name] = value
    return merged


_GROUPS = frozenset({"derived", "config", "extra", "measurements", "table"})
