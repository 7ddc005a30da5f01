"""Laws of continuous noise at a histogram and at all one vote away, from one grid of nodes.

With L(t) = F(t − n + 1)/F(t − n) and G(t) = F(t − n − 1)/F(t − n), a moved vote changes two factors
of the integrand: an untouched class i has Pr = Σ_t W_i(t) L_from(t) G_to(t), a matrix product.
"""

import numpy as np

from nzc.mechanisms.noise.base import complete, require_total
from nzc.mechanisms.noise.continuous import ZERO, ContinuousNoise
from nzc.types import Floats, FloatsPair

#: The longest step of one vote, in units of the standard law: ratios must not overflow.
MAX_STEP = 4.0
#: The largest |log| of a ratio. Within MAX_STEP Gaussian noise reaches 240, Laplace noise 4.
_MAX_RATIO = 250.0
_AT_ONCE = 2**20  # about how many numbers may be held at once


def neighbourhood(
    noise: ContinuousNoise, leads: Floats, copies: Floats, step: Floats
) -> tuple[Floats, Floats, Floats] | None:
    """Return the log-laws at leads [queries, kinds], and after one vote of size `step` moved.

    here           [queries, kinds], one class of each kind: classes of equal scores
    there, copies  [queries, from, to, kinds + 2], one untouched class of each kind, then the loser
                   and the gainer

    None: a step is above MAX_STEP, or a ratio of F above e^_MAX_RATIO, where dropped weights would
    matter, or F is 0 at a node, as of one-sided noise.
    """
    if step.max() > MAX_STEP:
        return None
    t, log_weight = noise.nodes(leads, copies, step)
    queries, kinds = leads.shape
    if queries > 1 and t.size * kinds > _AT_ONCE:
        laws = []
        for half in np.array_split(range(queries), 2):
            law = neighbourhood(noise, leads[half], copies[half], step[half])
            if law is None:
                return None
            laws.append(law)
        here, there, many = (np.concatenate(halves) for halves in zip(*laws, strict=True))
        return here, there, many
    moved = _moved(noise, t, log_weight, leads, copies, step[:, None, None])
    if moved is None:
        return None

    here, there = moved
    near = np.where(leads > -noise.reach, 0.0, -np.inf)  # classes out of reach are impossible
    here += near
    there[..., :kinds] += near[:, None, None, :]
    there[..., kinds] += near[:, :, None]
    there[..., kinds + 1] += near[:, None, :]
    one = np.eye(kinds)
    left = copies[:, None, None, :] - one[:, None, :] - one[None, :, :]
    pair = np.ones((queries, kinds, kinds, 2))
    many = np.concatenate([np.maximum(left, 0), pair], axis=3)
    real = (left >= 0).all(axis=3)  # a class cannot both lose and gain the vote
    require_total(noise, here, copies)
    require_total(noise, there[real], many[real])
    there = np.where(many > 0, there, -np.inf)
    return complete(here, copies), complete(there, many), many


def _moved(
    noise: ContinuousNoise,
    t: Floats,
    log_weight: Floats,
    leads: Floats,
    copies: Floats,
    step: Floats,
) -> FloatsPair | None:
    """Return the sums of `neighbourhood` at its nodes; None: a ratio is too large."""
    x = t[:, :, None] - leads[:, None, :]
    below = noise.log_cdf(x)
    if np.isneginf(below).any():
        return None
    lose = noise.log_cdf(x + step) - below
    gain = noise.log_cdf(x - step) - below
    if not max(lose.max(), -gain.min()) <= _MAX_RATIO:
        return None
    lose = np.exp(lose)
    gain = np.exp(gain)

    rest = (log_weight + np.einsum("qtk,qk->qt", below, copies))[:, :, None] - below
    queries, kinds = leads.shape
    there = np.empty((queries, kinds, kinds, kinds + 2))
    with np.errstate(divide="ignore"):  # far behind, some labels are impossible
        weights, top = _scaled(rest + noise.log_density(x))
        here = np.log(weights.sum(axis=1)) + top
        gained = gain.transpose(0, 2, 1)
        for loser in range(kinds):
            total = np.matmul(gained, weights * lose[:, :, loser, None])
            there[:, loser, :, :kinds] = np.log(total) + top[:, None, :]
        weights, top = _scaled(rest + noise.log_density(x + step))
        loses = np.matmul(weights.transpose(0, 2, 1), gain)
        there[..., kinds] = np.log(loses) + top[:, :, None]
        weights, top = _scaled(rest + noise.log_density(x - step))
        gains = np.matmul(lose.transpose(0, 2, 1), weights)
        there[..., kinds + 1] = np.log(gains) + top[:, None, :]
    return here, there


def _scaled(log_w: Floats) -> FloatsPair:
    """Return weights [queries, nodes, kinds] divided by the largest of query and kind, its log."""
    top = np.maximum(log_w.max(axis=1, keepdims=True), ZERO)
    log_w = log_w - top
    # Ratios are e^±_MAX_RATIO at most, so dropped weights do not count; subnormals would be slow.
    return np.exp(np.where(log_w > -600, log_w, -np.inf)), top[:, 0]
