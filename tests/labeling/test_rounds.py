"""Rounds of asking: which rows, on what policy, at what cost, and what the student adds itself."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import SMALL, TEACHERS, VOTES, Nzc
from hypothesis import given, settings
from hypothesis import strategies as st

import nzc
from nzc.accounting import sanitised
from nzc.accounting.data_independent import gaussian
from nzc.labeling.policy import LabelingPolicy
from nzc.labeling.query_selection import CHOICES, QuerySelection
from nzc.labeling.run_record import RunRecord
from nzc.labeling.session import LabelingSession
from nzc.mechanisms import ABSTAIN, GaussianNoise, InteractiveScreen, LaplaceNoise, NoisyArgmax, ThresholdScreen
from nzc.teachers import VoteHistograms
from nzc.validation import InputError

POOL, CLASSES = 60, 4


def _probabilities(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(CLASSES, 0.5), size=POOL)


@settings(deadline=None)
@given(st.sampled_from(CHOICES), st.integers(0, 40), st.integers(0, 5), st.booleans())
def test_what_is_chosen_is_left_and_never_asked_twice(choice: str, size: int, seed: int, student: bool) -> None:
    left = np.random.default_rng(seed).permutation(POOL)[:40]
    probs = _probabilities() if student else None
    rows = QuerySelection(choice, None).choose(left, size, probs, np.random.default_rng(seed), _probabilities(1))
    assert len(rows) == len(set(rows)) == size
    assert set(rows) <= set(left)


def test_balanced_takes_as_many_of_each_class_as_there_are() -> None:
    probs = np.eye(CLASSES)[np.repeat(np.arange(CLASSES), [40, 10, 8, 2])]
    rows = QuerySelection("balanced", None).choose(np.arange(POOL), 20, probs, np.random.default_rng(0))
    assert np.bincount(probs[rows].argmax(axis=1), minlength=CLASSES).tolist() == [6, 6, 6, 2]


def test_entropy_takes_the_least_certain() -> None:
    probs = _probabilities()
    rows = QuerySelection("entropy", None).choose(np.arange(POOL), 20, probs, np.random.default_rng(0))
    entropy = -(probs * np.log(probs)).sum(axis=1)
    assert entropy[rows].min() >= np.delete(entropy, rows).max()


@pytest.mark.parametrize(
    ("parts", "queries", "student", "asks", "sizes"),
    [
        (None, None, True, False, [60]),
        (None, 50, True, True, [25, 25]),
        (None, 50, False, True, [50]),
        (3, 50, True, False, [17, 17, 16]),
        ([10, 30], None, True, False, [10, 30]),
    ],
)
def test_sizes(parts: object, queries: int | None, student: bool, asks: bool, sizes: list[int]) -> None:
    assert QuerySelection("first", parts).sizes(queries, POOL, student, asks) == sizes


@pytest.mark.parametrize(
    ("arguments", "key", "allowed"),
    [
        (["query_choice=best"], "query_choice=best", "first, random, representative, balanced, entropy"),
        (["query_choice=entropy", "student=none"], "query_choice=entropy", "no student"),
        (["query_choice=balanced", "rounds=1"], "rounds=1", "2 or more"),
        (["rounds=0"], "rounds=0", "1 or more"),
        (["rounds=many"], "rounds=many", "whole number"),
        (["rounds={a: 1}"], "rounds={'a': 1}", "whole number"),
        (["rounds=[]"], "rounds=[]", "at least one"),
        (["rounds=[10,-1]"], "rounds.1=-1", "1 or more"),
        (["rounds=[300,101]"], "queries=401", "from 1 to 400"),
        (["rounds=[10,10]", "queries=10"], "queries=10", "sum of rounds"),
        (["rounds=11", "queries=10"], "rounds=11", "from 1 to 10"),
        (["rounds=2", "student=none"], "rounds=2", "no student"),
        (["aggregator=interactive", "aggregator.first.sigma=0"], "aggregator.first.sigma=0", "above 0"),
    ],
)
def test_bad_rounds(nzc: Nzc, arguments: list[str], key: str, allowed: str) -> None:
    ran = nzc(*TEACHERS, *arguments)
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert key in ran.err
    assert allowed in ran.err
    assert not list(ran.folder.iterdir())


def _policy(mechanism: NoisyArgmax, selection: QuerySelection, budget: float | None = None) -> LabelingPolicy:
    return LabelingPolicy(mechanism, selection, 0, 1e-5, budget, sanitised.plan, None, "it")


def _session(policy: LabelingPolicy, sizes: list[int]) -> LabelingSession:
    return LabelingSession(policy, sizes, POOL, _record(policy))


def _record(policy: LabelingPolicy, path: Path = Path("ledger.db"), dataset: str = "") -> RunRecord:
    return RunRecord(path, dataset, None, policy.rng, policy.seed, 1)


def _votes() -> VoteHistograms:
    rng = np.random.default_rng(1)
    return VoteHistograms(rng.multinomial(100, [0.7, 0.1, 0.1, 0.1], size=POOL)[:, rng.permutation(CLASSES)], 100)


def _ask_all(session: LabelingSession, probs: np.ndarray | None = None) -> LabelingSession:
    for number in range(len(session.sizes)):
        probs_now = probs if number else None
        session.ask(_votes(), session.choose(probs_now), probs_now)
    return session


@pytest.mark.parametrize("noise", [GaussianNoise(20), LaplaceNoise(0.1)])
def test_rounds_of_one_mechanism_cost_what_one_round_costs(noise: object) -> None:
    """Without a screen the cost does not depend on what is drawn: asking in parts must change nothing."""
    costs = []
    for parts in (1, 4):
        session = _ask_all(
            _session(_policy(NoisyArgmax(noise), QuerySelection("first", parts)), [POOL // parts] * parts)
        )
        costs.append(sum((asked.cost for asked in session.rounds[1:]), session.rounds[0].cost).epsilon(1e-5))
    assert costs[0].exact < costs[1].exact  # a later round may depend on an earlier one, which costs more to bound
    assert costs[0].theorem == pytest.approx(costs[1].theorem, rel=1e-9)
    assert costs[0].data_independent == pytest.approx(costs[1].data_independent, rel=1e-9)


def _interactive() -> NoisyArgmax:
    first = NoisyArgmax(GaussianNoise(30), screen=ThresholdScreen(60, 20))
    return NoisyArgmax(GaussianNoise(10), screen=InteractiveScreen(40, 15, 0.9), first=first)


def test_what_a_release_is_known_by_says_what_was_released() -> None:
    """A budget keeps what fits of what was drawn for all rows; who asks for so many rows alone draws other noise."""
    mechanism = NoisyArgmax(GaussianNoise(20), screen=ThresholdScreen(50, 20))
    some = _ask_all(_session(_policy(mechanism, QuerySelection("first", None), budget=1.0), [POOL])).rounds[0]
    alone = _ask_all(_session(_policy(mechanism, QuerySelection("first", None)), [len(some.rows)])).rounds[0]
    assert (some.rows == alone.rows).all() and (some.labels != alone.labels).any()
    assert some.key != alone.key
    again = _ask_all(_session(_policy(mechanism, QuerySelection("first", None)), [len(some.rows)])).rounds[0]
    assert again.key == alone.key


def test_equal_votes_on_other_rows_are_another_release(tmp_path: Path) -> None:
    """Two pools, or two orders of one pool, on which the teachers agree: each has noise and a cost of its own."""
    votes = VoteHistograms(np.tile([90, 5, 5], (20, 1)), 100)
    policy = replace(_policy(NoisyArgmax(GaussianNoise(20)), QuerySelection("first", None)), rng="system")
    pools = np.arange(40.0).reshape(20, 2), np.arange(40.0).reshape(20, 2) + 1, np.arange(40.0).reshape(20, 2)
    found = []
    for pool in pools:
        session = LabelingSession(policy, [20], 20, _record(policy, tmp_path / "ledger.db"), pool)
        found.append(session.ask(votes, session.choose()).key)
        session.record()
    assert found[0] == found[2] != found[1]
    assert len(session.ledger.ledger.entries()) == 2


@pytest.mark.parametrize("moved", [None, 2])
def test_where_noise_ends_the_asking_what_might_have_followed_is_paid(
    moved: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By enumeration: the second query is asked only if the first has no answer, and only its votes change."""
    monkeypatch.chdir(tmp_path)  # the ledger's
    mechanism = NoisyArgmax(GaussianNoise(20), screen=ThresholdScreen(30, 2)).moving(moved)
    here, there = (np.array([[29, 11], last]) for last in ([28, 12], [27, 13]))
    votes, delta = VoteHistograms(here, 40), 1e-3
    policy = replace(_policy(mechanism, QuerySelection("first", None)), answers=1, delta=delta)
    for seed in range(100):
        tried = replace(policy, seed=seed)
        session = LabelingSession(tried, [2], 2, _record(tried, dataset=f"data of {seed}"))
        if len(session.ask(votes, session.choose()).rows) == 1:
            break
    session.record()
    found = session.epsilon(votes)
    assert found.exact_lower is None and found.exact <= found.published and found.ledger_total is not None

    def law(votes: np.ndarray) -> np.ndarray:
        first, second = np.exp(mechanism.log_law(votes))
        return np.concatenate([first[:-1], first[-1] * second])

    for p, q in ((law(here), law(there)), (law(there), law(here))):
        for epsilon in (found.exact, found.ledger_total):
            assert np.maximum(p - np.exp(epsilon) * q, 0).sum() <= delta


