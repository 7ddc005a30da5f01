"""Exponential noise: permute-and-flip (McKenna and Sheldon 2020)."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from nzc.accounting.data_independent import WorstCaseCost
from nzc.accounting.exact_noise import EXPONENTIAL
from nzc.accounting.kinds import Hint, Kind
from nzc.mechanisms.noise.base import ScaledNoise, complete
from nzc.types import Floats, Shape

__all__ = ["ExponentialNoise"]


@dataclass(frozen=True)
class ExponentialNoise(ScaledNoise):
    """Exponential noise of scale 1/γ votes, density γ e^(−γz) at z ≥ 0: permute-and-flip, ε₀ = 2γ.

    Permute-and-flip visits the classes in random order and takes class j with probability q_j =
    e^(γ (n_j − max n)). Let class i be visited at a uniform time u: each other class comes before
    it with probability u. So Pr[i] = q_i ∫₀¹ Π_{j≠i} (1 − u q_j) du. The noisy argmax has the same
    law: u = e^(γ (max n − t)) in ∫ f Π F dt.

    Privacy. Whatever the noise of the others, class i wins where z_i > x, x being their largest
    noisy count minus n_i. This has probability min(1, e^(−γx)). One count that changes by 1 moves x
    by at most 1: the label is (γ, 0)-private. A moved vote moves x by at most 2: the label is (2γ,
    0)-private. Votes (5, 5) reach both bounds.

    The range of the privacy loss is wider than 2γ, which it is with Gumbel noise: from votes (5, 5)
    to (4, 6), the losses of the labels are 2γ and −log(2 − e^(−2γ)). So at δ = 0 labels cost the
    same, and at δ > 0 many cost more.
    """

    standard = EXPONENTIAL

    def sample(self, shape: Shape, rng: Generator) -> Floats:
        return rng.exponential(scale=1 / self.gamma, size=shape)

    def log_law(self, scores: Floats) -> Floats:
        """⌈K/2⌉ Gauss-Legendre nodes are exact for degree K − 1, and no term is negative."""
        leads = self.gamma * (scores - scores.max(axis=1, keepdims=True))
        taken = np.exp(leads)
        first = np.zeros_like(leads)
        nodes = np.polynomial.legendre.leggauss((leads.shape[1] + 1) // 2)
        for node, weight in zip(*nodes, strict=True):
            refused = np.log1p(-(node + 1) / 2 * taken)
            first += weight / 2 * np.exp(refused.sum(axis=1, keepdims=True) - refused)
        return complete(leads + np.log(first))

    def worst_case(self, shift: float) -> WorstCaseCost:
        """No label costs more than one of two classes: docs/proofs.md."""
        return replace(super().worst_case(shift), hint=Hint(Kind.FLIP, self.gamma * shift))
