"""Whole runs: what they leave, what they reuse, and what they do not import."""

import json
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import SMALL, STUDENT, TEACHERS, VOTES, Nzc, published

KEYS = {
    "dataset", "aggregator", "student", "seed", "delta", "queries", "answered", "label_accuracy", "accuracy",
    "teachers", "epsilon", "order", "seconds", "finished", "versions",
}  # fmt: skip
TEACHERS_KEYS = {"count", "mean_accuracy", "ensemble_accuracy", "gap_above_2", "gap_above_3"}
EPSILONS = {
    "published", "exact", "exact_lower", "theorem", "data_independent", "sanitised", "claimed", "audited",
    "ledger_released", "ledger_total",
}  # fmt: skip


def test_a_whole_run_keeps_the_contract(nzc: Nzc) -> None:
    ran = nzc(*SMALL, "queries=100")
    assert ran.code == 0
    assert "student accuracy" in ran.out
    assert not ran.err
    result = ran.result
    assert result.keys() >= KEYS
    assert set(result["epsilon"]) == EPSILONS
    assert set(result["seconds"]) == {"teachers", "votes", "labels", "accounting", "student", "total"}
    assert set(result["teachers"]) == TEACHERS_KEYS
    assert (result["dataset"], result["aggregator"], result["student"]) == ("digits", "gnmax", "supervised")
    assert result["queries"] == result["answered"] == 100
    assert result["teachers"]["count"] == 6
    assert 0.5 < result["teachers"]["ensemble_accuracy"] <= 1
    assert 0 <= result["accuracy"] <= 1
    assert (next(ran.folder.glob("outputs/*/*/labels.csv"))).read_text().count("\n") == 101


def test_the_same_command_gives_the_same_result(nzc: Nzc) -> None:
    first, second = (nzc(*SMALL, f"paths.store={store}").result for store in ("one", "two"))
    for result in (first, second):
        del result["seconds"], result["finished"]
    assert first == second


def test_two_runs_in_one_folder_are_not_mixed(nzc: Nzc) -> None:
    assert nzc(*SMALL, "hydra.run.dir=here", "figures=true").code == 0
    Path("here/mine.txt").write_text("a person's own")
    left = {path.name for path in Path("here").rglob("*")}
    assert left >= {"result.json", "labels.csv", "curves.csv", "student.pt2", "student.csv", "gaps.svg", "mine.txt"}
    before = {path: path.read_bytes() for path in Path("here").rglob("*") if path.is_file()}
    assert nzc(*SMALL, "hydra.run.dir=here", "queries=500").code == 2
    assert {path: path.read_bytes() for path in Path("here").rglob("*") if path.is_file()} == before
    again = nzc(*TEACHERS, "student=none", "aggregator=lnmax", "hydra.run.dir=here")
    assert (again.code, again.err) == (0, "")
    assert json.loads(Path("here/result.json").read_text())["aggregator"] == "lnmax"
    assert stat.S_IMODE(Path("here/curves.csv").stat().st_mode) == 0o600
    assert {path.name for path in Path("here").iterdir() if path.is_file()} == {
        ".nzc-made", "result.json", "labels.csv", "curves.csv", "mine.txt",
    }  # fmt: skip
    assert not list(Path("here/figures").iterdir())


def test_another_aggregator_trains_nothing(nzc: Nzc, monkeypatch: pytest.MonkeyPatch) -> None:
    votes = nzc(*TEACHERS, "student=none").result["teachers"]
    monkeypatch.setattr("nzc.teachers.ensemble.Ensemble.teach", None)
    ran = nzc(*TEACHERS, "student=none", "aggregator=nzc", "queries=10", "teachers.parallel=1")
    assert ran.code == 0, ran.err
    assert ran.result["teachers"] == votes
    store = ran.folder / ".nzc"
    assert stat.S_IMODE(store.stat().st_mode) == 0o700


def test_nzc_at_its_published_extremes(nzc: Nzc) -> None:
    result = nzc(*TEACHERS, "student=none", "aggregator=nzc", "aggregator.c=1e100", "aggregator.gamma=1e-10").result
    assert result["label_accuracy"] == result["teachers"]["ensemble_accuracy"]
    assert result["epsilon"]["claimed"] == pytest.approx(2e-10 * np.sqrt(2 * 400 * np.log(1e5)))
    assert result["epsilon"]["data_independent"] == "inf"


def test_ground_truth_needs_no_teachers(nzc: Nzc) -> None:
    ran = nzc(*TEACHERS, "aggregator=ground_truth", "student.steps=400")
    assert ran.result["label_accuracy"] == 1
    assert ran.result["accuracy"] > 0.85
    assert ran.result["teachers"] == dict.fromkeys(TEACHERS_KEYS) | {"count": 0}
    assert ran.result["epsilon"]["data_independent"] == "inf"
    assert not (ran.folder / ".nzc" / "predictions").exists()


