"""Standardise features by the public rows: mean and deviation in float64."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from nzc.types import AnyArray, Floats

#: Standardised features stay within ±LIMIT, where no network of nzc overflows.
LIMIT = 1e6


@dataclass(frozen=True, repr=False)
class Standardizer:
    """Scales features to mean 0 and standard deviation 1 on the public rows, and no others.

    mean, spread  float64 [features]
    dtype         type of the features in the file
    """

    mean: Floats
    spread: Floats
    dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a row."""
        return self.mean.shape

    @classmethod
    def fit(cls, public: AnyArray) -> "Standardizer":
        """Return the standardizer of public rows [rows, features], finite numbers of any type."""
        return cls(*moments(public), public.dtype.newbyteorder("="))

    def __call__(self, x: AnyArray) -> AnyArray:
        """Return standardised float32 [rows, features], within ±LIMIT.

        A missing value (NaN) counts as the mean.
        """
        with np.errstate(over="ignore"):
            scaled = np.subtract(x, self.mean, dtype=np.float64)
            scaled /= self.spread
        np.clip(scaled, -LIMIT, LIMIT, out=scaled)
        return np.nan_to_num(scaled, copy=False, nan=0).astype(np.float32)


def moments(rows: AnyArray) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each column of [rows, columns], without NaN.

    A deviation of 0 becomes 1.
    """
    values = np.asarray(rows, np.float64)
    low = np.fmin.reduce(values, axis=0)
    constant = low == np.fmax.reduce(values, axis=0)
    mean = np.where(constant, low, np.nanmean(values, axis=0))
    spread = np.nanstd(values, axis=0)
    return np.asarray(mean), np.where(constant | (spread == 0), 1.0, spread)
