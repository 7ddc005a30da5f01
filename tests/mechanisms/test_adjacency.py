"""What one vote changes: own cells, where a record counts once, abstentions, and boosts."""

from itertools import combinations_with_replacement, permutations, product

import numpy as np
from brute import joint_law, leak
from conftest import parametrize
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx, raises
from scipy.special import logsumexp
from scipy.stats import laplace, norm

import nzc
from nzc.accounting.gaussian import gaussian
from nzc.mechanisms import (
    Adjacency,
    GaussianNoise,
    GumbelNoise,
    LaplaceNoise,
    NoisyArgmax,
    OwnCells,
    OwnLabels,
)
from nzc.mechanisms.screen import ThresholdScreen

DELTA = 1e-3
ONE = OwnCells()
LABELS = OwnLabels()
MECHANISMS = [
    nzc.GNMax(1.5),
    nzc.Gumbel(0.4),
    nzc.PermuteAndFlip(0.4),
    nzc.LNMax(0.5),
    nzc.NZC(c=2, gamma=0.1),
]


def assert_tight(cost, here, neighbours):
    """ε exact and ε published are private by enumeration, and ε lower is not. Return ε."""
    epsilon = cost.epsilon(DELTA)
    published, delta = cost.published(DELTA)
    assert epsilon.exact <= epsilon.data_independent * (1 + 1e-9)
    assert epsilon.data_independent <= published
    assert leak(here, neighbours, epsilon.exact) <= DELTA * (1 + 1e-9)
    if np.isfinite(published):
        assert leak(here, neighbours, published) <= delta * (1 + 1e-9) + 1e-15
    if epsilon.exact_lower:
        lower = epsilon.exact_lower * (1 - 1e-6)
        assert leak(here, neighbours, lower) >= DELTA * (1 - 1e-5)
    return epsilon


def cell_neighbours(votes, records=1):
    """Yield all histograms where so many counts left and as many entered, anywhere."""
    places = list(product(range(votes.shape[0]), range(votes.shape[1])))
    for left, entered in product(combinations_with_replacement(places, records), repeat=2):
        other = votes.copy()
        np.add.at(other, tuple(zip(*left, strict=True)), -1)
        if (other >= 0).all():
            np.add.at(other, tuple(zip(*entered, strict=True)), 1)
            yield other


@parametrize("adjacency", [ONE, LABELS], ids=repr)
@parametrize("mechanism", MECHANISMS, ids=repr)
def test_own_cells_by_enumeration_of_all_labels_and_neighbours(mechanism, adjacency):
    rng = np.random.default_rng(0)
    mechanism = mechanism.between(adjacency)
    for total in (0, 6):
        votes = np.array([rng.multinomial(total + row, [0.5, 0.3, 0.2]) for row in range(2)])
        others = list(cell_neighbours(votes))
        if adjacency is LABELS:  # one label differs
            others = [other for other in others if (other.sum(1) == votes.sum(1)).all()]
        neighbours = [joint_law(mechanism, other) for other in others]
        cost = mechanism.cost(votes, votes.argmax(axis=1))
        assert_tight(cost, joint_law(mechanism, votes), neighbours)


@parametrize(
    "mechanism", [nzc.GNMax(2), nzc.Gumbel(0.3), nzc.PermuteAndFlip(0.3), nzc.LNMax(0.3)], ids=repr
)
def test_several_records_of_a_group_by_enumeration(mechanism):
    mechanism = mechanism.between(OwnCells(2))
    votes = np.array([[2, 1], [0, 2]])
    epsilon, delta = mechanism.cost(votes, votes.argmax(axis=1)).published(DELTA)
    neighbours = [joint_law(mechanism, other) for other in cell_neighbours(votes, 2)]
    assert leak(joint_law(mechanism, votes), neighbours, epsilon) <= delta * (1 + 1e-9) + 1e-15


