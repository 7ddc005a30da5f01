"""Continuous noise: laws by integration, Pr[argmax = i] = ∫ f(t − nᵢ) Π F(t − nⱼ) dt, in logs."""

from abc import abstractmethod

import numpy as np
from scipy.special import logsumexp

from nzc.mechanisms.noise.base import Noise, complete, require_total
from nzc.types import Bools, Floats

__all__ = ["ContinuousNoise"]

#: The longest step of `neighbourhood`, in units of the standard law: ratios must not overflow.
MAX_STEP = 4.0
#: The largest |log| of a ratio there. Within MAX_STEP Gaussian noise reaches 240, Laplace noise 4.
MAX_RATIO = 250.0
_ZERO = -1e9  # a distribution function of 0 counts as e^_ZERO, so that no logarithm is infinite
_AT_ONCE = 2**20  # about how many numbers `neighbourhood` may hold at once
#: Offsets from a count between which `ContinuousNoise.nodes` places panels, and nodes of a panel.
_NEAR = np.array([0.0, 1.0, 3.0])
_FAR = 8.0 * 4.0 ** np.arange(28)
_X, _W = np.polynomial.legendre.leggauss(16)


class ContinuousNoise(Noise):
    """Noise with a density, by its standard law: `sample`, `unit`, `log_density` and `log_cdf`.

    A law that does not sum to one is refused, and so is what contradicts it (`noise.checks`).
    """

    #: Classes so many units behind have probability 0, also after any step up to MAX_STEP.
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

    def nodes(self, leads: Floats, copies: Floats, step: Floats) -> tuple[Floats, Floats]:
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

    def leads(self, scores: Floats, scale: Floats | float = 1.0) -> Floats:
        """Return standardised scores minus the largest of their row."""
        behind = scores - scores.max(axis=1, keepdims=True)
        return np.asarray(np.maximum(behind / (self.unit * scale), -self.reach))

    def log_law(self, scores: Floats) -> Floats:
        law = np.empty_like(scores)
        if not len(scores):
            return law
        parts = min(scores.size // 2000 + 1, len(scores))
        for rows in np.array_split(np.arange(len(scores)), parts):
            leads = self.leads(scores[rows])
            t, log_weight = self.nodes(leads, np.ones_like(leads), np.zeros(len(leads)))
            x = t[:, :, None] - leads[:, None, :]
            below = np.maximum(self.log_cdf(x), _ZERO)
            others = (log_weight + below.sum(axis=2))[:, :, None] - below
            integral = logsumexp(others + self.log_density(x), axis=1)
            law[rows] = np.where(leads > -self.reach, integral, -np.inf)
        require_total(self, law)
        return complete(law)

    def neighbourhood(
        self, leads: Floats, copies: Floats, step: Floats
    ) -> tuple[Floats, Floats, Floats] | None:
        """Return the log-laws at leads [queries, kinds], and after one vote of size `step` moved.

        here           [queries, kinds], one class of each kind: classes of equal scores
        there, copies  [queries, from, to, kinds + 2], one untouched class of each kind, then the
                       loser and the gainer

        None: a step is above MAX_STEP, or a ratio of F above e^MAX_RATIO, where dropped weights
        would matter. A moved vote changes two factors of the integrand: with L(t) = F(t − n +
        1)/F(t − n) and G(t) = F(t − n − 1)/F(t − n), an untouched class i has Pr = Σ_t W_i(t)
        L_from(t) G_to(t), a matrix product. A factor F(t − n) = 0 is left out of W. It must be the
        only one, and that of the class that loses the vote.
        """
        if step.max() > MAX_STEP:
            return None
        t, log_weight = self.nodes(leads, copies, step)
        queries, kinds = leads.shape
        if queries > 1 and t.size * kinds > _AT_ONCE:
            laws = []
            for half in np.array_split(range(queries), 2):
                law = self.neighbourhood(leads[half], copies[half], step[half])
                if law is None:
                    return None
                laws.append(law)
            here, there, many = (np.concatenate(halves) for halves in zip(*laws, strict=True))
            return here, there, many
        moved = self._moved(t, log_weight, leads, copies, step[:, None, None])
        if moved is None:
            return None

        here, there = moved
        near = np.where(leads > -self.reach, 0.0, -np.inf)  # classes out of reach are impossible
        here += near
        there[..., :kinds] += near[:, None, None, :]
        there[..., kinds] += near[:, :, None]
        there[..., kinds + 1] += near[:, None, :]
        one = np.eye(kinds)
        left = copies[:, None, None, :] - one[:, None, :] - one[None, :, :]
        pair = np.ones((queries, kinds, kinds, 2))
        many = np.concatenate([np.maximum(left, 0), pair], axis=3)
        real = (left >= 0).all(axis=3)  # a class cannot both lose and gain the vote
        require_total(self, here, copies)
        require_total(self, there[real], many[real])
        there = np.where(many > 0, there, -np.inf)
        return complete(here, copies), complete(there, many), many

    def _moved(
        self, t: Floats, log_weight: Floats, leads: Floats, copies: Floats, step: Floats
    ) -> tuple[Floats, Floats] | None:
        """Return the sums of `neighbourhood` at its nodes; None: a ratio is too large."""
        x = t[:, :, None] - leads[:, None, :]
        below = self.log_cdf(x)
        lose = self.log_cdf(x + step)
        gain = self.log_cdf(x - step)
        zero = np.isneginf(below)
        left_out = None
        if zero.any():  # one-sided noise
            below[zero] = 0.0
            left_out = _others(zero, copies)
            left_out[_others(np.isneginf(lose), copies) > 0] = 2
        lose = lose - below
        gain = gain - below
        smallest_gain = gain.min(initial=0.0, where=np.isfinite(gain))
        if not max(lose.max(), -smallest_gain) <= MAX_RATIO:
            return None
        lose = np.exp(lose)
        gain = np.exp(gain)
        if left_out is not None:
            lose = np.concatenate([np.where(zero, 0.0, lose), np.where(zero, lose, 0.0)], axis=1)
            gain = np.concatenate([gain, gain], axis=1)

        rest = (log_weight + np.einsum("qtk,qk->qt", below, copies))[:, :, None] - below
        nodes = t.shape[1]
        queries, kinds = leads.shape
        there = np.empty((queries, kinds, kinds, kinds + 2))
        with np.errstate(divide="ignore"):  # one-sided noise makes some labels impossible
            weights, top = _scaled(rest + self.log_density(x), left_out)
            here = np.log(weights[:, :nodes].sum(axis=1)) + top
            gained = gain.transpose(0, 2, 1)
            for loser in range(kinds):
                total = np.matmul(gained, weights * lose[:, :, loser, None])
                there[:, loser, :, :kinds] = np.log(total) + top[:, None, :]
            weights, top = _scaled(rest + self.log_density(x + step), left_out)
            loses = np.matmul(weights[:, :nodes].transpose(0, 2, 1), gain[:, :nodes])
            there[..., kinds] = np.log(loses) + top[:, :, None]
            weights, top = _scaled(rest + self.log_density(x - step), left_out)
            gains = np.matmul(lose.transpose(0, 2, 1), weights)
            there[..., kinds + 1] = np.log(gains) + top[:, None, :]
        return here, there


def panels(left: Floats, width: Floats, x: Floats, w: Floats) -> tuple[Floats, Floats]:
    """Return nodes and log-weights [queries, nodes] of a rule on [−1, 1] in panels."""
    t = left[:, :, None] + width[:, :, None] * (x + 1) / 2
    with np.errstate(divide="ignore"):
        log_weight = np.log(width[:, :, None] * w / 2)
    return t.reshape(len(left), -1), log_weight.reshape(len(left), -1)


def _others(zero: Bools, copies: Floats) -> Floats:
    """Return how many factors beside a class's own are 0, [queries, nodes, kinds]."""
    return np.asarray(np.einsum("qtk,qk->qt", zero, copies)[:, :, None] - zero)


def _scaled(log_w: Floats, left_out: Floats | None) -> tuple[Floats, Floats]:
    """Return weights [queries, nodes, kinds] divided by the largest of query and kind, its log.

    left_out   how many factors of 0 are left out [queries, nodes, kinds]; None: nowhere any.
               Weights without one come first, then, as further nodes, those with one. There the
               only kind that may lose is that of the factor.
    """
    if left_out is not None:
        log_w = np.where(left_out > 1, -np.inf, log_w)
    top = np.maximum(log_w.max(axis=1, keepdims=True), _ZERO)
    log_w = log_w - top
    # Ratios are e^±MAX_RATIO at most, so dropped weights do not count; subnormals would be slow.
    weights = np.exp(np.where(log_w > -600, log_w, -np.inf))
    if left_out is not None:
        parts = [np.where(left_out == count, weights, 0.0) for count in (0, 1)]
        weights = np.concatenate(parts, axis=1)
    return weights, top[:, 0]
