"""Plans agree with simulated runs, and keep the budget."""

import numpy as np
from pytest import approx

import nzc


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


def test_the_recommended_run_is_the_best_within_the_budget() -> None:
    plan = nzc.Plan(400, 4, epsilon=0.3, queries=(40,))
    best = plan.recommended
    assert (best.aggregator, best.queries) == ("gnmax", 40)
    assert plan.is_good(best)
    assert not plan.warnings
    assert 0.3 * (1 - 1e-3) <= nzc.GNMax(**best.settings).worst_case_epsilon(40, 1e-5) <= 0.3
    assert best.right >= max(row.right for row in plan.rows if plan.is_good(row))
