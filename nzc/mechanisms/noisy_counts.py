"""Noisy counts: where noise is added to every count, the whole histogram may be released at the price of the noise."""

from collections.abc import Callable

import numpy as np

from nzc.accounting.data_independent import WorstCaseCost
from nzc.mechanisms.noise import GaussianNoise, LaplaceNoise
from nzc.mechanisms.noisy_argmax import NoisyArgmax
from nzc.types import Floats, Ints
from nzc.validation import InputError


class NoisyCounts(NoisyArgmax):
    """n + Z, rounded to whole numbers, [queries, classes]; labels are its argmax. What follows from it costs nothing.

    A moved vote shifts two counts by one. So a query costs a pure 2γ with Laplace noise, and a mean shift of √2/σ with
    Gaussian noise. In own cells all queries together cost as much as the labels alone (`adjacency.OwnCells`).
    """

    noise: LaplaceNoise | GaussianNoise
    releases_counts = True

    def __init__(self, noise: LaplaceNoise | GaussianNoise) -> None:
        super().__init__(noise)

    def draw(self, votes: Ints, rng: np.random.Generator, student_probs: Floats | None = None) -> Ints:
        return votes + self.noise.whole(votes.shape, rng)

    def labels_of(self, released: Ints) -> Ints:
        if released.ndim != 2:
            raise InputError("labels", list(released.shape), "must be released counts, [queries, classes]")
        return np.asarray(released.argmax(axis=1))

    def worst_label(self, labels: int) -> tuple[int, WorstCaseCost]:
        count, cost = super().worst_label(labels)
        return count, WorstCaseCost(cost.rdp, cost.mu, cost.pure)  # `many` is about the argmax

    def evidence(self, pair: tuple[Ints, Ints]) -> Callable[[Ints], Floats]:
        """Return the log-likelihood ratio of noisy counts [queries, classes], of the noise before it was rounded."""

        def log_density(drawn: Ints, votes: Ints) -> Floats:
            return np.asarray(self.noise.log_density((drawn - votes) / self.noise.unit).sum(axis=1))

        return lambda drawn: log_density(drawn, pair[0]) - log_density(drawn, pair[1])
