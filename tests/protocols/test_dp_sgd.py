"""DP-SGD: how far one unit moves a step, what its noise costs, and what the baseline leaves."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from brute import gaussian_leak
from conftest import Command, RunNzc, newest_folder, parametrize, tracked_runs
from few_labels import clouds
from numpy.random import default_rng
from pytest import approx
from torch import nn

from nzc.privacy.ledger import Ledger
from nzc.protocols.dp_sgd import DPSGD, LARGEST_RATE, STEPS, Scaled, gradients

QUICK = ["trainer.progress=false", "trainer.accelerator=cpu", "baseline=true"]


@parametrize("scale", [1e-3, 1.0, 1e3])
@parametrize("grouped", [False, True])
def test_one_unit_moves_a_step_by_two_at_most_and_nearly_so_much(
    scale: float, grouped: bool
) -> None:
    """One record is replaced; or all records of a group, by more or fewer. Rows have any length."""
    rng = default_rng(0)
    moved = []
    for trial in range(100):
        rest_x = scale * rng.normal(size=(29, 4))
        rest_y = rng.integers(0, 3, 29)
        weights = rng.normal(size=(4, 3)) * (trial > 0)
        steps = []
        for label in (0, 1):
            size = int(rng.integers(1, 9)) if grouped else 1
            x = scale * rng.normal(size=(size, 4))
            y = rng.integers(0, 3, size)
            if trial == 0:  # opposite directions, which the wrong class makes largest
                x[:] = 1e4
                y[:] = label
            groups = np.append(np.arange(29) // 5, [9] * size) if grouped else None
            rows = np.append(rest_x, x, axis=0)
            steps.append(gradients(rows, np.append(rest_y, y), groups, weights))
        moved.append(np.linalg.norm(steps[0] - steps[1]))
    assert 1.5 < max(moved) <= 2 + 1e-9


@parametrize(("epsilon", "delta"), [(0.01, 1e-5), (1, 1e-6), (30, 1e-5)])
def test_the_noise_of_all_steps_keeps_epsilon_and_wastes_nothing(
    epsilon: float, delta: float
) -> None:
    """T Gaussian releases of sensitivity 2 have μ = 2√T/s."""
    mu = 2 * STEPS**0.5 / DPSGD.at(epsilon, delta, 1000).noise
    assert 0.5 * delta < gaussian_leak(mu, epsilon) <= delta


def test_what_is_learned_has_the_noise_of_all_steps() -> None:
    """Of rows without any feature noise alone is learned: its variance is that of the price."""
    units = 1000
    learner = DPSGD.at(1.0, 1e-5, units)
    x = np.zeros((5, 40))
    learned = learner.learn(x, np.zeros(5, np.int64), None, 50, default_rng(0))
    rate = min(LARGEST_RATE, learner.mu * units / (2 * STEPS)) / units
    # Of one step's noise, so much is in the mean of the last half.
    shares = np.minimum(1, (STEPS - np.arange(STEPS)) / (STEPS // 2))
    expected = rate * 2 * STEPS**0.5 / learner.mu * np.linalg.norm(shares)
    assert learned.std() == approx(expected, rel=0.1)


def test_a_row_that_has_no_finite_place_has_no_features() -> None:
    rows = torch.tensor([[-torch.inf, 2], [torch.nan, 2], [9, 2]])
    features = Scaled(nn.Flatten(), default_rng(0).random((50, 2), np.float32))(rows)
    assert features.norm(dim=1).tolist() == approx([0.5, 0.5, 1.25**0.5])


def test_a_baseline_has_the_same_promise(run_nzc: RunNzc) -> None:
    """Data, unit and ε are those of the run with labels.

    The ledger is charged.
    """
    data, y = clouds(1500, 0, 2)
    np.savez("table.npz", x=data.x, y=y, group=default_rng(0).permutation(1500) // 2)
    given = ["dataset=npz", "dataset.path=table.npz", "budget.epsilon=1", "recipe=near_zero"]
    given += [*QUICK, "student=linear"]
    run_nzc(*given, "baseline=false")
    ran = run_nzc(*given, "tracking=mlflow")
    first, second = ran.results
    for key in ("dataset", "data", "delta", "unit", "grouped_by", "seed"):
        assert first[key] == second[key]
    assert (second["aggregator"], second["answered"], second["unit"]) == ("dp_sgd", 0, "group")
    promised = second["epsilon"]["published"]
    assert first["epsilon"]["published"] == promised == approx(1, rel=1e-3)
    assert second["epsilon"]["published_delta"] == second["delta"] and second["accuracy"] > 0.85
    ledger = Ledger(Path(".nzc/ledger.db"))
    entries = ledger.entries()
    assert [entry.description for entry in entries] == [first["mechanism"], second["mechanism"]]
    assert ledger.total(entries[0].dataset, 1e-5) > 1.2
    (run,) = tracked_runs()
    assert (run.data.metrics["epsilon"], run.data.metrics["accuracy"]) == (1, second["accuracy"])


FLATTEN = ["representation=pretrained", "representation.encoder.model={_target_: torch.nn.Flatten}"]
MLP = ["dataset.network=mlp", "representation.encoder.steps=5", "representation.copies=2"]


@parametrize(
    ("side", "representation"), [pytest.param(16, MLP, marks=pytest.mark.slow), (8, FLATTEN)]
)
def test_the_model_of_a_representation_is_exported_whole(
    run_nzc: RunNzc, command: Command, side: int, representation: list[str]
) -> None:
    """From images of the user's file to the same probabilities: by encoder, by diffusion map."""
    data, y = clouds(400, 0, 2, (1, side, side))
    x = np.clip(20 * data.x + 100, 0, 255).astype(np.uint8)
    role = np.repeat(["private", "public", "test"], [240, 120, 40])
    np.savez("rows.npz", x=x, y=y, role=role)
    given = ["recipe=near_zero", "dataset=npz", "dataset.path=rows.npz", "dataset.classes=2"]
    ran = run_nzc(*given, "budget.epsilon=20", *QUICK, *representation)
    assert ran.result["accuracy"] > 0.7
    folder = newest_folder(ran)
    np.save("public.npy", x[role == "public"])
    lines = command("predict", str(folder), "public.npy")[1].splitlines()[1:]
    np.testing.assert_allclose(
        [float(line.split(",")[3]) for line in lines],
        pd.read_csv(folder / "predictions.csv")["p(0)"],
        atol=1e-3,
    )


@parametrize(
    "given", [["aggregator=plurality"], ["teachers=votes", "teachers.path=votes.npy", "queries=9"]]
)
def test_a_baseline_needs_records_and_a_finite_epsilon(run_nzc: RunNzc, given: list[str]) -> None:
    np.save("votes.npy", np.tile([3, 4, 5, 0, 0, 0, 0, 0, 0, 0], (30, 1)))
    ran = run_nzc(*given, *QUICK, code=2)
    assert ran.err.startswith("nzc: baseline=true:") and not ran.results
