"""Plans agree with simulated runs, keep the budget, and name the option that is wrong."""

import shlex

import numpy as np
from conftest import Command
from pytest import approx

import nzc
from nzc.app.config import compose_run

#: Little noise: calibrated in an instant.
NEEDED = ["plan", "--teachers", "100", "--classes", "4", "--epsilon", "30"]


def test_a_plan_agrees_with_simulated_runs() -> None:
    votes = np.tile([70, 15, 8, 7], (20_000, 1))
    plan = nzc.Plan(100, 4, epsilon=0.5, agreement=0.7, queries=(10, 40))
    assert [(row.aggregator, row.queries) for row in plan.rows] == [
        *[("gnmax", 10), ("gnmax", 40)],
        *[("lnmax", 10), ("lnmax", 40)],
    ]
    for row in plan.rows:
        mechanism = {"gnmax": nzc.GNMax, "lnmax": nzc.LNMax}[row.aggregator](**row.settings)
        released = mechanism.release(votes, np.random.default_rng(0))
        assert row.accuracy == approx((released == 0).mean(), abs=5 * 0.5 / 20_000**0.5)
        assert mechanism.worst_case_epsilon(row.queries, 1e-5, rough=True) <= 0.5


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
