"""The sparse vector technique: of labels without noise, only unstable queries cost privacy."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.random import Generator

from nzc.accounting.data_independent import WorstCaseCost
from nzc.accounting.exact_noise import GUMBEL, ExactGenerator, ExactNoise
from nzc.accounting.kinds import Hint, Kind
from nzc.mechanisms.screen import StabilityScreen
from nzc.mechanisms.votes import Probs
from nzc.types import Bools, Floats, Ints
from nzc.validation import between_0_and_1, whole

__all__ = ["SparseScreen"]

#: e^700 is about the largest float64.
_LARGEST_EXPONENT = 700.0
#: How often a query is reported unstable although all teachers agree, where the scale is chosen.
_FALSE_ALARMS = 1e-2


@dataclass(frozen=True)
class SparseScreen(StabilityScreen):
    """Answer where d − σ₁·G ≥ threshold, G standard Gumbel; end at the `cutoff`-th query below.

    d is the distance to instability, in votes, and the label is the plurality (see
    `StabilityScreen`). A query is reported unstable with probability 1 − e^(−Λ), Λ = e^((threshold
    − d)/b), b = σ₁. Every draw is independent, and the threshold has no noise. Stable queries cost
    nothing, however many there are; a run ends after `cutoff` reports.

    Theorem. Let two neighbours differ in one teacher, hence by one moved vote in each query.
    Queries may be chosen in turn, each after the labels so far. Let α > 1 with α(1 − e^(−1/b)) < 1,
    and let c be `cutoff`, or the number of queries where that is smaller. The run is (ε, δ′ +
    c·e^(−e^(threshold/b)))-private, where (ε, δ′) follows from the Rényi cost of order α

        ρ(α) = c·log V/(α − 1),  log V = −α/b − log(1 − α(1 − e^(−1/b))),

    which is about cα/(2b²) where b is much above α. Proof: docs/proofs.md, "The sparse vector
    technique by Rényi costs". The bound is nearly reached where r = e^(−1/b) at very many queries
    of small Λ. With Gaussian noise on d, log Λ may change by about d/σ², and step 1 fails. Cf.
    Hardt and Rothblum 2010.
    """

    cutoff: int
    one_round = True

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("cutoff", self.cutoff, 1)

    @classmethod
    def for_teachers(
        cls, teachers: int, cutoff: int, delta: float, scale: float | None = None
    ) -> "SparseScreen":
        """Return the screen whose labels use at most δ/10, by public facts only.

        scale  None: the largest at which a query of which all teachers agree is reported unstable
               with probability 1 %
        """
        whole("teachers", teachers, 4)
        whole("cutoff", cutoff, 1)
        between_0_and_1("delta", delta)
        at_zero = np.log(10 * cutoff / delta) * (1 + 1e-11)  # Λ at d = 0
        if scale is None:
            scale = float((teachers / 2 - 1) / np.log(at_zero / -np.log1p(-_FALSE_ALARMS)))
        return cls(threshold=float(scale * np.log(at_zero)), sigma1=scale, cutoff=cutoff)

    def answers(self, votes: Ints, rng: Generator, student_probs: Probs) -> Bools:
        if isinstance(rng, ExactGenerator):
            noise = ExactNoise(GUMBEL, Fraction(float(self.sigma1)))
            distance = self.statistic(votes, None)
            return ~rng.at_least(noise, np.full_like(distance, self.threshold), distance)
        return np.asarray(rng.exponential(size=votes.shape[:-1]) >= self._rate(votes))

    def log_answer(self, votes: Ints, student_probs: Probs) -> tuple[Floats, Floats]:
        rate = self._rate(votes)
        return -rate, np.log(-np.expm1(-rate))

    def ended(self, answered: Bools) -> Bools:
        return np.asarray(np.cumsum(~answered) >= self.cutoff)

    def paid(self, asked: int) -> int:
        return min(asked, self.cutoff)

    @property
    def bound(self) -> None:
        """None: the theorem is of a screen with Gaussian noise."""

    def worst_case(self, votes: int = 1) -> WorstCaseCost:
        """Return the cost ρ(α) of one report, whatever the votes."""
        return WorstCaseCost(self._rdp, hint=Hint(Kind.REPORT, 1 / self.sigma1))

    @property
    def delta_cost(self) -> float:
        at_zero = np.exp(min(self.threshold / self.sigma1, _LARGEST_EXPONENT))
        return float(np.exp(-at_zero * (1 - 1e-12))) * (1 + 1e-12)

    def _rdp(self, orders: Floats) -> Floats:
        step = 1 / self.sigma1
        taken = orders * -np.expm1(-step) * (1 + 1e-15)
        log_rest = np.log1p(-taken, out=np.full(len(orders), -np.inf), where=taken < 1)
        rounding = 1e-15 * (orders * step - np.where(taken < 1, log_rest, 0.0))
        log_v = np.maximum(-log_rest - orders * step + rounding, 0.0)
        return np.asarray(log_v / (orders - 1) * (1 + 1e-12))

    def _rate(self, votes: Ints) -> Floats:
        """Return Λ, [...]; the exponent is cut at 700, where no query is ever answered."""
        ahead = (self.threshold - self.statistic(votes, None)) / self.sigma1
        return np.asarray(np.exp(np.minimum(ahead, _LARGEST_EXPONENT)))