def test_votes_from_a_file(nzc: Nzc, histograms: Path) -> None:
    labels = np.load(histograms.parent / "labels.npy")
    votes = np.load(histograms)
    ran = nzc(*VOTES, "teachers.path=votes.npy", "teachers.labels=labels.npy", "aggregator=plurality", "queries=30")
    assert ran.result["label_accuracy"] == (votes.argmax(axis=1) == labels)[:30].mean()
    assert ran.result["teachers"]["mean_accuracy"] == pytest.approx(votes[np.arange(40), labels].mean() / 50)
    assert ran.result["accuracy"] is None
    assert nzc(*VOTES, "teachers.path=votes.npy").result["label_accuracy"] is None


def test_without_a_terminal_a_run_says_one_line_a_stage(nzc: Nzc, histograms: Path) -> None:
    command = [*VOTES[:-1], "teachers.path=votes.npy", "aggregator=gnmax"]
    stages = [line.split(": ")[:2] for line in nzc(*command).err.splitlines()]
    assert stages == [["nzc", "teachers"], ["nzc", "votes"], ["nzc", "labels"]]
    public = nzc(*command, "rng=system", "+tracking.private=false").err
    assert public.count("\n") == 3 and " s\n" not in public  # the time of one stage tells more of the votes
    assert not nzc("--multirun", *command, "seed=0,1").err
    assert not nzc(*command, "trainer.progress=false").err


def test_a_votes_file_with_a_dataset_teaches_a_student(nzc: Nzc) -> None:
    np.save("votes.npy", np.tile(np.arange(10), (300, 1)))
    ran = nzc("teachers=votes", "teachers.path=votes.npy", *STUDENT)
    assert ran.code == 0, ran.err
    assert ran.result["queries"] == 300
    np.save("votes.npy", np.ones((300, 3), int))
    assert "10 classes" in nzc("teachers=votes", "teachers.path=votes.npy").err


