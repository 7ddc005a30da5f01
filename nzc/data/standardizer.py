"""Standardise features by the public rows: mean and deviation in float64, at every scale."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from nzc.types import AnyArray, Floats

#: Standardised features stay within ±LIMIT, where no network of nzc overflows. The deviation of fewer than 10¹² public
#: rows keeps each of them below it.
LIMIT = 1e6


@dataclass(frozen=True, repr=False)
class Standardizer:
    """Scales features to mean 0 and standard deviation 1 on the public rows. It depends on public rows only.

    mean, spread  float64 [features]
    dtype         type of the features in the file
    """

    mean: Floats
    spread: Floats
    dtype: np.dtype[Any]

    @classmethod
    def fit(cls, public: AnyArray) -> "Standardizer":
        """Return the standardizer of public rows [rows, features], which are finite numbers of any type."""
        return cls(*moments(public), public.dtype.newbyteorder("="))

    def __call__(self, x: AnyArray) -> AnyArray:
        """Return standardised float32 [rows, features], within ±LIMIT; a missing value (NaN) counts as the mean."""
        with np.errstate(over="ignore"):  # halves: the difference of two finite numbers may be infinite
            scaled = np.multiply(x, 0.5, dtype=np.float64, casting="same_kind")
            scaled -= self.mean / 2
            scaled /= self.spread / 2
        return np.nan_to_num(np.clip(scaled, -LIMIT, LIMIT, out=scaled), copy=False, nan=0).astype(np.float32)


def moments(rows: AnyArray) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each column of [rows, columns], without NaN; a deviation of 0 becomes 1.

    Rows are divided by a power of two first, which is exact: no square or sum overflows, and no square becomes 0.
    """
    values = np.asarray(rows, np.float64)
    low, high = np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)
    exponent = np.frexp(np.maximum(np.abs(low), np.abs(high)))[1]
    unit = np.ldexp(1.0, np.clip(exponent, -1022, 1023))  # normal numbers, and so are their reciprocals, nearly
    values = values / unit
    mean, spread = np.nanmean(values, axis=0) * unit, np.nanstd(values, axis=0) * unit
    mean = np.clip(mean, low, high)  # rounding may leave the range
    spread = np.maximum(spread, np.finfo(np.float64).tiny)
    return np.where(low == high, low, mean), np.where(low == high, 1.0, spread)
