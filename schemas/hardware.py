"""The hardware catalog: specifications and prices of accelerators.

Hardware without any runs is ranked by these figures alone, and costs are computed from these prices, so a wrong entry
is worse than a missing one: every figure is range-checked on load, and figures not verified against a source are listed
in ``unverified``.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Self

import msgspec
from msgspec.structs import replace

from leap.schemas.errors import LeapError
from leap.schemas.names.accelerators import NEAREST, AcceleratorNames, Named, parse
from leap.schemas.names.slips import with_meant
from leap.schemas.own_catalog import merged
from leap.schemas.safe_yaml import YamlError, read_yaml
from leap.schemas.specification import SPECIFICATIONS, Hardware

__all__ = ["MAX_BYTES", "MAX_ENTRIES", "SPECIFICATIONS", "Catalog", "CatalogError", "Hardware", "load_catalog"]

MAX_BYTES = 1 << 20
MAX_ENTRIES = 4096
#: Spellings whose meaning is kept: a fleet has few, whatever the rate of its events.
_REMEMBERED = 4096


class CatalogError(LeapError, ValueError):
    """The catalog cannot be used; the message names the file, the entry, the field and the remedy."""


class Catalog(Mapping[str, Hardware]):
    """An immutable mapping from hardware type to its `Hardware`, sorted by name.

    >>> catalog = Catalog([Hardware(name="X2", vendor="V"), Hardware(name="X1", vendor="V", memory_gb=16)])
    >>> list(catalog), catalog["X1"].memory_gb, catalog.get("X9")
    (['X1', 'X2'], 16, None)
    >>> Catalog.from_json(catalog.to_json()) == catalog
    True
    """

    def __init__(self, entries: Iterable[Hardware], strict: bool = True) -> None:
        """Raise `CatalogError` on a repeated name, a name shared by two entries, or over `MAX_ENTRIES` entries.

        Not `strict`, a name that two entries share is the name of neither: so are catalogs of before read.
        """
        by_name: dict[str, Hardware] = {}
        for entry in entries:
            if entry.name in by_name:
                raise CatalogError(f"entry {entry.name!r} is duplicated; remove one")
            by_name[entry.name] = entry
        if len(by_name) > MAX_ENTRIES:
            raise CatalogError(f"{len(by_name)} entries, more than {MAX_ENTRIES}; remove types that you do not use")
        self._by_name = {name: by_name[name] for name in sorted(by_name)}
        self._strict = strict
        try:
            self._names = AcceleratorNames(map(_named, self._by_name.values()), strict)
        except ValueError as error:
            raise CatalogError(str(error)) from error
        self.canonical = lru_cache(_REMEMBERED)(self._canonical)
        self.specification = lru_cache(_REMEMBERED)(self._specification)
        self.known_as = lru_cache(_REMEMBERED)(self._known_as)
        self.why_unlisted = lru_cache(_REMEMBERED)(self._why_unlisted)

    def resolve(self, name: str) -> str | None:
        """Name of the entry that a spelling means; None where there is none, or more than one.

        >>> load_catalog().resolve("NVIDIA A100-SXM4-80GB"), load_catalog().resolve("A100 PCIe")
        ('A100-SXM-80GB', None)
        """
        return self._names.resolve(name)

    def _canonical(self, name: str) -> str:
        """Name by which a hardware type is known: its entry's, else what the entry of a listed chip would be called.

        As it is written where the catalog does not know the chip.
        """
        resolved = self._names.resolve(name)
        if resolved is None and (sibling := self._names.sibling(name)):
            return sibling.name
        return resolved or name

    def _specification(self, name: str) -> Hardware | None:
        """What is known of a hardware type, without aliases.

        Of a chip that is listed in another form or memory size only: that entry's figures with its own memory, and
        `like` says so.
        """
        resolved = self._names.resolve(name)
        if resolved is not None:
            return replace(self[resolved], aliases=())
        if (sibling := self._names.sibling(name)) is None:
            return None
        listed = self[sibling.entry]
        return replace(
            listed,
            name=sibling.name,
            memory_gb=float(sibling.memory_gb) if sibling.memory_gb else listed.memory_gb,
            like=sibling.entry,
            aliases=(),
        )

    def _known_as(self, name: str) -> str:
        """Entry that a hardware type is predicted as; its canonical name where there is none."""
        canonical = self.canonical(name)
        if canonical not in self and (listed := self.specification(canonical)):
            return listed.like or listed.name
        return canonical

    def _why_unlisted(self, name: str) -> str:
        """Why `resolve` finds nothing, with the nearest names."""
        if parse(name).is_slice:
            return "a slice or share of an accelerator, which the catalog does not list"
        if meant := self._names.ambiguous(name):
            return f"may be any of {', '.join(meant[:NEAREST])} of the catalog; say which"
        nearest = ", ".join(self._names.nearest(name))
        return "no specification in the catalog" + (f"; the nearest names are {nearest}" if nearest else "")

    def with_siblings(self, names: Iterable[str]) -> "Catalog":
        """The catalog with an entry for each of `names` whose chip is listed in another form or memory size only."""
        found = {entry.name: entry for name in names if (entry := self.specification(name)) and entry.name not in self}
        return Catalog([*self._by_name.values(), *found.values()], self._strict) if found else self

    def __reduce__(self) -> tuple[type["Catalog"], tuple[list[Hardware], bool]]:
        return Catalog, (list(self._by_name.values()), self._strict)

    def __getitem__(self, name: str) -> Hardware:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of the canonical JSON: equal digests mean equal catalogs."""
        return hashlib.sha256(self.to_json()).hexdigest()

    def to_json(self) -> bytes:
        """Canonical JSON (entries by name, keys sorted), for embedding in an artifact."""
        return msgspec.json.encode(list(self._by_name.values()), order="sorted")

    @classmethod
    def from_json(cls, data: bytes, source: str = "catalog") -> Self:
        """Read the output of `to_json`; `source` names its origin in errors.

        Raises
        ------
        CatalogError
            If it is too large, is not JSON, or an entry is not valid.
        """
        _check_size(len(data), source)
        try:
            return cls._from_entries(msgspec.json.decode(data), source, strict=False)
        except (msgspec.DecodeError, RecursionError) as error:
            raise CatalogError(f"{source}: not JSON ({error}); fetch it again") from error

    @classmethod
    def _from_entries(cls, entries: Any, source: str, strict: bool = True) -> Self:
        if not isinstance(entries, list) or not entries:
            raise CatalogError(f"{source}: expected a list of hardware types, each with `name` and `vendor`")
        try:
            return cls((_hardware(position, entry) for position, entry in enumerate(entries, 1)), strict)
        except CatalogError as error:
            raise CatalogError(f"{source}: {error}") from error


