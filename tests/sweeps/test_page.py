"""The page of a sweep: whole in one file; names from outside are text."""

import html
import re
import shutil
from pathlib import Path

import numpy as np
from conftest import FILE, Command, RunNzc, mlflow_client, tracked_runs, write
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE

from nzc.runs.layout import PAGE
from nzc.sweeps.page import write_page
from nzc.sweeps.table import Sweep

OWN = [*FILE, "teachers.labels=labels.npy"]
NAME = '<b>bold</b> & "quoted"'
SWEEP = f"""# @package _global_
sweep:
  question: what do <votes> & labels cost?
  expected: little
  rows:
    - name: few
      set: [aggregator=lnmax, queries=20]
      paper: {{label_accuracy: 0.9, epsilon: 2.04}}
    - {{name: '{NAME}', set: [aggregator=nzc], paper: {{epsilon: "≈ 0"}}}}
    - {{name: wrong, set: [queries=100000]}}
  figures:
    - {{name: cost, x: queries, y: label_accuracy, by: aggregator}}
    - {{name: gaps, curve: gap_above}}
defaults: [override /dataset: none, override /teachers: votes, override /student: none]
hydra: {{mode: MULTIRUN}}
"""


def _text(folder: Path) -> str:
    """The page as a person reads it."""
    return html.unescape(re.sub(r"<[^>]+>", "", (folder / PAGE).read_text()))


def test_a_sweep_has_a_table_a_page_and_a_parent_run(run_nzc: RunNzc, histograms: Path) -> None:
    write("sweeps/mine.yaml", SWEEP)
    ran = run_nzc("+sweeps=mine", *OWN, "figures=null", "delta=1e-6", "tracking=mlflow", code=2)
    (folder,) = ran.folder.glob("outputs/sweeps/*/*")
    source = (folder / PAGE).read_text()
    text = _text(folder)
    assert [path for path in folder.rglob("*") if path.stat().st_mode & 0o077] == []
    # It loads nothing, and names from outside are text.
    assert all(link.startswith("data:") for link in re.findall(r'(?:src|href)="([^"]*)"', source))
    assert not re.search(r"<script|<iframe|url\(|@import|://|<b>bold", source)
    # The whole table, the question, the commands, the failed jobs and the figures are there.
    sweep = Sweep(folder)
    for line in [*sweep.table.lines, *[[note] for note in sweep.table.failures]]:
        for part in line:
            assert part in text
    assert "what do <votes> & labels cost?" in text
    assert "2 of 3" in text
    assert (
        "2 runs on votes of a file, seed 0: queries whose gap exceeds n (%) against n (votes)"
        in text
    )
    assert source.count("data:image/svg+xml;base64,") == 2
    _require_tracked()
    # What was never begun and what was killed are told apart.
    shutil.rmtree(folder / "1")
    (folder / "0" / "result.json").unlink()
    write_page(Sweep(folder))
    text = _text(folder)
    assert "did not finish (job 0: few)" in text
    assert f"was not started (job 1: {NAME})" in text


def test_an_epsilon_of_0_beside_an_infinite_protects_nobody(
    run_nzc: RunNzc, here: Path, command: Command
) -> None:
    """Clean votes that are far from a tie cost nothing; with them count labels of a tie."""
    np.save("votes.npy", np.tile([240, 10, 0], (30, 1)))
    clean = [*FILE, "dataset.name=p", "aggregator=plurality", "tracking=mlflow"]
    shown = [run_nzc("--multirun", *clean).out, _text(next(Path("outputs").glob("*/*/*")))]
    assert all("protects nobody" in screen and "0.000" not in screen for screen in shown)
    metrics = tracked_runs()[-1].data.metrics
    assert not any(name.startswith("epsilon") for name in metrics)
    assert "0 at these votes alone" in command("store")[1]
    np.save("votes.npy", [[125, 125, 0]])
    run_nzc("--multirun", *clean)
    text = _text(max(Path("outputs").glob("*/*/*")))
    assert re.search(r"1 trials .* other runs, .* ∞: Plurality\(\) of 20.* has no finite ε", text)


def _require_tracked() -> None:
    client = mlflow_client()
    parent, *jobs = tracked_runs()
    assert [job.info.run_name for job in jobs] == ["few", NAME, "wrong"]
    assert parent.data.tags[MLFLOW_RUN_NOTE].startswith("what do <votes>")
    for file in ("table.md", "figures/cost.svg"):
        assert client.download_artifacts(parent.info.run_id, file)
    metrics = parent.data.metrics
    assert (metrics["jobs"], metrics["jobs_failed"]) == (3, 1)
    # The clean votes are the most accurate, but without a finite ε.
    best, clean = (job.data.metrics for job in jobs[:2])
    assert parent.data.tags["best"] == "few" and "epsilon" not in clean
    for name in ("label_accuracy", "epsilon"):
        assert metrics[name] == best[name]
    assert clean["label_accuracy"] > best["label_accuracy"]
