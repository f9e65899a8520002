from collections.abc import Sequence
from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

def check_is_fitted(estimator: BaseEstimator) -> None: ...
@overload
def validate_data(
    estimator: BaseEstimator,
    X: ArrayLike,
    *,
    reset: bool = True,
    dtype: Sequence[type[np.floating]],
    ensure_all_finite: bool | Literal["allow-nan"] = True,
) -> NDArray[np.floating]: ...
@overload
def validate_data(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike,
    *,
    dtype: Sequence[type[np.floating]],
    ensure_all_finite: bool | Literal["allow-nan"] = True,
    y_numeric: bool,
) -> tuple[NDArray[np.floating], NDArray[np.floating]]: ...
