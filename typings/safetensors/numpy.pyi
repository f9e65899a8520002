from os import PathLike
from typing import Any

from numpy.typing import NDArray

def load_file(filename: str | PathLike[str]) -> dict[str, NDArray[Any]]: ...
def save_file(tensor_dict: dict[str, NDArray[Any]], filename: str | PathLike[str]) -> None: ...
