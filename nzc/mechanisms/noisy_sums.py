"""Noisy sums: every unit of privacy adds one bounded vector, and the sum gets Gaussian noise."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from nzc.accounting.cost import Cost
from nzc.accounting.data_independent import KnownCost
from nzc.accounting.exact_noise import ExactGenerator
from nzc.mechanisms import cost as prices
from nzc.mechanisms.adjacency import Adjacency, Vectors
from nzc.mechanisms.noise.gaussian import GaussianNoise
from nzc.mechanisms.noisy_argmax import NoisyArgmax
from nzc.mechanisms.votes import Probs
from nzc.types import Ints
from nzc.validation import generator

__all__ = ["UNIT", "NoisySums"]

#: Vectors are whole: one of length 1 is a whole vector of length `UNIT` at most.
UNIT = 2**20
#: Noise has a standard deviation of about so many steps of the grid that is released.
_FINE = 2.0**10
#: Released numbers are cut off here, within 64 bits.
_LARGEST = 2.0**62


class NoisySums(NoisyArgmax):
    """S + N(0, σ²), where S is a sum of vectors that are at most 2 apart for one unit of privacy.

    S is whole, in multiples of 1/UNIT, so no order of adding changes it; so is what is released.
    Whoever replaces a unit moves S by at most 2, so all that follows costs a mean shift of 2/σ.
    """

    noise: GaussianNoise
    adjacency: Adjacency
    releases: ClassVar[str] = "sums"

    def __init__(self, noise: GaussianNoise) -> None:
        super().__init__(noise, adjacency=Vectors())

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
        exact = ExactGenerator(generator(rng).bit_generator)
        noise = GaussianNoise(sigma / step).exact
        released = step * exact.round_up(noise, votes / step - 0.5)
        return released.clip(-_LARGEST, _LARGEST).astype(np.int64)

    def cost(self, votes: Ints, labels: Ints, student_probs: Probs = None) -> Cost:
        """Return what everything costs that follows from the sums; `labels` [rows] is one of it."""
        rows = len(labels)
        exact = KnownCost(rows, lambda queries: prices.worst_case(self, queries, queries))
        return replace(self.promise(rows, rows), exact=(exact,))
