"""Which terms the structured prior sums, and their variances by marginal likelihood.

Every term is a fixed kernel with one unknown variance, so the likelihood's gradient is one product with a stack of
matrices. A weak log-normal prior keeps a variance that the rows say nothing about from running away.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky
from scipy.linalg.lapack import dpotri
from scipy.optimize import minimize

from predictor.jobs import Floats, Names
from predictor.kernel import Kernel, Points, Shared
from predictor.units import Units

#: Weak prior of a ln variance, and of the two noises (common, and falling with repeats).
PRIOR_MEAN, PRIOR_NOISE, PRIOR_DEVIATION = float(np.log(0.01)), float(np.log(1e-3)), 2.5
BOUNDS = (-14.0, 4.0)
LINEAR = 0.0

Along = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Term:
    """One kernel: over hardware (a name of `hardware_kernels`) times decays along columns, per model or shared."""

    hardware: str
    along: Along = ()
    shared: bool = False


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
    """The terms for rows with these further numeric columns."""
    shared = ("any", "same", "vendor", "similar", "peak", "bandwidth")
    found = [Term(hardware, shared=True) for hardware in shared]
    found += [Term("any", ((column, LINEAR),), shared=True) for column in (_ACCELERATORS[0], _BATCH[0], "years")]
    found += [Term(hardware) for hardware in (*shared, "memory")]
    found += [Term("any", ((column, LINEAR),)) for column in (_ACCELERATORS[0], _BATCH[0])]
    found += [Term(hardware, along) for along in _ALONG for hardware in ("any", "same", "similar")]
    found += [Term("any", (("years", 2.7),)), Term("same", _EXACT), Term("same", (*_EXACT, ("years", 0.55)))]
    found += [Term("any", ((extra, 1.0),)) for extra in extras]
    return tuple(found)


def kernel_of(
    chosen: Sequence[Term], variances: Floats, tables: dict[str, Floats], columns: Sequence[str], centre: Floats
) -> tuple[Kernel, Shared]:
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
    return kernel, Shared(
        hardware=np.linalg.cholesky(common + jitter),
        column=np.array([column for column, _ in linear], dtype=np.intp),
        weight=np.array([weight for _, weight in linear]),
        centre=centre,
    )


def learn(
    chosen: Sequence[Term],
    tables: dict[str, Floats],
    columns: Sequence[str],
    centre: Floats,
    units: Units,
    start: Floats | None,
    steps: int,
) -> Floats:
    """(terms + 2,) variances: of each term, of the common noise, and of the noise that falls with repeats.

    Parameters
    ----------
    units
        Configurations to learn from; cost grows with the cube of their number.
    start
        Variances of an earlier fit of the same terms; the prior's where None.
    """
    stack = np.stack([_matrix(term, tables, columns, centre, units.points) for term in chosen])
    stack = stack.reshape(len(chosen), -1)
    y = units.y - units.y.mean()
    size, noises = len(y), np.column_stack((np.ones(len(y)), 1 / units.count))
    middle = np.append(np.full(len(chosen), PRIOR_MEAN), [PRIOR_NOISE, PRIOR_NOISE])

    def objective(logs: Floats) -> tuple[float, Floats]:
        v = np.exp(logs)
        covariance = (v[:-2].astype(np.float32) @ stack).reshape(size, size).astype(float)
        covariance[np.diag_indices(size)] += noises @ v[-2:]
        try:
            root = cholesky(covariance, lower=True)
        except LinAlgError:  # float32 sums: not positive definite once the noise is all but gone
            return 1e10, np.zeros_like(logs)
        inverse = dpotri(root, lower=1)[0]
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        solved = inverse @ y
        outer = (inverse - np.outer(solved, solved)).astype(np.float32)
        gradient = np.concatenate((stack @ outer.ravel(), np.diag(outer) @ noises)) * v / 2
        off = (logs - middle) / PRIOR_DEVIATION
        loss = y @ solved / 2 + np.log(np.diag(root)).sum() + off @ off / 2
        return float(loss), gradient + off / PRIOR_DEVIATION

    first = middle if start is None else np.log(start)
    found = minimize(
        objective, first, jac=True, method="L-BFGS-B", bounds=[BOUNDS] * len(first), options={"maxiter": steps}
    )
    return np.exp(found.x)


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
    apart = np.square(numbers[:, None, :4] - numbers[None, :, :4]).sum(axis=2)
    similar = np.where(listed[:, None] & listed[None, :], np.exp(-apart / 2), same)
    alike = np.array([[a is not None and a == b for b in vendor] for a in vendor], dtype=float)
    linear = {
        name: np.outer(numbers[:, i], numbers[:, i]) for i, name in ((0, "peak"), (1, "bandwidth"), (4, "memory"))
    }
    return {"any": np.ones_like(same), "same": same, "vendor": np.maximum(alike, same), "similar": similar, **linear}


def _matrix(
    term: Term, tables: dict[str, Floats], columns: Sequence[str], centre: Floats, points: Points
) -> NDArray[np.float32]:
    factors = term.along
    kernel = Kernel(
        tables=tables[term.hardware][None],
        column=np.array([columns.index(name) for name, _ in factors], dtype=np.intp),
        length=np.array([length for _, length in factors], dtype=float),
        member=np.ones((1, len(factors)), dtype=bool),
        centre=centre,
    )
    matrix = kernel(points, points)
    if not term.shared:
        matrix *= points.model[:, None] == points.model[None, :]
    return matrix.astype(np.float32)