def test_rounds_are_refused_where_a_record_moves_few_queries() -> None:
    policy = _policy(NoisyArgmax(GaussianNoise(20)).moving(2), QuerySelection("first", 2))
    with pytest.raises(InputError, match=r"^rounds=2: must be 1 where a record moves votes on a few queries"):
        _session(policy, [30, 30])

    policy = _policy(NoisyArgmax(GaussianNoise(20), first=nzc.GNMax(20).moving(2)), QuerySelection("first", 2))
    with pytest.raises(InputError, match=r"^rounds=2: must be 1 where a record moves votes on a few queries"):
        _session(policy, [30, 30])


def test_a_first_mechanism_that_counts_over_the_run_is_refused_in_rounds() -> None:
    first = nzc.SparseStable(cutoff=2, teachers=100, delta=1e-5)
    policy = _policy(NoisyArgmax(GaussianNoise(20), first=first), QuerySelection("first", 2))
    with pytest.raises(InputError, match=r"^rounds=2: must be 1: the cost of it counts over one round"):
        _session(policy, [30, 30])


def test_a_sanitised_epsilon_is_shared_by_runs_that_released_the_same(tmp_path: Path) -> None:
    """Of the system's noise labels are drawn once until they are kept; what was made of them is each run's own."""
    votes, ledger = _votes(), tmp_path / "ledger.db"
    found = {}
    for name, budget in (("budget", 2.0), ("again", 2.0), ("whole", None)):
        policy = _policy(NoisyArgmax(GaussianNoise(20)), QuerySelection("first", None), budget)
        policy = replace(policy, rng="system", publish="sanitised")
        session = LabelingSession(policy, [POOL], POOL, _record(policy, ledger))
        session.ask(votes, session.choose())
        found[name] = session.epsilon(votes).sanitised
    assert found["budget"] == found["again"] != found["whole"]


