from typing import Self, TypeVar

from numpy.typing import ArrayLike
from sklearn.utils import Tags

Estimator = TypeVar("Estimator", bound=BaseEstimator)

class BaseEstimator:
    n_features_in_: int
    def get_params(self, deep: bool = True) -> dict[str, object]: ...
    def set_params(self, **params: object) -> Self: ...
    def __sklearn_tags__(self) -> Tags: ...

class RegressorMixin:
    def score(self, X: ArrayLike, y: ArrayLike) -> float: ...

def clone(estimator: Estimator) -> Estimator: ...
