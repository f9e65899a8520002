from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sklearn.base import BaseEstimator

Test = TypeVar("Test", bound=Callable[..., Any])

def parametrize_with_checks(estimators: Sequence[BaseEstimator]) -> Callable[[Test], Test]: ...
