"""Bounds by induction over bits, labels and reports, against enumerated attacks and an adversary on
a grid.
"""

import numpy as np
import pytest
from brute import adaptive_delta
from scipy.special import ndtr

import nzc
from nzc.accounting import adaptive, sparse_reports
from nzc.accounting.data_independent import Kind, Shown
from nzc.accounting.induction import after_all, induced

DELTA = 1e-5


def laws(mechanism, votes, student_probs=None):
    """Pairs of laws of all outcomes at votes and at all their neighbours, in both directions."""
    moves = [
        np.eye(votes.shape[1], dtype=int)[a] - np.eye(votes.shape[1], dtype=int)[b]
        for a, b in [(0, 1), (1, 0)]
    ]
    here = np.exp(mechanism.log_law(votes, student_probs))
    pairs = [(here, np.exp(mechanism.log_law(votes + move, student_probs))) for move in moves]
    return [
        (p[at], q[at])
        for one, other in pairs
        for p, q in ((one, other), (other, one))
        for at in range(len(votes))
    ]


def histograms(teachers, classes, rng, count):
    return (
        rng.multinomial(teachers - 2, rng.dirichlet(np.ones(classes), count))
        + np.eye(classes, dtype=int)[0]
        + (np.eye(classes, dtype=int)[1])
    )


@pytest.mark.parametrize("delta", [1e-1, 1e-2, 1e-5])
@pytest.mark.parametrize("mechanism", [
    nzc.Confident(20, 3, 4), nzc.Confident(14, 12, 5), nzc.Confident(14, 4, 30), nzc.Interactive(8, 4, 4, 0.9),
    nzc.Gumbel(0.3), nzc.Gumbel(0.02), nzc.Stable(15, 3), nzc.LNMax(0.3), nzc.LNMax(0.02),
], ids=repr)  # fmt: skip
@pytest.mark.parametrize("answers", [1, 3])
def test_no_attack_by_enumeration_exceeds_the_bound(mechanism, delta, answers):
    """Votes of 30 teachers, chosen anew after every outcome; a run ends with its last answer."""
    rng, queries = np.random.default_rng(0), 3
    votes = histograms(30, 3, rng, 12)
    probs = rng.dirichlet(np.ones(3), 12) if mechanism.asks_student else None
    pairs = laws(mechanism, votes, probs)
    bound = mechanism.worst_case_epsilon(queries, delta, answers=answers)
    if mechanism.delta_cost:  # labels without noise: see `StabilityScreen`
        delta -= queries * mechanism.delta_cost
        pairs = [(np.array([1 - p[-1], p[-1]]), np.array([1 - q[-1], q[-1]])) for p, q in pairs]
    if mechanism.screen is not None or answers == queries:
        assert adaptive_delta(pairs, queries, bound, answers) <= delta * (1 + 1e-9)


def curve(kind, size, points):
    """Bits on the curve (p, 1 − p, q, 1 − q), and where a test was spoilt by other noise."""
    at, spoilt = np.random.default_rng(0).uniform(-1, 1, (2, points))
    if kind is Kind.BIT:
        z, step = 7 * at, size * spoilt / 2
        return ndtr(z + step), ndtr(-z - step), ndtr(z - step), ndtr(-z + step)
    t = size * (at + 1) / 2
    p, q = (
        (1 - np.exp(t - size)) / (1 - np.exp(-size)),
        (np.exp(-t) - np.exp(-size)) / (1 - np.exp(-size)),
    )
    share = abs(spoilt)
    p, q = share * p + (1 - share) * q, q
    return p, 1 - p, q, 1 - q


@pytest.mark.parametrize(
    ("kind", "size"), [(Kind.BIT, 1.5), (Kind.BIT, 0.02), (Kind.RANGE, 1.0), (Kind.RANGE, 0.05)]
)
def test_corners_dominate_every_bit(kind, size):
    """For random V, convex in e^−ℓ, with another one after a label."""
    (p, q), (rest_p, rest_q) = adaptive._corners(kind, size)
    own_p, own_rest_p, own_q, own_rest_q = curve(kind, size, 2_000)
    rng = np.random.default_rng(1)
    for kinks in size * rng.normal(0, 3, (50, 6)):
        less = kinks[:3]

        def value(p, q, of=less):
            return sum(np.maximum(p - np.exp(kink) * q, 0) for kink in of)

        found = value(own_p, own_q, kinks) + value(own_rest_p, own_rest_q)
        bound = max(
            (value(p, q, kinks) + value(rest_p, rest_q)).max(), value(1, 1, kinks), value(1, 1)
        )
        assert found.max() <= bound + 1e-14


