"""Neighbouring histograms: their laws from one grid, and own cells, where a record counts once."""

from itertools import combinations_with_replacement, permutations, product

import brute
import numpy as np
import pytest
from brute import FLOOR, GRID
from scipy.special import logsumexp
from scipy.stats import laplace, norm

import nzc
from nzc.accounting.data_independent import gaussian
from nzc.accounting.exact import Pairs, error_of, largest_divergence
from nzc.mechanisms import Adjacency, Boost, NoisyArgmax, OwnCells, OwnLabels
from nzc.mechanisms.noise import GaussianNoise, GumbelNoise, LaplaceNoise
from nzc.mechanisms.screen import ThresholdScreen


@pytest.mark.parametrize(
    "mechanism",
    [
        *(NoisyArgmax(GaussianNoise(s)) for s in (0.1, 0.26, 40, 1e6)),
        *(NoisyArgmax(LaplaceNoise(g)) for g in (3.9, 0.05, 1e-5)),
        NoisyArgmax(GaussianNoise(10), Boost(c=15)),
        NoisyArgmax(LaplaceNoise(0.2), Boost(c=7, sensitivity="smooth", beta=0.1)),
        NoisyArgmax(GaussianNoise(40), screen=ThresholdScreen(60, 20)),
    ],
    ids=str,
)
def test_one_grid_for_all_neighbours_gives_what_the_law_alone_gives(mechanism):
    for votes in ([50, 30, 10, 5, 5, 0, 0], [34, 33, 33, 0, 0, 0, 0], [94, 1, 1, 1, 1, 1, 1]):
        there = mechanism.log_law(np.array(list(brute.moves(votes))))
        here = np.broadcast_to(mechanism.log_law(np.array([votes])), there.shape)
        alone = largest_divergence(
            Pairs(np.zeros(len(there), dtype=int), here, there, np.ones_like(there)), 1, GRID
        )
        found = mechanism.exact(np.array([votes])).per_query(GRID)
        ceiling = mechanism.exact(np.array([votes])).ceiling(GRID).sum(axis=0)
        np.testing.assert_allclose(found, np.minimum(alone, ceiling), rtol=1e-6, atol=FLOOR)


@pytest.mark.parametrize(
    "noise",
    [GaussianNoise(s) for s in (0.26, 1, 40)] + [LaplaceNoise(g) for g in (3.9, 0.5, 0.05)],
    ids=str,
)
def test_the_laws_of_one_grid_are_within_their_stated_error(noise):
    leads, one = np.array([[0.0, -1.0, -2.0, -9.0, -40.0]]), np.ones((1, 5))
    _, there, _ = noise.neighbourhood(leads / noise.unit, one, np.array([1 / noise.unit]))
    for a, b in permutations(range(5), 2):
        moved = leads - np.eye(5)[a] + np.eye(5)[b]
        true = noise.log_law(moved)[0]
        found = there[0, a, b, :5].copy()
        found[[a, b]] = there[0, a, b, 5:]
        possible = np.isfinite(true) & np.isfinite(found)
        assert (np.isneginf(true) == np.isneginf(found)).all()
        assert (np.abs(found[possible] - true[possible]) <= 2 * error_of(true[possible])).all()


def test_many_histograms_together_cost_what_each_costs_alone():
    """So many that one grid is computed in parts."""
    rng, exact = np.random.default_rng(0), nzc.LNMax(0.05).exact
    votes = rng.multinomial(5000, rng.dirichlet(np.full(10, 5), 100))
    alone = [exact(row[None]).per_query(GRID)[0] for row in votes[::20]]
    np.testing.assert_allclose(exact(votes).per_query(GRID)[::20], alone, rtol=1e-9, atol=FLOOR)


DELTA = 1e-3
ONE, LABELS = OwnCells(), OwnLabels()
MECHANISMS = [
    nzc.GNMax(1.5), nzc.Gumbel(0.4), nzc.PermuteAndFlip(0.4), nzc.LNMax(0.5), nzc.NZC(c=2, gamma=0.1),
    NoisyArgmax(GaussianNoise(2), Boost(1)),
]  # fmt: skip


def _joint(mechanism, votes):
    """The law of all labels together."""
    law = np.ones(1)
    for row in np.exp(mechanism.log_law(votes)):
        law = np.outer(law, row).ravel()
    return law


def _neighbours(votes, records=1):
    """Yield all histograms where so many counts left and as many entered, anywhere."""
    places = list(product(range(votes.shape[0]), range(votes.shape[1])))
    for left, entered in product(combinations_with_replacement(places, records), repeat=2):
        other = votes.copy()
        np.add.at(other, tuple(zip(*left, strict=True)), -1)
        if (other >= 0).all():
            np.add.at(other, tuple(zip(*entered, strict=True)), 1)
            yield other


