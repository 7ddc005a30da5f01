"""How can a data-dependent ε be published? It follows the private votes, so it must itself be released privately.

The bound of a run is f(D) = Σ ρ(nᵢ): the papers' bound (theorem.py) at one order, summed over what was released.
What is published is e^Y, where Y = log f̂ + β s (N(0, 1) + z) and

    F_d(D) = the largest f within d changed teachers of D          f̂(D) = max_d e^(−βd) F_d(D)

so that, with every parameter of `Plan` fixed before a vote is seen:

1. F_d(D) ≤ F_(d+1)(D′) for neighbours D, D′, as the balls nest. Hence |log f̂(D) − log f̂(D′)| ≤ β: f̂ is a β-smooth
   upper bound of f (Nissim, Raskhodnikova, Smith 2007), and its logarithm has global sensitivity β.
2. So Y is a Gaussian mechanism of sensitivity β and deviation βs: its Rényi cost is α/(2s²).
3. z is the upper `failure` quantile of N(0, 1): Y < log f̂ in a share `failure` of all draws. As f ≤ f̂, e^Y is an
   upper bound of f with probability at least 1 − failure.
4. At one fixed order, costs that follow what was already released (which queries were answered) compose by addition:
   E exp((α − 1)(L − Σρ)) ≤ 1 for the privacy loss L (a supermartingale; Feldman, Zrnic 2021). Converting
   ρ = e^Y + α/(2s²) at δ − failure (Canonne, Kamath, Steinke 2020, Proposition 12) gives the published ε(Y), for which
   Pr_D[S] ≤ E_D′[e^ε(Y); S] + δ for every set S of (released labels, Y) and all neighbours D, D′.

Scalable PATE 2018 takes its smooth sensitivity from the same F_d, but releases it by GNSS (Theorem 23), with noise on
the bound and again on the smooth sensitivity, each with a tail; here one draw does both. Its conditions C5 (ρ grows
with q) and C6 (so does ρ's step to a neighbour) are not needed: `_charge` is non-decreasing by construction, and F_d is
computed at every distance.

F_d. All bounds read the votes through q = Σ_j ψ(Δ_j) alone, Δ_j being the gap of class j to the plurality, with ψ
decreasing, convex on [0, ∞), and ψ(0) = ½. In d moves every gap can fall by d, and d more can be spread over the gaps;
a convex function is largest at a corner of that simplex, and by convexity at the corner of the smallest gap: moving d
votes from the plurality to the runner-up gives the largest q. Where 2d ≥ Δ₂ the plurality may change, q ≥ ½, and no
bound of the papers beats the data-independent one (2017, Theorem 3 needs q ≤ 1/(e^2γ + 1) < ½; 2018, Theorem 6 with
Proposition 10 needs −log q > ¾, since μ log(1 + 1/μ) > ½ and μ log(1 + 1/(μ − 1)) > 1 for μ > 1).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from nzc._types import AnyArray, Floats
from nzc.errors import InputError, positive, share
from nzc.privacy.conversion import ORDERS, cks
from nzc.privacy.theorem import Bound

#: A plan expects a run to cost this share of its data-independent bound. A wrong guess costs ε, never soundness.
_EXPECTED = 0.2
#: q is rounded up to e^(this); steps of 0.05 %.
_LOG_Q: Floats = np.append(-np.geomspace(1e6, 1e-3, 40_000), 0.0)
#: Of the released log bound: a millionth of the bound.
_STEP = 2.0**-20


@dataclass(frozen=True)
class Plan:
    """Everything that a sanitised release fixes before a vote is seen. It must never be tuned on votes.

    order     the Rényi order α
    beta      how fast the bound may grow: at most e^β a changed teacher (module docstring)
    noise     deviation of the released log bound in units of its sensitivity β
    failure   the part of δ for the released bound to be too low
    """

    order: float
    beta: float
    noise: float
    failure: float

    def __post_init__(self) -> None:
        positive(order=self.order, beta=self.beta, noise=self.noise)
        share(failure=self.failure)
        if self.order <= 1:
            raise InputError("order", self.order, "must be above 1")

    @property
    def cost(self) -> float:
        """The Rényi cost of releasing the bound: that of a Gaussian of deviation s at sensitivity 1, α/(2s²)."""
        return self.order / (2 * self.noise**2)

    @property
    def margin(self) -> float:
        """How many changed teachers the released bound allows for, before its noise: s z."""
        return -self.noise * float(ndtri(self.failure))

    def convert(self, rdp: float, delta: float) -> float:
        """The ε that is published for a released bound `rdp`: its own cost and failure included."""
        orders = np.array([self.order])
        return max(0.0, float(cks(np.array([rdp + self.cost]), orders, delta - self.failure)[0]))


def plan(
    planned: Sequence[tuple[int, Bound]], delta: float, order: float | None = None, beta: float | None = None
) -> Plan:
    """The plan for a run that is to release so many queries under each bound; from public facts only.

    `order` and `beta` replace the plan's own.

    β lets the bound grow e-fold where as many teachers change as the smallest noise has votes, or one if that is fewer.
    Order and noise are the best for a run that costs a fifth of its data-independent bound; a tenth of δ is the chance
    that the released bound is too low.
    """
    share(delta=delta)
    beta = beta if beta is not None else 1 / max(1.0, float(min(bound.spread for _, bound in planned)))
    costs = [queries * bound.independent(ORDERS) for queries, bound in planned]
    expected = _EXPECTED * np.sum(costs, axis=0)
    best = (np.inf, 2.0, 1.0)
    for noise in np.geomspace(0.5, 50, 60):
        released = expected * np.exp(-beta * noise * ndtri(delta / 10)) + ORDERS / (2 * noise**2)
        values = cks(released, ORDERS, 0.9 * delta)
        best = min(best, (float(values.min()), float(ORDERS[values.argmin()]), float(noise)))
    made = Plan(order=best[1], beta=beta, noise=best[2], failure=delta / 10)
    return made if order is None else replace(made, order=order)


@dataclass(frozen=True)
class Sanitised:
    """A published ε: it holds at the δ it was made for, and may be shown to anyone, together with its plan."""

    epsilon: float
    rdp: float  # the released upper bound of f at the plan's order
    plan: Plan


def sanitise(
    released: Sequence[tuple[Bound, AnyArray]], plan: Plan, delta: float, rng: np.random.Generator
) -> Sanitised:
    """Publish the data-dependent ε of what was released: for each bound the votes [queries, classes] of its queries.

    `released` says what really happened: the screen's histograms of every query that was asked, the votes of every one
    that was answered. Each call is one release, with its own draw: publish one and only one.
    """
    share(delta=delta)
    if plan.failure >= delta:
        raise InputError("failure", plan.failure, f"must be below delta={delta}")
    ceiling = sum(len(votes) * float(bound.independent(np.array([plan.order]))[0]) for bound, votes in released)
    if ceiling == 0:
        return Sanitised(plan.convert(0.0, delta), 0.0, plan)
    log_released = draw(log_smooth_bound(released, plan.order, plan.beta), plan, rng)
    rdp = float(np.exp(min(log_released, np.log(ceiling))))
    return Sanitised(plan.convert(rdp, delta), rdp, plan)


def draw(log_bound: float, plan: Plan, rng: np.random.Generator) -> float:
    """Y: what is released in the place of the private log f̂. The line between private and public.

    It is rounded up to steps in which nothing is left of the lowest bits of float64 sums, which could tell f̂ from its
    neighbours (Mironov 2012: "On significance of the least significant bits for differential privacy").
    """
    released = log_bound + plan.beta * (plan.noise * rng.standard_normal() + plan.margin)
    return float(np.ceil(released / _STEP)) * _STEP


def log_smooth_bound(released: Sequence[tuple[Bound, AnyArray]], order: float, beta: float) -> float:
    """log f̂ = max_d (log F_d − βd). Private."""
    curves = [_worst(bound, votes, order) for bound, votes in released if len(votes)]
    farthest, best, distance = sum(ceiling for _, ceiling in curves), -np.inf, 0
    while np.log(farthest) - beta * distance > best:
        total = sum(worst(distance) for worst, _ in curves)
        if total > 0:
            best = max(best, float(np.log(total)) - beta * distance)
        distance += 1
    return best


def _worst(bound: Bound, votes: AnyArray, order: float) -> tuple[Callable[[int], float], float]:
    """F_d of one bound as a function of d, and its largest value. Queries that are equal up to class order are one."""
    ordered, times = np.unique(-np.sort(-votes.astype(np.float64), axis=1), axis=0, return_counts=True)
    table = _charge(bound, order)
    gap = ordered[:, 0] - ordered[:, 1]

    def worst(distance: int) -> float:
        clear = 2 * distance < gap
        moved = ordered[clear] + np.array([-distance, distance] + [0] * (ordered.shape[1] - 2))
        log_q = bound.log_flip(moved) if len(moved) else np.zeros(0)
        near = table[np.searchsorted(_LOG_Q, log_q)]
        return float(near @ times[clear] + table[-1] * times[~clear].sum())

    return worst, float(table[-1] * times.sum())


def _charge(bound: Bound, order: float) -> Floats:
    """ρ at each of _LOG_Q, non-decreasing: a bound for q holds for every smaller q, so the least one above is taken."""
    rdp = bound.rdp(_LOG_Q, np.array([order]))[:, 0]
    return np.minimum.accumulate(rdp[::-1])[::-1]