def attacker(bits, labels, queries, delta, stated):
    """ε of an adversary that chooses on a grid: value iteration with linear interpolation, from
    below.
    """
    step = stated / 500
    at = np.arange(-1.4 * stated, 0.8 * stated, step)
    value = after_all(at)

    def moved(value, loss):
        return np.interp(at + loss, at, value, left=value[0], right=1.0)

    for _ in range(queries):
        after = [
            sum(p * moved(value, np.log(p / q)) for p, q in zip(*pair, strict=True))
            for pair in labels
        ]
        answered = np.max([value, *after], axis=0)
        value = np.max([answered, *(
            p * moved(answered, np.log(p / q)) + (1 - p) * moved(value, np.log((1 - p) / (1 - q))) for p, q in bits
        )], axis=0)  # fmt: skip
    return -at[np.searchsorted(value, delta)]


@pytest.mark.parametrize(
    ("sigma1", "sigma", "queries", "delta"),
    [(150, 40, 60, 1e-5), (40, 40, 60, 1e-5), (30, 60, 40, 1e-6), (20, None, 40, 1e-5)],
)
def test_the_bound_is_within_5_percent_of_an_adversary(sigma1, sigma, queries, delta):
    z, mu = np.linspace(-2.5, 3, 12), 1 / sigma1
    bits = [(ndtr(at + sign * mu / 2), ndtr(at - sign * mu / 2)) for at in z for sign in (1, -1)]
    gaps = np.linspace(-2, 2, 9)
    labels, bit = [], Shown(Kind.BIT, mu)
    if sigma is not None:
        shift = 1 / np.sqrt(2) / sigma
        p, q = ndtr(gaps + shift), ndtr(gaps - shift)
        labels = [(np.array([a, 1 - a]), np.array([b, 1 - b])) for a, b in zip(p, q, strict=True)]
    label = None if sigma is None else Shown(Kind.SCREENED, np.sqrt(2) / sigma)
    stated = adaptive.epsilon(((queries, bit, label),), delta)
    assert 1 <= stated / attacker(bits, labels, queries, delta, stated) <= 1.05


def test_blocks_and_labels_apart():
    bit, label = Shown(Kind.BIT, 1 / 150), Shown(Kind.SCREENED, np.sqrt(2) / 40)
    whole = adaptive.epsilon(((200, bit, label),), DELTA)
    blocks = adaptive.epsilon(((201, bit, label),), DELTA)  # two blocks of 101
    assert whole < blocks < 1.015 * whole
    assert whole < adaptive.epsilon(((200, bit, None), (200, None, label)), DELTA) < 1.03 * whole
    known = [
        adaptive.together([(400, bit), (labels, label)], DELTA, np.inf)
        for labels in (1, 50, 200, 399, 400)
    ]
    assert known == sorted(known)


def test_different_rounds_compose():
    """Two mechanisms in one run: no more than both at the dearer noise, no less than either."""
    cheap, dear = nzc.Confident(20, 60, 50), nzc.Confident(20, 40, 30)
    both = (cheap.promise(40, 40) + dear.promise(40, 20)).data_independent(DELTA)
    assert (
        dear.worst_case_epsilon(40, DELTA, answers=20) < both < dear.worst_case_epsilon(80, DELTA)
    )
    assert nzc.Interactive(20, 60, 50, 0.9).worst_case_epsilon(
        40, DELTA
    ) == cheap.worst_case_epsilon(40, DELTA)
    dear_first = nzc.Interactive(20, 60, 50, 0.9, first=nzc.LNMax(0.5))
    assert dear_first.worst_case_epsilon(40, DELTA) >= nzc.LNMax(0.5).worst_case_epsilon(40, DELTA)
    late = nzc.NoisyArgmax(nzc.mechanisms.GumbelNoise(0.1), first=nzc.Gumbel(0.5))
    assert late.worst_case_epsilon(40, DELTA) >= nzc.Gumbel(0.5).worst_case_epsilon(40, DELTA)
    spoilt = nzc.GNMax(50).promise(10, 10) + nzc.Counts(0.1).promise(
        10, 10
    )  # no joint bound is known
    assert spoilt.data_independent(DELTA) == spoilt.data_independent(DELTA, rough=True)


