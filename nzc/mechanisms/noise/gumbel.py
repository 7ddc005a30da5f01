"""Gumbel noise: the exponential mechanism (McSherry and Talwar 2007). Its law is a softmax."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.special import log_softmax

from nzc.accounting import data_independent
from nzc.accounting.exact_noise import GUMBEL, ExactNoise
from nzc.mechanisms.noise.base import Noise, complete
from nzc.types import Floats
from nzc.validation import positive


@dataclass(frozen=True)
class GumbelNoise(Noise):
    """Gumbel noise of scale 1/γ votes: Pr[j] ∝ e^(γ n_j), the exponential mechanism with ε₀ = 2γ.

    A moved vote changes two exponents by γ in opposite directions. So the privacy loss of a label lies in a range of
    width 2γ: the label is (2γ, 0)-private and costs at most αγ²/2 (Dong, Durfee, Rogers 2020).
    """

    gamma: float
    concentrated = True

    def __post_init__(self) -> None:
        positive(gamma=self.gamma)

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        return rng.gumbel(scale=1 / self.gamma, size=shape)

    @property
    def exact(self) -> ExactNoise:
        return ExactNoise(GUMBEL, 1 / Fraction(float(self.gamma)))

    def log_law(self, scores: Floats) -> Floats:
        leads = self.gamma * (scores - scores.max(axis=1, keepdims=True))
        return complete(log_softmax(leads, axis=1))

    def worst_case(self, shift: float) -> data_independent.WorstCaseCost:
        return data_independent.bounded_range_cost(2 * self.gamma * shift)
