"""Noisy sums: every unit of privacy adds one bounded vector, and the sum gets Gaussian noise."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from nzc.accounting.cost import Cost
from nzc.accounting.data_independent import FREE
from nzc.accounting.exact_noise import ExactGenerator
from nzc.mechanisms.adjacency import Vectors
from nzc.mechanisms.base import Mechanism, Prices
from nzc.mechanisms.noise.gaussian import GaussianNoise
from nzc.mechanisms.votes import Probs
from nzc.types import Ints
from nzc.validation import as_generator

__all__ = ["UNIT", "NoisySums"]

#: Vectors are whole: one of length 1 is a whole vector of length `UNIT` at most.
UNIT = 2**20
#: Noise has a standard deviation of about so many steps of the grid that is released.
_FINE = 2.0**10
#: Released numbers are cut off here, within 64 bits.
_LARGEST = 2.0**62


@dataclass(frozen=True, repr=False)
class NoisySums(Mechanism):
    """S + N(0, σ²), where S is a sum of vectors that are at most 2 apart for one unit of privacy.

    S is whole, in multiples of 1/UNIT, so no order of adding changes it; so is what is released.
    Whoever replaces a unit moves S by at most 2, so all that follows costs a mean shift of 2/σ.
    """

    noise: GaussianNoise
    adjacency: Vectors = field(default=Vectors(), kw_only=True)
    releases = "sums"
    names: ClassVar = {(GaussianNoise,): "Sums"}

    def release(
        self, votes: Ints, rng: Generator | int, student_probs: Probs = None, share: float = 1.0
    ) -> Ints:
        """Return whole sums [rows, columns] with noise of the deviation σ·UNIT/√share.

        A release with a `share` of the budget costs that share of (2/σ)²: several releases, whose
        shares add to 1, cost together what one costs, also if one depends on those before.
        """
        sigma = self.noise.sigma * UNIT / share**0.5
        # What is released is a multiple of `step`, far below the noise: a finer grid would ask for
        # noise of more digits than a first draw has.
        step = 2 ** max(0, int(np.log2(sigma / _FINE)))
        exact = ExactGenerator(as_generator(rng).bit_generator)
        noise = GaussianNoise(sigma / step).exact
        released = step * exact.round_up(noise, votes / step - 0.5)
        return released.clip(-_LARGEST, _LARGEST).astype(np.int64)

    def cost(self, votes: Ints, labels: Ints, student_probs: Probs = None) -> Cost:
        """Return what everything costs that follows from the sums; `labels` [rows] is one of it."""
        rows = len(labels)
        return replace(self.promise(rows, rows), exact=(self.known_cost(rows),))

    def worst_case(self, asked: int = 1, answered: int = 1) -> Prices:
        # All labels follow from one sum, which moves by 2. `release` draws nzc's own noise.
        cost = GaussianNoise(self.noise.sigma).worst_case(2**0.5)
        return (asked, FREE), (min(answered, 1), cost)
