"""Array types that several packages share."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
AnyArray = NDArray[Any]
Shape = tuple[int, ...]
#: Numbers, or one that stands for all.
OneOrMore = Floats | float
#: Two arrays that belong together, such as the probabilities of two laws.
FloatsPair = tuple[Floats, Floats]

#: Receives points of learning curves: the name of the fit, values by metric, and the step.
CurveLog = Callable[[str, Mapping[str, float], int], None]
#: Receives a stage of a run when it ends: its name, what it did, and its seconds.
StageLog = Callable[[str, str, float], None]