@parametrize("asked", [1, 500])
def test_own_cells_cost_the_same_however_many_rows_are_asked(asked):
    def price(mechanism, adjacency):
        return mechanism.between(adjacency).promise(asked, asked).published(1e-5)

    for mechanism in (nzc.Gumbel(0.1), nzc.LNMax(0.1), nzc.Counts(0.1)):
        assert price(mechanism, ONE) == (approx(0.2, rel=1e-12), 0)
        assert price(mechanism, LABELS) == (approx(0.2), 0)
        assert price(mechanism, OwnCells(3))[0] == approx(0.6)
    epsilon = gaussian(np.sqrt(2) / 5, 1e-5)  # a mean shift of √2/σ
    assert price(nzc.GNMax(5), ONE) == (approx(epsilon), 1e-5)
    gamma = nzc.calibrate(lambda gamma: nzc.Counts(gamma).between(ONE), 0.25, 1e-5, asked)
    assert gamma == approx(0.125)


@parametrize(
    "mechanism", [nzc.Gumbel(0.5), nzc.Counts(0.5), nzc.CountsGaussian(2), nzc.GNMax(2)], ids=repr
)
@parametrize("adjacency", [ONE, LABELS, Adjacency()], ids=repr)
def test_an_audit_of_own_cells_stays_below_the_promise(mechanism, adjacency):
    mechanism = mechanism.between(adjacency)
    promised = mechanism.worst_case_epsilon(3, 1e-5)
    found = nzc.audit(mechanism, 20, 3, 3, trials=20_000, rng=np.random.default_rng(0))
    assert 0.2 * promised < found < promised


@parametrize("mechanism", [nzc.Counts(0.2), nzc.CountsGaussian(4)], ids=repr)
def test_noisy_counts_by_enumeration(mechanism):
    """Second route: the law of noise rounded to whole numbers; two counts change by one each."""
    numbers = np.arange(-150, 151)
    noise = laplace(scale=5) if isinstance(mechanism.noise, LaplaceNoise) else norm(scale=4)
    law = noise.cdf(numbers + 0.5) - noise.cdf(numbers - 0.5)
    here = np.outer(law[1:-1], law[1:-1]).ravel()
    there = np.outer(law[:-2], law[2:]).ravel()
    for adjacency, queries in ((Adjacency(), 1), (ONE, 1), (LABELS, 9), (ONE, 9)):
        epsilon, delta = mechanism.between(adjacency).promise(queries, queries).published(DELTA)
        assert leak(here, [there], epsilon) <= delta + 1e-12
    assert leak(here, [there], 0.95 * epsilon) > delta


class Crowd(ThresholdScreen):
    """A moved vote changes nothing, one that appears much."""

    def statistic(self, votes, student_probs):
        return 9.0 * votes.sum(axis=-1)


@parametrize(
    ("mechanism", "adjacency"),
    [
        (nzc.Confident(5, 3, 3), ONE),
        (nzc.Stable(5, 1.2), ONE),
        (NoisyArgmax(GaussianNoise(2), screen=Crowd(2, 2)), nzc.Abstentions(5)),
    ],
    ids=repr,
)
def test_a_screen_without_a_price_is_refused(mechanism, adjacency):
    with raises(nzc.InputError):
        mechanism.between(adjacency)


@parametrize(("adjacency", "records"), [(OwnCells, 0), (OwnLabels, 2)])
def test_records_of_a_cell(adjacency, records):
    with raises(nzc.InputError, match=rf"^per_group={records}: "):
        adjacency(records)


def abstaining(votes, teachers):
    """Yield the votes, and all that follow where a teacher moves, withdraws or casts its vote."""
    one_vote = np.eye(len(votes), dtype=int)
    yield votes
    for left, entered in permutations(range(len(votes)), 2):
        if votes[left]:
            yield votes - one_vote[left] + one_vote[entered]
    for label in range(len(votes)):
        if votes[label]:
            yield votes - one_vote[label]
        if votes.sum() < teachers:
            yield votes + one_vote[label]


INTERACTIVE = nzc.Interactive(1, 1.5, 2, confidence=0.5)
STUDENT = np.array([[0.7, 0.2, 0.1], [0.0, 1.0, 0.0]])
ABSTAINING = [
    *MECHANISMS,
    nzc.NZC(c=2, gamma=0.1, sensitivity="global"),
    nzc.Confident(2, 2, 1.5),
    NoisyArgmax(GumbelNoise(0.4), screen=ThresholdScreen(3, 2)),
    INTERACTIVE,
]


