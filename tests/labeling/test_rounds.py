"""Rounds of asking: which rows, on what policy, at what cost, and what the student adds itself."""

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from brute import leak
from conftest import SMALL, Nzc, parametrize
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx, raises
from sessions import ledger_of, policy_of

import nzc
from nzc.accounting.epsilon import BOUNDS
from nzc.accounting.gaussian import gaussian
from nzc.labeling.bound import LabelingPolicy, Promise
from nzc.labeling.ledger import Ledger
from nzc.labeling.query_selection import CHOICES, QuerySelection
from nzc.labeling.release import LabelingSession
from nzc.mechanisms import (
    ABSTAIN,
    GaussianNoise,
    InteractiveScreen,
    LaplaceNoise,
    NoisyArgmax,
    ThresholdScreen,
)
from nzc.mechanisms.adjacency import Adjacency, OwnCells, OwnLabels
from nzc.teachers import VoteHistograms
from nzc.validation import InputError

POOL, CLASSES = 60, 4
pytestmark = pytest.mark.usefixtures("here")  # each test has a ledger of its own


def _probabilities(seed: int = 0) -> np.ndarray:
    return default_rng(seed).dirichlet(np.full(CLASSES, 0.5), size=POOL)


@parametrize("choice", CHOICES)
def test_what_is_chosen_is_left_and_never_asked_twice(choice: str) -> None:
    left = default_rng(2).permutation(POOL)[:40]
    for size in (0, 7, 40):
        rng = default_rng(size)
        rows = QuerySelection(choice, None).choose(left, size, None, rng, _probabilities(1))
        assert len(rows) == len(set(rows)) == size
        assert set(rows) <= set(left)


def test_balanced_takes_as_many_of_each_class_as_there_are_and_entropy_the_least_certain() -> None:
    def chosen(choice: str, probs: np.ndarray) -> np.ndarray:
        selection = QuerySelection(choice, None)
        return selection.choose(np.arange(POOL), 20, probs, default_rng(0))

    classes = np.repeat(np.arange(CLASSES), [40, 10, 8, 2])
    balanced = classes[chosen("balanced", np.eye(CLASSES)[classes])]
    assert np.bincount(balanced).tolist() == [6, 6, 6, 2]
    probs = _probabilities()
    entropy = -(probs * np.log(probs)).sum(axis=1)
    rows = chosen("entropy", probs)
    assert entropy[rows].min() >= np.delete(entropy, rows).max()


#: Choice, rounds, queries, whether there is a student, whether the mechanism asks for one; sizes,
#: or what is said.
SIZES = [
    ("first", None, None, True, False, [60]),
    ("first", None, 50, True, True, [25, 25]),
    ("first", None, 50, False, True, [50]),
    ("first", 3, 50, True, False, [17, 17, 16]),
    ("first", [10, 30], None, True, False, [10, 30]),
    ("entropy", None, None, False, False, "query_choice=entropy: .* no student"),
    ("balanced", 1, None, True, False, "rounds=1: must be 2 or more"),
    ("first", [30, 31], None, True, False, "queries=61: .* from 1 to 60"),
    ("first", [10, 10], 10, True, False, "queries=10: .* sum of rounds"),
    ("first", 11, 10, True, False, "rounds=11: .* from 1 to 10"),
    ("first", 2, None, False, False, "rounds=2: .* no student"),
]


@parametrize(("choice", "parts", "queries", "student", "asks", "sizes"), SIZES)
def test_sizes_of_rounds(
    choice: str,
    parts: object,
    queries: int | None,
    student: bool,
    asks: bool,
    sizes: list[int] | str,
) -> None:
    with nullcontext() if isinstance(sizes, list) else raises(InputError, match=sizes):
        assert QuerySelection(choice, parts).sizes(queries, POOL, student, asks) == sizes


GAUSSIAN = NoisyArgmax(GaussianNoise(20))
DIGITS = ["dataset.private=300", "dataset.public=100"]


