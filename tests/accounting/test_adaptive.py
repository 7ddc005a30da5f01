"""Bounds by induction over bits, labels and reports, against attacks by enumeration."""

from itertools import product

import numpy as np
from brute import adaptive_delta, attacker
from conftest import parametrize
from scipy.special import ndtr

import nzc
from nzc.accounting import adaptive
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


SCREENED = [
    nzc.Confident(20, 3, 4), nzc.Confident(14, 12, 5), nzc.Confident(14, 4, 30),
    nzc.Interactive(8, 4, 4, 0.9), nzc.Stable(15, 3),
]  # fmt: skip
PLAIN = [nzc.GNMax(5), nzc.GNMax(40), nzc.Gumbel(0.3), nzc.LNMax(0.3), nzc.LNMax(0.02)]
PLAIN += [nzc.PermuteAndFlip(0.3), nzc.PermuteAndFlip(1.5)]


@parametrize("delta", [1e-1, 1e-5])
@parametrize(("mechanism", "answers"), [*product(SCREENED, [1, 3]), *product(PLAIN, [3])], ids=repr)
def test_no_attack_by_enumeration_exceeds_the_bound(mechanism, delta, answers, monkeypatch):
    """Votes of 30 teachers, chosen anew after every outcome; a run ends with its last answer."""
    queries = 3 if answers == 3 else 5
    rng = np.random.default_rng(0)
    votes = np.array([1, 1, 0]) + rng.multinomial(28, rng.dirichlet(np.ones(3), 6))
    probs = rng.dirichlet(np.ones(3), 6) if mechanism.asks_student else None
    pairs = pairs_of_laws(mechanism, votes, probs)[:: queries // 2]
    bound = mechanism.worst_case_epsilon(queries, delta, answers=answers)
    monkeypatch.setattr(adaptive, "_COUNTED", 0)  # by penalties, too
    bound = min(bound, mechanism.worst_case_epsilon(queries, delta, answers=answers))
    if mechanism.delta_cost:  # labels without noise: see `StabilityScreen`
        delta -= queries * mechanism.delta_cost
        pairs = [(np.array([1 - p[-1], p[-1]]), np.array([1 - q[-1], q[-1]])) for p, q in pairs]
    assert adaptive_delta(pairs, queries, bound, answers) <= delta * (1 + 1e-9)


@parametrize(
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
    assert 1 <= stated / attacker(bits, [labels] * queries, delta, stated) <= 1.05


@parametrize(
    "cost",
    [
        nzc.Confident(10, 1e100, 1).promise(5, 5),
        nzc.GNMax(1).promise(5, 5) + nzc.GNMax(1e16).promise(5, 5),
    ],
)
def test_what_shows_next_to_nothing_adds_next_to_nothing(cost):
    alone = nzc.GNMax(1).promise(5, 5).data_independent(DELTA)
    assert alone <= cost.data_independent(DELTA) <= alone * (1 + 1e-6)


def test_different_rounds_compose():
    """Two mechanisms in one run: no more than both at the dearer noise, no less than either."""
    cheap = nzc.Confident(20, 60, 50)
    dear = nzc.Confident(20, 40, 30)
    both = (cheap.promise(10, 10) + dear.promise(10, 5)).data_independent(DELTA)
    assert dear.worst_case_epsilon(10, DELTA, answers=5) < both
    assert both < dear.worst_case_epsilon(20, DELTA)
    same = nzc.Interactive(20, 60, 50, 0.9).worst_case_epsilon(10, DELTA)
    assert same == cheap.worst_case_epsilon(10, DELTA)
    spoilt = nzc.GNMax(50).promise(10, 10) + nzc.Counts(0.1).promise(10, 10)
    assert spoilt.data_independent(DELTA) == spoilt.data_independent(DELTA, rough=True)


@parametrize("mechanism", [nzc.Gumbel(30), nzc.GNMax(3), nzc.Confident(200, 1, 3)], ids=repr)
def test_large_costs_are_not_above_the_rough_bound(mechanism):
    rough = mechanism.worst_case_epsilon(10_000, DELTA, rough=True)
    assert 0 < mechanism.worst_case_epsilon(10_000, DELTA) <= rough


@parametrize("gamma", [0.02, 0.5, 4.0])
@parametrize("classes", [2, 3, 10])
def test_many_classes_tell_no_more_of_permute_and_flip_than_two(gamma, classes):
    """Of whole counts: E_P V, for mixtures V of (1 − s e^−ℓ)₊, is at most that of three gaps."""
    rng = np.random.default_rng(classes)
    noise = nzc.PermuteAndFlip(gamma).noise
    votes = rng.uniform(-3, 3, (400, classes))
    votes[:, :2] = rng.integers(-2, 3, (400, 2))
    votes[:200] = votes[:200].round()
    few = np.array([[0, 0], [1, 0], [2, 0]])
    corners = np.exp(gamma * rng.uniform(-2.2, 2.2, (50, 3)))
    weights = rng.dirichlet(np.ones(3), 50)

    def largest(votes, move):
        p = np.exp(noise.log_law(votes))
        q = np.exp(noise.log_law(votes + np.pad(move, (0, votes.shape[1] - 2))))
        over = np.maximum(p[:, None, None] - corners[..., None] * q[:, None, None], 0)
        return (over.sum(axis=-1) * weights).sum(axis=-1).max(axis=0)

    for move in ([-1, 1], [1, -1]):
        assert (largest(votes, move) <= largest(few, [-1, 1]) + 1e-12).all()
