"""DP-SGD: how far one unit moves a step, what the noise costs, and what the baseline of a run
leaves.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import Command, Nzc, newest_folder, tracked_runs
from mlflow import MlflowClient
from scipy.stats import norm

from nzc.labeling.ledger import Ledger
from nzc.runs.baseline import DPSGD, LARGEST_RATE, STEPS, gradients

QUICK = ["trainer.progress=false", "trainer.accelerator=cpu"]


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("grouped", [False, True])
def test_one_unit_moves_a_step_by_two_at_most_and_nearly_so_much(
    scale: float, grouped: bool
) -> None:
    """One record is replaced; or all records of a group, by more or fewer. Lengths of rows may be
    any.
    """
    rng, moved = np.random.default_rng(0), []
    for trial in range(200):
        x, y, weights = (
            scale * rng.normal(size=(30, 4)),
            rng.integers(0, 3, 30),
            rng.normal(size=(4, 3)),
        )
        groups = np.sort(rng.integers(0, 6, 30)) if grouped else np.arange(30)
        kept, new = groups != groups[0], int(rng.integers(1, 9)) if grouped else 1
        start = np.full(new, groups[0])
        other = scale * rng.normal(size=(new, 4)), rng.integers(0, 3, new), start
        if trial == 0:  # opposite directions, which the wrong class makes largest
            x[~kept], y[~kept], other = (
                1e4,
                0,
                (np.full((new, 4), 1e4), np.ones(new, np.int64), start),
            )
            weights = np.zeros((4, 3))
        neighbour = [
            np.concatenate([part, mine[kept]])
            for part, mine in zip(other, (x, y, groups), strict=True)
        ]
        units = (groups, neighbour[2]) if grouped else (None, None)
        before, after = (
            gradients(x, y, units[0], weights),
            gradients(*neighbour[:2], units[1], weights),
        )
        moved.append(np.linalg.norm(before - after))
    assert 1.5 < max(moved) <= 2 + 1e-9


@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 1e-5), (0.1, 1e-5), (1, 1e-6), (30, 1e-5)])
def test_the_noise_of_all_steps_keeps_epsilon_and_wastes_nothing(
    epsilon: float, delta: float
) -> None:
    """δ(ε) of T Gaussian releases of sensitivity 2 is Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) at μ =
    2√T/s.
    """
    mu = 2 * STEPS**0.5 / DPSGD.at(epsilon, delta, 1000).noise
    spent = norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu))
    assert 0.5 * delta < spent <= delta


def test_what_is_learned_has_the_noise_of_all_steps() -> None:
    """Of rows without any feature, noise alone is learned: its variance, by hand, is that of the
    price.
    """
    learner, units = DPSGD.at(1.0, 1e-5, 1000), 1000
    x, y = np.zeros((5, 40)), np.zeros(5, np.int64)
    learned = learner.learn(x, y, None, 50, np.random.default_rng(0))
    rate = min(LARGEST_RATE, learner.mu * units / (2 * STEPS)) / units
    half = STEPS // 2
    shares = [
        min(half, STEPS - step) / half for step in range(STEPS)
    ]  # of one step's noise in the mean of the last half
    expected = rate * 2 * STEPS**0.5 / learner.mu * np.linalg.norm(shares)
    assert learned.std() == pytest.approx(expected, rel=0.1)


def test_equal_weights_leave_equal_folders_whatever_the_private_rows(
    nzc: Nzc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Features are prepared by public rows alone: a private row changes nothing but the weights."""

    def weights(
        learner: DPSGD, x: np.ndarray, y: np.ndarray, groups: object, classes: int, rng: object
    ) -> np.ndarray:
        return np.outer(np.arange(x.shape[1]), np.arange(classes) + 1.0) % 7 - 3

    monkeypatch.setattr(DPSGD, "learn", weights)
    rng, y = np.random.default_rng(0), np.arange(300) % 3
    x = 3 * np.eye(3)[y] + rng.normal(size=(300, 3))
    role = np.where(
        np.arange(300) < 200, "private", np.where(np.arange(300) < 270, "public", "test")
    )
    written = []
    for scale in (1, 100):
        moved = np.where(role[:, None] == "private", scale * x, x)
        np.savez("rows.npz", x=moved, y=y, role=role)
        given = [
            "dataset=npz",
            "dataset.path=rows.npz",
            "dataset.classes=3",
            "budget.epsilon=1",
            *QUICK,
        ]
        ran = nzc("baseline=true", *given, f"hydra.run.dir=run{scale}")
        assert ran.code == 0, ran.err
        written.append(Path(f"run{scale}/predictions.csv").read_text())
    assert written[0] == written[1]


def test_more_budget_learns_more() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 2000)
    x = rng.normal(size=(2000, 3)) + 2 * np.eye(3)[y]
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    right = []
    for epsilon in (0.001, 0.3, 10):
        learned = DPSGD.at(epsilon, 1e-5, 2000).learn(x, y, None, 2, np.random.default_rng(0))
        right.append(((x @ learned).argmax(axis=1) == y).mean())
    assert right[0] < right[1] <= right[2] + 0.01 and right[2] > 0.9