@parametrize(
    ("mechanism", "student_probs"),
    [*((mechanism, None) for mechanism in ABSTAINING), (INTERACTIVE, STUDENT)],
    ids=lambda value: repr(value)[:60],
)
def test_abstentions_by_enumeration_of_all_labels_and_neighbours(mechanism, student_probs):
    mechanism = mechanism.between(nzc.Abstentions(teachers=5))
    tightness = []
    for votes in ([[0, 0, 0], [4, 0, 0]], [[2, 2, 1], [5, 0, 0]]):
        first, second = np.array(votes)
        histograms = product(abstaining(first, 5), abstaining(second, 5))
        here, *neighbours = [joint_law(mechanism, rows, student_probs) for rows in histograms]
        cost = mechanism.cost(np.array(votes), np.zeros(2, int), student_probs)
        epsilon = assert_tight(cost, here, neighbours)
        tightness.append(epsilon.exact_lower / epsilon.exact)
    assert max(tightness) > 0.9


def test_labels_without_noise_keep_their_promise():
    mechanism = nzc.Stable(1, 1.2).between(nzc.Abstentions(teachers=9))
    promise = mechanism.promise(1, 1)
    delta = 2 * promise.delta_cost + DELTA
    for votes in ([6, 1, 0], [4, 2, 2], [3, 3, 0], [9, 0, 0]):
        laws = [joint_law(mechanism, [other]) for other in abstaining(np.array(votes), 9)]
        assert leak(laws[0], laws, promise.data_independent(delta)) <= delta


@parametrize("mechanism", [nzc.GNMax(1.5), nzc.LNMax(0.5)], ids=repr)
def test_the_theorems_hold_where_teachers_abstain(mechanism):
    """Second route: the Rényi divergence from the law at these votes to that of every neighbour."""
    bound = mechanism.noise.bound
    orders = np.array([1.5, 2.0, 5.0, 9.0])
    mechanism = mechanism.between(nzc.Abstentions(teachers=40))
    for votes in ([30, 2, 1], [20, 0, 0], [3, 1, 0], [0, 0, 0]):
        stated = bound.cost(np.array([votes]))(orders)[0]
        laws = mechanism.log_law(np.array(list(abstaining(np.array(votes), 40))))[:, :3]
        for order, most in zip(orders, stated, strict=True):
            moments = logsumexp(order * laws[0] + (1 - order) * laws, axis=1)
            assert (moments / (order - 1) <= most * (1 + 1e-9) + 1e-13).all()
    cost = mechanism.cost(np.array([[30, 2, 1]]), np.array([0])).epsilon(DELTA)
    assert cost.theorem is not None


def test_a_teacher_that_abstains_casts_no_vote():
    predictions = np.array([[0, 1, -1], [0, -1, -1], [2, 1, -1]])
    votes = nzc.count_votes(predictions, 3)
    assert_array_equal(votes, [[2, 0, 1], [0, 2, 0], [0, 0, 0]])
    plain = nzc.GNMax(2)
    for mechanism in (plain, plain.between(nzc.Abstentions(2))):
        with raises(nzc.InputError):
            mechanism.cost(votes, [0, 1, 0])
    for wrong in ([[-2, 0]], [[0, 3]]):
        with raises(nzc.InputError, match=r"^predictions="):
            nzc.count_votes(wrong, 3)


@parametrize(
    ("kind", "scale"),
    [
        ("constant", [1, 1, 1]),
        ("global", [5, 5, 5]),
        ("local", [5, 1, 1]),
        ("smooth", np.array([5, 5, 1]) * np.exp(-0.5)),
    ],
)
def test_the_four_sensitivities(kind, scale):
    votes = np.array([[10, 8, 0], [10, 7, 0], [10, 6, 0]])  # gaps 2, 3, 4
    assert_allclose(nzc.Boost(4.0, kind, 0.5).scale(votes), scale)


def test_what_a_boost_costs_whatever_the_votes():
    boosts = [(0.0, "constant"), (5.0, "global"), (5.0, "constant"), (1e100, "constant")]
    mechanisms = [NoisyArgmax(LaplaceNoise(0.1), nzc.Boost(*boost)) for boost in boosts]
    mechanisms.append(NoisyArgmax(LaplaceNoise(0.1), nzc.Boost(5.0, "local")))
    plain, scaled, boosted, *unbounded = (each.worst_case_epsilon(10, 1e-5) for each in mechanisms)
    assert plain < scaled < boosted < np.inf
    assert unbounded == [np.inf, np.inf]
