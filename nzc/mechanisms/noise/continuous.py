"""Continuous noise: laws by numerical integration, Pr[argmax = i] = ∫ f(t − nᵢ) Π_{j≠i} F(t − nⱼ)
dt, in log space.
"""

from abc import abstractmethod

import numpy as np
from scipy.special import logsumexp

from nzc.mechanisms.noise.base import Noise, complete, require_total
from nzc.types import Floats

MAX_STEP = 4.0  # the longest step of `neighbourhood`, in units of the standard law: its ratios must not overflow
MAX_RATIO = 250.0  # the largest |log| of a ratio there; Gaussian noise reaches 240 within MAX_STEP, Laplace noise 4
_ZERO = -1e9  # a distribution function of 0 counts as e^_ZERO, so that no logarithm is infinite
_AT_ONCE = 2**20  # about how many numbers `neighbourhood` may hold at once
#: Offsets from a count between which `ContinuousNoise.nodes` places panels, and the nodes of a
#: panel.
_NEAR = np.array([0.0, 1.0, 3.0])
_FAR = 8.0 * 4.0 ** np.arange(28)
_X, _W = np.polynomial.legendre.leggauss(16)


class ContinuousNoise(Noise):
    """Noise with a density, given by its standard law: `sample`, `unit`, `log_density` and
    `log_cdf`.

    A law that does not sum to one is refused, and so is what contradicts it (`noise.checks`).
    """

    reach: float = (
        np.inf
    )  # classes so many units behind have probability 0, also after any step up to MAX_STEP

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

        leads, copies  standardised scores minus the largest, and classes of each kind, [queries,
                       kinds]
        step           one vote, standardised, [queries]; the nodes must also suit leads that are
                       moved by it

        By default: 16 Gauss-Legendre nodes between points at growing distances from every lead,
        also for heavy tails.
        """
        shifted = np.stack([leads, leads + step[:, None], leads - step[:, None]], axis=1)
        edges = [
            shifted[..., None] + _NEAR,
            shifted[..., None] - _NEAR,
            leads[..., None] + _FAR,
            leads[..., None] - _FAR,
        ]
        sorted_edges = np.sort(
            np.concatenate([part.reshape(len(leads), -1) for part in edges], axis=1), axis=1
        )
        return panels(sorted_edges[:, :-1], np.diff(sorted_edges), _X, _W)

    def leads(self, scores: Floats, scale: Floats | float = 1.0) -> Floats:
        """Return standardised scores minus the largest of their row."""
        behind = scores - scores.max(axis=1, keepdims=True)
        return np.asarray(np.maximum(behind / (self.unit * scale), -self.reach))

    def log_law(self, scores: Floats) -> Floats:
        law = np.empty_like(scores)
        parts = min(len(scores) * scores.shape[1] // 2000 + 1, len(scores))
        for rows in np.array_split(np.arange(len(scores)), parts) if parts else ():
            leads = self.leads(scores[rows])
            at, log_weight = self.nodes(leads, np.ones_like(leads), np.zeros(len(leads)))
            x = at[:, :, None] - leads[:, None, :]
            below = np.maximum(self.log_cdf(x), _ZERO)
            others = (log_weight + below.sum(axis=2))[:, :, None] - below
            law[rows] = np.where(
                leads > -self.reach, logsumexp(others + self.log_density(x), axis=1), -np.inf
            )
        require_total(self, law)
        return complete(law)

    def neighbourhood(
        self, leads: Floats, copies: Floats, step: Floats
    ) -> tuple[Floats, Floats, Floats] | None:
        """Return the log-laws at leads [queries, kinds], and after one vote of size `step`
        [queries] moved.

        here           [queries, kinds]                one class of each kind; classes with equal
                       scores form one kind
        there, copies  [queries, from, to, kinds + 2]  one untouched class of each kind, then the
                       loser and the gainer

        None: a step is above MAX_STEP, or a ratio of F above e^MAX_RATIO, where dropped weights
        would matter. A moved vote changes two factors of the integrand: with L(t) = F(t − n +
        1)/F(t − n) and G(t) = F(t − n − 1)/F(t − n), an untouched class i has Pr = Σ_t W_i(t)
        L_from(t) G_to(t), a matrix product. A factor F(t − n) = 0 is left out of W. It must be the
        only one, and that of the class that loses the vote.
        """
        if step.max() > MAX_STEP:
            return None
        at, log_weight = self.nodes(leads, copies, step)
        if len(leads) > 1 and at.size * leads.shape[1] > _AT_ONCE:
            halves = np.array_split(range(len(leads)), 2)
            one, other = (self.neighbourhood(leads[i], copies[i], step[i]) for i in halves)
            if not (one and other):
                return None
            here, there, many = (np.concatenate(pair) for pair in zip(one, other, strict=True))
            return here, there, many
        laws = self._moved(at, log_weight, leads, copies, step[:, None, None])
        if laws is None:
            return None
        (here, there), kinds = laws, leads.shape[1]
        near = np.where(leads > -self.reach, 0.0, -np.inf)  # classes out of reach are impossible
        require_total(self, here + near, copies)
        there[..., :kinds] += near[:, None, None, :]
        there[..., kinds] += near[:, :, None]
        there[..., kinds + 1] += near[:, None, :]
        left = copies[:, None, None, :] - np.eye(kinds)[:, None, :] - np.eye(kinds)[None, :, :]
        many = np.concatenate([np.maximum(left, 0), np.ones((len(leads), kinds, kinds, 2))], axis=3)
        real = (left >= 0).all(axis=3)  # a class cannot both lose and gain the vote
        require_total(self, there[real], many[real])
        return (
            complete(here + near, copies),
            complete(np.where(many > 0, there, -np.inf), many),
            many,
        )

    def _moved(
        self, at: Floats, log_weight: Floats, leads: Floats, copies: Floats, d: Floats
    ) -> tuple[Floats, Floats] | None:
        """Return the sums of `neighbourhood` at its nodes; None: a ratio is too large."""
        x = at[:, :, None] - leads[:, None, :]
        below, density, nodes = self.log_cdf(x), self.log_density, at.shape[1]
        lose, gain = (self.log_cdf(x + side) for side in (d, -d))
        none, out = np.isneginf(below), None
        if none.any():  # one-sided noise
            below[none] = 0.0
            out = np.einsum("qtk,qk->qt", none, copies)[:, :, None] - none
            still_none = np.isneginf(lose)
            out[np.einsum("qtk,qk->qt", still_none, copies)[:, :, None] > still_none] = 2
        lose, gain = lose - below, gain - below
        if not max(lose.max(), -gain.min(initial=0.0, where=np.isfinite(gain))) <= MAX_RATIO:
            return None
        lose, gain = np.exp(lose), np.exp(gain)
        if out is not None:
            lose = np.concatenate([np.where(none, 0.0, lose), np.where(none, lose, 0.0)], axis=1)
            gain = np.concatenate([gain, gain], axis=1)
        rest = (log_weight + np.einsum("qtk,qk->qt", below, copies))[:, :, None] - below
        (queries, kinds), gained = leads.shape, gain.transpose(0, 2, 1)
        still, top = _scaled(rest + density(x), out)
        there = np.empty((queries, kinds, kinds, kinds + 2))
        with np.errstate(divide="ignore"):  # one-sided noise makes some labels impossible
            here = np.log(still[:, :nodes].sum(axis=1)) + top
            for a in range(kinds):
                there[:, a, :, :kinds] = (
                    np.log(np.matmul(gained, still * lose[:, :, a, None])) + top[:, None, :]
                )
            loser, top = _scaled(rest + density(x + d), out)
            loses = np.matmul(loser[:, :nodes].transpose(0, 2, 1), gain[:, :nodes])
            there[..., kinds] = np.log(loses) + top[:, :, None]
            gainer, top = _scaled(rest + density(x - d), out)
            there[..., kinds + 1] = (
                np.log(np.matmul(lose.transpose(0, 2, 1), gainer)) + top[:, None, :]
            )
        return here, there


def panels(left: Floats, width: Floats, x: Floats, w: Floats) -> tuple[Floats, Floats]:
    """Return the nodes and log-weights of a rule on [−1, 1] in panels [queries, panels], both
    [queries, nodes].
    """
    at = left[:, :, None] + width[:, :, None] * (x + 1) / 2
    with np.errstate(divide="ignore"):
        log_weight = np.log(width[:, :, None] * w / 2)
    return at.reshape(len(left), -1), log_weight.reshape(len(left), -1)


def _scaled(log_w: Floats, out: Floats | None) -> tuple[Floats, Floats]:
    """Return weights [queries, nodes, kinds] divided by the largest of their query and kind, and
    its logarithm.

    out   how many factors of 0 are left out [queries, nodes, kinds]; None: nowhere any. Weights
          without one come first, then, as further nodes, those with one. There the only kind that
          may lose is that of the factor.
    """
    log_w = log_w if out is None else np.where(out > 1, -np.inf, log_w)
    top = np.maximum(log_w.max(axis=1, keepdims=True), _ZERO)
    log_w = log_w - top
    # Ratios reach e^±MAX_RATIO at most, so dropped weights are negligible; subnormal numbers would
    # be slow.
    weights = np.exp(np.where(log_w > -600, log_w, -np.inf))
    if out is not None:
        weights = np.concatenate([np.where(out == left, weights, 0.0) for left in (0, 1)], axis=1)
    return weights, top[:, 0]
