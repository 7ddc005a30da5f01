"""Whole runs: what they leave, and what they reuse."""

import json
import stat
from pathlib import Path

import numpy as np
from conftest import (
    FILE,
    SMALL,
    TEACHERS,
    Nzc,
    contents,
    newest_folder,
    parametrize,
    published,
    published_votes,
    served,
    tracked_runs,
)
from few_labels import clouds
from mlflow import MlflowClient
from pytest import MonkeyPatch, approx, warns

import nzc
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


def test_a_whole_run_keeps_the_contract(nzc: Nzc, monkeypatch: MonkeyPatch) -> None:
    """Its result and files, what MLflow finds, the student there; the same from another store."""
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "0.05")
    monkeypatch.setattr(record, "SHORT", 0.0)  # as if it took long
    ran = nzc(*SMALL, "queries=100", "tracking=mlflow", "tracking.register=student-of-digits")
    result = ran.result
    assert ran.err == "".join(f"nzc: {line}\n" for line in result["warnings"])
    assert "student accuracy" in ran.out
    assert result.keys() >= set(KEYS.split())
    assert set(result["epsilon"]) == set(EPSILONS.split())
    assert set(result["teachers"]) == set(TEACHERS_KEYS.split())
    assert set(result["seconds"]) == set(SECONDS.split())
    assert result["seconds"].pop("total") >= sum(result["seconds"].values())
    assert result["answered"] == 100 and 0.5 < result["teachers"]["ensemble_accuracy"] <= 1
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
    files = {file.path for file in client.list_artifacts(run.info.run_id)}
    assert files >= {"config", "labels.csv", "result.json"} and "curves.csv" not in files
    table = served(uri, "student-of-digits/1", splits.test.x)
    assert (table["label"].astype(int) == splits.test.y).mean() == approx(result["accuracy"])
    version = client.get_model_version("student-of-digits", "1")
    assert version.tags["unit"] == "record" and version.tags["epsilon"] in version.description

    again = nzc(*SMALL, "queries=100", "paths.store=other").result
    for key in ("seconds", "finished"):
        del result[key], again[key]
    assert again == result


CALLBACKS = """from hydra.experimental.callback import Callback
class Tells(Callback):
    def on_run_start(self, config, **more): print("run", config.seed)
    def on_job_start(self, config, **more): print("job", config.hydra.runtime.output_dir)
    def on_job_end(self, config, job_return, **more): print("ended", job_return.status.name)
    def on_run_end(self, config, job_return, **more): raise ValueError(job_return.return_value)
"""


def test_hydras_own_flags_and_keys_hold_for_a_single_run(
    nzc: Nzc, histograms: Path, monkeypatch: MonkeyPatch
) -> None:
    """A primary configuration, options and a callback of one's own; and what is recorded."""
    monkeypatch.syspath_prepend(".")
    told = ["+hydra.callbacks.own={_target_: own_callbacks.Tells}", "objective=queries"]
    for name, text in {
        "own_callbacks.py": CALLBACKS,
        "conf/short.yaml": "defaults: [config, _self_]\nqueries: 3\n",
        "mine/aggregator/quiet.yaml": "_target_: nzc.GNMax\nsigma: 9\n",
    }.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    words = ["-cd", "mine", "-cn", "short", "aggregator=quiet", "+hydra.job.env_set.NZC_TRIED=yes"]
    with warns(UserWarning, match="Tells.on_run_end raised ValueError: 3.0"):
        ran = nzc(*FILE, *words, *told, "hydra.run.dir=runs/${hydra.runtime.choices.aggregator}")
    folder = Path("runs/quiet")
    assert (
        ran.out.splitlines()[:2] == ["run 0", f"job {folder.absolute()}"]
        and "ended COMPLETED" in ran.out
    )
    assert json.loads((folder / "result.json").read_text())["queries"] == 3
    recorded = {path.name for path in (folder / ".hydra").iterdir()}
    assert recorded == {"config.yaml", "hydra.yaml", "overrides.yaml"}
    assert "teachers=votes" in (folder / ".hydra/overrides.yaml").read_text()


