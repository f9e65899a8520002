"""The specification of one hardware type: range-checked figures, and the price with its source."""

import math
from typing import Annotated

import msgspec
from msgspec import Meta

MAX_NAME = 128
MAX_ALIASES = 64

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
        USD per accelerator-hour; 0 for hardware that you own. Without a price, hardware is ranked only for jobs that
        ask for the fastest.
    premium
        Scarce; ranked only where it is cost-efficient.
    unverified
        Fields from general knowledge rather than from a source.
    aliases
        Other names, where they do not follow from the name; not part of events.
    like
        Entry that the figures are taken from: the same chip in another form or memory size.

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
    aliases: Annotated[tuple[str, ...], Meta(max_length=MAX_ALIASES)] = ()
    like: str | None = None

    def __post_init__(self) -> None:
        texts = [("name", self.name), ("vendor", self.vendor), *(("aliases", alias) for alias in self.aliases)]
        for field, text in texts:
            if not 0 < len(text) <= MAX_NAME or not text.isprintable() or text != text.strip():
                raise ValueError(f"field `{field}`: expected 1 to {MAX_NAME} printable characters, got {text!r:.60}")
        for field, (low, high) in _RANGES.items():
            value = getattr(self, field)
            owned = field == "price_per_hour" and value == 0
            if value is not None and not owned and not (math.isfinite(value) and low <= value <= high):
                raise ValueError(
                    f"field `{field}`: {value} is outside {low:g} to {high:g}; check its unit, "
                    "or leave the field out where it does not apply"
                )
        if self.price_per_hour and not (self.price_source and self.price_date):
            raise ValueError("field `price_per_hour`: add its source and date (price_source, price_date)")
        for field in self.unverified:
            if field not in _RANGES:
                raise ValueError(f"field `unverified`: {field!r:.60} is not a figure; name one of {', '.join(_RANGES)}")

    def specifications(self) -> tuple[float | None, ...]:
        """The twelve figures in the order of `SPECIFICATIONS`."""
        return tuple(getattr(self, name) for name in SPECIFICATIONS)
