"""Noise that nobody typed: the run finds the noise that spends the budget, and says so."""

from pathlib import Path

import presets
import pytest
from conftest import FILE, RunNzc, parametrize, write
from omegaconf import DictConfig
from pytest import approx

import nzc
from nzc.app.build import build
from nzc.app.components import build_policy
from nzc.app.config import compose_run
from nzc.privacy.promise import Promise

#: A budget, and the queries that are to spend it.
EPSILON = 0.5
QUERIES = 20
SETTINGS = [
    f"budget.epsilon={EPSILON}",
    f"queries={QUERIES}",
    "dataset=none",
    "teachers=votes",
    "tracking=none",
]


def _promised(*words: str, sizes: tuple[int, ...] = (QUERIES,)) -> tuple[DictConfig, float]:
    """The aggregator of a run, with its noise, and the ε that the run promises. It has 40 rows to
    ask.
    """
    cfg = compose_run([*SETTINGS, "teachers.path=votes.npy", *words])
    promise = Promise.of(build_policy(cfg, build(cfg, "teachers"), lambda: 40), [*sizes])
    return cfg.aggregator, promise.epsilon


@parametrize("aggregator", sorted({*presets.NAMES} - {"ground_truth", "plurality", "sums"}))
def test_noise_that_nobody_typed_follows_from_the_budget(aggregator: str) -> None:
    """All queries together spend it; whether their price is right: tests/accounting."""
    _, promised = _promised(f"aggregator={aggregator}")
    assert EPSILON * (1 - 2e-3) <= promised <= EPSILON


def test_noise_that_was_typed_stays() -> None:
    found, promised = _promised("aggregator=confident", "aggregator.sigma1=300")
    assert found.sigma1 == 300 and EPSILON * (1 - 2e-3) <= promised <= EPSILON


@pytest.mark.slow
def test_a_sanitised_bound_and_two_rounds_spend_the_budget_too() -> None:
    _, promised = _promised(
        "aggregator=interactive", "rounds=[8,12]", "bound=sanitised", sizes=(8, 12)
    )
    assert EPSILON * (1 - 5e-3) <= promised <= EPSILON


def test_all_rows_or_all_rounds_share_the_budget() -> None:
    settings = ["aggregator=counts_gaussian", "queries=null"]
    rounds = _promised(*settings, "rounds=[8,12]")[0].sigma
    rows = _promised(*settings)[0].sigma
    assert rows == approx(rounds * 2**0.5, rel=0.02)  # 40 rows, 20 in rounds


def test_one_budget_means_the_same_wherever_it_is_typed(run_nzc: RunNzc, histograms: Path) -> None:
    """And is spent by the noise that the run says it found, typed as it says, with six digits."""
    body = "# @package _global_\nhydra: {mode: MULTIRUN}\nbudget: {epsilon: 1}\nqueries: 10\n"
    body += "defaults: [override /aggregator: counts_gaussian]\n"
    rows = "[{set: []}, {set: [aggregator.sigma=9]}]"
    write("sweeps/rows.yaml", f"{body}sweep: {{rows: {rows}}}")
    write("sweeps/body.yaml", f"{body}aggregator: {{sigma: 9}}")
    ran = run_nzc("+sweeps=rows", *FILE)
    found, typed = [(run["epsilon"]["published"], run["refused"]) for run in ran.results]
    assert 1 - 1e-3 <= found[0] <= 1 and found[1] == 0
    chosen = ran.err.split()[1].removesuffix(":")
    assert typed[0] <= 1 and typed[1] > 0
    alone = run_nzc("+sweeps=body", *FILE).result
    assert (alone["epsilon"]["published"], alone["refused"]) == typed
    settings = [*FILE, "tracking=none", "queries=10", "budget.epsilon=1"]
    jobs = nzc.sweep([*settings, "aggregator=counts_gaussian"])
    assert [*jobs["epsilon.published"]] == [found[0]]
    words = ["queries=10", "aggregator=counts_gaussian", chosen, "hydra.run.dir=outputs/then"]
    again = run_nzc(*FILE, *words).result["epsilon"]["published"]
    assert again == approx(found[0], rel=2e-3)
