"""Noise that nobody typed: the run finds the noise that spends the budget, and says what it chose."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import presets
import pytest
from conftest import VOTES, Nzc, tracked_runs
from dp_accounting.pld import privacy_loss_distribution as pld
from mlflow import MlflowClient
from omegaconf import DictConfig, OmegaConf

import nzc as library
from nzc.app.build import build
from nzc.app.components import build_policy
from nzc.app.config import compose_run
from nzc.labeling.bound import Promise

FILE = [*VOTES, "teachers.path=votes.npy"]


@pytest.mark.usefixtures("histograms")
@pytest.mark.parametrize(
    "aggregator", [["aggregator=gnmax", "aggregator.sigma=null"], ["aggregator=sparse_stable"]]
)
def test_the_noise_spends_the_budget(nzc: Nzc, aggregator: list[str]) -> None:
    ran = nzc(*FILE, *aggregator, "queries=20", "budget.epsilon=0.5")
    assert ran.result["refused"] == 0
    assert 0.5 * (1 - 1e-3) <= ran.result["epsilon"]["published"] <= 0.5
    key = aggregator[-1].removesuffix("=null") if len(aggregator) == 2 else "aggregator.scale"
    assert ran.err.startswith(f"nzc: {key}=") and "20 queries then cost at most ε = 0.5" in ran.err
    chosen = float(ran.err.split("=")[1].split(":")[0])
    again = nzc(*FILE, aggregator[0], f"{key}={chosen}", "queries=20")  # printed with six digits
    assert again.result["epsilon"]["published"] == pytest.approx(0.5, rel=2e-3)


@pytest.mark.usefixtures("histograms")
def test_a_run_of_votes_says_what_is_paid_for_and_has_an_experiment_of_its_own(nzc: Nzc) -> None:
    screen = [
        "aggregator=confident",
        "aggregator.threshold=30",
        "aggregator.sigma1=5",
        "aggregator.sigma=20",
    ]
    ran = nzc(*FILE, *screen, "queries=40", "answers=2", "tracking=mlflow")
    assert ran.result["answered"] == 2 <= 40 - ran.result["refused"] < 40
    assert f"{ran.result['refused']} more were not asked, but are paid for" in ran.out
    assert "all releases" not in ran.out  # seeded noise is a trial
    asked = nzc(*FILE, "aggregator=gnmax", "queries=40", "answers=2").out
    assert "38 more were not asked: the budget or the answers were used up" in asked
    client = MlflowClient(f"sqlite:///{ran.folder}/mlflow.db")
    assert [run.data.params["dataset"] for run in tracked_runs(client)] == ["none"]
    assert (
        client.get_experiment_by_name("votes") is not None
        and client.get_experiment_by_name("none") is None
    )


#: A budget, and the queries that are to spend it.
EPSILON, QUERIES = 0.5, 20
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
    promise = Promise(build_policy(cfg, build(cfg, "teachers"), lambda: 40), [*sizes])
    return cfg.aggregator, promise.epsilon


def _gaussian(*shifts: float) -> float:
    """ε of Gaussian noise at mean shifts, in deviations, for each of the queries: by dp-accounting."""
    mechanism = partial(pld.from_gaussian_mechanism, value_discretization_interval=1e-4)
    whole = mechanism(1 / float(np.sqrt(QUERIES * np.square(shifts).sum())))
    return float(whole.get_epsilon_for_delta(1e-5))


def _laplace(shift: float) -> float:
    """ε of Laplace noise of which two counts move by `shift` scales, for each of the queries, as
    dp-accounting has it.

    By randomised response, which is the worst of what is as private as they are.
    """
    response = 2 / (1 + np.exp(shift))
    one = pld.from_randomized_response(response, 2, value_discretization_interval=1e-5)
    return float(one.self_compose(2 * QUERIES).get_epsilon_for_delta(1e-5))


@pytest.mark.parametrize(
    ("aggregator", "other_route", "gap"),
    [
        ("gnmax", lambda a: _gaussian(2**0.5 / a.sigma), 0.4),
        ("confident", lambda a: _gaussian(2**0.5 / a.sigma, 1 / a.sigma1), 0.4),
        ("interactive", lambda a: _gaussian(2**0.5 / a.sigma, 1 / a.first.sigma1), 0.4),
        ("stable", lambda a: _gaussian(1 / a.sigma1), 0.4),
        ("counts", lambda a: _laplace(a.gamma), 0.01),
        ("counts_gaussian", lambda a: _gaussian(2**0.5 / a.sigma), 0.001),
        ("nzc", lambda a: _laplace(a.c * a.gamma), 0.01),
        ("nzc_gaussian", lambda a: _gaussian(2**0.5 * a.c / a.sigma), 0.001),
    ],
)  # fmt: skip
def test_noise_that_nobody_typed_follows_from_the_budget(
    aggregator: str, other_route: Callable[[Any], float], gap: float
) -> None:
    """Of every aggregator, all queries together spend it; what another library says of the same
    noise is no less.

    It is more by `gap` at most where the label or the bit of a screen tells less than the noisy
    counts.
    """
    found, promised = _promised(f"aggregator={aggregator}")
    assert EPSILON * (1 - 2e-3) <= promised <= EPSILON
    assert promised * (1 - 1e-3) <= other_route(found) <= promised * (1 + gap) + 1e-3


def test_every_preset_leaves_its_noise_to_a_budget() -> None:
    noise = ("sigma", "gamma", "sigma1", "scale")
    for name in presets.NAMES:
        settings = {
            "delta": 1e-5,
            "budget": {"epsilon": 1},
            "aggregator": OmegaConf.load(presets.FOLDER / f"{name}.yaml"),
        }
        free = OmegaConf.create(settings).aggregator
        assert all(free[key] is None for key in noise if key in free), name
        settings["budget"] = {"epsilon": None}
        typed = OmegaConf.create(settings).aggregator
        assert all(
            typed[key] is not None for key in noise if key in typed and name != "sparse_stable"
        ), name


def test_noise_beside_that_of_a_budget_keeps_the_proportion_of_the_preset() -> None:
    suits = OmegaConf.create(
        {"confident": {"sigma1": 30, "sigma": 15}, "stable": {"threshold": 20, "sigma1": 3}}
    )
    for name, key, beside, usual in (
        ("confident", "sigma1", "sigma", 150 / 40), ("confident", "sigma1", "sigma", 30 / 15),
        ("stable", "threshold", "sigma1", 80 / 12), ("stable", "threshold", "sigma1", 20 / 3),
    ):  # fmt: skip
        dataset = {"suits": suits} if usual in (30 / 15, 20 / 3) else {}
        preset = OmegaConf.load(presets.FOLDER / f"{name}.yaml")
        cfg = OmegaConf.create(
            {"budget": {"epsilon": None}, "dataset": dataset, "aggregator": preset}
        )
        assert cfg.aggregator[key] / cfg.aggregator[beside] == usual
        alone = cfg.aggregator[key]
        cfg.aggregator[beside] = 7  # as one types it, or as a budget decides it
        assert cfg.aggregator[key] == alone
        cfg.budget.epsilon = 1
        assert cfg.aggregator[key] == pytest.approx(7 * usual)


def test_noise_that_was_typed_stays() -> None:
    found, promised = _promised("aggregator=confident", "aggregator.sigma1=300")
    assert found.sigma1 == 300 and EPSILON * (1 - 2e-3) <= promised <= EPSILON
    assert _promised("aggregator=gnmax", "aggregator.sigma=30")[0].sigma == 30


def test_a_sanitised_bound_and_two_rounds_spend_the_budget_too() -> None:
    _, promised = _promised(
        "aggregator=interactive", "rounds=[8,12]", "bound=sanitised", sizes=(8, 12)
    )
    assert EPSILON * (1 - 5e-3) <= promised <= EPSILON


def test_all_rows_that_can_be_asked_or_all_rounds_share_the_budget() -> None:
    rounds, rows = (_promised("queries=null", *words)[0].sigma for words in (["rounds=[8,12]"], []))
    assert rows == pytest.approx(rounds * 2**0.5, rel=0.02)  # 40 rows, 20 in rounds


def test_noise_that_makes_delta_dear_is_found_where_any_is_enough() -> None:
    """Stable at a fixed threshold: less noise costs ε, more noise uses up δ."""
    costs = {
        sigma: library.Stable(80, sigma).worst_case_epsilon(100, 1e-5)
        for sigma in np.linspace(14, 15.2, 25)
    }
    least = min(costs.values())
    sigma = library.calibrate(partial(library.Stable, threshold=80), 1.02 * least, 1e-5, 100)
    assert library.Stable(80, sigma).worst_case_epsilon(100, 1e-5) <= 1.02 * least
    with pytest.raises(library.InputError, match=r"must be above 2\.2"):
        library.calibrate(partial(library.Stable, threshold=80), 0.97 * least, 1e-5, 100)


def test_one_budget_means_the_same_in_rows_in_the_body_of_a_sweep_and_in_python(
    nzc: Nzc, histograms: Path
) -> None:
    Path("sweeps").mkdir()
    rows = "[{name: free, set: ['aggregator=gnmax,confident']}, {name: typed, set: [aggregator.sigma=9]}]"
    text = "# @package _global_\nhydra: {mode: MULTIRUN}\nbudget: {epsilon: 1}\nqueries: 10\nsweep:\n  rows: "
    Path("sweeps/mine.yaml").write_text(f"{text}{rows}")
    Path("sweeps/body.yaml").write_text(f"{text}[{{name: typed}}]\naggregator: {{sigma: 9}}")
    ran = nzc("+sweeps=mine", *FILE)
    *free, typed = [(result["epsilon"]["published"], result["refused"]) for result in ran.results]
    assert all(0.99 <= epsilon <= 1 and not refused for epsilon, refused in free) and len(free) == 2
    assert typed[0] <= 1 and typed[1] > 0
    assert len(re.findall("10 queries then cost at most ε = 1", ran.err)) == 2
    body = nzc("+sweeps=body", *FILE).result
    assert (body["epsilon"]["published"], body["refused"]) == typed
    settings = {
        "teachers": "votes",
        "teachers.path": "votes.npy",
        "dataset": "none",
        "student": "none",
    }
    jobs = library.sweep(
        settings, tracking="none", queries=10, budget={"epsilon": 1}, aggregator=["gnmax"]
    )
    assert [*jobs["epsilon.published"]] == [free[0][0]]
