"""Types that many files share, spelled once; without torch."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
AnyArray = NDArray[Any]

#: Takes points of curves: whose they are, values by name, and the step.
Draw = Callable[[str, Mapping[str, float], int], None]
