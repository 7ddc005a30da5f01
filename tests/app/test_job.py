"""Whole runs: what they leave, and what they reuse."""

import json
import stat
from pathlib import Path

import numpy as np
from conftest import (
    FILE,
    SMALL,
    TEACHERS,
    RunNzc,
    newest_folder,
    served,
    tracked_runs,
    write,
)
from mlflow import MlflowClient
from pytest import MonkeyPatch, approx, warns

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


def test_a_whole_run_keeps_the_contract(run_nzc: RunNzc, monkeypatch: MonkeyPatch) -> None:
    """Its result and files, what MLflow finds, the student there; the same from another store."""
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "0.05")
    monkeypatch.setattr(record, "SHORT", 0.0)  # as if it took long
    ran = run_nzc(*SMALL, "queries=100", "tracking=mlflow", "tracking.register=student-of-digits")
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

    again = run_nzc(*SMALL, "queries=100", "paths.store=other").result
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
    run_nzc: RunNzc, histograms: Path, monkeypatch: MonkeyPatch
) -> None:
    """A primary configuration, options and a callback of one's own; and what is recorded."""
    monkeypatch.syspath_prepend(".")
    told = ["+hydra.callbacks.own={_target_: own_callbacks.Tells}", "objective=queries"]
    for name, text in {
        "own_callbacks.py": CALLBACKS,
        "conf/short.yaml": "defaults: [config, _self_]\nqueries: 3\n",
        "mine/aggregator/quiet.yaml": "_target_: nzc.GNMax\nsigma: 9\n",
    }.items():
        write(name, text)
    words = ["-cd", "mine", "-cn", "short", "aggregator=quiet", "+hydra.job.env_set.NZC_TRIED=yes"]
    with warns(UserWarning, match="Tells.on_run_end raised ValueError: 3.0"):
        ran = run_nzc(
            *FILE, *words, *told, "hydra.run.dir=runs/${hydra.runtime.choices.aggregator}"
        )
    folder = Path("runs/quiet")
    assert (
        ran.out.splitlines()[:2] == ["run 0", f"job {folder.absolute()}"]
        and "ended COMPLETED" in ran.out
    )
    assert json.loads((folder / "result.json").read_text())["queries"] == 3
    recorded = {path.name for path in (folder / ".hydra").iterdir()}
    assert recorded == {"config.yaml", "hydra.yaml", "overrides.yaml"}
    assert "teachers=votes" in (folder / ".hydra/overrides.yaml").read_text()


def test_another_aggregator_trains_nothing(run_nzc: RunNzc, monkeypatch: MonkeyPatch) -> None:
    """And nzc's own runs at its published extremes."""
    teachers = run_nzc(*TEACHERS, "student=none").result["teachers"]
    monkeypatch.setattr("nzc.teachers.ensemble.Ensemble.teach_all", None)
    extremes = ["aggregator=nzc", "aggregator.c=1e100", "aggregator.gamma=1e-10"]
    result = run_nzc(*TEACHERS, "student=none", "queries=null", *extremes).result
    assert result["teachers"] == teachers
    assert stat.S_IMODE(Path(".nzc").stat().st_mode) == 0o700
    assert result["label_accuracy"] == teachers["ensemble_accuracy"]
    assert result["epsilon"]["claimed"] == approx(2e-10 * np.sqrt(2 * 400 * np.log(1e5)))
    assert result["epsilon"]["data_independent"] == "inf"
