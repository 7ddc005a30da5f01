"""Sweeps: rows and grids, children under one parent, and a table with the paper's numbers."""

from pathlib import Path

import pytest
from conftest import VOTES, Nzc, tracked_runs
from hydra import compose, initialize_config_dir
from mlflow import MlflowClient
from omegaconf import OmegaConf

from nzc.app import config
from nzc.app.publish import publish_run as publish
from nzc.app.sweep import SweepJob, compose_jobs, expand_rows
from nzc.runs import pipeline
from nzc.sweeps.frame import job_name, read_jobs
from nzc.sweeps.spec import SweepRow, changed_settings, check_keys, spec_of
from nzc.validation import InputError

SWEEP = """# @package _global_
defaults: [override /recipe: papers, override /dataset: none, override /teachers: votes, override /student: none]
hydra:
  mode: MULTIRUN
teachers: {path: votes.npy, labels: labels.npy}
sweep:
  rows:
    - {name: first, set: [aggregator=plurality], paper: {label_accuracy: 0.9, epsilon: 2.04}}
    - {name: second, set: [aggregator=nzc, queries=20]}
  figures: [{name: gaps, curve: gap_above}]
"""
OWN = [*VOTES, "teachers.path=votes.npy"]
pytestmark = pytest.mark.usefixtures("histograms")


def _sweep(text: str = SWEEP) -> None:
    Path("sweeps").mkdir()
    Path("sweeps/mine.yaml").write_text(text)


def _table(folder: Path) -> list[str]:
    """The first cells of a sweep's table, then its notes and failures."""
    lines = next(folder.rglob("table.md")).read_text().splitlines()[4:]
    return [line.split(" | ")[0].removeprefix("| ") for line in lines if line]


def test_rows_become_runs_below_one_parent_and_a_table(nzc: Nzc) -> None:
    _sweep()
    ran = nzc("+sweeps=mine", "delta=1e-6", "seed=3", "tracking=mlflow", "figures=null")
    assert ran.code == 0, ran.err
    assert [(result["aggregator"], result["queries"]) for result in ran.results] == [("plurality", 40), ("nzc", 20)]
    folder = next(ran.folder.glob("outputs/sweeps/*/*"))
    table = (folder / "table.md").read_text()
    for text in (
        "| first | 40 | 90.0 % | 100.0 %",
        "2.04",
        "∞",
        "paper's values are not for",
        ": delta=1e-6",
    ):
        assert text in table
    assert "first" in ran.out and "seed=3" not in changed_settings(OmegaConf.load(folder / "multirun.yaml"))
    parent, *children = tracked_runs(MlflowClient(f"sqlite:///{Path.cwd()}/mlflow.db"))
    assert "mlflow.parentRunId" not in parent.data.tags and parent.info.status == "FINISHED"
    assert [run.data.tags["mlflow.parentRunId"] for run in children] == [parent.info.run_id] * 2
    client = MlflowClient(f"sqlite:///{Path.cwd()}/mlflow.db")
    assert "table.md" in {file.path for file in client.list_artifacts(parent.info.run_id)}
    assert "figures/gaps.svg" in {file.path for file in client.list_artifacts(parent.info.run_id, "figures")}


def test_a_sweep_in_the_folder_of_another_is_that_sweep_alone(nzc: Nzc, monkeypatch: pytest.MonkeyPatch) -> None:
    again, folder = ["--multirun", *OWN, "hydra.sweep.dir=sw"], Path("sw")
    assert nzc(*again, "seed=0,1", "queries=20,30").code == 0
    assert nzc(*again, "queries=10,1000,20").code == 2  # of the wrong one
    failed = f"- 1 job: {Path('sw/1/error.txt').read_text().strip()} (job 1: queries=1000)"
    assert _table(folder) == ["queries=10", "queries=20", failed]
    assert nzc(*again, "queries=10,15").code == 0
    assert not Path("sw/1/error.txt").exists() and _table(folder) == ["queries=10", "queries=15"]
    # One that is stopped shows what has finished, and nothing of an earlier one in the jobs that did not begin.
    runs = iter([pipeline.execute])  # one, and no second
    monkeypatch.setattr(pipeline, "execute", lambda *arguments: next(runs, _interrupted)(*arguments))
    assert nzc(*again, "queries=15,25").code == 130
    assert _table(folder) == ["queries=15", "- 1 job: was not started (job 1: queries=25)"]
    Path("sw/jobs.json").unlink()  # as of a sweeper that leaves none
    assert [job.name for job in read_jobs(folder)["folder"]] == ["0"]
    with pytest.raises(InputError, match="must be finished"):
        publish(Path("sw/1"), Path("published"))


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("row", "params", "typed", "jobs", "lines"),
    [
        ("aggregator=plurality", "", ["seed=0,1"],
         ["first, seed=0", "second, seed=0", "first, seed=1", "second, seed=1"], ["first", "second"]),
        ("aggregator=plurality", "", ["seed=0,1", "delta=1e-5,1e-6"], 8,
         ["first, delta=1e-05", "second, delta=1e-05", "first, delta=1e-06", "second, delta=1e-06"]),
        # A row may be a grid, and the command line has the last word.
        ('aggregator=lnmax, "aggregator.gamma=0.1,0.2"', "delta: '1e-5,1e-6'", ["delta=1e-4"], 3,
         ["first, aggregator.gamma=0.1", "first, aggregator.gamma=0.2", "second"]),
        ("aggregator=plurality", "", ["+sweep.only=eco"], ["second"], ["second"]),
    ],
)  # fmt: skip
def test_rows_times_grid(
    nzc: Nzc, row: str, params: str, typed: list[str], jobs: list[str] | int, lines: list[str]
) -> None:
    _sweep(SWEEP.replace("aggregator=plurality", row).replace("  mode", f"  sweeper: {{params: {{{params}}}}}\n  mode"))
    ran = nzc("+sweeps=mine", *typed)
    assert ran.code == 0, ran.err
    names = [line.split(": ")[0] for line in ran.out.splitlines() if "released" in line]
    assert jobs in (names, len(names)) and len(ran.results) == len(names)
    assert _table(ran.folder)[: len(lines)] == lines