def test_an_audit_of_two_mechanisms_is_of_the_dearer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One query of the second could be told from hundreds of the first, which it is not asked."""
    first = NoisyArgmax(GaussianNoise(400), screen=ThresholdScreen(60, 1000))
    mechanism = NoisyArgmax(GaussianNoise(5), screen=InteractiveScreen(40, 20, 0.9), first=first)
    policy = replace(_policy(mechanism, QuerySelection("random", None)), audit_trials=2000)
    monkeypatch.chdir(tmp_path)  # the ledger's
    session = _ask_all(_session(policy, [59, 1]), _probabilities())
    parts = [asked.mechanism.audit(100, CLASSES, len(asked.rows), 2000, 1e-5, np.random.default_rng([0, 3]))
             for asked in session.rounds]  # fmt: skip
    assert session.epsilon(_votes()).audited in parts


@pytest.mark.parametrize("limit", [{"budget": 4.0}, {"answers": 1}], ids=str)
def test_an_audit_answers_no_more_than_the_run(
    limit: dict[str, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many queries are asked and at most one is answered, which the limit admits. An audit answers all it asks."""
    mechanism = NoisyArgmax(GaussianNoise(2), screen=ThresholdScreen(55, 10))
    policy = replace(_policy(mechanism, QuerySelection("first", None)), audit_trials=20_000, **limit)
    monkeypatch.chdir(tmp_path)  # the ledger's
    session, torn = _session(policy, [POOL]), VoteHistograms(np.full((POOL, CLASSES), 25), 100)
    assert session.ask(torn, session.choose()).answered <= 1
    without = mechanism.audit(100, CLASSES, len(session.rows), 20_000, 1e-5, np.random.default_rng(0))
    found = session.epsilon(torn)
    assert found.audited is not None and 0 < found.audited < found.published < without