@pytest.mark.parametrize("adjacency", [ONE, LABELS], ids=repr)
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_own_cells_by_enumeration_of_all_labels_and_neighbours(mechanism, adjacency):
    """Second route: the largest δ at ε exact and ε published, over all neighbours; ε lower is below
    the true ε.
    """
    rng, mechanism = np.random.default_rng(0), mechanism.between(adjacency)
    for total in (0, 3, 30):
        votes = np.array([rng.multinomial(total + row, [0.5, 0.3, 0.2]) for row in range(3)])
        cost = mechanism.cost(votes, votes.argmax(axis=1))
        epsilon, (published, delta) = cost.epsilon(DELTA), cost.published(DELTA)
        assert (
            epsilon.exact <= epsilon.data_independent * (1 + 1e-9)
            and epsilon.data_independent <= published
        )
        here = _joint(mechanism, votes)
        pairs = [pair for other in _neighbours(votes) for there in [_joint(mechanism, other)]
                 if adjacency is ONE or (other.sum(axis=1) == votes.sum(axis=1)).all()  # one label differs
                 for pair in ((here, there), (there, here))]  # fmt: skip
        assert max(brute.excess(p, q, epsilon.exact) for p, q in pairs) <= DELTA * (1 + 1e-9)
        if np.isfinite(published):
            assert (
                max(brute.excess(p, q, published) for p, q in pairs) <= delta * (1 + 1e-9) + 1e-15
            )
        if epsilon.exact_lower:
            assert max(brute.excess(p, q, epsilon.exact_lower) for p, q in pairs) >= DELTA * (
                1 - 1e-5
            )
            assert epsilon.exact_lower > 0.5 * epsilon.exact


@pytest.mark.parametrize(
    "mechanism", [nzc.GNMax(2), nzc.Gumbel(0.3), nzc.PermuteAndFlip(0.3), nzc.LNMax(0.3)], ids=repr
)
def test_several_records_of_a_group_by_enumeration(mechanism):
    mechanism, votes = mechanism.between(OwnCells(2)), np.array([[2, 1], [0, 2]])
    epsilon, delta = mechanism.cost(votes, votes.argmax(axis=1)).published(DELTA)
    here = _joint(mechanism, votes)
    for other in _neighbours(votes, 2):
        there = _joint(mechanism, other)
        assert (
            max(brute.excess(here, there, epsilon), brute.excess(there, here, epsilon))
            <= delta * (1 + 1e-9) + 1e-15
        )


def test_own_cells_cost_the_same_however_many_rows_are_asked():
    for mechanism, price in ((nzc.Gumbel(0.1), 0.2), (nzc.LNMax(0.1), 0.2), (nzc.Counts(0.1), 0.2)):
        for asked in (1, 500):
            cost = mechanism.between(ONE).promise(asked, asked)
            assert cost.published(1e-5) == (pytest.approx(price, rel=1e-12), 0)
            assert mechanism.between(OwnCells(3)).promise(asked, asked).published(1e-5)[
                0
            ] == pytest.approx(3 * price)
            assert mechanism.between(LABELS).promise(asked, asked).published(1e-5) == (
                pytest.approx(price),
                0,
            )
    boosted, one = NoisyArgmax(GaussianNoise(5), Boost(1)), gaussian(2 * np.sqrt(2) / 5, 1e-5)
    assert boosted.between(LABELS).promise(500, 500).published(1e-5)[0] == pytest.approx(
        one
    )  # ONE: that of two labels
    for mechanism in (nzc.GNMax(5), nzc.CountsGaussian(5)):  # a mean shift of √2/σ
        epsilon = gaussian(np.sqrt(2) / 5, 1e-5)
        assert mechanism.between(ONE).promise(500, 500).published(1e-5) == (
            pytest.approx(epsilon),
            1e-5,
        )
    assert nzc.calibrate(
        lambda gamma: nzc.Counts(gamma).between(ONE), 0.25, 1e-5, 100
    ) == pytest.approx(0.125)


@pytest.mark.parametrize(
    "mechanism", [nzc.Gumbel(0.5), nzc.Counts(0.5), nzc.CountsGaussian(2), nzc.GNMax(2)], ids=repr
)
def test_an_audit_of_own_cells_stays_below_the_promise(mechanism):
    settings = {"teachers": 20, "classes": 3, "trials": 20_000, "rng": np.random.default_rng(0)}
    for adjacency in (ONE, LABELS, Adjacency()):
        own = mechanism.between(adjacency)
        promised = own.worst_case_epsilon(3, 1e-5)
        assert 0.2 * promised < nzc.audit(own, queries=3, **settings) < promised


