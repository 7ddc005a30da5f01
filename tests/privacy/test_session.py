"""Rounds of asking: which rows, on what policy, at what cost, and what the student adds itself."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from brute import leak
from conftest import FILE, SMALL, RunNzc, parametrize
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx, raises
from sessions import CLASSES, POOL, ask_first, ledger_of, policy_of, probabilities

import nzc
from nzc.accounting.data_independent import FREE
from nzc.accounting.epsilon import BOUNDS
from nzc.accounting.gaussian import gaussian
from nzc.mechanisms import (
    ABSTAIN,
    GaussianNoise,
    InteractiveScreen,
    LaplaceNoise,
    NoisyArgmax,
    ThresholdScreen,
)
from nzc.mechanisms.adjacency import OwnCells
from nzc.privacy.ledger import Ledger
from nzc.privacy.promise import Policy, Promise
from nzc.privacy.session import Session
from nzc.streams import Stream
from nzc.validation import InputError

pytestmark = pytest.mark.usefixtures("here")  # each test has a ledger of its own
GAUSSIAN = NoisyArgmax(GaussianNoise(20))
DIGITS = ["dataset.private=300", "dataset.public=100"]


def _session(
    policy: Policy,
    sizes: list[int],
    rows: int = POOL,
    public: np.ndarray | None = None,
    **about: str,
) -> Session:
    return Session(Promise.of(policy, sizes), rows, ledger_of(policy, **about), public)


def _votes() -> np.ndarray:
    rng = default_rng(1)
    votes = rng.multinomial(100, [0.7, 0.1, 0.1, 0.1], size=POOL)
    return votes[:, rng.permutation(CLASSES)]


def _ask_all(policy: Policy, sizes: list[int], probs: np.ndarray | None = None) -> Session:
    session = _session(policy, sizes)
    for number in range(len(sizes)):
        ask_first(session, _votes(), 100, probs if number else None)
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
    ask_first(session, np.tile([90, 5, 5], (20, 1)), 100)
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
def test_equal_votes_of_other_neighbours_are_another_release(rng: str) -> None:
    """Teachers that agree vote alike whatever the unit of privacy; else the first unit's words
    stood for both.
    """
    units = ["one label differs", "one record differs"]
    for neighbours in units:
        _key_where_teachers_agree(rng, neighbours=neighbours)
    ledger = Ledger("ledger.db")
    assert [entry.neighbours for entry in ledger.entries()] == units
    assert np.isinf(ledger.total("", 1e-5))


def test_what_might_have_followed_a_noisy_end_is_paid() -> None:
    """By enumeration: the second query is asked only if the first has no answer, and only its votes
    change.
    """
    mechanism = NoisyArgmax(GaussianNoise(20), screen=ThresholdScreen(30, 2))
    here, there = (np.array([[29, 11], last]) for last in ([28, 12], [27, 13]))
    delta = 1e-3
    for seed in range(100):
        policy = policy_of(mechanism, answers=1, delta=delta, seed=seed)
        session = _session(policy, [2], 2, dataset=f"data of {seed}")
        ask_first(session, here, 40)
        if len(session.rows) == 1:
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


def test_a_sanitised_epsilon_is_shared_by_equal_runs() -> None:
    """Of the system's noise labels are drawn once until they are kept; what was made of them is
    each run's own.
    """
    sessions = [
        _ask_all(policy_of(GAUSSIAN, budget, rng="system", bound="sanitised"), [POOL])
        for budget in (2, 2, None)
    ]
    first, again, other = (session.epsilon().sanitised for session in sessions)
    assert first == again != other


def test_a_published_bound_of_votes_is_a_release_of_its_own() -> None:
    """It takes its share of the budget, is recorded in the ledger, and takes the place of the other
    bound.
    """
    numbers = {}
    for bound in BOUNDS:
        session = _session(policy_of(GAUSSIAN, 2.0, bound=bound), [POOL], dataset=bound)
        ask_first(session, _votes(), 100)
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
    ask_first(session, np.full((POOL, CLASSES), 25), 100)
    assert session.answered <= 1
    spent = session.epsilon()
    asked = len(session.rows)
    without = nzc.audit(mechanism, 100, CLASSES, asked, 20_000, 1e-5, default_rng(0))
    assert spent.audited is not None and 0 < spent.audited < spent.published < without


INTERACTIVE = NoisyArgmax(
    GaussianNoise(10),
    screen=InteractiveScreen(40, 15, 0.9),
    first=NoisyArgmax(GaussianNoise(30), screen=ThresholdScreen(60, 20)),
)


def test_noise_of_sums_is_paid_or_nothing_leaves() -> None:
    """The shares of a round are at most what it costs, and a label that follows gives the price."""
    session = _session(policy_of(nzc.Sums(10)), [POOL])
    session.add_noise(np.zeros((2, 2), np.int64), 0.6)
    for _ in range(2):
        with raises(RuntimeError):
            session.charge()
        session.release(Stream.BASELINE, "", lambda rng: rng.normal(size=1), FREE, "another")
    with raises(RuntimeError):
        session.add_noise(np.zeros((2, 2), np.int64), 0.6)
    session.label(np.arange(POOL), np.zeros(POOL, np.int64), 100, CLASSES)
    session.charge()
    assert max(entry.mu for entry in Ledger("ledger.db").entries()) == approx(2 / 10)


def test_rounds_of_two_mechanisms_add_up() -> None:
    """Two routes: the sum of the rounds, and each round's own mechanism by itself."""
    probs = probabilities()
    one, two = _ask_all(policy_of(INTERACTIVE), [4, 6], probs).rounds
    orders = np.array([2.0, 8.0, 40.0])
    votes = _votes()
    by_hand = INTERACTIVE.first.exact(votes[one.rows]).total(orders)
    by_hand += INTERACTIVE.exact(votes[two.rows], probs[two.rows]).total(orders)
    assert_allclose((one.cost + two.cost).rdp(orders), by_hand, rtol=1e-12)