def _table(path: Path) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 3000)
    x = rng.normal(size=(3000, 4)) + 3 * np.eye(4)[y]
    np.savez(path, x=x, y=y, group=rng.permutation(3000) // 2)


def test_a_baseline_has_the_same_promise_and_can_be_used(nzc: Nzc, command: Command) -> None:
    """Data, unit and ε are those of the run with labels; the ledger is charged, and the model
    predicts new rows.
    """
    _table(Path("table.npz"))
    given = [
        "dataset=npz",
        "dataset.path=table.npz",
        "budget.epsilon=1",
        "recipe=near_zero",
        *QUICK,
    ]
    given += ["student=linear", "student.threshold=0.3"]
    ours, ran = nzc(*given), nzc("baseline=true", *given, "tracking=mlflow")
    assert (ours.code, ran.code) == (0, 0), ran.err
    first, second = ran.results
    for key in ("dataset", "data", "delta", "unit", "grouped_by", "seed"):
        assert first[key] == second[key]
    assert (second["aggregator"], second["answered"], second["unit"]) == ("dp_sgd", 0, "group")
    assert (
        first["epsilon"]["published"]
        == second["epsilon"]["published"]
        == pytest.approx(1, rel=1e-3)
    )
    assert second["epsilon"]["published_delta"] == second["delta"] and second["accuracy"] > 0.85
    folder = newest_folder(ran)
    entries = Ledger(Path(".nzc/ledger.db")).entries()
    assert [entry.description for entry in entries] == [first["mechanism"], second["mechanism"]]
    assert (first["mechanism"].split("(")[0], second["mechanism"].split("(")[0]) == (
        "Counts",
        "DPSGD",
    )
    assert Ledger(Path(".nzc/ledger.db")).total(entries[0].dataset, 1e-5) > 1.2

    (run,) = tracked_runs(MlflowClient(f"sqlite:///{Path.cwd()}/mlflow.db"))
    assert (run.data.metrics["epsilon"], run.data.metrics["accuracy"]) == (1, second["accuracy"])
    seen = pd.read_csv(folder / "predictions.csv")
    np.save("new.npy", np.load("table.npz")["x"][:500])
    again = command("predict", str(folder), "new.npy")[1].splitlines()
    assert len(again) == 501 and again[0] == "row,label,probability,p(0),p(1)"
    for table in (
        seen,
        pd.DataFrame([line.split(",") for line in again[1:]], columns=again[0].split(",")),
    ):
        p = table["p(1)"].astype(float)
        assert ((p > 0.3) == (table["label"].astype(int) == 1))[(p - 0.3).abs() > 1e-4].all()
        assert p.between(0, 1).all() and 0.2 < (p > 0.3).mean() < 0.8

    assert "baseline=true: must be false" in command("publish", str(folder), "public")[2]


@pytest.mark.parametrize(
    ("shape", "kind"), [((1, 16, 16), "auto"), ((20,), "auto"), ((1, 8, 8), "pretrained")]
)
def test_the_model_of_a_representation_is_exported_whole(
    nzc: Nzc, command: Command, shape: tuple[int, ...], kind: str
) -> None:
    """From rows of the user's file to the same probabilities: by diffusion map, by encoder, by
    columns.
    """
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    x = rng.normal(size=(400, *shape)) + 3 * y.reshape(-1, *[1] * len(shape))
    x = np.clip(20 * x + 100, 0, 255).astype(np.uint8) if len(shape) > 1 else x
    role = np.repeat(["private", "public", "test"], [240, 120, 40])
    np.savez("rows.npz", x=x, y=y, role=role)
    small = [
        "dataset.network=mlp",
        "representation.encoder.steps=5",
        "representation.copies=2",
        "dataset.classes=2",
    ]
    if kind == "pretrained":
        small = [
            f"representation={kind}",
            "representation.encoder.model={_target_: torch.nn.Flatten}",
        ]
    given = [
        "recipe=near_zero",
        "dataset=npz",
        "dataset.path=rows.npz",
        "budget.epsilon=20",
        *QUICK,
        *small,
    ]
    ran = nzc("baseline=true", *given)
    assert (ran.code, ran.result["student"]) == (0, "linear") and ran.result["accuracy"] > 0.7, (
        ran.err
    )
    folder = newest_folder(ran)
    np.save("public.npy", x[role == "public"])
    again = command("predict", str(folder), "public.npy")[1].splitlines()[1:]
    seen = pd.read_csv(folder / "predictions.csv")["p(0)"]
    np.testing.assert_allclose([float(line.split(",")[3]) for line in again], seen, atol=1e-3)


@pytest.mark.parametrize(
    "given", [["aggregator=plurality"], ["teachers=votes", "teachers.path=votes.npy", "queries=9"]]
)
def test_a_baseline_needs_records_and_a_finite_epsilon(nzc: Nzc, given: list[str]) -> None:
    np.save("votes.npy", np.tile([3, 4, 5, 0, 0, 0, 0, 0, 0, 0], (30, 1)))
    ran = nzc("baseline=true", *given, *QUICK)
    assert (
        ran.code == 2
        and ran.err.startswith("nzc: baseline=true: must be false unless")
        and not ran.results
    )
