"""Bounds by induction over bits, labels and reports, against attacks by enumeration."""

import numpy as np
import pytest
from brute import adaptive_delta, attacker
from scipy.special import ndtr

import nzc
from nzc.accounting import adaptive
from nzc.accounting.induction import Laws, induced
from nzc.accounting.kinds import Hint, Kind

DELTA = 1e-5
MOVE = np.array([1, -1, 0])


def pairs_of_laws(mechanism, votes, student_probs):
    """Pairs of laws of all outcomes at votes and at neighbours, in both directions."""
    laws = [np.exp(mechanism.log_law(votes + move, student_probs)) for move in (0, MOVE, -MOVE)]
    here, *there = laws
    pairs = []
    for other in there:
        pairs += [*zip(here, other, strict=True), *zip(other, here, strict=True)]
    return pairs


@pytest.mark.parametrize("delta", [1e-1, 1e-5])
@pytest.mark.parametrize("mechanism", [
    nzc.Confident(20, 3, 4), nzc.Confident(14, 12, 5), nzc.Confident(14, 4, 30),
    nzc.Interactive(8, 4, 4, 0.9), nzc.Stable(15, 3), nzc.GNMax(5), nzc.GNMax(40),
    nzc.Gumbel(0.3), nzc.Gumbel(0.02), nzc.LNMax(0.3), nzc.LNMax(0.02),
], ids=repr)  # fmt: skip
@pytest.mark.parametrize("answers", [1, 3])
def test_no_attack_by_enumeration_exceeds_the_bound(mechanism, delta, answers):
    """Votes of 30 teachers, chosen anew after every outcome; a run ends with its last answer."""
    if mechanism.screen is None and answers == 1:
        pytest.skip("every query is answered")
    rng = np.random.default_rng(0)
    votes = np.array([1, 1, 0]) + rng.multinomial(28, rng.dirichlet(np.ones(3), 12))
    probs = rng.dirichlet(np.ones(3), 12) if mechanism.asks_student else None
    pairs = pairs_of_laws(mechanism, votes, probs)
    bound = mechanism.worst_case_epsilon(3, delta, answers=answers)
    if mechanism.delta_cost:  # labels without noise: see `StabilityScreen`
        delta -= 3 * mechanism.delta_cost
        pairs = [(np.array([1 - p[-1], p[-1]]), np.array([1 - q[-1], q[-1]])) for p, q in pairs]
    assert adaptive_delta(pairs, 3, bound, answers) <= delta * (1 + 1e-9)


def curve(kind, size, points):
    """Bits on the curve, p and q [outcomes, points], and where a test was spoilt by other noise."""
    at, spoilt = np.random.default_rng(0).uniform(-1, 1, (2, points))
    if kind is Kind.BIT:
        shift = size * spoilt / 2
        p = ndtr(7 * at + shift)
        q = ndtr(7 * at - shift)
    else:
        t = size * (at + 1) / 2
        p = (1 - np.exp(t - size)) / (1 - np.exp(-size))
        q = (np.exp(-t) - np.exp(-size)) / (1 - np.exp(-size))
        p = q + abs(spoilt) * (p - q)
    return np.stack([p, 1 - p]), np.stack([q, 1 - q])


@pytest.mark.parametrize(
    ("kind", "size"), [(Kind.BIT, 1.5), (Kind.BIT, 0.02), (Kind.RANGE, 1.0), (Kind.RANGE, 0.05)]
)
def test_corners_dominate_every_bit(kind, size):
    """For random V, convex in e^−ℓ, with another one after a label."""
    rng = np.random.default_rng(1)
    for kinks in size * rng.normal(0, 3, (50, 6)):

        def value(p, q, kinks=kinks):
            answered, abstained = np.maximum(p - np.exp(kinks)[:, None, None] * q, 0).swapaxes(0, 1)
            return answered.sum(axis=0) + abstained[:3].sum(axis=0)

        answered = np.maximum(1 - np.exp(kinks), 0).sum()
        bound = max(value(*adaptive._corners(kind, size)).max(), answered)
        assert value(*curve(kind, size, 2_000)).max() <= bound + 1e-14