def load_catalog(own: str | Path | None = None) -> Catalog:
    """Read and validate the built-in catalog, with an own file (YAML) merged into it; an empty path is none.

    :mod:`leap.schemas.own_catalog` says what the file may hold.

    Raises
    ------
    CatalogError
        If the file is missing, too large, not YAML, or an entry is not valid.

    Examples
    --------
    >>> load_catalog()["A100-SXM-80GB"].memory_bandwidth_gb_s
    2040.0
    """
    shipped = Path(__file__).with_name("catalog.yaml")
    entries = _read(shipped)
    if own:
        stated = _read(Path(own))
        try:
            entries = merged(entries, stated)
        except ValueError as error:
            raise CatalogError(f"{own}: {error}") from error
    return Catalog._from_entries(entries, str(own or shipped))


def _read(path: Path) -> Any:
    try:
        return read_yaml(path, MAX_BYTES)
    except OSError as error:
        raise CatalogError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    except YamlError as error:
        raise CatalogError(f"{path}: {error}; is it a catalog? Correct it") from error


def _named(entry: Hardware) -> Named:
    linked = entry.interconnect_gb_s is not None
    return Named(entry.name, entry.aliases, entry.memory_gb or 0.0, linked, is_sibling=entry.like is not None)


def _hardware(position: int, entry: Any) -> Hardware:
    try:
        return msgspec.convert(entry, Hardware)
    except msgspec.ValidationError as error:
        name = entry.get("name") if isinstance(entry, dict) else None
        raise CatalogError(
            f"entry {position} ({name or 'without a name'!s:.60}): {with_meant(error, Hardware)}; correct the entry"
        ) from error


def _check_size(size: int, source: str) -> None:
    if size > MAX_BYTES:
        raise CatalogError(f"{source}: {size} bytes, more than {MAX_BYTES}; is it a catalog?")