def test_own_arrays(nzc: Nzc) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(600) % 3
    np.savez("data.npz", x=rng.normal(size=(600, 5)) + 3 * y[:, None], y=y, group=np.arange(600) // 3)
    ran = nzc("dataset=npz", "dataset.path=data.npz", *TEACHERS, "student.steps=200")
    assert ran.code == 0, ran.err
    assert ran.result["teachers"]["ensemble_accuracy"] > 0.9


def test_labels_name_the_rows_of_the_file(nzc: Nzc) -> None:
    group = np.arange(600) // 3
    y = np.random.default_rng(0).integers(0, 3, len(group))
    np.savez("data.npz", x=y[:, None] + np.zeros(2), y=y, group=group, id=np.arange(len(y)))
    np.save("votes.npy", np.where(np.eye(3)[y] > 0, 8, 1))
    own = ["dataset=npz", "dataset.path=data.npz", "student=none"]
    asked = ["teachers=votes", "teachers.path=votes.npy", "aggregator=confident", "aggregator.threshold=8"]
    for more in (["aggregator=ground_truth"], [*asked, "aggregator.sigma1=2", "aggregator.sigma=0.1", "queries=50"]):
        ran = nzc(*own, *more)
        path = max(ran.folder.glob("outputs/*/*/labels.csv"), key=lambda path: path.stat().st_mtime)
        with path.open() as file:
            assert file.readline() == "row,label,id\n"
            row, label, origin = np.loadtxt(file, delimiter=",", dtype=int).T
        assert 0 < len(row) == ran.result["answered"]
        assert (y[origin] == label).all()
        assert len(set(origin)) == len(origin) and (np.diff(origin) > 0).all() and (origin != row).any()


def test_own_rows_that_nobody_has_labelled(nzc: Nzc) -> None:
    rng = np.random.default_rng(0)
    y, role = np.arange(600) % 3, np.repeat(["private", "public"], 300)
    known = np.where(role == "private", y, -1)
    np.savez("data.npz", x=rng.normal(size=(600, 5)) + 3 * y[:, None], y=known, role=role)
    own = ["dataset=npz", "dataset.path=data.npz", *TEACHERS, "student.steps=50", "aggregator=plurality"]
    ran = nzc(*own)
    assert ran.code == 0, ran.err
    assert (ran.result["data"]["private"], ran.result["data"]["public"], ran.result["data"]["test"]) == (300, 300, 0)
    assert ran.result["label_accuracy"] is ran.result["accuracy"] is ran.result["teachers"]["mean_accuracy"] is None
    labels = np.loadtxt(next(ran.folder.glob("outputs/*/*/labels.csv")), delimiter=",", skiprows=1, dtype=int)
    assert (labels[:, 1] == y[300:]).mean() > 0.9
    assert (labels[:, 2] == 300 + labels[:, 0]).all()

    known[300:310] = y[300:310]  # a few that somebody checked
    np.savez("data.npz", x=rng.normal(size=(600, 5)) + 3 * y[:, None], y=known, role=role)
    ran = nzc(*own)
    assert ran.result["label_accuracy"] in [right / 10 for right in range(11)]


def _fresh(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def test_a_run_that_trains_nothing_never_imports_torch_and_matplotlib_only_to_draw(
    tmp_path: Path, histograms: Path
) -> None:
    script = "import sys; from nzc.app.main import main; main(); print({'torch', 'matplotlib'} & set(sys.modules))"
    control = _fresh(tmp_path, "-c", "import sys, torch; print({'torch'} & set(sys.modules))")
    assert control.stdout == "{'torch'}\n"  # the check can fail
    for drawn, imported in ("false", "set()"), ("true", "{'matplotlib'}"):
        arguments = [*VOTES, "teachers.path=votes.npy", "tracking=none", f"figures={drawn}"]
        assert _fresh(tmp_path, "-c", script, *arguments).stdout.endswith(f"{imported}\n")


def test_help_lists_groups_and_examples(tmp_path: Path) -> None:
    said = _fresh(tmp_path, "-m", "nzc", "--help").stdout
    for word in ("aggregator=", "lnmax", "dataset=", "mnist", "student=", "supervised", "nzc_table1_mnist", "Examples"):
        assert word in said


def test_mlflow_has_epsilon_accuracy_config_and_student(nzc: Nzc) -> None:
    from mlflow import MlflowClient, pyfunc, set_tracking_uri

    ran = nzc(*SMALL, "tracking=mlflow", "queries=50")
    assert ran.code == 0, ran.err
    assert not ran.err
    uri = f"sqlite:///{Path.cwd()}/mlflow.db"
    client = MlflowClient(uri)
    run = client.search_runs([client.get_experiment_by_name("digits").experiment_id])[0]
    assert run.info.status == "FINISHED"
    assert run.data.params["aggregator.sigma"] == "15"
    assert run.data.params["aggregator"] == "gnmax"
    result = ran.result
    assert run.data.metrics["accuracy"] == result["accuracy"]
    assert run.data.metrics["epsilon_data_independent"] == result["epsilon"]["data_independent"]
    assert run.data.metrics["epsilon"] > 0
    kept = {file.path for file in client.list_artifacts(run.info.run_id)}
    assert kept >= {"config", "labels.csv", "result.json"}
    assert "curves.csv" not in kept
    set_tracking_uri(uri)
    model = client.search_logged_models([run.info.experiment_id])[0]
    loaded = pyfunc.load_model(model.model_uri)
    assert loaded.metadata.signature.inputs is not None
    assert loaded.predict(np.zeros((3, 1, 8, 8), np.uint8)).shape == (3, 2 + 10)


def test_an_infinite_epsilon_is_shown_as_it_is(nzc: Nzc) -> None:
    from mlflow import MlflowClient

    ran = nzc(*TEACHERS, "tracking=mlflow", "aggregator=plurality", "student=none")
    client = MlflowClient(f"sqlite:///{Path.cwd()}/mlflow.db")
    run = client.search_runs([client.get_experiment_by_name("digits").experiment_id])[0]
    assert run.data.tags["epsilon"] == "∞"
    assert "epsilon" not in run.data.metrics
    assert "∞" in ran.out
    assert json.loads(json.dumps(ran.result["epsilon"]["data_independent"])) == "inf"


def test_tracking_that_fails_loses_nothing(nzc: Nzc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nzc.tracking.mlflow.MLflow.close", lambda *_: 1 / 0)
    ran = nzc(*TEACHERS, "tracking=mlflow", "student=none")
    assert ran.code == 0
    assert ran.result["answered"] == 400
    assert "could not be tracked" in ran.err


@pytest.mark.parametrize(
    ("name", "queries", "aggregator", "expected", "within"),
    [
        pytest.param(
            "mnist", 9000, ["aggregator=lnmax", "aggregator.gamma=0.05"], 0.930, 0.004, marks=pytest.mark.slow
        ),
        ("mnist", 9000, ["aggregator=nzc"], 0.9437, 0.0015),
        pytest.param(
            "svhn", 10000, ["aggregator=lnmax", "aggregator.gamma=0.05"], 0.871, 0.004, marks=pytest.mark.slow
        ),
        ("svhn", 10000, ["aggregator=nzc"], 0.8806, 0.0015),
    ],
)
def test_nzc_table_2(nzc: Nzc, name: str, queries: int, aggregator: list[str], expected: float, within: float) -> None:
    path = published(f"{name}_250_teachers.npy")
    files = [f"teachers.path={path}", f"teachers.labels={path.parent / f'{name}_true_labels.npy'}"]
    result = nzc(*VOTES, *files, *aggregator, f"queries={queries}").result
    assert result["label_accuracy"] == pytest.approx(expected, abs=within)