@pytest.mark.parametrize(
    ("sigma1", "sigma", "queries", "delta"),
    [(150, 40, 60, 1e-5), (40, 40, 60, 1e-5), (30, 60, 40, 1e-6), (20, None, 40, 1e-5)],
)
def test_the_bound_is_within_5_percent_of_an_adversary(sigma1, sigma, queries, delta):
    mu = 1 / sigma1
    z = np.linspace(-2.5, 3, 12)
    bits = [(ndtr(z + shift), ndtr(z - shift)) for shift in (mu / 2, -mu / 2)]
    labels = []
    releases = [Hint(Kind.BIT, mu)]
    if sigma is not None:
        releases.append(Hint(Kind.SCREENED, np.sqrt(2) / sigma))
        gaps = np.linspace(-2, 2, 9)
        labels = [(ndtr(gaps + 1 / np.sqrt(2) / sigma), ndtr(gaps - 1 / np.sqrt(2) / sigma))]
    stated = adaptive.epsilon(((queries, tuple(releases)),), delta)
    assert 1 <= stated / attacker(bits, labels, queries, delta, stated) <= 1.05


def test_blocks_and_labels_apart():
    bit = Hint(Kind.BIT, 1 / 150)
    label = Hint(Kind.SCREENED, np.sqrt(2) / 40)
    whole = adaptive.epsilon(((200, (bit, label)),), DELTA)
    blocks = adaptive.epsilon(((201, (bit, label)),), DELTA)  # two blocks of 101
    assert whole < blocks < 1.015 * whole
    assert whole < adaptive.epsilon(((200, (bit,)), (200, (label,))), DELTA) < 1.03 * whole
    grown = [adaptive.together([(400, bit), (n, label)], DELTA) for n in (1, 400)]
    assert grown == sorted(grown)


def test_different_rounds_compose():
    """Two mechanisms in one run: no more than both at the dearer noise, no less than either."""
    cheap = nzc.Confident(20, 60, 50)
    dear = nzc.Confident(20, 40, 30)
    both = (cheap.promise(40, 40) + dear.promise(40, 20)).data_independent(DELTA)
    assert dear.worst_case_epsilon(40, DELTA, answers=20) < both
    assert both < dear.worst_case_epsilon(80, DELTA)
    same = nzc.Interactive(20, 60, 50, 0.9).worst_case_epsilon(40, DELTA)
    assert same == cheap.worst_case_epsilon(40, DELTA)
    spoilt = nzc.GNMax(50).promise(10, 10) + nzc.Counts(0.1).promise(10, 10)
    assert spoilt.data_independent(DELTA) == spoilt.data_independent(DELTA, rough=True)


def test_where_no_induction_is_known_another_bound_holds():
    bit = Hint(Kind.BIT, 1 / 40)
    assert adaptive.epsilon(((10, (Hint(Kind.BIT, 3.0),)),), DELTA) == np.inf
    assert adaptive.epsilon(((10, (bit,)),), 1e-14) == np.inf
    screened = nzc.Confident(20, 1e-5, 40)
    rough = screened.worst_case_epsilon(20, DELTA, rough=True)
    assert screened.worst_case_epsilon(20, DELTA) == rough
    free = nzc.Confident(20, 1e10, 40).worst_case_epsilon(20, DELTA)
    assert free == pytest.approx(nzc.GNMax(40).worst_case_epsilon(20, DELTA), rel=0.01)


@pytest.mark.parametrize(
    "mechanism", [nzc.Gumbel(30), nzc.GNMax(3), nzc.Confident(200, 1, 3)], ids=repr
)
def test_large_costs_are_not_above_the_rough_bound(mechanism):
    rough = mechanism.worst_case_epsilon(10_000, DELTA, rough=True)
    assert 0 < mechanism.worst_case_epsilon(10_000, DELTA) <= rough


@pytest.mark.parametrize("start", [-300, -4, 3])
def test_a_query_is_the_worst_mean_of_the_value_after_it(start):
    """One long law, several, and such with gaps, against sums.

    Below the grid V is its first value, above it 1.
    """
    rng = np.random.default_rng(1)
    value = np.sort(rng.random(1000)) / 2
    weights = rng.dirichlet(np.ones(400), 3) * 0.9
    infinite = rng.random(3) / 10
    used = np.flatnonzero(rng.random(400) < 0.1)
    whole = np.arange(400)
    for count, offsets, dense in [(1, whole, True), (3, whole, True), (3, used, False)]:
        laws = Laws(start + offsets, weights[:count, offsets], infinite[:count], dense)
        places = np.arange(1000)[:, None] + laws.offsets
        reached = np.where(places < 1000, value[np.clip(places, 0, 999)], 1.0)
        means = reached @ laws.weights.T + laws.infinite
        found = induced(value, 1, [laws])
        np.testing.assert_allclose(found, np.minimum(means.max(axis=1), 1.0), rtol=1e-12)
