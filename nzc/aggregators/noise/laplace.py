"""Laplace noise: LNMax (PATE 2017) and NZC."""

from dataclasses import dataclass

import numpy as np

from nzc._types import AnyArray, Floats
from nzc.aggregators.noise.quadrature import Quadrature
from nzc.errors import positive
from nzc.privacy import claims, independent, theorem

_X, _W = np.polynomial.legendre.leggauss(8)


@dataclass(frozen=True)
class Laplace(Quadrature):
    """Lap(1/γ): density γ/2 e^(−γ|z|). One label of the plain argmax is (2γ, 0)-private (PATE 2017, Theorem 2)."""

    gamma: float

    reach = 720.0

    def __post_init__(self) -> None:
        positive(gamma=self.gamma)

    @property
    def scale(self) -> float:
        return 1 / self.gamma

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        return rng.laplace(scale=1 / self.gamma, size=shape)

    @staticmethod
    def log_density(x: Floats) -> Floats:
        return np.asarray(-np.abs(x) - np.log(2))

    @staticmethod
    def log_cdf(x: Floats) -> Floats:
        return np.where(x < 0, x - np.log(2), np.log1p(-0.5 * np.exp(-np.abs(x))))

    @staticmethod
    def nodes(leads: Floats, copies: Floats, step: Floats) -> tuple[Floats, Floats]:
        """Gauss-Legendre between the kinks, that is between the counts and the counts one vote away.

        Below them all the integrand is a pure exponential e^(Kt): one node carries the whole tail exactly. Above them
        all it is a polynomial of degree K − 1 in e^(−t): ⌈K/2⌉ nodes are exact. Between two kinks it is e^(kt) times
        factors 1 − e^(−x)/2: panels on which its logarithm turns by at most 3 leave 8 nodes an error below 1e-15.
        """
        d = step[:, None]
        copies = np.where(leads > -Laplace.reach, copies, 0.0)
        leads = np.where(leads > -Laplace.reach, leads, 0.0)
        edges = np.sort(np.concatenate([leads - d, leads, leads + d], axis=1), axis=1)
        left, width = _split(edges[:, :-1], np.diff(edges), np.ceil(np.diff(edges)))
        behind = left[:, :, None] - leads[:, None, :] - d[:, :, None]
        steepness = 1 + np.einsum("qpk,qk->qp", np.exp(-np.maximum(behind, 0)), copies)
        left, width = _split(left, width, np.ceil(steepness * width / 3))

        classes = copies.sum(axis=1)
        y, w = np.polynomial.legendre.leggauss(int(classes.max() + 1) // 2)
        y, w = (y + 1) / 2, w / 2
        bottom, top = edges[:, :1], edges[:, -1:]
        at = (left[:, :, None] + width[:, :, None] * (_X + 1) / 2).reshape(len(leads), -1)
        with np.errstate(divide="ignore"):
            log_weight = np.log(width[:, :, None] * _W / 2).reshape(len(leads), -1)
        return (
            np.concatenate([bottom, at, top - np.log(y)], axis=1),
            np.concatenate([-np.log(classes)[:, None], log_weight, np.tile(np.log(w / y), (len(leads), 1))], axis=1),
        )

    def release(self, shift: float) -> independent.Release:
        return independent.pure_release(2 * self.gamma * shift)

    @property
    def bound(self) -> theorem.Bound:
        return theorem.laplace_bound(self.gamma)

    def claimed(self, queries: int, delta: float) -> float:
        return claims.nzc_laplace(queries, self.gamma, delta)


def _split(left: Floats, width: Floats, pieces: AnyArray) -> tuple[Floats, Floats]:
    """Each panel of a row cut into equal pieces; rows [queries, panels] padded with panels of no width."""
    pieces = pieces.astype(np.int64)
    per_row = pieces.sum(axis=1)
    flat = pieces.ravel()
    row = np.repeat(np.arange(len(left)), per_row)
    begins = np.cumsum(flat) - flat
    within = np.arange(flat.sum()) - np.repeat(begins, flat)
    column = np.arange(flat.sum()) - np.repeat(np.cumsum(per_row) - per_row, per_row)
    size = np.repeat(width.ravel() / np.maximum(flat, 1), flat)
    new_left, new_width = np.zeros((2, len(left), int(per_row.max(initial=0))))
    new_left[row, column] = np.repeat(left.ravel(), flat) + within * size
    new_width[row, column] = size
    return new_left, new_width