def test_rounds_of_two_mechanisms_add_up() -> None:
    """Two routes: the sum of the rounds, and each round's own mechanism by itself."""
    probs, votes, delta = _probabilities(), _votes().votes, 1e-5
    session = _ask_all(_session(_policy(_interactive(), QuerySelection("random", None)), [20, 30]), probs)
    one, two = session.rounds
    assert (len(one.rows), len(two.rows)) == (20, 30)
    orders = np.array([2.0, 8.0, 40.0])
    first = _interactive().first
    assert first is not None
    by_hand = first.pricing.exact(votes[one.rows]).total(orders) + _interactive().pricing.exact(
        votes[two.rows], probs[two.rows]
    ).total(orders)
    np.testing.assert_allclose((one.cost + two.cost).rdp(orders), by_hand, rtol=1e-12)
    most = 20 / 20**2 + 20 * 2 / 30**2 + 30 / 15**2 + 30 * 2 / 10**2  # all queries answered
    assert (one.cost + two.cost).epsilon(delta).data_independent == pytest.approx(gaussian(np.sqrt(most), delta))
    assert session.promised == pytest.approx(gaussian(np.sqrt(most), delta))


def test_a_student_reinforces_only_what_was_asked_and_not_answered() -> None:
    probs = np.full((POOL, CLASSES), 0.01)
    probs[:, 2] = 0.97
    probs[::2] = 1 / CLASSES
    session = _ask_all(_session(_policy(_interactive(), QuerySelection("first", None)), [20, 20]), probs)
    taught, released = session.training_labels(probs), session.released
    assert (taught[released != ABSTAIN] == released[released != ABSTAIN]).all()
    silent = np.flatnonzero(released[:40] == ABSTAIN)
    assert len(silent)
    assert (taught[silent] == np.where(silent % 2, 2, ABSTAIN)).all()
    assert (taught[40:] == ABSTAIN).all()


@pytest.mark.parametrize("budget", [0.8, 1.5, 3.0])
def test_a_budget_holds_over_all_rounds(budget: float) -> None:
    probs = _probabilities()
    session = _ask_all(_session(_policy(_interactive(), QuerySelection("first", None), budget), [20, 40]), probs)
    one, two = (each.mechanism.promise(len(each.rows), each.answered) for each in session.rounds)
    assert (one + two).data_independent(1e-5) <= budget
    assert session.promised == budget


@pytest.mark.parametrize("sizes", [[60], [20, 40]])
def test_asking_stops_after_so_many_answers(sizes: list[int]) -> None:
    mechanism = NoisyArgmax(GaussianNoise(20), screen=ThresholdScreen(60, 20))
    policy = replace(_policy(mechanism, QuerySelection("first", None)), answers=7)
    session = _ask_all(_session(policy, sizes))
    assert sum(each.answered for each in session.rounds) == 7
    assert session.released[session.rows[-1]] != ABSTAIN  # the last row asked is the seventh answer
    assert session.promised == pytest.approx(gaussian(np.sqrt(60 / 20**2 + 7 * 2 / 20**2), 1e-5))