@pytest.mark.parametrize("reports", [1, 3])
@pytest.mark.parametrize("scale", [4.0, 17.0, 69.0])
def test_sparse_reports_against_an_adversary(reports, scale):
    """Queries of one small rate, whose factor r is chosen anew each time, without end: value
    iteration.
    """
    mechanism = nzc.mechanisms.NoisyArgmax(
        nzc.mechanisms.NoNoise(), screen=nzc.mechanisms.SparseScreen(1e3, scale, reports)
    )
    known, h = mechanism.worst_case_epsilon(10**6, DELTA, rough=True), 1 / scale
    bound = sparse_reports.epsilon(reports, h, DELTA, known)
    step = min(h / 30, known / 600)
    at, rate = np.arange(-1.4 * known, max(0.6 * known, 8 * h), step), 4 * step / -np.expm1(-h)
    value = after_all(at)

    def moved(value, loss):
        return np.interp(at + loss, at, value, left=value[0], right=1.0)

    for _ in range(reports):
        before, last = after_all(at), 1.0
        options = []
        for r in (np.exp(-h), np.exp(h)):
            p, q = -np.expm1(-r * rate), -np.expm1(-rate)
            options.append((p, rate * (1 - r), p * moved(value, np.log(p / q))))
        while last > 1e-10:
            better = np.max(
                [before, *((1 - p) * moved(before, loss) + fails for p, loss, fails in options)],
                axis=0,
            )
            before, last = better, (better - before).max()
        value = before
    assert 1 <= bound / -at[np.searchsorted(value, DELTA)] <= 1.05


def test_limits():
    bit = Shown(Kind.BIT, 1 / 40)
    assert (
        adaptive.epsilon(((10, Shown(Kind.BIT, 3.0), None),), DELTA) == np.inf
    )  # another bound holds
    assert adaptive.epsilon(((10, bit, None),), 1e-14) == np.inf
    assert nzc.Confident(20, 1e10, 40).worst_case_epsilon(20, DELTA) == pytest.approx(
        nzc.GNMax(40).worst_case_epsilon(20, DELTA), rel=0.01
    )
    assert nzc.Confident(20, 1e-5, 40).worst_case_epsilon(20, DELTA) == nzc.Confident(
        20, 1e-5, 40
    ).worst_case_epsilon(20, DELTA, rough=True)
    assert sparse_reports.epsilon(5_000, 0.1, DELTA, 30.0) == np.inf


@pytest.mark.parametrize(
    "mechanism", [nzc.Gumbel(30), nzc.GNMax(3), nzc.Confident(200, 1, 3)], ids=repr
)
def test_large_costs_are_not_above_the_rough_bound(mechanism: nzc.NoisyArgmax) -> None:
    assert (
        0
        < mechanism.worst_case_epsilon(10_000, 1e-5)
        <= mechanism.worst_case_epsilon(10_000, 1e-5, rough=True)
    )


@pytest.mark.parametrize("start", [-300, -4, 3])
def test_a_query_is_the_worst_mean_of_the_value_after_it(start):
    """One long law, several, and such with gaps, against sums; below the grid V is its first value,
    above it 1.
    """
    rng = np.random.default_rng(1)
    value, weights, infinite = (
        np.sort(rng.random(1000)) / 2,
        rng.dirichlet(np.ones(400), 3) * 0.9,
        rng.random(3) / 10,
    )
    used = np.flatnonzero(rng.random(400) < 0.1)
    for laws, offsets, selector in [
        (1, np.arange(400), slice(None)),
        (3, np.arange(400), slice(None)),
        (3, used, used),
    ]:
        own = np.ascontiguousarray(weights[:laws, offsets])
        at = np.arange(1000)[:, None] + start + offsets
        reached = np.where(at < 1000, value[np.clip(at, 0, 999)], 1.0)
        expected = np.minimum((reached @ own.T + infinite[:laws]).max(axis=1), 1.0)
        found = induced(value, 1, [(start, selector, own, infinite[:laws])])
        np.testing.assert_allclose(found, expected, rtol=1e-12)
