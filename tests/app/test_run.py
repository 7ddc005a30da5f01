"""Whole runs: what they leave, what they reuse, and what they do not import."""

import json
import stat
from pathlib import Path

import numpy as np
import pytest
from conftest import (
    SMALL,
    TEACHERS,
    VOTES,
    Nzc,
    contents,
    newest_folder,
    published,
    served,
    tracked_runs,
)
from mlflow import MlflowClient

from nzc.app import job
from nzc.app.publish import publish_run
from nzc.data.digits import Digits
from nzc.tracking import record

KEYS = (
    "dataset aggregator student seed delta queries answered label_accuracy accuracy teachers "
    "epsilon order seconds finished versions"
)
TEACHERS_KEYS = "count mean_accuracy ensemble_accuracy gap_above_2 gap_above_3"
EPSILONS = (
    "published published_delta exact exact_lower theorem paper data_independent sanitised claimed "
    "audited ledger_released ledger_total"
)
SECONDS = "teachers votes labels accounting student total preparation"
FILE = [*VOTES, "teachers.path=votes.npy"]


def test_a_whole_run_keeps_the_contract(nzc: Nzc, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its result and files, what MLflow finds, the student there; the same from another store."""
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "0.05")
    monkeypatch.setattr(record, "SHORT", 0.0)  # as if it took long
    ran = nzc(*SMALL, "queries=100", "tracking=mlflow", "tracking.register=student-of-digits")
    result = ran.result
    assert (ran.code, ran.err) == (0, "".join(f"nzc: {line}\n" for line in result["warnings"]))
    assert "student accuracy" in ran.out
    assert result.keys() >= set(KEYS.split())
    assert set(result["epsilon"]) == set(EPSILONS.split())
    assert set(result["teachers"]) == set(TEACHERS_KEYS.split())
    assert set(result["seconds"]) == set(SECONDS.split())
    assert result["seconds"].pop("total") >= sum(result["seconds"].values())
    names = [result[group] for group in ("dataset", "aggregator", "student")]
    assert names == ["digits", "gnmax", "supervised"]
    assert result["queries"] == result["answered"] == 100
    assert result["teachers"]["count"] == 6
    assert 0.5 < result["teachers"]["ensemble_accuracy"] <= 1
    assert (newest_folder(ran) / "labels.csv").read_text().count("\n") == 101

    uri = f"sqlite:///{Path.cwd()}/mlflow.db"
    client = MlflowClient(uri)
    splits = Digits(seed=0, private=1200, public=400).load()
    for query in (
        "params.`aggregator.sigma` = '16' and params.aggregator = 'gnmax'",
        "metrics.epsilon > 0",
        f"dataset.name = 'digits' and dataset.digest = '{splits.digest[:36]}'",
    ):
        assert len(tracked_runs(client, query)) == 1
    (run,) = tracked_runs(client)
    assert run.info.status == "FINISHED"
    metrics = run.data.metrics
    assert metrics["accuracy"] == result["accuracy"]
    assert metrics["epsilon"] == result["epsilon"]["published"]
    assert metrics["system/system_memory_usage_megabytes"] > 0
    assert json.loads(run.inputs.dataset_inputs[0].dataset.profile)["private"] == 1200
    files = {file.path for file in client.list_artifacts(run.info.run_id)}
    assert files >= {"config", "labels.csv", "result.json"} and "curves.csv" not in files
    table = served(uri, "student-of-digits/1", splits.test.x)
    assert (table["label"].astype(int) == splits.test.y).mean() == pytest.approx(result["accuracy"])
    np.testing.assert_allclose(table.filter(like="p(").sum(axis=1), 1)
    version = client.get_model_version("student-of-digits", "1")
    assert version.tags["unit"] == "record" and version.tags["dataset"] == "digits"
    assert version.tags["epsilon"] in version.description

    again = nzc(*SMALL, "queries=100", "paths.store=other").result
    for key in ("seconds", "finished"):
        del result[key], again[key]
    assert again == result


def test_flags_stand_anywhere(nzc: Nzc) -> None:
    text = nzc("--help").out
    for word in ("aggregator=", "lnmax", "dataset=", "nzc_table1_mnist", "budget", "Examples"):
        assert word in text
    assert "gamma: 0.05" in nzc("aggregator=lnmax", "--cfg", "job", "aggregator.gamma=0.05").out


def test_hydras_own_flags_and_keys_hold_for_a_single_run(nzc: Nzc, histograms: Path) -> None:
    """A primary configuration, and a folder of options, of one's own; and what is recorded."""
    for name, text in {
        "conf/short.yaml": "defaults: [config, _self_]\nqueries: 3\n",
        "mine/aggregator/quiet.yaml": "_target_: nzc.GNMax\nsigma: 9\n",
    }.items():
        Path(name).parent.mkdir(parents=True)
        Path(name).write_text(text)
    words = ["-cd", "mine", "-cn", "short", "aggregator=quiet", "+hydra.job.env_set.NZC_TRIED=yes"]
    ran = nzc(*FILE, *words, "hydra.run.dir=runs/${hydra.runtime.choices.aggregator}")
    assert ran.code == 0, ran.err
    folder = Path("runs/quiet")
    assert json.loads((folder / "result.json").read_text())["queries"] == 3
    recorded = {path.name for path in (folder / ".hydra").iterdir()}
    assert recorded == {"config.yaml", "hydra.yaml", "overrides.yaml"}
    assert "teachers=votes" in (folder / ".hydra/overrides.yaml").read_text()


def test_two_runs_in_one_folder_are_not_mixed(nzc: Nzc, histograms: Path) -> None:
    folder = Path("here")
    words = [*FILE, "teachers.labels=labels.npy", "hydra.run.dir=here"]
    assert nzc(*words, "figures=true").code == 0
    assert any((folder / "figures").iterdir())
    (folder / "mine.txt").write_text("a person's own")
    before = dict(contents(folder))
    assert nzc(*words, "queries=500").code == 2
    assert dict(contents(folder)) == before
    again = nzc(*words, "aggregator=lnmax", "aggregator.gamma=5")
    assert (again.code, again.err) == (0, "")
    assert json.loads((folder / "result.json").read_text())["aggregator"] == "lnmax"
    assert stat.S_IMODE((folder / "curves.csv").stat().st_mode) == 0o600
    left = {path.name for path in folder.iterdir() if path.is_file()}
    assert left == {".nzc-made", "result.json", "labels.csv", "curves.csv", "mine.txt"}
    assert not list((folder / "figures").iterdir())


def test_another_aggregator_trains_nothing(nzc: Nzc, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nzc's own runs at its published extremes."""
    teachers = nzc(*TEACHERS, "student=none").result["teachers"]
    monkeypatch.setattr("nzc.teachers.ensemble.Ensemble.teach", None)
    extremes = ["aggregator=nzc", "aggregator.c=1e100", "aggregator.gamma=1e-10"]
    result = nzc(*TEACHERS, "student=none", "queries=null", *extremes).result
    assert result["teachers"] == teachers
    assert stat.S_IMODE(Path(".nzc").stat().st_mode) == 0o700
    assert result["label_accuracy"] == teachers["ensemble_accuracy"]
    assert result["epsilon"]["claimed"] == pytest.approx(2e-10 * np.sqrt(2 * 400 * np.log(1e5)))
    assert result["epsilon"]["data_independent"] == "inf"


def test_ground_truth_needs_no_teachers(nzc: Nzc) -> None:
    result = nzc(*TEACHERS, "aggregator=ground_truth", "student.steps=200").result
    assert result["label_accuracy"] == 1 and result["accuracy"] > 0.85
    assert result["teachers"] == dict.fromkeys(TEACHERS_KEYS.split()) | {"count": 0}
    assert not Path(".nzc/predictions").exists()


def test_votes_from_a_file(nzc: Nzc, histograms: Path) -> None:
    labels = np.load(histograms.parent / "labels.npy")
    votes = np.load(histograms)
    words = ["teachers.labels=labels.npy", "aggregator=plurality", "queries=30"]
    ran = nzc(*FILE, *words, "tracking=mlflow")
    assert ran.result["label_accuracy"] == (votes.argmax(axis=1) == labels)[:30].mean()
    right = votes[np.arange(40), labels].mean() / 50
    assert ran.result["teachers"]["mean_accuracy"] == pytest.approx(right)
    (run,) = tracked_runs(MlflowClient(f"sqlite:///{Path.cwd()}/mlflow.db"))
    assert run.data.tags["epsilon"] == "∞" and "epsilon" not in run.data.metrics
    assert "∞" in ran.out and ran.result["epsilon"]["data_independent"] == "inf"


def test_without_a_terminal_a_run_says_one_line_a_stage(nzc: Nzc, histograms: Path) -> None:
    """After one that says what it combines."""
    words = [*FILE, "trainer.progress=true", "aggregator.sigma=10"]
    first, *stages = nzc(*words).err.splitlines()
    assert first == "nzc: dataset=none teachers=votes aggregator=gnmax student=none"
    assert [line.split(": ")[1] for line in stages] == ["teachers", "votes", "labels"]
    public = nzc(*words, "rng=system", "+tracking.private=false").err
    assert public.count("\n") == 4 and " s\n" not in public  # the time of a stage tells of votes
    assert not nzc("--multirun", *words, "seed=0,1").err


def test_a_table_that_cannot_be_shown_costs_no_run(
    nzc: Nzc, histograms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Standard output is closed (rich exits): labels are charged, so they stay."""

    def fail(*_: object) -> None:
        raise SystemExit(1)

    monkeypatch.setattr(job, "result_table", fail)
    ran = nzc(*FILE, "queries=20", "budget.epsilon=1", "rng=system")
    assert ran.code == 0 and "the table could not be shown" in ran.err
    assert ran.result["answered"] == 20
    folder = newest_folder(ran)
    assert not (folder / "error.txt").exists()
    assert publish_run(folder, Path("given"), name="votes")


def test_labels_name_the_rows_of_the_file(nzc: Nzc) -> None:
    y = np.random.default_rng(0).integers(0, 3, 600)
    group = np.arange(600) // 3
    np.savez("data.npz", x=y[:, None] + np.zeros(2), y=y, group=group, id=np.arange(600))
    np.save("votes.npy", np.where(np.eye(3)[y] > 0, 8, 1))
    words = ["teachers=votes", "teachers.path=votes.npy", "queries=50", "aggregator=confident"]
    words += ["aggregator.threshold=8", "aggregator.sigma1=2", "aggregator.sigma=0.1"]
    ran = nzc("dataset=npz", "dataset.path=data.npz", "student=none", *words)
    header, *lines = (newest_folder(ran) / "labels.csv").read_text().splitlines()
    assert header == "row,label,id"
    row, label, origin = np.loadtxt(lines, delimiter=",", dtype=int).T
    assert 0 < len(row) == ran.result["answered"]
    assert (y[origin] == label).all()
    assert (np.diff(origin) > 0).all() and (origin != row).any()


def test_own_rows_that_nobody_has_labeled(nzc: Nzc) -> None:
    y = np.arange(600) % 3
    role = np.repeat(["private", "public"], 300)
    x = np.random.default_rng(0).normal(size=(600, 5)) + 3 * y[:, None]
    np.savez("data.npz", x=x, y=np.where(role == "private", y, -1), role=role)
    words = ["dataset=npz", "dataset.path=data.npz", "student=linear", "aggregator=plurality"]
    ran = nzc("teachers=logistic", "teachers.count=5", *words)
    assert ran.code == 0, ran.err
    assert ran.result["label_accuracy"] is None and ran.result["accuracy"] is None
    assert ran.result["teachers"]["mean_accuracy"] is None
    labels = newest_folder(ran) / "labels.csv"
    row, label, origin = np.loadtxt(labels, delimiter=",", dtype=int, skiprows=1).T
    assert (label == y[300:]).mean() > 0.9
    assert (origin == 300 + row).all()


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
    noise = {"lnmax": ["aggregator.gamma=0.05"]}.get(aggregator, [])
    words = [*VOTES, *files, f"aggregator={aggregator}", *noise, f"queries={queries}"]
    result = nzc(*words).result
    assert result["label_accuracy"] == pytest.approx(expected, abs=within)
