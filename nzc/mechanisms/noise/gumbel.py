"""Gumbel noise: the exponential mechanism (McSherry and Talwar 2007). Its law is a softmax."""

from dataclasses import dataclass

from numpy.random import Generator
from scipy.special import log_softmax

from nzc.accounting.data_independent import WorstCaseCost, bounded_range_cost
from nzc.accounting.exact_noise import GUMBEL
from nzc.mechanisms.noise.base import ScaledNoise, complete
from nzc.types import Floats, Shape

__all__ = ["GumbelNoise"]


@dataclass(frozen=True)
class GumbelNoise(ScaledNoise):
    """Gumbel noise of scale 1/γ votes: Pr[j] ∝ e^(γ n_j), the exponential mechanism with ε₀ = 2γ.

    A moved vote changes two exponents by γ in opposite directions. So a label's privacy loss lies
    in a range of width 2γ: it is (2γ, 0)-private and costs at most αγ²/2 (Dong, Durfee, Rogers
    2020).
    """

    standard = GUMBEL

    def sample(self, shape: Shape, rng: Generator) -> Floats:
        return rng.gumbel(scale=1 / self.gamma, size=shape)

    def log_law(self, scores: Floats) -> Floats:
        leads = self.gamma * (scores - scores.max(axis=1, keepdims=True))
        return complete(log_softmax(leads, axis=1))

    def worst_case(self, shift: float) -> WorstCaseCost:
        return bounded_range_cost(2 * self.gamma * shift)
