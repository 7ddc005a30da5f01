"""The page of a sweep: whole in one file, with the figures of the table; names from outside are
text.
"""

import html
import re
import shutil
import stat
from pathlib import Path

from conftest import VOTES, Nzc, tracked_runs
from mlflow import MlflowClient
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID, MLFLOW_RUN_NOTE
from omegaconf import OmegaConf

from nzc.runs.layout import PAGE
from nzc.sweeps.jobs import changed_settings
from nzc.sweeps.page import write_page
from nzc.sweeps.table import Sweep

OWN = [*VOTES, "teachers.path=votes.npy", "teachers.labels=labels.npy"]
NAME = '<b>bold</b> & "quoted"'
SWEEP = f"""# @package _global_
# Question: what do <votes> & labels cost? (a question
#           of two lines)
# Expected: little.
defaults: [override /dataset: none, override /teachers: votes, override /student: none]
# not of the header: it comes too late
hydra: {{mode: MULTIRUN, sweeper: {{params: {{seed: '0,1'}}}}}}
sweep:
  rows:
    - {{name: few, set: [aggregator=lnmax, queries=20], paper: {{label_accuracy: 0.9, epsilon: 2.04}}}}
    - {{name: '{NAME}', set: [aggregator=nzc], paper: {{epsilon: "≈ 0"}}}}
    - {{name: wrong, set: [queries=100000]}}
  figures:
    - {{name: cost, x: queries, y: label_accuracy, by: aggregator}}
    - {{name: gaps, curve: gap_above}}
"""


def _text(folder: Path) -> str:
    """The page as a person reads it."""
    return html.unescape(re.sub(r"<[^>]+>", "", (folder / PAGE).read_text()))


def test_a_sweep_has_a_table_a_page_and_a_parent_run(nzc: Nzc, histograms: Path) -> None:
    Path("sweeps").mkdir()
    Path("sweeps/mine.yaml").write_text(SWEEP)
    ran = nzc("+sweeps=mine", *OWN, "figures=null", "delta=1e-6", "tracking=mlflow")
    folder = next(ran.folder.glob("outputs/sweeps/*/*"))
    source, text = (folder / PAGE).read_text(), _text(folder)
    assert PAGE in ran.out and stat.S_IMODE((folder / PAGE).stat().st_mode) == 0o600
    # It loads nothing, and names from outside are text.
    assert all(link.startswith("data:") for link in re.findall(r'(?:src|href)="([^"]*)"', source))
    assert not re.search(r"<script|<iframe|url\(|@import|://", source) and "<b>bold" not in source
    # The whole table, the question, the commands, the failed jobs and the figures are there.
    for line in (folder / "table.md").read_text().splitlines()[4:6]:
        assert all(cell in text for cell in line.strip("| ").split(" | "))
    assert (
        "what do <votes> & labels cost? (a question of two lines)" in text
        and "too late" not in text
    )
    assert "4 of 6 runs finished" in text and "2 jobs: queries=100000: " in text
    assert (
        "nzc seed=1 teachers=votes" in text.replace("+sweeps=mine ", "")
        and "aggregator=nzc hydra.mode=RUN" in text
    )
    assert "label accuracy against queries, one line per aggregator; mean of 2 seeds" in text
    assert source.count("data:image/svg+xml;base64,") == 2
    table = (folder / "table.md").read_text()
    for part in (
        "| few | 20 | 90.0 % |",
        "2.04",
        "∞",
        "paper's values are not for",
        ", delta=1e-6",
    ):
        assert part in table
    assert "few" in ran.out and "delta=1e-6" in changed_settings(
        OmegaConf.load(folder / "multirun.yaml")
    )
    _is_tracked()
    # What was never begun and what was killed are told apart.
    shutil.rmtree(folder / "4")
    (folder / "3" / "result.json").unlink()
    write_page(Sweep(folder))
    assert "did not finish (job 3: few)" in _text(
        folder
    ) and f"was not started (job 4: {NAME})" in _text(folder)
    for path in folder.glob("*/result.json"):
        path.unlink()
    write_page(Sweep(folder))
    assert "0 of 6 runs finished" in _text(folder)


def _is_tracked() -> None:
    client = MlflowClient(f"sqlite:///{Path.cwd()}/mlflow.db")
    parent, *jobs = tracked_runs(client)
    assert {job.data.tags[MLFLOW_PARENT_RUN_ID] for job in jobs} == {parent.info.run_id}
    names = [f"{name}, seed={seed}" for seed in (0, 1) for name in ("few", NAME, "wrong")]
    assert [job.info.run_name for job in jobs] == names
    assert parent.info.run_name.startswith("mine · teachers=votes dataset=none student=none")
    shown, metrics = parent.data.tags[MLFLOW_RUN_NOTE], parent.data.metrics
    assert shown.startswith("what do <votes>")
    assert "| few&ensp; |" in shown
    assert f"get-artifact?run_uuid={parent.info.run_id}&path=figures/cost.svg" in shown
    kept = {
        file.path
        for place in ("", "figures")
        for file in client.list_artifacts(parent.info.run_id, place)
    }
    assert kept >= {"table.md", "figures/cost.svg"}
    assert (metrics["jobs"], metrics["jobs_failed"]) == (6, 2)
    # The clean votes are the most accurate, but without a finite ε.
    finite = [job for job in jobs if "epsilon" in job.data.metrics]
    (best,) = (job for job in finite if job.info.run_name == parent.data.tags["best"])
    assert best.data.metrics["label_accuracy"] == max(
        job.data.metrics["label_accuracy"] for job in finite
    )
    assert (
        best.data.metrics.items()
        >= {key: metrics[key] for key in ("label_accuracy", "epsilon")}.items()
    )
    assert best.data.tags[MLFLOW_RUN_NOTE] in shown and "1e-06" in best.data.tags[MLFLOW_RUN_NOTE]
