"""What the arrays of the structured recipe must be, so that no ranking fails on one that is damaged."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from leap.predictor.models.arrays import Arrays, ArraySpec
from leap.predictor.models.physics.calibration import GROUPS
from leap.predictor.models.physics.utilisation_arrays import SPECS as UTILISATION
from leap.predictor.models.physics.utilisation_arrays import problem_of_utilisation
from leap.predictor.models.structured.exact_history import LEVELS, STATISTICS
from leap.predictor.models.structured.family_effects import KEYS, VALUES, FamilyVarianceComponents
from leap.predictor.models.structured.gating import EXPERTS
from leap.predictor.models.structured.inputs import COLUMNS

#: More than any model type is given; the time of a ranking grows with their square.
MAX_LANDMARKS = 4096
#: Lengths and variances below which numbers overflow.
LEAST_LENGTH, LEAST_VARIANCE = 1e-3, 1e-12
#: Of what deviations are multiplied with.
LEAST_FACTOR = 1e-4

_NUMBERS = f"extras+{len(COLUMNS)}"
_VARIANCE = ArraySpec("f8", (), low=LEAST_VARIANCE)
_NAMES = ArraySpec("U", ("models",), increasing=True)

_PRIOR = {
    "encoding.models": _NAMES,
    "encoding.hardware": ArraySpec("U", ("hardware",), increasing=True),
    "encoding.extras": ArraySpec("U", ("extras",)),
    "encoding.fill": ArraySpec("f8", ("extras",)),
    "encoding.batch": ArraySpec("f8", ("models+1",), low=-100.0, high=100.0, missing=True, optional=True),
    "kernel.tables": ArraySpec("f8", ("kernels", "hardware+1", "hardware+1")),
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
    "block.size": ArraySpec("i8", ("models",), low=0, high=MAX_LANDMARKS),
    "block.hardware": ArraySpec("i8", ("landmarks",), low=0),
    "block.x": ArraySpec("f8", ("landmarks", _NUMBERS)),
    "block.whiten": ArraySpec("f4", ("squares",)),
    "block.weights": ArraySpec("f4", ("landmarks",)),
    "block.root": ArraySpec("f4", ("squares",)),
    "block.coupling": ArraySpec("f4", ("coupled",)),
}
_GATE = {
    "intercept": ArraySpec("f8", (EXPERTS,)),
    "slope": ArraySpec("f8", (7,)),
    "error": ArraySpec("f8", (6,)),
}
_PROCESS = {
    "variances": ArraySpec("f8", (len(FamilyVarianceComponents.__dataclass_fields__),), low=LEAST_VARIANCE),
}


def _arrays(part: str, specs: Mapping[str, ArraySpec], *, optional: bool = False) -> dict[str, ArraySpec]:
    return {f"{part}/{name}": replace(spec, optional=spec.optional or optional) for name, spec in specs.items()}


#: What is there today, and where earlier artifacts have the arrays of `_BEFORE`.
_NOW = {
    **_arrays(
        "prior",
        {
            "kernel.mixing": ArraySpec("f8", ("groups", "kernels"), low=0.0),
            "batch_range": ArraySpec("f8", ("models+1", 2), low=-np.inf, high=np.inf),
        },
        optional=True,
    ),
    **_arrays(
        "process",
        {
            "hashes": ArraySpec("u8", ("keys of effects",), increasing=True),
            "values": ArraySpec("f4", ("keys of effects", len(VALUES))),
        },
        optional=True,
    ),
    **_arrays(
        "history",
        {
            "hashes": ArraySpec("u8", ("keys of history",), increasing=True),
            "values": ArraySpec("f4", ("keys of history", len(STATISTICS))),
        },
        optional=True,
    ),
}


#: Artifacts of before have none of it.
_UTILISATION = _arrays(
    "prior",
    {f"utilisation.{name}": spec for name, spec in UTILISATION.items()}
    | {
        "ran": ArraySpec("?", ("models+1", "hardware+1")),
        "calibration": ArraySpec("f8", (GROUPS,), low=LEAST_FACTOR, high=1 / LEAST_FACTOR),
    },
    optional=True,
)


def _by_kind(part: str, kinds: int, values: str, width: int) -> dict[str, ArraySpec]:
    """Hashes and values of each kind of key, as they were stored before one table had all kinds."""
    specs = {}
    for kind in range(kinds):
        keys = f"keys of {part} {kind}"
        specs[f"hashes.{kind}"] = ArraySpec("u8", (keys,), increasing=True)
        specs[f"{values}.{kind}"] = ArraySpec("f4", (keys, width))
    return _arrays(part, specs, optional=True)


_BEFORE = {
    **_arrays(
        "prior",
        {
            "trained": ArraySpec("?", ("hardware+1",)),
            "low": ArraySpec("f8", (_NUMBERS,), low=-np.inf, high=np.inf),
            "high": ArraySpec("f8", (_NUMBERS,), low=-np.inf, high=np.inf),
            "block.low": ArraySpec("f8", ("models", _NUMBERS), low=-np.inf, high=np.inf),
            "block.high": ArraySpec("f8", ("models", _NUMBERS), low=-np.inf, high=np.inf),
        },
        optional=True,
    ),
    **_by_kind("process", len(KEYS), "weights", 2),
    "process/fading": ArraySpec("f4", ("keys of process 0", 2), optional=True),
    **_by_kind("history", len(LEVELS), "statistics", len(STATISTICS)),
}


#: By the names in `Structured.arrays`.
SPECS: dict[str, ArraySpec] = {
    **_arrays("prior", _PRIOR),
    **_arrays("process", _PROCESS),
    **_arrays("gate", _GATE),
    **_NOW,
    **_BEFORE,
    **_UTILISATION,
}


def check(stored: Arrays) -> None:
    """Hold arrays, each of which is as `SPECS` says, against one another.

    Raises
    ------
    ValueError
        If they do not fit; the message names the array.
    """
    forms = [form.keys() & stored.keys() for form in (_NOW, _BEFORE)]
    if forms not in ([_NOW.keys(), set()], [set(), _BEFORE.keys()]):
        raise ValueError("neither the arrays of this version nor those of an earlier one; the artifact is damaged")
    if found := _UTILISATION.keys() & stored.keys():
        _expect("prior/ran", found == _UTILISATION.keys(), "with all arrays of utilisation")
        whole = "prior/utilisation."
        problem = problem_of_utilisation({name.removeprefix(whole): array for name, array in stored.items()})
        _expect(f"{whole}{problem}", not problem, "what fits")
    numbers, shared = len(stored["prior/kernel.centre"]), len(stored["prior/weights"])
    types = len(stored["prior/encoding.hardware"]) + 1
    for name in ("prior/kernel.column", "prior/shared.column"):
        _expect(name, stored[name] < numbers, f"columns of {numbers}")
    _expect("prior/block.hardware", stored["prior/block.hardware"] < types, "hardware types")
    length, tables = stored["prior/kernel.length"], stored["prior/kernel.tables"]
    _expect("prior/kernel.length", (length == 0) | (length >= LEAST_LENGTH), f"zeros or lengths from {LEAST_LENGTH}")
    _expect("prior/kernel.tables", tables.diagonal(axis1=1, axis2=2) >= 0, "variances")
    linear = types + len(stored["prior/shared.column"])
    _expect("prior/weights", shared == linear, f"{linear} weights")
    size = stored["prior/block.size"]
    for name, expected in (
        ("prior/block.x", size.sum()),
        ("prior/block.whiten", np.square(size).sum()),
        ("prior/block.coupling", size.sum() * shared),
    ):
        _expect(name, len(stored[name]) == expected, f"{expected} entries of blocks")
    if "process/hashes" not in stored:
        _expect("prior/kernel.tables", len(tables) == len(stored["prior/kernel.member"]), "one for each group")
    sizes = [position for position, name in enumerate(STATISTICS) if name.startswith(("count", "spread"))]
    days = [VALUES.index("days")]
    for name, array in stored.items():
        if name.startswith(("process/values", "process/weights")):
            _expect(name, array[:, days] >= 0, "numbers of days")
        elif name.startswith(("history/values", "history/statistics")):
            _expect(name, array[:, sizes] >= 0, "counts and spreads")


def _expect(name: str, holds: object, what: str) -> None:
    if not np.all(holds):  # type: ignore[call-overload]
        raise ValueError(f"{name}: other than {what}; the artifact is damaged")