def _session(
    policy: LabelingPolicy,
    sizes: list[int],
    rows: int = POOL,
    public: np.ndarray | None = None,
    **about: str,
) -> LabelingSession:
    return LabelingSession(Promise.of(policy, sizes), rows, ledger_of(policy, **about), public)


def _votes() -> VoteHistograms:
    rng = default_rng(1)
    votes = rng.multinomial(100, [0.7, 0.1, 0.1, 0.1], size=POOL)
    return VoteHistograms(votes[:, rng.permutation(CLASSES)], 100)


def _ask_all(
    policy: LabelingPolicy, sizes: list[int], probs: np.ndarray | None = None
) -> LabelingSession:
    session = _session(policy, sizes)
    for number in range(len(sizes)):
        probs_now = probs if number else None
        session.ask(_votes(), session.choose(student_probs=probs_now), probs_now)
    return session


def test_what_a_release_is_known_by_says_what_was_released() -> None:
    """A budget keeps what fits of what was drawn for all rows; who asks for so many rows alone
    draws other noise.
    """
    mechanism = NoisyArgmax(GaussianNoise(20), screen=ThresholdScreen(50, 20))
    some = _ask_all(policy_of(mechanism, budget=1.0), [POOL]).rounds[0]
    alone, again = (_ask_all(policy_of(mechanism), [len(some.rows)]).rounds[0] for _ in range(2))
    assert (some.rows == alone.rows).all() and (some.labels != alone.labels).any()
    assert some.key != alone.key == again.key


def _key_where_teachers_agree(rng: str, **about: Any) -> str:
    session = _session(policy_of(GAUSSIAN, rng=rng), [20], 20, **about)
    session.ask(VoteHistograms(np.tile([90, 5, 5], (20, 1)), 100), session.choose())
    session.charge()
    return session.rounds[0].key


def test_equal_votes_on_other_rows_are_another_release() -> None:
    """Two pools, or two orders of one pool, on which the teachers agree: each has noise and a cost
    of its own.
    """
    pool = np.arange(40.0).reshape(20, 2)
    first, other, again = (
        _key_where_teachers_agree("system", public=rows) for rows in (pool, pool + 1, pool)
    )
    assert first == again != other
    assert len(Ledger("ledger.db").entries()) == 2


@parametrize("rng", ["seeded", "system"])
def test_equal_votes_between_other_neighbours_are_another_release(rng: str) -> None:
    """Teachers that agree vote alike whatever the unit of privacy; else the first unit's words
    stood for both.
    """
    units = ["one label differs", "one record differs"]
    for neighbours in units:
        _key_where_teachers_agree(rng, neighbours=neighbours)
    ledger = Ledger("ledger.db")
    assert [entry.neighbours for entry in ledger.entries()] == units
    assert np.isinf(ledger.total("", 1e-5))


def test_where_noise_ends_the_asking_what_might_have_followed_is_paid() -> None:
    """By enumeration: the second query is asked only if the first has no answer, and only its votes
    change.
    """
    mechanism = NoisyArgmax(GaussianNoise(20), screen=ThresholdScreen(30, 2))
    here, there = (np.array([[29, 11], last]) for last in ([28, 12], [27, 13]))
    votes = VoteHistograms(here, 40)
    delta = 1e-3
    for seed in range(100):
        policy = policy_of(mechanism, answers=1, delta=delta, seed=seed)
        session = _session(policy, [2], 2, dataset=f"data of {seed}")
        if len(session.ask(votes, session.choose()).rows) == 1:
            break
    session.charge()
    spent = session.epsilon()
    assert spent.exact_lower is None and spent.exact <= spent.published

    def law(votes: np.ndarray) -> np.ndarray:
        first, second = np.exp(mechanism.log_law(votes))
        return np.concatenate([first[:-1], first[-1] * second])

    for epsilon in (spent.exact, spent.ledger_total):
        assert leak(law(here), [law(there)], epsilon) <= delta


MIXED = NoisyArgmax(LaplaceNoise(0.05), first=NoisyArgmax(GaussianNoise(40)))


