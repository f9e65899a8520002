"""The hardware catalog: specifications and prices of accelerators.

Hardware without any runs is ranked by these figures alone, and costs are computed from these prices, so a wrong entry
is worse than a missing one: every figure is range-checked on load, and figures not verified against a source are listed
in ``unverified``.
"""

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import msgspec

from leap.schemas.errors import LeapError
from leap.schemas.safe_yaml import YamlError, read_yaml

MAX_BYTES = 1 << 20
MAX_ENTRIES = 4096
MAX_NAME = 128

#: The twelve numeric specifications, in the order in which features are built from them.
SPECIFICATIONS: tuple[str, ...] = (
    "fp32_tflops",
    "tf32_tflops",
    "fp16_tflops",
    "bf16_tflops",
    "fp8_tflops",
    "memory_gb",
    "memory_bandwidth_gb_s",
    "interconnect_gb_s",
    "host_link_gb_s",
    "tdp_w",
    "compute_units",
    "clock_mhz",
)

# Wide enough for a decade of new hardware, narrow enough to reject FLOPS for TFLOPS or MB for GB.
_RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("fp32_tflops", "tf32_tflops", "fp16_tflops", "bf16_tflops", "fp8_tflops"), (0.01, 1e5)),
    "memory_gb": (0.1, 1e4),
    "memory_bandwidth_gb_s": (1, 1e6),
    "interconnect_gb_s": (0.1, 1e5),
    "host_link_gb_s": (0.1, 1e4),
    "tdp_w": (1, 1e5),
    "compute_units": (1, 1e6),
    "clock_mhz": (10, 1e5),
    "price_per_hour": (1e-3, 1e4),
    "year": (1990, 2100),
}


class CatalogError(LeapError, ValueError):
    """The catalog cannot be used; the message names the file, the entry, the field and the remedy."""


class Hardware(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """One hardware type. A specification is None if it does not apply or is unknown.

    Parameters
    ----------
    fp32_tflops
        Vector rate, TFLOP/s.
    tf32_tflops, fp16_tflops, bf16_tflops, fp8_tflops
        Dense (no sparsity) matrix rates, TFLOP/s.
    memory_gb, memory_bandwidth_gb_s
        Device memory, GB and GB/s.
    interconnect_gb_s
        Links between the accelerators of one host, GB/s in one direction.
    host_link_gb_s
        Accelerator to host, GB/s in one direction (PCIe x16: 3.0 is 15.75, 4.0 is 31.5, 5.0 is 63).
    tdp_w, compute_units, clock_mhz
        Watts; streaming multiprocessors or their equivalent; boost clock.
    price_per_hour
        USD per accelerator-hour. Hardware without a price is never ranked.
    premium
        Scarce; ranked only where it is cost-efficient.
    unverified
        Fields from general knowledge rather than from a source.

    Raises
    ------
    ValueError
        If a figure is not finite or out of range, or a price lacks its source or date.
    """

    name: str
    vendor: str
    year: int | None = None
    fp32_tflops: float | None = None
    tf32_tflops: float | None = None
    fp16_tflops: float | None = None
    bf16_tflops: float | None = None
    fp8_tflops: float | None = None
    memory_gb: float | None = None
    memory_bandwidth_gb_s: float | None = None
    interconnect_gb_s: float | None = None
    host_link_gb_s: float | None = None
    tdp_w: float | None = None
    compute_units: float | None = None
    clock_mhz: float | None = None
    price_per_hour: float | None = None
    price_source: str | None = None
    price_date: str | None = None
    premium: bool = False
    unverified: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for field in ("name", "vendor"):
            text = getattr(self, field)
            if not 0 < len(text) <= MAX_NAME or not text.isprintable() or text != text.strip():
                raise ValueError(f"field `{field}`: expected 1 to {MAX_NAME} printable characters, got {text!r:.60}")
        for field, (low, high) in _RANGES.items():
            value = getattr(self, field)
            if value is not None and not (math.isfinite(value) and low <= value <= high):
                raise ValueError(
                    f"field `{field}`: {value} is outside {low:g} to {high:g}; check its unit, "
                    "or leave the field out where it does not apply"
                )
        if self.price_per_hour is not None and not (self.price_source and self.price_date):
            raise ValueError("field `price_per_hour`: add its source and date (price_source, price_date)")
        for field in self.unverified:
            if field not in _RANGES:
                raise ValueError(f"field `unverified`: {field!r:.60} is not a figure; name one of {', '.join(_RANGES)}")

    def specifications(self) -> tuple[float | None, ...]:
        """The twelve figures in the order of `SPECIFICATIONS`."""
        return tuple(getattr(self, name) for name in SPECIFICATIONS)


class Catalog(Mapping[str, Hardware]):
    """An immutable mapping from hardware type to its `Hardware`, sorted by name.

    >>> catalog = Catalog([Hardware(name="X2", vendor="V"), Hardware(name="X1", vendor="V", memory_gb=16)])
    >>> list(catalog), catalog["X1"].memory_gb, catalog.get("X9")
    (['X1', 'X2'], 16, None)
    >>> Catalog.from_json(catalog.to_json()) == catalog
    True
    """

    def __init__(self, entries: Iterable[Hardware]) -> None:
        """Raise `CatalogError` on a repeated name or more than `MAX_ENTRIES` entries."""
        by_name: dict[str, Hardware] = {}
        for entry in entries:
            if entry.name in by_name:
                raise CatalogError(f"entry {entry.name!r} is duplicated; remove one")
            by_name[entry.name] = entry
        if len(by_name) > MAX_ENTRIES:
            raise CatalogError(f"{len(by_name)} entries, more than {MAX_ENTRIES}; remove types that you do not use")
        self._by_name = {name: by_name[name] for name in sorted(by_name)}

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
            return cls._from_entries(msgspec.json.decode(data), source)
        except (msgspec.DecodeError, RecursionError) as error:
            raise CatalogError(f"{source}: not JSON ({error}); fetch it again") from error

    @classmethod
    def _from_entries(cls, entries: Any, source: str) -> Self:
        if not isinstance(entries, list) or not entries:
            raise CatalogError(f"{source}: expected a list of hardware types, each with `name` and `vendor`")
        try:
            return cls(_hardware(position, entry) for position, entry in enumerate(entries, 1))
        except CatalogError as error:
            raise CatalogError(f"{source}: {error}") from error


def load_catalog(path: Path | None = None) -> Catalog:
    """Read and validate a catalog file (YAML), by default the built-in one.

    Raises
    ------
    CatalogError
        If the file is missing, too large, not YAML, or an entry is not valid.

    Examples
    --------
    >>> load_catalog()["A100-SXM-80GB"].memory_bandwidth_gb_s
    2040.0
    """
    path = path or Path(__file__).with_name("catalog.yaml")
    try:
        entries = read_yaml(path, MAX_BYTES)
    except OSError as error:
        raise CatalogError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    except YamlError as error:
        raise CatalogError(f"{path}: {error}; is it a catalog? Correct it") from error
    return Catalog._from_entries(entries, str(path))


def _hardware(position: int, entry: Any) -> Hardware:
    try:
        return msgspec.convert(entry, Hardware)
    except msgspec.ValidationError as error:
        name = entry.get("name") if isinstance(entry, dict) else None
        raise CatalogError(
            f"entry {position} ({name or 'without a name'!s:.60}): {error}; correct the entry"
        ) from error


def _check_size(size: int, source: str) -> None:
    if size > MAX_BYTES:
        raise CatalogError(f"{source}: {size} bytes, more than {MAX_BYTES}; is it a catalog?")