@pytest.mark.parametrize("mechanism", [nzc.Counts(0.2), nzc.CountsGaussian(4)], ids=repr)
def test_noisy_counts_by_enumeration(mechanism):
    """Second route: the law of noise rounded to whole numbers, of two counts that change by one
    each.
    """
    numbers = np.arange(-150, 151)
    noise = laplace(scale=5) if isinstance(mechanism.noise, LaplaceNoise) else norm(scale=4)
    law = noise.cdf(numbers + 0.5) - noise.cdf(numbers - 0.5)
    here = np.outer(law[1:-1], law[1:-1]).ravel()
    there = np.outer(law[:-2], law[2:]).ravel()
    for adjacency, queries in ((Adjacency(), 1), (ONE, 1), (LABELS, 9), (ONE, 9)):
        epsilon, delta = mechanism.between(adjacency).promise(queries, queries).published(DELTA)
        assert (
            max(brute.excess(here, there, epsilon), brute.excess(there, here, epsilon))
            <= delta + 1e-12
        )
    assert brute.excess(here, there, 0.95 * epsilon) > delta


def test_a_screen_has_no_price_in_own_cells():
    for mechanism in (
        nzc.Confident(5, 3, 3),
        nzc.Stable(5, 1.2),
        nzc.SparseStable(cutoff=5, teachers=100, delta=1e-5),
    ):
        with pytest.raises(nzc.InputError):
            mechanism.between(ONE)
    with pytest.raises(nzc.InputError, match=r"^per_group=0: "):
        OwnCells(0)
    with pytest.raises(nzc.InputError, match=r"^per_group=2: "):
        OwnLabels(2)


def _abstaining(votes, teachers):
    """Yield every histogram that one of so many teachers makes of this one: it moves, withdraws or
    casts its vote.
    """
    yield votes
    for a in range(len(votes)):
        for b in range(len(votes)):
            if votes[a] and a != b:
                yield votes - np.eye(len(votes), dtype=int)[a] + np.eye(len(votes), dtype=int)[b]
        if votes[a]:
            yield votes - np.eye(len(votes), dtype=int)[a]
        if votes.sum() < teachers:
            yield votes + np.eye(len(votes), dtype=int)[a]


