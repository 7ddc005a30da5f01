"""Continuous noise: laws by integration, Pr[argmax = i] = ∫ f(t − nᵢ) Π F(t − nⱼ) dt, in logs."""

from abc import abstractmethod

import numpy as np
from scipy.special import logsumexp

from nzc.mechanisms.noise.base import Noise, complete, require_total
from nzc.types import Floats, FloatsPair, OneOrMore

__all__ = ["ContinuousNoise"]

#: A distribution function of 0 counts as e^ZERO, so that no logarithm is infinite.
ZERO = -1e9
#: Offsets from a count between which `ContinuousNoise.nodes` places panels, and nodes of a panel.
_NEAR = np.array([0.0, 1.0, 3.0])
_FAR = 8.0 * 4.0 ** np.arange(28)
_X, _W = np.polynomial.legendre.leggauss(16)


class ContinuousNoise(Noise):
    """Noise with a density, by its standard law: `sample`, `unit`, `log_density` and `log_cdf`.

    A law that does not sum to one is refused, and so is what contradicts it (`noise.checks`).
    """

    #: Classes so many units behind have probability 0, also after one vote moved.
    reach: float = np.inf

    @property
    @abstractmethod
    def unit(self) -> float:
        """How many votes one unit of the standard law is."""

    @abstractmethod
    def log_density(self, x: Floats) -> Floats:
        """Return log f(x) of the standard law, elementwise."""

    @abstractmethod
    def log_cdf(self, x: Floats) -> Floats:
        """Return log F(x) of the standard law, elementwise."""

    def nodes(self, leads: Floats, copies: Floats, step: Floats) -> FloatsPair:
        """Return integration nodes and their log-weights, both [queries, nodes].

        leads   standardised scores minus the largest, [queries, kinds]
        copies  how many classes of each kind there are, [queries, kinds]
        step    one vote, standardised, [queries]; the nodes must also suit leads moved by it

        By default: 16 Gauss-Legendre nodes between points at growing distances from every lead,
        also for heavy tails.
        """
        shifted = np.stack([leads, leads + step[:, None], leads - step[:, None]], axis=1)
        near = shifted[..., None] + np.concatenate([_NEAR, -_NEAR])
        far = leads[..., None] + np.concatenate([_FAR, -_FAR])
        queries = len(leads)
        edges = [near.reshape(queries, -1), far.reshape(queries, -1)]
        sorted_edges = np.sort(np.concatenate(edges, axis=1), axis=1)
        return panels(sorted_edges[:, :-1], np.diff(sorted_edges), _X, _W)

    def leads(self, scores: Floats, scale: OneOrMore = 1.0) -> Floats:
        """Return standardised scores minus the largest of their row."""
        behind = scores - scores.max(axis=1, keepdims=True)
        return np.maximum(behind / (self.unit * scale), -self.reach)

    def log_law(self, scores: Floats) -> Floats:
        law = np.empty_like(scores)
        if not len(scores):
            return law
        parts = min(scores.size // 2000 + 1, len(scores))
        for rows in np.array_split(np.arange(len(scores)), parts):
            leads = self.leads(scores[rows])
            t, log_weight = self.nodes(leads, np.ones_like(leads), np.zeros(len(leads)))
            x = t[:, :, None] - leads[:, None, :]
            below = np.maximum(self.log_cdf(x), ZERO)
            others = (log_weight + below.sum(axis=2))[:, :, None] - below
            integral = logsumexp(others + self.log_density(x), axis=1)
            law[rows] = np.where(leads > -self.reach, integral, -np.inf)
        require_total(self, law)
        return complete(law)


def panels(left: Floats, width: Floats, x: Floats, w: Floats) -> FloatsPair:
    """Return nodes and log-weights [queries, nodes] of a rule on [−1, 1] in panels."""
    t = left[:, :, None] + width[:, :, None] * (x + 1) / 2
    with np.errstate(divide="ignore"):
        log_weight = np.log(width[:, :, None] * w / 2)
    return t.reshape(len(left), -1), log_weight.reshape(len(left), -1)
