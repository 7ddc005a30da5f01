"""Whole runs: what they leave, what they reuse, and what they do not import."""

import gc
import json
import stat
from pathlib import Path

import numpy as np
import pytest
from conftest import SMALL, STUDENT, TEACHERS, VOTES, Nzc, published, served, tracked_runs
from mlflow import MlflowClient

from nzc.app import job
from nzc.app.publish import publish_run
from nzc.data.digits import Digits
from nzc.runs import pipeline
from nzc.tracking import record

KEYS = {
    "dataset", "aggregator", "student", "seed", "delta", "queries", "answered", "label_accuracy", "accuracy",
    "teachers", "epsilon", "order", "seconds", "finished", "versions",
}  # fmt: skip
TEACHERS_KEYS = {"count", "mean_accuracy", "ensemble_accuracy", "gap_above_2", "gap_above_3"}
EPSILONS = {
    "published", "published_delta", "exact", "exact_lower", "theorem", "paper", "data_independent", "sanitised",
    "claimed", "audited", "ledger_released", "ledger_total",
}  # fmt: skip
FILE = [*VOTES, "teachers.path=votes.npy"]


def test_a_whole_run_keeps_the_contract(nzc: Nzc, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its result and files, what MLflow finds, the student there; and the same again from another
    store.
    """
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "0.05")
    monkeypatch.setattr(record, "SHORT", 0.0)  # as if it took long
    ran = nzc(*SMALL, "queries=100", "tracking=mlflow", "tracking.register=student-of-digits")
    result = ran.result
    assert (ran.code, ran.err) == (0, "".join(f"nzc: {line}\n" for line in result["warnings"]))
    assert "student accuracy" in ran.out
    assert result.keys() >= KEYS
    assert set(result["epsilon"]) == EPSILONS
    assert set(result["seconds"]) == {
        "teachers",
        "votes",
        "labels",
        "accounting",
        "student",
        "total",
        "preparation",
    }
    assert result["seconds"].pop("total") >= sum(result["seconds"].values())
    assert set(result["teachers"]) == TEACHERS_KEYS
    assert (result["dataset"], result["aggregator"], result["student"]) == (
        "digits",
        "gnmax",
        "supervised",
    )
    assert result["queries"] == result["answered"] == 100
    assert result["teachers"]["count"] == 6
    assert 0.5 < result["teachers"]["ensemble_accuracy"] <= 1
    assert (next(ran.folder.glob("outputs/*/*/labels.csv"))).read_text().count("\n") == 101

    uri = f"sqlite:///{Path.cwd()}/mlflow.db"
    client, splits = MlflowClient(uri), Digits(seed=0, private=1200, public=400).load()
    (run,) = tracked_runs(client)
    assert run.info.status == "FINISHED"
    for query in (
        "params.aggregator.sigma = '16'", "params.`aggregator.sigma` = '16' and params.aggregator = 'gnmax'",
        "metrics.epsilon > 0", "dataset.name = 'digits'", f"dataset.digest = '{splits.digest[:36]}'",
    ):  # fmt: skip
        assert len(tracked_runs(client, query)) == 1
    metrics = run.data.metrics
    assert (metrics["accuracy"], metrics["epsilon"]) == (
        result["accuracy"],
        result["epsilon"]["published"],
    )
    assert metrics["system/system_memory_usage_megabytes"] > 0
    assert json.loads(run.inputs.dataset_inputs[0].dataset.profile)["private"] == 1200
    kept = {file.path for file in client.list_artifacts(run.info.run_id)}
    assert kept >= {"config", "labels.csv", "result.json"} and "curves.csv" not in kept
    table = served(uri, "student-of-digits/1", splits.test.x)
    assert (table["label"].astype(int) == splits.test.y).mean() == pytest.approx(result["accuracy"])
    np.testing.assert_allclose(table.filter(like="p(").sum(axis=1), 1)
    version = client.get_model_version("student-of-digits", "1")
    assert version.tags["unit"] == "record" and version.tags["dataset"] == "digits"
    assert version.tags["epsilon"] in version.description

    again = nzc(*SMALL, "queries=100", "paths.store=other").result
    for one in (result, again):
        del one["seconds"], one["finished"]
    assert again == result


def test_flags_stand_anywhere(nzc: Nzc) -> None:
    text = nzc("--help").out
    words = ("aggregator=", "lnmax", "dataset=", "nzc_table1_mnist", "budget", "Examples")
    assert [word for word in words if word not in text] == []
    assert "gamma: 0.05" in nzc("aggregator=lnmax", "--cfg", "job", "aggregator.gamma=0.05").out


def test_two_runs_in_one_folder_are_not_mixed(nzc: Nzc) -> None:
    assert nzc(*SMALL, "hydra.run.dir=here", "figures=true").code == 0
    Path("here/mine.txt").write_text("a person's own")
    left = {path.name for path in Path("here").rglob("*")}
    assert left >= {
        "result.json",
        "labels.csv",
        "curves.csv",
        "student.pt2",
        "student.csv",
        "gaps.svg",
        "mine.txt",
    }
    before = {path: path.read_bytes() for path in Path("here").rglob("*") if path.is_file()}
    assert nzc(*SMALL, "hydra.run.dir=here", "queries=500").code == 2
    assert {path: path.read_bytes() for path in Path("here").rglob("*") if path.is_file()} == before
    again = nzc(
        *TEACHERS, "student=none", "aggregator=lnmax", "aggregator.gamma=5", "hydra.run.dir=here"
    )
    assert (again.code, again.err) == (0, "")
    assert json.loads(Path("here/result.json").read_text())["aggregator"] == "lnmax"
    assert stat.S_IMODE(Path("here/curves.csv").stat().st_mode) == 0o600
    assert {path.name for path in Path("here").iterdir() if path.is_file()} == {
        ".nzc-made", "result.json", "labels.csv", "curves.csv", "mine.txt",
    }  # fmt: skip
    assert not list(Path("here/figures").iterdir())


def test_another_aggregator_trains_nothing(nzc: Nzc, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nzc's own runs at its published extremes."""
    votes = nzc(*TEACHERS, "student=none").result["teachers"]
    monkeypatch.setattr("nzc.teachers.ensemble.Ensemble.teach", None)
    ran = nzc(
        *TEACHERS,
        "student=none",
        "queries=null",
        "aggregator=nzc",
        "aggregator.c=1e100",
        "aggregator.gamma=1e-10",
    )
    assert ran.code == 0, ran.err
    assert ran.result["teachers"] == votes
    assert stat.S_IMODE((ran.folder / ".nzc").stat().st_mode) == 0o700
    assert ran.result["label_accuracy"] == ran.result["teachers"]["ensemble_accuracy"]
    assert ran.result["epsilon"]["claimed"] == pytest.approx(2e-10 * np.sqrt(2 * 400 * np.log(1e5)))
    assert ran.result["epsilon"]["data_independent"] == "inf"
    np.save(
        "votes.npy", np.tile(np.arange(10), (300, 1))
    )  # votes from a file label rows of a dataset
    ran = nzc("teachers=votes", "teachers.path=votes.npy", "queries=null", *STUDENT)
    assert (ran.code, ran.result["queries"], ran.result["student"]) == (0, 300, "supervised"), (
        ran.err
    )


def test_ground_truth_needs_no_teachers(nzc: Nzc) -> None:
    ran = nzc(*TEACHERS, "aggregator=ground_truth", "student.steps=200")
    assert ran.result["label_accuracy"] == 1
    assert ran.result["accuracy"] > 0.85
    assert ran.result["teachers"] == dict.fromkeys(TEACHERS_KEYS) | {"count": 0}
    assert ran.result["epsilon"]["data_independent"] == "inf"
    assert not (ran.folder / ".nzc" / "predictions").exists()


def test_votes_from_a_file(nzc: Nzc, histograms: Path) -> None:
    labels = np.load(histograms.parent / "labels.npy")
    votes = np.load(histograms)
    ran = nzc(
        *FILE, "teachers.labels=labels.npy", "aggregator=plurality", "queries=30", "tracking=mlflow"
    )
    assert ran.result["label_accuracy"] == (votes.argmax(axis=1) == labels)[:30].mean()
    assert ran.result["teachers"]["mean_accuracy"] == pytest.approx(
        votes[np.arange(40), labels].mean() / 50
    )
    assert ran.result["accuracy"] is None
    (run,) = tracked_runs(MlflowClient(f"sqlite:///{Path.cwd()}/mlflow.db"))
    assert run.data.tags["epsilon"] == "∞" and "epsilon" not in run.data.metrics
    assert "∞" in ran.out and ran.result["epsilon"]["data_independent"] == "inf"
    assert nzc(*FILE).result["label_accuracy"] is None


def test_without_a_terminal_a_run_says_one_line_a_stage(nzc: Nzc, histograms: Path) -> None:
    """After one that says what it combines."""
    command = [
        *VOTES[:-1],
        "trainer.progress=true",
        "teachers.path=votes.npy",
        "aggregator.sigma=10",
    ]
    first, *stages = nzc(*command).err.splitlines()
    assert first == "nzc: dataset=none teachers=votes aggregator=gnmax student=none"
    assert [line.split(": ")[:2] for line in stages] == [
        ["nzc", "teachers"],
        ["nzc", "votes"],
        ["nzc", "labels"],
    ]
    public = nzc(*command, "rng=system", "+tracking.private=false").err
    assert (
        public.count("\n") == 4 and " s\n" not in public
    )  # the time of one stage tells more of the votes
    assert not nzc("--multirun", *command, "seed=0,1").err


@pytest.mark.parametrize(
    "error", [UnicodeEncodeError("ascii", "ε", 0, 1, "no such character"), SystemExit(1)]
)
def test_a_table_that_cannot_be_shown_costs_no_run(
    nzc: Nzc, histograms: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """Standard output takes no ε, or has been closed (then rich exits): the labels are charged, so
    they are kept.
    """

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(job, "result_table", fail)
    ran = nzc(*FILE, "queries=20", "budget.epsilon=1", "rng=system")
    assert ran.code == 0 and "nzc: the table could not be shown (" in ran.err
    assert ran.result["answered"] == 20
    assert not list(ran.folder.glob("outputs/**/error.txt"))
    assert publish_run(next(ran.folder.glob("outputs/*/*")), Path("given"), name="votes")


def test_garbage_is_collected_while_a_job_works_and_after_it(
    nzc: Nzc, histograms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the imports before a job do without."""
    seen, works, loads = [], pipeline.execute, job.prepare_run
    monkeypatch.setattr(
        job, "prepare_run", lambda parts: (seen.append(gc.isenabled()), loads(parts))[1]
    )
    monkeypatch.setattr(
        pipeline, "execute", lambda *given: (seen.append(gc.isenabled()), works(*given))[1]
    )
    assert nzc(*FILE).code == 0 and nzc(*FILE, "queries=100").code == 2
    assert [*seen, gc.isenabled(), gc.get_freeze_count()] == [False, True, False, True, 0]


def test_labels_name_the_rows_of_the_file(nzc: Nzc) -> None:
    group = np.arange(600) // 3
    y = np.random.default_rng(0).integers(0, 3, len(group))
    np.savez("data.npz", x=y[:, None] + np.zeros(2), y=y, group=group, id=np.arange(len(y)))
    np.save("votes.npy", np.where(np.eye(3)[y] > 0, 8, 1))
    own = ["dataset=npz", "dataset.path=data.npz", "student=none"]
    votes = [
        "teachers=votes",
        "teachers.path=votes.npy",
        "aggregator=confident",
        "aggregator.threshold=8",
    ]
    for more in (
        ["aggregator=ground_truth"],
        [*votes, "aggregator.sigma1=2", "aggregator.sigma=0.1", "queries=50"],
    ):
        ran = nzc(*own, *more)
        path = max(ran.folder.glob("outputs/*/*/labels.csv"), key=lambda path: path.stat().st_mtime)
        with path.open() as file:
            assert file.readline() == "row,label,id\n"
            row, label, origin = np.loadtxt(file, delimiter=",", dtype=int).T
        assert 0 < len(row) == ran.result["answered"]
        assert (y[origin] == label).all()
        assert (
            len(set(origin)) == len(origin)
            and (np.diff(origin) > 0).all()
            and (origin != row).any()
        )


def test_own_rows_that_nobody_has_labeled(nzc: Nzc) -> None:
    rng = np.random.default_rng(0)
    y, role = np.arange(600) % 3, np.repeat(["private", "public"], 300)
    known = np.where(role == "private", y, -1)
    x = rng.normal(size=(600, 5)) + 3 * y[:, None]
    np.savez("data.npz", x=x, y=known, role=role)
    own = [
        "dataset=npz",
        "dataset.path=data.npz",
        *TEACHERS,
        "student.steps=50",
        "aggregator=plurality",
    ]
    ran = nzc(*own)
    assert ran.code == 0, ran.err
    assert (
        ran.result["data"]["private"],
        ran.result["data"]["public"],
        ran.result["data"]["test"],
    ) == (300, 300, 0)
    assert (
        ran.result["label_accuracy"]
        is ran.result["accuracy"]
        is ran.result["teachers"]["mean_accuracy"]
        is None
    )
    labels = np.loadtxt(
        next(ran.folder.glob("outputs/*/*/labels.csv")), delimiter=",", skiprows=1, dtype=int
    )
    assert (labels[:, 1] == y[300:]).mean() > 0.9
    assert (labels[:, 2] == 300 + labels[:, 0]).all()


@pytest.mark.parametrize(
    ("name", "queries", "aggregator", "expected", "within"),
    [
        ("mnist", 9000, "nzc", 0.9437, 0.0015),
        pytest.param("svhn", 10000, "nzc", 0.8806, 0.0015, marks=pytest.mark.slow),
        pytest.param("mnist", 9000, "lnmax", 0.930, 0.004, marks=pytest.mark.slow),
        pytest.param("svhn", 10000, "lnmax", 0.871, 0.004, marks=pytest.mark.slow),
    ],
)
def test_nzc_table_2(
    nzc: Nzc, name: str, queries: int, aggregator: str, expected: float, within: float
) -> None:
    path = published(f"{name}_250_teachers.npy")
    files = [f"teachers.path={path}", f"teachers.labels={path.parent / f'{name}_true_labels.npy'}"]
    settings = [
        f"aggregator={aggregator}",
        *(["aggregator.gamma=0.05"] if aggregator == "lnmax" else []),
    ]
    result = nzc(*VOTES, *files, *settings, f"queries={queries}").result
    assert result["label_accuracy"] == pytest.approx(expected, abs=within)
