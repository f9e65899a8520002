"""Arrays of an artifact: mapped from its files, never unpickled."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray


def mapped(path: Path) -> NDArray[Any]:
    """Map an array of a ``.npy`` file; nothing of it is read before it is used.

    It is a plain array: numpy's class for mapped ones takes some microseconds more at every step.

    Raises
    ------
    ValueError
        If the file is none, holds objects, or is shorter than it says.
    OSError
        If it cannot be read.
    """
    try:
        return np.asarray(open_memmap(path, mode="r"))
    except OSError:
        raise
    except Exception as error:  # numpy evaluates the head of the file, and ends in whatever that ends in
        raise ValueError(f"{path.name}: no array that can be mapped: {error}") from error
