"""Groups of attempts that are left out together, so that what is judged never ran in what was learned from."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from leap.predictor.features.batch import Rows, strings
from leap.predictor.models.structured.replicates import group_codes

Mask = NDArray[np.bool_]

#: Folds where there are more groups than that; of fewer, each is a fold.
FOLDS = 10
#: Columns that `removed` looks for a pattern in.
NAMED = ("model_type", "hardware_type")


@dataclass(frozen=True)
class Hold:
    """One way to hold out groups.

    Attributes
    ----------
    group
        Columns that the attempts of a group agree in; `prefix` is that of the model type (see `prefix_of`).
    known
        Columns that a judged attempt must agree in with attempts that were learned from.
    """

    group: tuple[str, ...]
    known: tuple[tuple[str, ...], ...] = ()


HOLDS: dict[str, Hold] = {
    "pair": Hold(("model_type", "hardware_type"), (("model_type",), ("hardware_type",))),
    "model": Hold(("model_type",)),
    "prefix": Hold(("prefix",)),
    "hardware": Hold(("hardware_type",)),
    "scale": Hold(("model_type", "hardware_type", "accelerators"), (("model_type", "hardware_type"),)),
}


@dataclass(frozen=True)
class Fold:
    """(n,) attempts that a fit does not see, and those of them that are judged."""

    held_out: Mask
    judged: Mask


def folds(rows: Rows, hold: str) -> Iterator[Fold]:
    """Folds of (n,) rows, the same on every machine: a group's is a hash of its name.

    Raises
    ------
    ValueError
        If all rows are of one group, or none would be judged.
    """
    columns = dict(rows) | {"prefix": strings([prefix_of(name) for name in rows["model_type"].tolist()])}
    group = [columns[name] for name in HOLDS[hold].group]
    known = [group_codes(*(columns[name] for name in key)) for key in HOLDS[hold].known]
    fold, made = _fold_of(group), 0
    for number in np.unique(fold):
        held_out = fold == number
        judged = held_out & np.all([np.isin(key, key[~held_out]) for key in known], axis=0)
        if judged.any() and not held_out.all():
            made += 1
            yield Fold(held_out, judged)
    if not made:
        raise ValueError(
            f"--hold {hold} has nothing to judge: its {len(fold):,} attempts are all of one group, or none would be "
            f"left that agrees in {' and '.join(', '.join(key) for key in HOLDS[hold].known) or 'anything'}"
        )


def _fold_of(columns: Sequence[NDArray[Any]]) -> NDArray[np.intp]:
    """(n,) fold of each row: by a hash of all columns but the last, and one further for each value of that.

    So groups that differ in their last column alone, such as the hardware types of one model type, are left out one
    after the other, as far as there are folds.
    """
    group = group_codes(*columns)
    first = np.unique(group, return_index=True)[1]
    if len(first) <= FOLDS:
        return group
    *shared, own = columns
    broad = group_codes(*shared) if shared else np.zeros(len(own), dtype=np.intp)
    order = np.lexsort((own[first], broad[first]))
    start = np.searchsorted(broad[first][order], broad[first][order])
    turn = np.empty(len(first), dtype=np.intp)
    turn[order] = np.arange(len(first)) - start
    hashed = shared or [own]
    names = ("\x1f".join(str(column[row]) for column in hashed) for row in first.tolist())
    digests = [hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names]
    fold = np.array([int.from_bytes(digest, "big") % FOLDS for digest in digests], dtype=np.intp)
    return ((fold + turn * bool(shared)) % FOLDS)[group]


def prefix_of(model_type: str) -> str:
    """What a model type's name begins with, up to the first digit, or what separates words; else all of it.

    >>> [prefix_of(name) for name in ("resnet50", "vit_base_patch16", "gpt-oss", "3d-unet")]
    ['resnet', 'vit', 'gpt', '3d-unet']
    """
    return re.split(r"[\d_\-./ ]", model_type, maxsplit=1)[0].lower() or model_type


def removed(rows: pd.DataFrame, without: str) -> Mask:
    """(n,) attempts that ``column=pattern`` names; none if it is empty.

    Raises
    ------
    ValueError
        If it does not name one of `NAMED`.

    Examples
    --------
    >>> removed(pd.DataFrame({"model_type": ["dlrm-s", "t5"]}), "model_type=dlrm-*").tolist()
    [True, False]
    """
    if not without:
        return np.zeros(len(rows), dtype=bool)
    column, _, pattern = without.partition("=")
    if column not in NAMED or not pattern:
        raise ValueError(f"cannot take away {without!r}: name {', '.join(f'{name}=PATTERN' for name in NAMED)}")
    named = {name: fnmatchcase(name, pattern) for name in rows[column].unique()}
    return np.asarray(rows[column].map(named).to_numpy(dtype=bool))
