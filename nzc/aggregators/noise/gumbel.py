"""Gumbel noise: the exponential mechanism (McSherry and Talwar 2007), whose law is a softmax."""

from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax

from nzc._types import Floats
from nzc.aggregators.noise.noise import Noise, complete
from nzc.errors import positive
from nzc.privacy import independent


@dataclass(frozen=True)
class Gumbel(Noise):
    """Gumbel noise of scale 1/γ: Pr[j] ∝ e^(γ n_j), the exponential mechanism with ε₀ = 2γ.

    γ is an inverse scale, as Laplace's is. A moved vote changes two exponents by γ in opposite directions: one label
    has a privacy loss within a range of 2γ (Dong, Durfee, Rogers 2020), so it is (2γ, 0)-private and costs at most
    αγ²/2.
    """

    gamma: float

    def __post_init__(self) -> None:
        positive(gamma=self.gamma)

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        return rng.gumbel(scale=1 / self.gamma, size=shape)

    def log_law(self, scores: Floats) -> Floats:
        leads = self.gamma * (scores - scores.max(axis=1, keepdims=True))
        return complete(log_softmax(leads, axis=1))

    def release(self, shift: float) -> independent.Release:
        return independent.bounded_range_release(2 * self.gamma * shift)

    @property
    def bound(self) -> None:
        return None

    def claimed(self, queries: int, delta: float) -> None:
        return None