def test_a_grid_without_rows(nzc: Nzc) -> None:
    ran = nzc(*OWN, "--multirun", "aggregator=lnmax", "aggregator.gamma=0.1,0.2")
    assert (ran.code, len(ran.results)) == (0, 2)
    assert _table(ran.folder)[:2] == ["aggregator.gamma=0.1", "aggregator.gamma=0.2"]


def test_a_wrong_row_does_not_stop_the_others(nzc: Nzc) -> None:
    _sweep(SWEEP.replace("queries=20", "queries=100000"))
    ran = nzc("+sweeps=mine")
    assert (ran.code, len(ran.results)) == (2, 1)
    assert "queries=100000" in ran.err
    assert _table(ran.folder)[-1].startswith("- 1 job: queries=100000: ") and _table(ran.folder)[-1].endswith("second)")


@pytest.mark.parametrize(
    ("wrong", "texts"),
    [
        ("sed=20", ["sed", "did you mean seed?", "(row second)"]),
        ("+sed=20", ["sed=20", "did you mean seed?", "(row second)"]),
        ("aggregator.gama=1", ["aggregator.gama", "did you mean gamma?", "(row second)"]),
        ("+aggregator.gama=1", ["aggregator.gama=1", "keys of nzc.NZC", "(row second)"]),
        ("student=supervisd", ["student/supervisd", "supervised", "(row second)"]),
    ],
)
def test_a_wrong_key_of_a_row_is_said_before_anything_runs(nzc: Nzc, wrong: str, texts: list[str]) -> None:
    _sweep(SWEEP.replace("queries=20", wrong).replace("epsilon: 2.04", "acuracy: 2.04"))
    ran = nzc("+sweeps=mine", "tracking=mlflow", "seed=0,1", "hydra.sweeper.max_batch_size=1")
    assert (ran.code, ran.err.count("\n")) == (2, 2), ran.err
    row, paper = ran.err.splitlines()
    assert all(text in row for text in texts), row
    assert "sweep.rows.0.paper.acuracy=2.04: must be for a key of result.json; did you mean accuracy?" in paper
    assert not {"outputs", "mlflow.db"} & {path.name for path in Path.cwd().iterdir()}


@pytest.mark.parametrize(
    ("wrong", "typed", "line"),
    [
        (
            "queries=20, aggregator=lnmax",
            [],
            "sweep.rows.1.set=['aggregator=nzc', 'queries=20', 'aggregator=lnmax']: must set each key once",
        ),
        ("queries=20", ["+sweep.only=third"], "sweep.only=third: must be in the name of a row: first; second"),
    ],
)
def test_a_wrong_row_is_a_line(nzc: Nzc, wrong: str, typed: list[str], line: str) -> None:
    _sweep(SWEEP.replace("queries=20", wrong))
    ran = nzc("+sweeps=mine", *typed)
    assert (ran.code, ran.err) == (2, f"nzc: {line}\n")


@pytest.mark.parametrize("path", sorted((config.HOME / "sweeps").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_sweep_file_composes_row_by_row(path: Path) -> None:
    config.register()
    text = path.read_text()
    for heading in ("# Question:", "# Expected:", "# Time:", "# Command:"):
        assert heading in text
    with initialize_config_dir(str(config.CONF), version_base="1.3"):
        sweep = compose("config", [f"+sweeps={path.stem}"], return_hydra_config=True)
        rows = expand_rows(sweep) or [SweepRow()]
        configs, mistakes = compose_jobs(sweep, [SweepJob(row, [f"+sweeps={path.stem}", *row.set]) for row in rows])
    assert mistakes == []
    assert check_keys(spec_of(sweep), configs) == []
    assert not any(OmegaConf.missing_keys(cfg.aggregator) for cfg in configs)


def test_a_search_finds_what_it_is_after_and_its_cost_is_in_the_ledger(nzc: Nzc) -> None:
    search = ["+sweeps=search_noise", *OWN, "teachers.labels=labels.npy"]
    ran = nzc(*search, "hydra/sweeper=optuna", "hydra.sweeper.n_trials=3")
    assert ran.code == 0, ran.err
    folder = next(ran.folder.glob("outputs/sweeps/*/*"))
    best = OmegaConf.load(folder / "optimization_results.yaml")
    measured = {(result["label_accuracy"], result["epsilon"]["exact"]) for result in ran.results}
    assert {tuple(solution["values"]) for solution in best.solutions} <= measured
    totals = [result["epsilon"]["ledger_total"] for result in ran.results]
    assert max(totals) > max(epsilon for _, epsilon in measured)
    assert job_name(folder, 0, ["aggregator.sigma=5", "dataset=none"]) == "aggregator.sigma=5"
    assert "needs hydra/sweeper=optuna" in nzc(*search, "tracking=mlflow").err
    assert list(ran.folder.glob("outputs/sweeps/*/*")) == [folder]
    assert not Path("mlflow.db").exists()
    assert "objective=accuracy: must be a number" in nzc("--multirun", *OWN, "objective=accuracy").err
