"""What the arrays of the process of utilisation must be, so that no ranking fails on one that is damaged."""

import numpy as np

from leap.predictor.features import architecture
from leap.predictor.models.arrays import Arrays, ArraySpec
from leap.predictor.models.physics.encoding import PARTS

#: More cells than any fit keeps; the time of a ranking grows with them.
MAX_CELLS = 8192

_VALUES = len(architecture.NAMES)

#: By the names in `Utilisation.arrays`; sizes ``models`` and ``hardware`` are those of the prior.
SPECS: dict[str, ArraySpec] = {
    "encoding.models": ArraySpec("U", ("defined",), increasing=True),
    "encoding.of_model": ArraySpec("f8", ("defined+1", _VALUES), missing=True),
    "encoding.numbers": ArraySpec("U", ("numbers",)),
    "encoding.names": ArraySpec("U", ("names",)),
    "encoding.centre": ArraySpec("f8", ("columns",)),
    "encoding.scale": ArraySpec("f8", ("columns",), low=0.0),
    "inverse": ArraySpec("f8", ("columns",), low=0.0),
    "apart": ArraySpec("f8", ("names",), low=0.0),
    "hardware": ArraySpec("f8", ("hardware+1", "hardware+1"), low=0.0),
    "variances": ArraySpec("f8", (PARTS + 1,), low=0.0),
    "slope": ArraySpec("f8", ("columns",)),
    "mean": ArraySpec("f8", ("hardware+1",)),
    "level": ArraySpec("f8", (2,), low=0.0),
    "cells.x": ArraySpec("f4", ("cells", "columns")),
    "cells.model": ArraySpec("u8", ("cells", PARTS + 1)),
    "cells.names": ArraySpec("u8", ("cells", "names")),
    "cells.hardware": ArraySpec("i8", ("cells",), low=0),
    "cells.dual": ArraySpec("f8", ("cells",)),
    "cells.noise": ArraySpec("f8", ("cells",), low=0.0),
}


def problem_of_utilisation(stored: Arrays) -> str:
    """Which array does not fit the others, and how, or nothing; each is as `SPECS` says."""
    columns = _VALUES + 3 + len(stored["encoding.numbers"])
    if len(stored["encoding.centre"]) != columns:
        return f"encoding.centre: other than {columns} columns"
    if len(stored["cells.dual"]) > MAX_CELLS:
        return f"cells.dual: more than {MAX_CELLS} cells"
    if np.any(stored["cells.hardware"] >= len(stored["mean"])):
        return "cells.hardware: other than hardware types"
    return ""
