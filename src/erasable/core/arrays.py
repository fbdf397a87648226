"""Names for kinds of arrays, for signatures in every room. Nothing else is here, and nothing is touched."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]  # of any type: rows as they came, or as a model stores them
Floats = npt.NDArray[np.floating[Any]]
Float32s = npt.NDArray[np.float32]
Float64s = npt.NDArray[np.float64]
Integers = npt.NDArray[np.integer[Any]]
Int64s = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.intp]  # of rows