@parametrize(
    ("mechanism", "budget", "message"),
    [
        (GAUSSIAN.between(OwnCells()), None, "^rounds=2: must be 1"),
        (MIXED, 0.5, r"^budget\.epsilon=0.5"),
        (nzc.Plurality(), 1, r"^budget\.epsilon=1: must be null"),
        (GAUSSIAN, 1e-3, r"^budget\.epsilon=0.001: must be at least"),
    ],
)
def test_no_promise_is_made_that_cannot_be_kept(
    mechanism: NoisyArgmax, budget: float | None, message: str
) -> None:
    with raises(InputError, match=message):
        Promise.of(policy_of(mechanism, budget), [20, 20])


def test_a_sanitised_epsilon_is_shared_by_runs_that_released_the_same() -> None:
    """Of the system's noise labels are drawn once until they are kept; what was made of them is
    each run's own.
    """
    sessions = [
        _ask_all(policy_of(GAUSSIAN, budget, rng="system", bound="sanitised"), [POOL])
        for budget in (2, 2, None)
    ]
    first, again, other = (session.epsilon().sanitised for session in sessions)
    assert first == again != other


def test_a_published_bound_that_depends_on_votes_is_a_release_of_its_own() -> None:
    """It takes its share of the budget, is recorded in the ledger, and takes the place of the other
    bound.
    """
    numbers = {}
    for bound in BOUNDS:
        session = _session(policy_of(GAUSSIAN, 2.0, bound=bound), [POOL], dataset=bound)
        session.ask(_votes(), session.choose())
        session.charge()
        epsilon = session.epsilon()
        entries = session.ledger.ledger.entries(bound)
        numbers[bound] = (epsilon, len(entries), len(session.rows))
    plain, plain_entries, plain_rows = numbers["data_independent"]
    noisy, noisy_entries, noisy_rows = numbers["sanitised"]
    assert (plain_entries, noisy_entries) == (1, 2)
    assert noisy_rows < plain_rows
    assert plain.sanitised is None and plain.published == plain.data_independent <= 2
    assert noisy.published == min(noisy.sanitised, noisy.data_independent) <= 2
    public = {name for name, value in vars(noisy.public("sanitised")).items() if value is not None}
    assert public == {"published", "published_delta", "sanitised"}


@parametrize("limit", [{"budget": 4.0}, {"answers": 1}], ids=str)
def test_an_audit_answers_no_more_than_the_run(limit: dict[str, Any]) -> None:
    """Many queries are asked and at most one is answered, which the limit admits. An audit answers
    all it asks.
    """
    mechanism = NoisyArgmax(GaussianNoise(2), screen=ThresholdScreen(55, 10))
    session = _session(policy_of(mechanism, audit_trials=20_000, **limit), [POOL])
    torn = VoteHistograms(np.full((POOL, CLASSES), 25), 100)
    assert session.ask(torn, session.choose()).answered <= 1
    spent = session.epsilon()
    asked = len(session.rows)
    without = mechanism.audit(100, CLASSES, asked, 20_000, 1e-5, default_rng(0))
    assert spent.audited is not None and 0 < spent.audited < spent.published < without


INTERACTIVE = NoisyArgmax(
    GaussianNoise(10),
    screen=InteractiveScreen(40, 15, 0.9),
    first=NoisyArgmax(GaussianNoise(30), screen=ThresholdScreen(60, 20)),
)


def test_rounds_of_two_mechanisms_add_up() -> None:
    """Two routes: the sum of the rounds, and each round's own mechanism by itself."""
    probs = _probabilities()
    one, two = _ask_all(policy_of(INTERACTIVE, choice="random"), [4, 6], probs).rounds
    orders = np.array([2.0, 8.0, 40.0])
    votes = _votes().votes
    by_hand = INTERACTIVE.first.exact(votes[one.rows]).total(orders)
    by_hand += INTERACTIVE.exact(votes[two.rows], probs[two.rows]).total(orders)
    assert_allclose((one.cost + two.cost).rdp(orders), by_hand, rtol=1e-12)


