"""Plans: they agree with simulated runs, keep the budget, and say in one line what is wrong with
their input.
"""

import re
import shlex
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from conftest import VOTES, Command, Nzc

import nzc
from nzc.app.config import compose_run

NEEDED = [
    "plan",
    "--teachers",
    "100",
    "--classes",
    "4",
    "--epsilon",
    "30",
]  # little noise: calibrated in an instant
QUICK = [*NEEDED, "--queries", "8"]


def _built(run: nzc.PlannedRun, teachers: int) -> nzc.NoisyArgmax:
    if run.aggregator == "sparse_stable":
        return nzc.SparseStable(teachers=teachers, delta=1e-5, **run.settings)  # type: ignore[arg-type]
    return {"gnmax": nzc.GNMax, "lnmax": nzc.LNMax}[run.aggregator](**run.settings)


@cache
def _public(teachers: int) -> tuple[np.ndarray, np.ndarray]:
    """Votes on 60 public rows of 4 classes, easy ones and hard ones, and the rows' classes."""
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 4, 60)
    others = rng.dirichlet([0.3, 0.3, 0.3, 0.3], 60) * rng.uniform(0, 0.7, (60, 1))
    shares = others + np.eye(4)[labels] * (1 - others.sum(axis=1, keepdims=True))
    return np.stack([rng.multinomial(teachers, share) for share in shares]), labels


def test_a_plan_agrees_with_simulated_runs() -> None:
    votes, labels = _public(80)
    plan = nzc.Plan(80, 4, epsilon=4, measured=(votes, labels), queries=(12, 40))
    rng, trials = np.random.default_rng(0), 200
    assert [(row.aggregator, row.queries) for row in plan.rows] == [
        (name, queries) for name in ("gnmax", "lnmax", "sparse_stable") for queries in (12, 40)
    ]
    for row in plan.rows:
        mechanism, counts = _built(row, 80), []
        for _ in range(trials):
            rows = rng.integers(0, 60, row.queries)
            released = mechanism.release(votes[rows], rng)
            counts.append([(released >= 0).sum(), (released == labels[rows]).sum()])
        error = 5 * np.std(counts, axis=0) / trials**0.5 + 1e-9
        assert (np.abs(np.mean(counts, axis=0) - [row.labels, row.right]) < error).all(), row
        assert mechanism.worst_case_epsilon(row.queries, 1e-5, rough=True) <= 4


@pytest.mark.parametrize(
    ("runner_up", "votes"), [(0.5, [70, 15, 8, 7]), (0, [70, 10, 10, 10]), (1, [70, 30, 0, 0])]
)
def test_one_number_of_agreement_means_one_histogram(runner_up: float, votes: list[int]) -> None:
    for row in nzc.Plan(
        100, 4, epsilon=0.5, agreement=0.7, runner_up=runner_up, queries=(10,)
    ).rows:
        released = _built(row, 100).release(np.tile(votes, (20_000, 1)), np.random.default_rng(0))
        assert row.accuracy == pytest.approx((released == 0).mean(), abs=5 * 0.5 / 20_000**0.5)


def test_the_recommended_run_keeps_the_budget_and_is_the_best_good_one() -> None:
    plan = nzc.Plan(400, 4, epsilon=0.3, queries=(40,))
    best = plan.recommended
    assert (
        (best.aggregator, best.queries) == ("gnmax", 40)
        and plan.is_good(best)
        and not plan.warnings
    )
    assert 0.3 * (1 - 1e-3) <= nzc.GNMax(**best.settings).worst_case_epsilon(40, 1e-5) <= 0.3
    assert best.right >= max(row.right for row in plan.rows if plan.is_good(row))


def test_a_weak_plan_is_warned_of() -> None:
    drowned, few, delta = nzc.Plan(
        2, 10, 8, agreement=0.94, queries=(9, 10), records=50_000, delta=1e-4
    ).warnings
    assert (
        "noise drowns the votes" in drowned
        and "9 labels" in few
        and "above 1/records = 2e-05" in delta
    )


def test_the_command_shows_a_plan_and_what_to_type(command: Command) -> None:
    code, out, err = command(*QUICK, "--delta", "1e-6")
    assert code == 0 and not err and "→" in out
    for line, dataset in zip(
        [line for line in out.splitlines() if line[:4] == "nzc "], ("npz", "table"), strict=True
    ):
        cfg = compose_run(shlex.split(line)[1:])
        assert (cfg.aggregator.sigma, cfg.budget.epsilon, cfg.queries, cfg.delta) == (
            None,
            30.0,
            8,
            1e-6,
        )
        assert (cfg.teachers.count, cfg.hydra.runtime.choices.dataset) == (100, dataset)


def test_a_run_says_what_its_plan_says(nzc: Nzc, histograms: Path, command: Command) -> None:
    """Before training, in result.json, and afterwards as the cause."""
    noise = ["aggregator.sigma=null", "budget.epsilon=0.01", "queries=20"]
    ran = nzc(*VOTES, f"teachers.path={histograms}", *noise)
    planned = command(
        "plan", "--teachers", "50", "--classes", "4", "--epsilon", "0.01", "--queries", "20"
    )
    share = re.search(r"drowns the votes: ([\d.]+) %", planned[2])
    before, *after = ran.result["warnings"]
    assert share and before.startswith(f"noise drowns the votes: {share[1]} % ")
    assert f"nzc: {before}" in ran.err
    assert all("fewer queries" in line for line in after)
    assert not nzc(*VOTES, f"teachers.path={histograms}", "aggregator.sigma=5").result["warnings"]


def test_agreement_is_measured_by_histograms_or_predictions(
    command: Command, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 30)
    predictions = np.where(rng.random((20, 30)) < 0.7, labels, rng.integers(0, 4, (20, 30)))
    for name, array in (("p", predictions), ("v", nzc.count_votes(predictions, 4)), ("y", labels)):
        np.save(tmp_path / f"{name}.npy", array)
    measured = [
        [
            *NEEDED,
            "--queries",
            "50",
            "--agreement-from",
            *(f"{tmp_path}/{name}.npy" for name in "py"),
        ]
    ]
    measured += [[*measured[0][:-2], f"{tmp_path}/v.npy", f"{tmp_path}/y.npy"]]
    first, second = (command(*arguments) for arguments in measured)
    assert (
        first == second
        and first[0] == 0
        and "sparse_stable" in first[1]
        and "as measured" in first[1]
    )
