"""Plans agree with simulated runs, keep the budget, and name the option that is wrong."""

import shlex
from pathlib import Path

import numpy as np
import pytest
from conftest import Command

import nzc
from nzc.app.config import compose_run

#: Little noise: calibrated in an instant.
NEEDED = ["plan", "--teachers", "100", "--classes", "4", "--epsilon", "30"]


def _built(run: nzc.PlannedRun, teachers: int) -> nzc.NoisyArgmax:
    if run.aggregator == "sparse_stable":
        return nzc.SparseStable(int(run.settings["cutoff"]), teachers, 1e-5, run.settings["scale"])
    return {"gnmax": nzc.GNMax, "lnmax": nzc.LNMax}[run.aggregator](**run.settings)


@pytest.fixture(scope="module")
def public() -> tuple[np.ndarray, np.ndarray]:
    """Votes of 80 teachers on 60 public rows of 4 classes, easy and hard ones, and the classes."""
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 4, 60)
    others = rng.dirichlet([0.3, 0.3, 0.3, 0.3], 60) * rng.uniform(0, 0.7, (60, 1))
    shares = others + np.eye(4)[labels] * (1 - others.sum(axis=1, keepdims=True))
    return rng.multinomial(80, shares), labels


def test_a_plan_agrees_with_simulated_runs(public: tuple[np.ndarray, np.ndarray]) -> None:
    votes, labels = public
    plan = nzc.Plan(80, 4, epsilon=4, measured=public, queries=(12, 40))
    rng = np.random.default_rng(0)
    trials = 100
    names = ["gnmax", "lnmax", "sparse_stable"]
    assert [row.aggregator for row in plan.rows[::2]] == names
    assert [row.queries for row in plan.rows] == [12, 40] * 3
    for row in plan.rows:
        mechanism = _built(row, 80)
        rows = rng.integers(0, 60, (trials, row.queries))
        released = np.stack([mechanism.release(votes[asked], rng) for asked in rows])
        for mark, expected in ((released >= 0, row.labels), (released == labels[rows], row.right)):
            counts = mark.sum(axis=1)
            error = 5 * counts.std() / trials**0.5 + 1e-9
            assert abs(counts.mean() - expected) < error, row
        assert mechanism.worst_case_epsilon(row.queries, 1e-5, rough=True) <= 4


@pytest.mark.parametrize(("runner_up", "votes"), [(0.5, [70, 15, 8, 7]), (1, [70, 30, 0, 0])])
def test_one_number_of_agreement_means_one_histogram(runner_up: float, votes: list[int]) -> None:
    plan = nzc.Plan(100, 4, epsilon=0.5, agreement=0.7, runner_up=runner_up, queries=(10,))
    for row in plan.rows:
        released = _built(row, 100).release(np.tile(votes, (20_000, 1)), np.random.default_rng(0))
        assert row.accuracy == pytest.approx((released == 0).mean(), abs=5 * 0.5 / 20_000**0.5)


def test_the_recommended_run_keeps_the_budget_and_is_the_best_good_one() -> None:
    plan = nzc.Plan(400, 4, epsilon=0.3, queries=(40,))
    best = plan.recommended
    assert (best.aggregator, best.queries) == ("gnmax", 40)
    assert plan.is_good(best)
    assert not plan.warnings
    assert 0.3 * (1 - 1e-3) <= nzc.GNMax(**best.settings).worst_case_epsilon(40, 1e-5) <= 0.3
    assert best.right >= max(row.right for row in plan.rows if plan.is_good(row))


def test_a_weak_plan_is_warned_of() -> None:
    plan = nzc.Plan(2, 10, 8, agreement=0.94, queries=(9, 10), records=50_000, delta=1e-4)
    drowned, few, delta = plan.warnings
    assert "noise drowns the votes" in drowned
    assert "9 labels" in few
    assert "above 1/records = 2e-05" in delta


def test_the_command_shows_a_plan_and_what_to_type(command: Command) -> None:
    code, out, err = command(*NEEDED, "--queries", "8", "--delta", "1e-6")
    assert (code, err) == (0, "")
    typed = [text for text in out.splitlines() if text.startswith("nzc ")]
    for line, dataset in zip(typed, ("npz", "table"), strict=True):
        cfg = compose_run(shlex.split(line)[1:])
        assert cfg.aggregator.sigma is None
        assert (cfg.budget.epsilon, cfg.queries, cfg.delta) == (30.0, 8, 1e-6)
        assert (cfg.teachers.count, cfg.hydra.runtime.choices.dataset) == (100, dataset)


def test_agreement_is_measured_by_histograms_or_predictions(
    command: Command, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 30)
    predictions = np.where(rng.random((20, 30)) < 0.7, labels, rng.integers(0, 4, (20, 30)))
    votes = nzc.count_votes(predictions, 4)
    right = nzc.Plan(100, 4, 30, measured=(votes, labels), queries=(8,)).recommended.right
    np.save(tmp_path / "labels.npy", labels)
    np.save(tmp_path / "votes.npy", predictions)
    files = [f"{tmp_path}/votes.npy", f"{tmp_path}/labels.npy"]
    code, out, _ = command(*NEEDED, "--queries", "8", "--agreement-from", *files)
    assert code == 0 and f"{right:,.1f} right labels" in out