def test_two_runs_in_one_folder_are_not_mixed(nzc: Nzc, histograms: Path) -> None:
    folder = Path("here")
    words = [*FILE, "teachers.labels=labels.npy", "hydra.run.dir=here"]
    nzc(*words, "figures=true")
    assert any((folder / "figures").iterdir())
    (folder / "mine.txt").write_text("a person's own")
    before = dict(contents(folder))
    nzc(*words, "queries=500", code=2)
    assert dict(contents(folder)) == before
    assert nzc(*words, "aggregator=lnmax", "aggregator.gamma=5").err == ""
    assert json.loads((folder / "result.json").read_text())["aggregator"] == "lnmax"
    assert stat.S_IMODE((folder / "curves.csv").stat().st_mode) == 0o600
    left = {path.name for path in folder.iterdir() if path.is_file()}
    assert left == {".nzc-made", "result.json", "labels.csv", "curves.csv", "mine.txt"}
    assert not list((folder / "figures").iterdir())


def test_another_aggregator_trains_nothing(nzc: Nzc, monkeypatch: MonkeyPatch) -> None:
    """And nzc's own runs at its published extremes."""
    teachers = nzc(*TEACHERS, "student=none").result["teachers"]
    monkeypatch.setattr("nzc.teachers.ensemble.Ensemble.teach", None)
    extremes = ["aggregator=nzc", "aggregator.c=1e100", "aggregator.gamma=1e-10"]
    result = nzc(*TEACHERS, "student=none", "queries=null", *extremes).result
    assert result["teachers"] == teachers
    assert stat.S_IMODE(Path(".nzc").stat().st_mode) == 0o700
    assert result["label_accuracy"] == teachers["ensemble_accuracy"]
    assert result["epsilon"]["claimed"] == approx(2e-10 * np.sqrt(2 * 400 * np.log(1e5)))
    assert result["epsilon"]["data_independent"] == "inf"


def test_ground_truth_needs_no_teachers(nzc: Nzc) -> None:
    result = nzc(*TEACHERS, "aggregator=ground_truth", "student.steps=60").result
    assert result["label_accuracy"] == 1 and result["accuracy"] > 0.5
    assert result["teachers"] == dict.fromkeys(TEACHERS_KEYS.split()) | {"count": 0}
    assert not Path(".nzc/predictions").exists()


def test_without_a_terminal_a_run_says_one_line_a_stage(nzc: Nzc, histograms: Path) -> None:
    """After one that says what it combines."""
    words = [*FILE, "trainer.progress=true", "aggregator.sigma=10"]
    first, *stages = nzc(*words).err.splitlines()
    assert first == "nzc: dataset=none teachers=votes aggregator=gnmax student=none"
    assert [line.split(": ")[1] for line in stages] == ["teachers", "votes", "labels"]
    public = nzc(*words, "rng=system", "dataset.name=p", "+tracking.private=false").err
    assert public.count("\n") == 4 and " s\n" not in public  # the time of a stage tells of votes


def test_own_rows_that_nobody_has_labeled(nzc: Nzc) -> None:
    data, y = clouds(600, 300)
    role = np.repeat(["private", "public"], 300)
    np.savez("data.npz", x=data.x, y=data.labels, role=role)
    words = ["dataset=npz", "dataset.path=data.npz", "student=linear", "aggregator=plurality"]
    ran = nzc("teachers=logistic", "teachers.count=5", "teachers.parallel=1", *words)
    assert ran.result["label_accuracy"] is None and ran.result["accuracy"] is None
    assert ran.result["teachers"]["mean_accuracy"] is None
    labels = newest_folder(ran) / "labels.csv"
    row, label, origin = np.loadtxt(labels, delimiter=",", dtype=int, skiprows=1).T
    assert (label == y[300:]).mean() > 0.9
    assert (origin == 300 + row).all()


@parametrize(
    ("name", "queries", "mechanism", "expected", "within"),
    [
        ("svhn", 10000, nzc.NZC(1e100, 1e-10), 0.8806, 0.0015),
        ("mnist", 9000, nzc.LNMax(0.05), 0.930, 0.004),
    ],
)
def test_nzc_table_2(
    name: str, queries: int, mechanism: nzc.NoisyArgmax, expected: float, within: float
) -> None:
    """At least the paper's accuracy."""
    truth = np.load(published(f"{name}_true_labels.npy"))[:queries]
    labels = mechanism.release(published_votes(name, queries), np.random.default_rng(0))
    assert (labels == truth).mean() >= expected - within
