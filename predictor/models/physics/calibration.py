"""How far off the prior is, against what it says of itself, by what of an attempt never ran.

Some model types, pairs, hardware types and scales are held out together, and what is then predicted of them is compared
with what they reached. So an attempt that rests on the prior alone has the deviation of its like.
"""

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats, Indices
from leap.predictor.models.structured.replicates import group_codes

#: What never ran of an attempt: at most its scale, the pair of model and hardware type, the hardware type, the model
#: type, or any model type whose name begins alike.
SCALE, PAIR, HARDWARE, MODEL, CLASS = range(5)
GROUPS = 5
#: Share of each that is held out at a time.
SHARE = 0.1
#: A factor of so many clusters counts half; of few it says little.
HALF_OF = 4.0
NORMAL_80 = 1.2816


def never_ran(ran: NDArray[np.bool_], model: Indices, hardware: Indices, akin: NDArray[np.bool_]) -> Indices:
    """(n,) what of attempts never ran, given (m + 1, h + 1) what did and (n,) whether a name that begins alike did.

    Examples
    --------
    >>> ran = np.array([[True, False, False], [False, True, False], [False, False, False]])
    >>> never_ran(ran, np.array([0, 0, 0, 2, 2]), np.array([0, 1, 2, 0, 0]), np.arange(5) < 4).tolist()
    [0, 1, 2, 3, 4]
    """
    group = np.where(ran[model, hardware], SCALE, PAIR)
    group[~np.logical_or.reduce(ran, axis=0)[hardware]] = HARDWARE
    group[~np.logical_or.reduce(ran, axis=1)[model]] = MODEL
    group[(group == MODEL) & ~akin] = CLASS
    return np.asarray(group)


def held_out(
    model: Indices, hardware: Indices, scale: Floats, beginning: NDArray[np.uint64], seed: int
) -> NDArray[np.bool_]:
    """(n,) rows to hold out: of some beginnings of names, model types, hardware types, pairs and scales everything."""
    draw = np.random.default_rng(seed)
    held = np.zeros(len(model), dtype=bool)
    for columns in ((beginning,), (model,), (hardware,), (model, hardware), (model, hardware, scale)):
        code = group_codes(*columns)
        held |= (draw.random(code.max() + 1) < SHARE)[code]
    return held


def factors(
    error: Floats,
    deviation: Floats,
    group: Indices,
    model: Indices,
    hardware: Indices,
    beginning: NDArray[np.uint64],
) -> Floats:
    """(GROUPS,) what deviations are to be multiplied with, so that 80% of held-out errors are within the interval."""
    found = np.ones(GROUPS)
    for number in range(GROUPS):
        rows = np.flatnonzero(group == number)
        if len(rows):
            whole = {CLASS: (beginning,), MODEL: (model,), HARDWARE: (hardware,)}.get(number, (model, hardware))
            cluster = group_codes(*(column[rows] for column in whole))
            clusters = cluster.max() + 1.0
            weight = 1 / np.bincount(cluster)[cluster]
            off = _quantile(np.abs(error[rows]) / deviation[rows], weight, 0.8) / NORMAL_80
            found[number] = np.exp(np.log(max(off, 1e-3)) * clusters / (clusters + HALF_OF))
    return found


def _quantile(values: Floats, weight: Floats, share: float) -> float:
    order = np.argsort(values)
    passed = np.cumsum(weight[order]) / weight.sum()
    return float(values[order][min(int(np.searchsorted(passed, share)), len(values) - 1)])