def test_a_student_reinforces_only_unanswered_queries() -> None:
    probs = np.full((POOL, CLASSES), 0.01)
    probs[:, 2] = 0.97
    probs[::2] = 1 / CLASSES
    session = _ask_all(policy_of(INTERACTIVE), [20, 20], probs)
    expected = session.labels.copy()
    silent = np.flatnonzero(expected[:40] == ABSTAIN)
    assert len(silent)
    expected[silent] = np.where(silent % 2, 2, ABSTAIN)
    rows = session.rows
    assert_array_equal(INTERACTIVE.reinforce(session.labels[rows], probs[rows]), expected[rows])


@parametrize("sizes", [[60], [20, 40]])
def test_asking_stops_after_so_many_answers(sizes: list[int]) -> None:
    mechanism = NoisyArgmax(GaussianNoise(20), screen=ThresholdScreen(60, 20))
    session = _ask_all(policy_of(mechanism, answers=7), sizes)
    assert (session.labels != ABSTAIN).sum() == 7
    assert session.labels[session.rows[-1]] != ABSTAIN  # the last row asked is the seventh answer
    once = mechanism.worst_case_epsilon(60, 1e-5, answers=7)  # against attacks: test_adaptive.py
    assert session.promise.epsilon == approx(once)
    assert once < gaussian(np.sqrt(60 / 20**2 + 7 * 2 / 20**2), 1e-5)


@parametrize(
    ("noise", "screen"), [(GaussianNoise(20), None), (LaplaceNoise(0.1), ThresholdScreen(60, 20))]
)
def test_a_budget_holds_over_all_rounds(
    noise: GaussianNoise | LaplaceNoise, screen: ThresholdScreen | None
) -> None:
    """Three rounds get as many labels as one round of all queries, and what the budget refuses
    stays unlabeled.
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
        assert (np.delete(session.labels, session.rows) == ABSTAIN).all()
        labels = np.concatenate([past.labels for past in session.rounds])
        assert_array_equal(session.labels[session.rows], labels)


def test_interactive_end_to_end(run_nzc: RunNzc) -> None:
    # Few queries are answered, and the student is sure of some of the others.
    ran = run_nzc(
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
    assert "Student of round 1/loss_labeled,0," in curves and "Student/loss_labeled,0," in curves


def test_a_budget_is_never_passed(run_nzc: RunNzc, histograms: Path) -> None:
    noise = ["aggregator.threshold=40", "aggregator.sigma1=20", "aggregator.sigma=20"]
    aggregator = ["aggregator=confident", *noise]
    whole = run_nzc(*FILE, *aggregator).result
    assert whole["refused"] == 0
    budget = whole["epsilon"]["data_independent"] / 2
    ran = run_nzc(*FILE, *aggregator, f"budget.epsilon={budget}")
    assert 0 < ran.result["refused"] < 40
    assert ran.result["epsilon"]["data_independent"] <= budget
    assert ran.result["queries"] == 40
    assert "not asked" in ran.out