def test_a_published_bound_that_depends_on_votes_is_a_release_of_its_own(tmp_path: Path) -> None:
    """It takes its share of the budget, is recorded in the ledger, and takes the place of the other bound."""
    votes, ledger, found = _votes(), tmp_path / "ledger.db", {}
    for publish in ("data_independent", "sanitised"):
        policy = replace(_policy(NoisyArgmax(GaussianNoise(20)), QuerySelection("first", None), 2.0), publish=publish)
        session = LabelingSession(policy, [POOL], POOL, _record(policy, ledger, publish))
        session.ask(votes, session.choose())
        session.record()
        found[publish] = session.epsilon(votes), len(session.rows), len(session.ledger.ledger.entries(publish))
    (plain, many, one), (sanitised, few, two) = found.values()
    assert (one, two) == (1, 2) and few < many
    assert plain.sanitised is None and plain.published == plain.data_independent <= 2
    assert sanitised.published == sanitised.sanitised
    assert {each for each, value in vars(sanitised.public("sanitised")).items() if value is not None} == {
        "published", "sanitised",
    }  # fmt: skip


def test_a_budget_needs_one_unit() -> None:
    mixed = NoisyArgmax(LaplaceNoise(0.05), first=NoisyArgmax(GaussianNoise(40)))
    with pytest.raises(InputError, match=r"budget\.epsilon=50"):
        _session(_policy(mixed, QuerySelection("first", 2), 50), [20, 20])


def test_interactive_end_to_end(nzc: Nzc) -> None:
    interactive = ["aggregator=interactive", "aggregator.threshold=3", "aggregator.sigma1=1", "aggregator.sigma=1"]
    ran = nzc(*SMALL, *interactive, "aggregator.confidence=0.5", "queries=200")
    assert ran.code == 0, ran.err
    result = ran.result
    assert [each["asked"] for each in result["rounds"]] == [100, 100]
    assert sum(each["answered"] for each in result["rounds"]) == result["answered"] < 200
    each = [part["epsilon"] for part in result["rounds"]]
    assert max(each) < result["epsilon"]["exact"] < sum(each)
    assert result["reinforced"] > 0
    assert result["answered"] + result["reinforced"] <= 200
    assert result["accuracy_interval"][0] < result["accuracy"] < result["accuracy_interval"][1]
    again = nzc(*SMALL, *interactive, "aggregator.confidence=0.5", "queries=200").result
    assert again["epsilon"] == result["epsilon"]  # the ledger's total too: the same labels cost nothing again
    curves = next(ran.folder.glob("outputs/*/*/student.csv")).read_text()
    assert "Student of round 1/loss_labelled,0," in curves
    assert "Student/loss_labelled,0," in curves


@pytest.mark.parametrize("choice", ["random", "balanced", "entropy"])
def test_choices_end_to_end(nzc: Nzc, choice: str) -> None:
    ran = nzc(*SMALL, f"query_choice={choice}", "queries=60", "rounds=[40,20]")
    assert ran.code == 0, ran.err
    assert (ran.result["queries"], ran.result["answered"]) == (60, 60)


def test_without_a_label_there_is_no_student_and_all_else_is_whole(nzc: Nzc) -> None:
    never = ["aggregator=confident", "aggregator.threshold=12", "aggregator.sigma1=1", "aggregator.sigma=1"]
    ran = nzc(*SMALL, *never, "queries=50", "rounds=2")
    assert ran.code == 0
    assert "no label was released" in ran.err
    assert ran.result["answered"] == 0
    assert ran.result["accuracy"] is None
    assert ran.result["label_accuracy"] is None
    assert ran.result["epsilon"]["exact"] > 0


def test_interactive_without_a_student_is_one_round(nzc: Nzc, histograms: object) -> None:
    result = nzc(*VOTES, "teachers.path=votes.npy", "aggregator=interactive", "aggregator.threshold=30").result
    assert len(result["rounds"]) == 1
