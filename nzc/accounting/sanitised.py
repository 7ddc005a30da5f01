"""Publish a data-dependent ε, with noise, because it depends on the private votes.

The bound of a run is f(D) = Σ ρ(nᵢ): the data-dependent bound (data_dependent.py) at one order,
summed over what was released. The published value is e^Y, where Y = log f̂ + β s (N(0, 1) + z) and

    F_d(D) = the largest f within d changed teachers of D          f̂(D) = max_d e^(−βd) F_d(D)

Every parameter of `SanitisedPlan` is fixed before a vote is seen. Proof, and how F_d is computed:
docs/proofs.md, "The sanitised bound".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.random import Generator
from scipy.special import ndtri

from nzc.accounting.data_dependent import DataDependentBound
from nzc.accounting.data_independent import WorstCaseCost, gaussian_cost
from nzc.accounting.exact_noise import NORMAL, ExactGenerator, ExactNoise
from nzc.accounting.rdp import ORDERS, cks
from nzc.types import AnyArray, Floats
from nzc.validation import InputError, above_1, between_0_and_1, keep, positive

#: The expected share of the data-independent bound; a wrong guess costs ε, never soundness.
_EXPECTED = 0.2
#: The grid to which log q is rounded up, in steps of 0.05 %.
_LOG_Q: Floats = np.append(-np.geomspace(1e6, 1e-3, 40_000), 0.0)
_STEP = 2.0**-20  # the grid to which the released log bound is rounded up: a millionth of the bound

#: A bound, and the histograms [queries, classes] of what was released under it.
Released = Sequence[tuple[DataDependentBound, AnyArray]]


@dataclass(frozen=True)
class SanitisedPlan:
    """The parameters of a sanitised release: public facts, fixed before a vote is seen."""

    order: float  # the Rényi order α
    beta: float  # log of how much the bound may grow per changed teacher
    noise: float  # s: standard deviation of the released log bound in units of its sensitivity β
    failure: float  # the part of δ that covers a released bound that is too low

    def __post_init__(self) -> None:
        keep(self, order=above_1, beta=positive, noise=positive, failure=between_0_and_1)

    @property
    def cost(self) -> float:
        """The Rényi cost of releasing the bound: α/(2s²)."""
        return self.order / (2 * self.noise**2)

    @property
    def worst_case(self) -> WorstCaseCost:
        """The same, as a cost that holds for any votes."""
        return gaussian_cost(1 / self.noise)

    @property
    def margin(self) -> float:
        """The shift s z of the released bound, in changed teachers."""
        return -self.noise * float(ndtri(self.failure))

    def convert(self, rdp: float, delta: float) -> float:
        """Return the ε to publish for a released bound, with the bound's own cost and failure."""
        paid = np.array([rdp + self.cost])
        return max(0.0, float(cks(paid, np.array([self.order]), delta - self.failure)[0]))


def plan_bound(
    planned: Sequence[tuple[int, DataDependentBound]],
    delta: float,
    order: float | None = None,
    beta: float | None = None,
) -> SanitisedPlan:
    """Choose the plan for a run that asks so many queries under each bound.

    `order` and `beta` replace chosen values. Order and noise are the best for a run that costs
    `_EXPECTED` of its data-independent bound. The bound grows e-fold when as many teachers change
    as the smallest noise's deviation has votes.
    """
    between_0_and_1("delta", delta)
    if beta is None:
        beta = 1 / max(1.0, float(min(bound.spread for _, bound in planned)))
    costs = [queries * bound.worst_case(ORDERS) for queries, bound in planned]
    expected = _EXPECTED * np.sum(costs, axis=0)
    best = (np.inf, 2.0, 1.0)
    for noise in np.geomspace(0.5, 50, 60):
        with np.errstate(over="ignore"):  # of hardly any noise
            released = expected * np.exp(-beta * noise * ndtri(delta / 10))
        values = cks(released + ORDERS / (2 * noise**2), ORDERS, 0.9 * delta)
        best = min(best, (float(values.min()), float(ORDERS[values.argmin()]), float(noise)))
    _, best_order, best_noise = best
    return SanitisedPlan(
        best_order if order is None else order, beta, best_noise, failure=delta / 10
    )


def sanitise(released: Released, plan: SanitisedPlan, delta: float, rng: Generator) -> float:
    """Return the released Rényi bound at the plan's order, for `SanitisedPlan.convert`.

    Each call is a further release.
    """
    between_0_and_1("delta", delta)
    if plan.failure >= delta:
        raise InputError("failure", plan.failure, f"must be below delta={delta}")
    orders = np.array([plan.order])
    ceiling = sum(len(votes) * float(bound.worst_case(orders)[0]) for bound, votes in released)
    if ceiling == 0:
        return 0.0
    log_released = draw(log_smooth_bound(released, plan.order, plan.beta), plan, rng)
    return float(np.exp(min(log_released, np.log(ceiling))))


def draw(log_bound: float, plan: SanitisedPlan, rng: Generator) -> float:
    """Return Y, the released value.

    Privacy boundary: the private log f̂ goes in, the public Y comes out.
    """
    # It is rounded up to coarse steps, because the lowest bits could tell f̂ from its neighbours
    # (Mironov 2012).
    if isinstance(rng, ExactGenerator):
        scale = Fraction(plan.beta) * Fraction(plan.noise) / Fraction(_STEP)
        lead = (log_bound + plan.beta * plan.margin) / _STEP
        return float(rng.round_up(ExactNoise(NORMAL, scale), lead)) * _STEP
    released = log_bound + plan.beta * (plan.noise * rng.standard_normal() + plan.margin)
    return float(np.ceil(released / _STEP)) * _STEP


def log_smooth_bound(released: Released, order: float, beta: float) -> float:
    """Return log f̂ = max_d (log F_d − βd). Private."""
    bounds = [_LargestBound(bound, votes, order) for bound, votes in released if len(votes)]
    farthest = sum(bound.ceiling for bound in bounds)
    best = -np.inf
    distance = 0
    while np.log(farthest) - beta * distance > best:
        total = sum(bound.within(distance) for bound in bounds)
        if total > 0:
            best = max(best, float(np.log(total)) - beta * distance)
        distance += 1
    return best


class _LargestBound:
    """F_d of one bound as a function of d. Class order does not matter."""

    def __init__(self, bound: DataDependentBound, votes: AnyArray, order: float) -> None:
        descending = -np.sort(-votes.astype(np.float64), axis=1)
        self._histograms, self._times = np.unique(descending, axis=0, return_counts=True)
        self._log_flip = bound.log_flip
        # ρ at each of _LOG_Q, non-decreasing: a bound for q holds for every smaller q, so minima
        # are allowed.
        charges = bound.rdp(_LOG_Q, np.array([order]))[:, 0]
        self._charges = np.minimum.accumulate(charges[::-1])[::-1]
        self.ceiling = float(self._charges[-1] * self._times.sum())

    def within(self, distance: int) -> float:
        """Return F_d: the largest bound within d changed teachers."""
        clear = 2 * distance < self._histograms[:, 0] - self._histograms[:, 1]
        moved = self._histograms[clear]
        moved[:, 0] -= distance
        moved[:, 1] += distance
        near = self._charges[np.searchsorted(_LOG_Q, self._log_flip(moved))]
        far = self._charges[-1] * self._times[~clear].sum()
        return float(near @ self._times[clear] + far)
