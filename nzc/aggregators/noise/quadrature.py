"""Laws by quadrature: Pr[argmax = i] = ∫ f(t − nᵢ) Π_{j≠i} F(t − nⱼ) dt, in log space, and those one vote away."""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from nzc._types import Floats
from nzc.aggregators.noise.noise import Noise, complete

#: The longest step, in units of the standard law, that `neighbourhood` takes: its ratios must not overflow.
MAX_STEP = 4.0
#: How many numbers it may hold at once.
_AT_ONCE = 2**20


@dataclass(frozen=True)
class Neighbourhood:
    """Log-laws of queries and of their neighbours; classes with equal scores form one kind.

    here   [queries, kinds]                the probability of one class of each kind
    there  [queries, from, to, kinds + 2]  after one vote moved: of an untouched class of each kind, then of the class
                                           that lost the vote and of the class that gained it
    copies [queries, from, to, kinds + 2]  how many classes each entry stands for
    """

    here: Floats
    there: Floats
    copies: Floats


class Quadrature(Noise):
    """A continuous noise with log-concave density, given by its standard law, of which one unit is `scale` counts."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """How many counts one unit of the standard law is."""

    @staticmethod
    @abstractmethod
    def log_density(x: Floats) -> Floats:
        """log f of the standard law."""

    @staticmethod
    @abstractmethod
    def log_cdf(x: Floats) -> Floats:
        """log F of the standard law."""

    @staticmethod
    @abstractmethod
    def nodes(leads: Floats, copies: Floats, step: Floats) -> tuple[Floats, Floats]:
        """Nodes and log-weights, [queries, nodes], good for these leads and for all with two of them moved by `step`.

        leads [queries, kinds]: standardised scores less the largest; step [queries]: one vote, standardised.
        """

    #: Classes this many units behind are out of reach: impossible labels, before and after any step up to MAX_STEP.
    reach: float

    def leads(self, scores: Floats, scale: Floats | float = 1.0) -> Floats:
        """Standardised scores less the largest of their row."""
        behind = scores - scores.max(axis=1, keepdims=True)
        return np.asarray(np.maximum(behind / (self.scale * scale), -self.reach))

    def log_law(self, scores: Floats) -> Floats:
        law = np.empty_like(scores)
        for rows in np.array_split(np.arange(len(scores)), len(scores) * scores.shape[1] // 2000 + 1):
            leads = self.leads(scores[rows])
            at, log_weight = self.nodes(leads, np.ones_like(leads), np.zeros(len(leads)))
            x = at[:, :, None] - leads[:, None, :]
            below = self.log_cdf(x)
            others = (log_weight + below.sum(axis=2))[:, :, None] - below
            law[rows] = np.where(leads > -self.reach, logsumexp(others + self.log_density(x), axis=1), -np.inf)
        return complete(law)

    def neighbourhood(self, leads: Floats, copies: Floats, step: Floats) -> Neighbourhood:
        """Laws at leads [queries, kinds] and where one vote, worth step [queries] ≤ 4 units, moves between two kinds.

        A moved vote changes two factors of the integrand only, so all neighbours of a query come from one grid: with
        L(t) = F(t − n + 1)/F(t − n) and G(t) = F(t − n − 1)/F(t − n), an untouched class i has
        Pr = Σ_t W_i(t) L_from(t) G_to(t), a matrix product.
        """
        at, log_weight = self.nodes(leads, copies, step)
        if len(leads) > 1 and at.size * leads.shape[1] > _AT_ONCE:
            return _join(
                [
                    self.neighbourhood(*half)
                    for half in zip(*(np.array_split(x, 2) for x in (leads, copies, step)), strict=True)
                ]
            )
        x = at[:, :, None] - leads[:, None, :]
        d = step[:, None, None]
        below, density = self.log_cdf(x), self.log_density
        lose, gain = np.exp(self.log_cdf(x + d) - below), np.exp(self.log_cdf(x - d) - below)
        rest = (log_weight + np.einsum("qtk,qk->qt", below, copies))[:, :, None] - below

        def scaled(log_f: Floats) -> tuple[Floats, Floats]:
            log_w = rest + log_f
            top = log_w.max(axis=1, keepdims=True)
            log_w -= top
            # Ratios of up to e^±250 leave what is dropped negligible, and no subnormal number slows the products.
            return np.exp(np.where(log_w > -600, log_w, -np.inf)), top[:, 0]

        queries, _, kinds = x.shape
        still, top = scaled(density(x))
        here = np.log(still.sum(axis=1)) + top
        there = np.empty((queries, kinds, kinds, kinds + 2))
        for a in range(kinds):
            untouched = np.matmul(gain.transpose(0, 2, 1), still * lose[:, :, a, None])
            there[:, a, :, :kinds] = np.log(untouched) + top[:, None, :]
        loser, top = scaled(density(x + d))
        there[..., kinds] = np.log(np.matmul(loser.transpose(0, 2, 1), gain)) + top[:, :, None]
        gainer, top = scaled(density(x - d))
        there[..., kinds + 1] = np.log(np.matmul(lose.transpose(0, 2, 1), gainer)) + top[:, None, :]
        return _completed(here, there, copies, np.where(leads > -self.reach, 0.0, -np.inf))


def _completed(here: Floats, there: Floats, copies: Floats, near: Floats) -> Neighbourhood:
    """The laws completed; `near` [queries, kinds] is 0, or −∞ for classes that are out of reach. `there` is used up."""
    queries, kinds = near.shape
    left = copies[:, None, None, :] - np.eye(kinds)[:, None, :] - np.eye(kinds)[None, :, :]
    many = np.concatenate([np.maximum(left, 0), np.ones((queries, kinds, kinds, 2))], axis=3)
    there[..., :kinds] += near[:, None, None, :]
    there[..., kinds] += near[:, :, None]
    there[..., kinds + 1] += near[:, None, :]
    there = complete(np.where(many > 0, there, -np.inf), many)
    return Neighbourhood(complete(here + near, copies), there, many)


def _join(parts: list[Neighbourhood]) -> Neighbourhood:
    return Neighbourhood(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in ("here", "there", "copies"))
    )
