"""Which terms the structured prior sums, and the kernel that they make with their variances."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats, Names
from leap.predictor.models.structured.kernel import Kernel, SharedFeatureMap

LINEAR = 0.0

Along = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Term:
    """One kernel: over hardware (a name of `hardware_kernels`) times decays along columns, per model or shared.

    Attributes
    ----------
    expected
        Its variance before rows have spoken.
    """

    hardware: str
    along: Along = ()
    shared: bool = False
    expected: float = 0.01


_ACCELERATORS, _BATCH = ("accelerators", 4.0), ("batch_per_accelerator", 3.0)
_YEARS = ("years", 2.0)
_EXACT: Along = (("accelerators", 0.01), ("batch_per_accelerator", 0.01))
_ALONG: tuple[Along, ...] = (
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
    found = [Term(hardware, shared=True, expected=0.1) for hardware in shared]
    found += [
        Term("any", ((column, LINEAR),), shared=True, expected=0.02)
        for column in (_ACCELERATORS[0], _BATCH[0], _YEARS[0])
    ]
    found += [Term("any", expected=3.0)]
    found += [Term(hardware) for hardware in (*shared[1:], "memory")]
    found += [Term("any", ((column, LINEAR),)) for column in (_ACCELERATORS[0], _BATCH[0])]
    found += [Term(hardware, along) for along in _ALONG for hardware in ("any", "same", "similar")]
    found += [Term("any", (("years", 2.7),)), Term("same", _EXACT), Term("same", (*_EXACT, ("years", 0.55)))]
    found += [Term("any", ((extra, 1.0),)) for extra in extras]
    return tuple(found)


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
    factors = sorted({factor for term in chosen if not term.shared for factor in term.along})
    groups = list(dict.fromkeys(term.along for term in chosen if not term.shared))
    kernel = Kernel(
        tables=np.stack(
            [
                sum((v * tables[t.hardware] for t, v in weighted if not t.shared and t.along == along), np.zeros(1))
                for along in groups
            ]
        ),
        column=np.array([columns.index(name) for name, _ in factors], dtype=np.intp),
        length=np.array([length for _, length in factors]),
        member=np.array([[factor in along for factor in factors] for along in groups]),
        centre=centre,
    )
    common = sum((v * tables[t.hardware] for t, v in weighted if t.shared and not t.along), np.zeros(1))
    linear = [(columns.index(t.along[0][0]), np.sqrt(v)) for t, v in weighted if t.shared and t.along]
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
