"""What a release shows, as far as composition by induction knows it."""

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What a release shows, where more is known than `rdp`, `mu` and `pure`; and its size."""

    LABEL = "argmax of counts with Gaussian noise, at a mean shift μ"
    SCREENED = "the same, where a bit of its own allows it"
    LAPLACE = "argmax of counts with Laplace noise, at an inverse scale"
    BIT = "one bit of Gaussian noise, at a mean shift μ"
    FLIP = "argmax of counts with exponential noise, at an inverse scale"
    RANGE = "an outcome whose privacy loss lies in a range of this width"


@dataclass(frozen=True)
class Hint:
    """What a release shows, and its size as `Kind` says: a hint to sharper composition."""

    kind: Kind
    size: float
