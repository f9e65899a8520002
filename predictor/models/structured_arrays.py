"""What the arrays of the structured recipe must be, so that no ranking fails on one that is damaged."""

import numpy as np

from leap.predictor.models.arrays import Arrays, ArraySpec
from leap.predictor.models.structured.exact_history import LEVELS, STATISTICS
from leap.predictor.models.structured.family_effects import KEYS, FamilyVarianceComponents
from leap.predictor.models.structured.gating import EXPERTS
from leap.predictor.models.structured.kernel import COLUMNS

#: More than any model type is given; the time of a ranking grows with their square.
MAX_LANDMARKS = 4096
#: Lengths and variances below which numbers overflow.
LEAST_LENGTH, LEAST_VARIANCE = 1e-3, 1e-12

_NUMBERS = f"extras+{len(COLUMNS)}"
_VARIANCE = ArraySpec("f8", (), low=LEAST_VARIANCE)
_RANGE = ArraySpec("f8", (_NUMBERS,), low=-np.inf, high=np.inf)
_NAMES = ArraySpec("U", ("models",), increasing=True)

_PRIOR = {
    "encoding.models": _NAMES,
    "encoding.hardware": ArraySpec("U", ("hardware",), increasing=True),
    "encoding.extras": ArraySpec("U", ("extras",)),
    "encoding.fill": ArraySpec("f8", ("extras",)),
    "encoding.batch": ArraySpec("f8", ("models+1",), low=-100.0, high=100.0, missing=True, optional=True),
    "kernel.tables": ArraySpec("f8", ("groups", "hardware+1", "hardware+1")),
    "kernel.column": ArraySpec("i8", ("factors",), low=0),
    "kernel.length": ArraySpec("f8", ("factors",), low=0.0),
    "kernel.member": ArraySpec("?", ("groups", "factors")),
    "kernel.centre": ArraySpec("f8", (_NUMBERS,)),
    "shared.hardware": ArraySpec("f8", ("hardware+1", "hardware+1")),
    "shared.column": ArraySpec("i8", ("linear",), low=0),
    "shared.weight": ArraySpec("f8", ("linear",)),
    "shared.centre": ArraySpec("f8", (_NUMBERS,)),
    "mean": ArraySpec("f8", ()),
    "weights": ArraySpec("f8", ("shared",)),
    "root": ArraySpec("f8", ("shared", "shared")),
    "noise": _VARIANCE,
    "trained": ArraySpec("?", ("hardware+1",)),
    "low": _RANGE,
    "high": _RANGE,
    "block.size": ArraySpec("i8", ("models",), low=0, high=MAX_LANDMARKS),
    "block.hardware": ArraySpec("i8", ("landmarks",), low=0),
    "block.x": ArraySpec("f8", ("landmarks", _NUMBERS)),
    "block.whiten": ArraySpec("f4", ("squares",)),
    "block.weights": ArraySpec("f4", ("landmarks",)),
    "block.root": ArraySpec("f4", ("squares",)),
    "block.coupling": ArraySpec("f4", ("coupled",)),
    "block.low": ArraySpec("f8", ("models", _NUMBERS), low=-np.inf, high=np.inf),
    "block.high": ArraySpec("f8", ("models", _NUMBERS), low=-np.inf, high=np.inf),
}
_PROCESS = {
    "fading": ArraySpec("f4", ("keys of term 0", 2)),
    "variances": ArraySpec("f8", (len(FamilyVarianceComponents.__dataclass_fields__),), low=LEAST_VARIANCE),
    **{
        f"{name}.{term}": spec
        for term in range(len(KEYS))
        for name, spec in (
            ("hashes", ArraySpec("u8", (f"keys of term {term}",), increasing=True)),
            ("weights", ArraySpec("f4", (f"keys of term {term}", 2))),
        )
    },
}
_HISTORY = {
    f"{name}.{level}": spec
    for level in range(len(LEVELS))
    for name, spec in (
        ("hashes", ArraySpec("u8", (f"keys of level {level}",), increasing=True)),
        ("statistics", ArraySpec("f4", (f"keys of level {level}", len(STATISTICS)))),
    )
}
_GATE = {
    "intercept": ArraySpec("f8", (EXPERTS,)),
    "slope": ArraySpec("f8", (7,)),
    "error": ArraySpec("f8", (6,)),
}

#: By the names in `Structured.arrays`.
SPECS: dict[str, ArraySpec] = {
    f"{part}/{name}": spec
    for part, specs in (("prior", _PRIOR), ("process", _PROCESS), ("history", _HISTORY), ("gate", _GATE))
    for name, spec in specs.items()
}


def check(stored: Arrays) -> None:
    """Hold arrays, each of which is as `SPECS` says, against one another.

    Raises
    ------
    ValueError
        If they do not fit; the message names the array.
    """
    numbers, shared = len(stored["prior/kernel.centre"]), len(stored["prior/weights"])
    for name in ("prior/kernel.column", "prior/shared.column"):
        _expect(name, stored[name] < numbers, f"columns of {numbers}")
    _expect("prior/block.hardware", stored["prior/block.hardware"] < len(stored["prior/trained"]), "hardware types")
    length, tables = stored["prior/kernel.length"], stored["prior/kernel.tables"]
    _expect("prior/kernel.length", (length == 0) | (length >= LEAST_LENGTH), f"zeros or lengths from {LEAST_LENGTH}")
    _expect("prior/kernel.tables", tables.diagonal(axis1=1, axis2=2) >= 0, "variances")
    linear = len(stored["prior/trained"]) + len(stored["prior/shared.column"])
    _expect("prior/weights", shared == linear, f"{linear} weights")
    size = stored["prior/block.size"]
    for name, expected in (
        ("prior/block.x", size.sum()),
        ("prior/block.whiten", np.square(size).sum()),
        ("prior/block.coupling", size.sum() * shared),
    ):
        _expect(name, len(stored[name]) == expected, f"{expected} entries of blocks")
    for term in range(len(KEYS)):
        name = f"process/weights.{term}"
        _expect(name, stored[name][:, 1] >= 0, "numbers of days")
    sizes = [position for position, name in enumerate(STATISTICS) if name.startswith(("count", "spread"))]
    for level in range(len(LEVELS)):
        name = f"history/statistics.{level}"
        _expect(name, stored[name][:, sizes] >= 0, "counts and spreads")


def _expect(name: str, holds: object, what: str) -> None:
    if not np.all(holds):  # type: ignore[call-overload]
        raise ValueError(f"{name}: other than {what}; the artifact is damaged")