ABSTAINING = [
    *MECHANISMS, nzc.NZC(c=2, gamma=0.1, sensitivity="global"), nzc.Confident(3, 1.5, 2), nzc.Confident(2, 2, 1.5),
    nzc.Interactive(1, 1.5, 2, confidence=0.5), NoisyArgmax(GumbelNoise(0.4), screen=ThresholdScreen(3, 2)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("mechanism", "probs"),
    [*((mechanism, False) for mechanism in ABSTAINING), (ABSTAINING[-2], True)],
    ids=repr,
)
def test_abstentions_by_enumeration_of_all_labels_and_neighbours(mechanism, probs):
    """Second route: the largest δ at ε exact and ε published, over all neighbours; ε lower is below
    the true ε.
    """
    mechanism = mechanism.between(nzc.Abstentions(teachers=5))
    student = np.array([[0.7, 0.2, 0.1], [0.0, 1.0, 0.0]]) if probs else None
    largest = 0.0
    for votes in ([[0, 0, 0], [4, 0, 0]], [[2, 2, 1], [2, 0, 1]], [[5, 0, 0], [1, 1, 0]]):
        cost = mechanism.cost(np.array(votes), np.zeros(2, int), student)
        epsilon, (published, delta) = cost.epsilon(DELTA), cost.published(DELTA)
        assert epsilon.exact <= epsilon.data_independent * (1 + 1e-9)
        joint = [
            _joint_of(mechanism, rows, student)
            for rows in product(*(_abstaining(np.array(v), 5) for v in votes))
        ]
        pairs = [pair for there in joint[1:] for pair in ((joint[0], there), (there, joint[0]))]
        assert max(brute.excess(p, q, epsilon.exact) for p, q in pairs) <= DELTA * (1 + 1e-9)
        if np.isfinite(published):
            assert (
                max(brute.excess(p, q, published) for p, q in pairs) <= delta * (1 + 1e-9) + 1e-15
            )
        assert max(
            brute.excess(p, q, epsilon.exact_lower * (1 - 1e-6)) for p, q in pairs
        ) >= DELTA * (1 - 1e-5)
        largest = max(largest, epsilon.exact_lower / epsilon.exact)
    assert largest > 0.9


def _joint_of(mechanism, rows, student):
    law = np.ones(1)
    for row in np.exp(mechanism.log_law(np.array(rows), student)):
        law = np.outer(law, row).ravel()
    return law


@pytest.mark.parametrize(
    "mechanism", [nzc.Stable(1, 1.2), nzc.SparseStable(cutoff=2, teachers=9, delta=1e-2)], ids=repr
)
def test_labels_without_noise_keep_their_promise_where_teachers_abstain(mechanism):
    mechanism = mechanism.between(nzc.Abstentions(teachers=9))
    for votes in ([6, 1, 0], [4, 2, 2], [3, 3, 0], [9, 0, 0]):
        promise = mechanism.promise(1, 1)
        delta = 2 * promise.delta_cost + DELTA
        here = np.exp(mechanism.log_law(np.array([votes])))[0]
        for other in _abstaining(np.array(votes), 9):
            there, epsilon = (
                np.exp(mechanism.log_law(other[None]))[0],
                promise.data_independent(delta),
            )
            assert (
                max(brute.excess(here, there, epsilon), brute.excess(there, here, epsilon)) <= delta
            )


@pytest.mark.parametrize("mechanism", [nzc.GNMax(1.5), nzc.LNMax(0.5)], ids=repr)
def test_the_theorems_hold_where_teachers_abstain(mechanism):
    """Second route: the Rényi divergence from the law at these votes to that of every neighbour."""
    bound, orders = mechanism.noise.bound, np.array([1.5, 2.0, 5.0, 9.0])
    mechanism = mechanism.between(nzc.Abstentions(teachers=40))
    for votes in ([30, 2, 1], [20, 0, 0], [3, 1, 0], [0, 0, 0]):
        stated = bound.cost(np.array([votes]))(orders)[0]
        here = mechanism.log_law(np.array([votes]))[0, :3]
        for other in _abstaining(np.array(votes), 40):
            there = mechanism.log_law(other[None])[0, :3]
            divergence = [logsumexp(a * here + (1 - a) * there) / (a - 1) for a in orders]
            assert (divergence <= stated * (1 + 1e-9) + 1e-13).all()
    cost = mechanism.cost(np.array([[30, 2, 1]]), np.array([0])).epsilon(DELTA)
    assert cost.theorem is not None


def test_a_teacher_that_abstains_casts_no_vote():
    predictions = np.array([[0, 1, -1], [0, -1, -1], [2, 1, -1]])
    votes = nzc.count_votes(predictions, 3)
    np.testing.assert_array_equal(votes, [[2, 0, 1], [0, 2, 0], [0, 0, 0]])
    plain = nzc.GNMax(2)
    with pytest.raises(nzc.InputError, match=r"Abstentions\(teachers=NUMBER\)"):
        plain.cost(votes, [0, 1, 0])
    for teachers in (3, 250):
        epsilon = plain.between(nzc.Abstentions(teachers)).cost(votes, [0, 1, 0]).epsilon(DELTA)
        assert (
            epsilon.data_independent
            == plain.cost([[3, 0, 0]] * 3, [0, 1, 0]).epsilon(DELTA).data_independent
        )
    with pytest.raises(nzc.InputError, match="row 0"):
        plain.between(nzc.Abstentions(2)).cost(votes, [0, 1, 0])
    for wrong in ([[-2, 0]], [[0, 3]]):
        with pytest.raises(nzc.InputError, match=r"^predictions="):
            nzc.count_votes(wrong, 3)


def test_a_screen_of_ones_own_has_no_price_where_teachers_abstain():
    class Crowd(ThresholdScreen):
        def statistic(
            self, votes, student_probs
        ):  # a moved vote changes nothing, one that appears much
            return 9.0 * votes.sum(axis=-1)

    with pytest.raises(nzc.InputError, match="Crowd"):
        NoisyArgmax(GaussianNoise(2), screen=Crowd(2, 2)).between(nzc.Abstentions(5))


def test_teachers_that_all_vote_cost_as_much_as_ever():
    votes = np.array([[5, 0, 0], [2, 2, 1]])
    plain, abstaining = (
        nzc.GNMax(2).between(adjacency) for adjacency in (Adjacency(), nzc.Abstentions(5))
    )
    moved, all_three = (mechanism.exact(votes).per_query(GRID) for mechanism in (plain, abstaining))
    np.testing.assert_allclose(
        all_three, moved, rtol=1e-9
    )  # a vote that vanishes is no further than one that moves
