"""Standardise features by the public rows: mean and deviation in float64, without far values."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from nzc.types import AnyArray, Bools, Floats, Shape

#: Standardised features stay within ±LIMIT, where no network of nzc overflows.
LIMIT = 1e6
#: Features with far values stay within ±CUT.
CUT = 10.0
#: A value is far if it is so many times as far from the middle as the values before it.
_GAP = 10.0
#: This is enough for a code: so many times as many rows have it as have a usual value.
_GAP_OF_CODE = 3.0
_OFTEN = 5
#: So many different values or fewer are levels.
_LEVELS = 10
#: A code is at least so much of all rows.
_SHARE = 0.01


@dataclass(frozen=True, repr=False)
class Standardizer:
    """Scales features to mean 0 and standard deviation 1 on the public rows, and no others.

    mean, spread  float64 [features]
    limit         float64 [features], of standardised features: CUT where public values are far,
                  LIMIT elsewhere
    dtype         type of the features in the file
    """

    mean: Floats
    spread: Floats
    limit: Floats
    dtype: np.dtype[Any]

    @property
    def shape(self) -> Shape:
        """The shape of a row."""
        return self.mean.shape

    @classmethod
    def fit(cls, public: AnyArray) -> "Standardizer":
        """Return the standardizer of public rows [rows, features], finite numbers of any type."""
        near = near_values(public)
        limit = np.where(np.isnan(near).any(axis=0), CUT, LIMIT)
        return cls(*moments(near), limit, public.dtype.newbyteorder("="))

    def __call__(self, x: AnyArray) -> AnyArray:
        """Return standardised float32 [rows, features], within ±limit.

        A missing value (NaN) counts as the mean.
        """
        with np.errstate(over="ignore"):
            scaled = np.subtract(x, self.mean, dtype=np.float64)
            scaled /= self.spread
        np.clip(scaled, -self.limit, self.limit, out=scaled)
        return np.nan_to_num(scaled, copy=False, nan=0).astype(np.float32)


def moments(values: Floats) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each column of [rows, columns], without NaN.

    A deviation of 0 becomes 1.
    """
    low = np.nanmin(values, axis=0)
    constant = low == np.nanmax(values, axis=0)
    spread = np.nanstd(values, axis=0)
    spread[constant | (spread == 0)] = 1
    return np.where(constant, low, np.nanmean(values, axis=0)), spread


def near_values(rows: AnyArray) -> Floats:
    """Return [rows, columns] as float64, NaN where a value is far from most of its column.

    Far are absurd values, and codes for a missing value such as 999 among ages.
    """
    values = np.array(rows, np.float64)
    for sign in (1, -1):
        values[np.apply_along_axis(_far_above, 0, sign * values)] = np.nan
    return values


def _far_above(values: Floats) -> Bools:
    """Return which numbers of a column [rows] are far above most others.

    The shortest interval with more than half of the different values tells the middle. Upwards from
    it, a gap ends the near values. Zero is near, and so is what more than half of the rows have, or
    a tenth where there are few levels.
    """
    unique, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    half = len(unique) // 2
    first = (unique[half:] - unique[: len(unique) - half]).argmin()
    upper = unique[first + half :]
    distances = upper - (unique[first] + upper[0]) / 2
    often = counts > max(_OFTEN * np.median(counts), _SHARE * len(values))
    gaps = np.where(often, _GAP_OF_CODE, _GAP)[first + half :]
    ends = distances[1:] > gaps[1:] * distances[:-1]
    far = (values > upper[np.append(ends, True).argmax()]) & (values != 0)
    most = 0.5
    if len(unique) <= _LEVELS:
        most = 0.1
    return far & (far.mean() <= most)