def test_a_student_reinforces_only_what_was_asked_and_not_answered() -> None:
    probs = np.full((POOL, CLASSES), 0.01)
    probs[:, 2] = 0.97
    probs[::2] = 1 / CLASSES
    session = _ask_all(policy_of(INTERACTIVE), [20, 20], probs)
    expected = session.released.copy()
    silent = np.flatnonzero(expected[:40] == ABSTAIN)
    assert len(silent)
    expected[silent] = np.where(silent % 2, 2, ABSTAIN)
    assert_array_equal(session.training_labels(probs), expected)


@parametrize("sizes", [[60], [20, 40]])
def test_asking_stops_after_so_many_answers(sizes: list[int]) -> None:
    mechanism = NoisyArgmax(GaussianNoise(20), screen=ThresholdScreen(60, 20))
    session = _ask_all(policy_of(mechanism, answers=7), sizes)
    assert (session.released != ABSTAIN).sum() == 7
    assert session.released[session.rows[-1]] != ABSTAIN  # the last row asked is the seventh answer
    once = mechanism.worst_case_epsilon(60, 1e-5, answers=7)  # against attacks: test_adaptive.py
    assert session.promise.epsilon == approx(once)
    assert once < gaussian(np.sqrt(60 / 20**2 + 7 * 2 / 20**2), 1e-5)


@parametrize(
    ("noise", "screen"), [(GaussianNoise(20), None), (LaplaceNoise(0.1), ThresholdScreen(60, 20))]
)
def test_a_budget_holds_over_all_rounds_and_refused_queries_have_no_label(
    noise: GaussianNoise | LaplaceNoise, screen: ThresholdScreen | None
) -> None:
    """Three rounds get as many labels as one round of all queries, and what the budget refuses
    stays unlabelled.
    """
    mechanism = NoisyArgmax(noise, screen=screen)
    half = mechanism.worst_case_epsilon(POOL // 2, 1e-5)
    policy = policy_of(mechanism, budget=half)
    once = _ask_all(policy, [POOL])
    parts = _ask_all(policy, [POOL // 3] * 3)
    assert 0 < len(once.rows) < POOL
    if screen is None:
        assert len(parts.rows) == len(once.rows)
    for session in (once, parts):
        assert session.epsilon().published <= half * (1 + 1e-9)
        assert (np.delete(session.released, session.rows) == ABSTAIN).all()
        labels = np.concatenate([past.labels for past in session.rounds])
        assert_array_equal(session.released[session.rows], labels)


@parametrize(
    ("adjacency", "public"), [(OwnCells(), False), (OwnLabels(), True), (Adjacency(), False)]
)
def test_a_round_keeps_the_sums_of_votes_only_where_features_are_public(
    adjacency: Adjacency, public: bool
) -> None:
    """In own cells a sum says how many private records are in a cell, unless labels alone are
    private.
    """
    session = _ask_all(policy_of(nzc.Counts(0.5).between(adjacency)), [POOL])
    assert (session.rounds[0].sums is not None) == public


def test_interactive_end_to_end(nzc: Nzc) -> None:
    # Few queries are answered, and the student is sure of some of the others.
    ran = nzc(
        *DIGITS, *SMALL, "aggregator=interactive", "aggregator.threshold=5", "aggregator.sigma1=3",
        "aggregator.sigma=3", "aggregator.confidence=0.3", "queries=60",
    )  # fmt: skip
    result, rounds = ran.result, ran.result["rounds"]
    assert [part["asked"] for part in rounds] == [30, 30]
    assert sum(part["answered"] for part in rounds) == result["answered"] < 60
    costs = [part["epsilon"] for part in rounds]
    assert max(costs) < result["epsilon"]["exact"] < sum(costs)
    assert 0 < result["reinforced"] <= 60 - result["answered"]
    curves = next(ran.folder.glob("outputs/*/*/student.csv")).read_text()
    assert "Student of round 1/loss_labelled,0," in curves and "Student/loss_labelled,0," in curves
