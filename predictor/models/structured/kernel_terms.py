"""Which terms the structured prior sums, and the kernel that they make with their variances."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats, Names
from leap.predictor.models.structured.kernel import Kernel, SharedFeatureMap

LINEAR = 0.0

Decays = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Term:
    """One kernel: over hardware (a name of `hardware_kernels`) times decays along columns, per model or shared.

    Attributes
    ----------
    decays
        (column, length) of each factor; `LINEAR` for one that is a product instead.
    prior_variance
        Its variance before any row is known.
    """

    hardware: str
    decays: Decays = ()
    shared: bool = False
    prior_variance: float = 0.01


_ACCELERATORS, _BATCH = ("accelerators", 4.0), ("batch_per_accelerator", 3.0)
_YEARS = ("years", 2.0)
_EXACT: Decays = (("accelerators", 0.01), ("batch_per_accelerator", 0.01))
_DECAYS: tuple[Decays, ...] = (
    (_ACCELERATORS,),
    (_BATCH,),
    (_ACCELERATORS, _BATCH),
    (("trainers", 3.0),),
    (("accelerators_per_trainer", 2.0),),
    (_YEARS,),
    (_YEARS, _ACCELERATORS),
)


def terms(extras: Sequence[str]) -> tuple[Term, ...]:
    """The terms for rows with these further numeric columns.

    Hardware is expected to count for a model type that ran on one type only, as it does for the others.
    """
    shared = ("any", "same", "vendor", "similar", "peak", "bandwidth")
    chosen = [Term(hardware, shared=True, prior_variance=0.1) for hardware in shared]
    chosen += [
        Term("any", ((column, LINEAR),), shared=True, prior_variance=0.02)
        for column in (_ACCELERATORS[0], _BATCH[0], _YEARS[0])
    ]
    chosen += [Term("any", prior_variance=3.0)]
    chosen += [Term(hardware) for hardware in (*shared[1:], "memory")]
    chosen += [Term("any", ((column, LINEAR),)) for column in (_ACCELERATORS[0], _BATCH[0])]
    chosen += [Term(hardware, decays) for decays in _DECAYS for hardware in ("any", "same", "similar")]
    chosen += [Term("any", (("years", 2.7),)), Term("same", _EXACT), Term("same", (*_EXACT, ("years", 0.55)))]
    chosen += [Term("any", ((extra, 1.0),)) for extra in extras]
    return tuple(chosen)


def kernel_of(
    chosen: Sequence[Term], variances: Floats, tables: dict[str, Floats], columns: Sequence[str], centre: Floats
) -> tuple[Kernel, SharedFeatureMap]:
    """The serving form of terms with their variances.

    Parameters
    ----------
    tables
        Hardware kernels by name, (h + 1, h + 1) each.
    """
    weighted = list(zip(chosen, variances, strict=False))
    own = [(term, variance) for term, variance in weighted if not term.shared]
    factors = sorted({factor for term, _ in own for factor in term.decays})
    groups = list(dict.fromkeys(term.decays for term, _ in own))
    hardware = list(dict.fromkeys(term.hardware for term, _ in own))
    mixing = np.zeros((len(groups), len(hardware)))
    for term, variance in own:
        mixing[groups.index(term.decays), hardware.index(term.hardware)] += variance
    kernel = Kernel(
        tables=np.stack([tables[name] for name in hardware]),
        mixing=mixing,
        column=np.array([columns.index(name) for name, _ in factors], dtype=np.intp),
        length=np.array([length for _, length in factors]),
        member=np.array([[factor in decays for factor in factors] for decays in groups]),
        centre=centre,
    )
    common = sum((v * tables[t.hardware] for t, v in weighted if t.shared and not t.decays), np.zeros(1))
    linear = [(columns.index(t.decays[0][0]), np.sqrt(v)) for t, v in weighted if t.shared and t.decays]
    jitter = 1e-9 * np.trace(common) * np.eye(len(common))
    return kernel, SharedFeatureMap(
        hardware=np.linalg.cholesky(common + jitter),
        column=np.array([column for column, _ in linear], dtype=np.intp),
        weight=np.array([weight for _, weight in linear]),
        centre=centre,
    )


def hardware_kernels(numbers: Floats, listed: NDArray[np.bool_], vendor: Names) -> dict[str, Floats]:
    """Covariance of unit variance between (h + 1) hardware types, the last of them unknown.

    Parameters
    ----------
    numbers
        (h + 1, 5) ln peak, bandwidth, interconnect, power and memory, standardised; 0 where not known.
    listed
        (h + 1,) whether anything is known.
    vendor
        (h + 1,) names; None where not known.
    """
    same = np.eye(len(numbers))
    apart = np.square(numbers[:, None, :4] - numbers[None, :, :4]).sum(axis=2)  # how wide is chosen in docs/ablation.md
    similar = np.where(listed[:, None] & listed[None, :], np.exp(-apart / 3), same)
    alike = np.array([[a is not None and a == b for b in vendor] for a in vendor], dtype=float)
    linear = {
        name: np.outer(numbers[:, i], numbers[:, i]) for i, name in ((0, "peak"), (1, "bandwidth"), (4, "memory"))
    }
    return {"any": np.ones_like(same), "same": same, "vendor": np.maximum(alike, same), "similar": similar, **linear}
