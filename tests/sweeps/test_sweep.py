"""Sweeps: rows and grids, all of them checked before the first job."""

from pathlib import Path

import pytest
from conftest import FILE, RunNzc, parametrize, write
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from pytest import MonkeyPatch, raises

from nzc.app import config
from nzc.app.build import build
from nzc.app.publish import publish_run as publish
from nzc.app.sweep import SweepJob, compose_jobs, expand_rows
from nzc.runs import pipeline
from nzc.sweeps.jobs import job_name, read_jobs
from nzc.sweeps.spec import SweepRow, check_keys, spec_of
from nzc.sweeps.table import Sweep
from nzc.validation import InputError

SWEEP = """# @package _global_
defaults: [override /dataset: none, override /teachers: votes, override /student: none]
hydra:
  mode: MULTIRUN
teachers: {path: votes.npy, labels: labels.npy}
sweep:
  rows:
    - {name: first, set: [aggregator=plurality]}
    - {name: second, set: [aggregator=nzc, queries=20]}
"""
pytestmark = pytest.mark.usefixtures("histograms")


def _table(folder: Path) -> list[str]:
    """The first cells of a sweep's table, then its notes and failures; without warnings."""
    lines = next(folder.rglob("table.md")).read_text().splitlines()[4:]
    return [
        line.split(" | ")[0].removeprefix("| ") for line in lines if line and ") warn: " not in line
    ]


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_sweep_in_the_folder_of_another_is_that_sweep_alone(
    run_nzc: RunNzc, monkeypatch: MonkeyPatch
) -> None:
    again = ["--multirun", *FILE, "hydra.sweep.dir=sw"]
    folder = Path("sw")
    run_nzc(*again, "queries=1000,10", code=2)
    failed = f"- 1 of 2 jobs: {Path('sw/0/error.txt').read_text().strip()} (job 0: queries=1000)"
    assert _table(folder) == ["queries=10", failed]
    # A pattern names the folders of jobs; Hydra's own sweeper is that of nzc.
    run_nzc(*again, "queries=10,15", "hydra/sweeper=basic", "hydra.sweep.subdir=a/q${queries}")
    assert _table(folder) == ["queries=10", "queries=15"]
    assert [*read_jobs(folder)["folder"]] == [folder / "a/q10", folder / "a/q15"]
    # One that is stopped shows what has finished, and nothing of an earlier one in the jobs that
    # did not begin.
    runs = iter([pipeline.execute])  # one, and no second
    monkeypatch.setattr(
        pipeline, "execute", lambda *arguments: next(runs, _interrupted)(*arguments)
    )
    run_nzc(*again, "queries=15,25", code=130)
    assert not Path("sw/0/error.txt").exists()
    assert _table(folder) == ["queries=15", "- 1 of 2 jobs: was not started (job 1: queries=25)"]
    # As of a sweeper that leaves no plan.
    Path("sw/jobs.json").unlink()
    found = [path.name for path in read_jobs(folder)["folder"]]
    assert "0" in found and "1" not in found
    with raises(InputError, match="must be finished"):
        publish(Path("sw/1"), Path("published"))


@parametrize(
    ("row", "params", "typed", "jobs", "lines"),
    [
        # A row may be a grid, whose seeds are averaged; the command line has the last word.
        (
            'aggregator=plurality, "seed=0,1"',
            "delta: '1e-5,1e-6'",
            ["seed=7", "delta=1e-4"],
            ["seed=0 · first", "seed=1 · first", "seed=7 · second"],
            ["first", "second"],
        ),
        ("aggregator=plurality", "", ["+sweep.only=eco"], ["second"], ["second"]),
    ],
)
def test_rows_times_grid(
    run_nzc: RunNzc, row: str, params: str, typed: list[str], jobs: list[str], lines: list[str]
) -> None:
    grid = f"  sweeper: {{params: {{{params}}}}}\n  mode"
    write("sweeps/mine.yaml", SWEEP.replace("aggregator=plurality", row).replace("  mode", grid))
    ran = run_nzc("+sweeps=mine", *typed)
    names = [line.split(": ")[0] for line in ran.out.splitlines() if "released" in line]
    assert names == jobs
    assert len(ran.results) == len(jobs)
    assert _table(ran.folder)[: len(lines)] == lines


@parametrize("path", sorted((config.HOME / "sweeps").glob("*.yaml")), ids=lambda path: path.stem)
@parametrize("choices", [1, pytest.param(100, marks=pytest.mark.slow)])
def test_every_sweep_file_composes_row_by_row(path: Path, choices: int) -> None:
    """Rows that choose the same options are composed together; of the first choice, or of all."""
    config.register()
    with initialize_config_dir(str(config.CONF), version_base="1.3"):
        sweep = compose("config", [f"+sweeps={path.stem}"], return_hydra_config=True)
        jobs: dict[str, dict[str, str]] = {}
        for row in expand_rows(sweep) or [SweepRow()]:
            words = {word.partition("=")[0]: word for word in row.set}
            chosen = [words[group] for group in sorted(words.keys() & {*config.GROUPS})]
            jobs.setdefault(" ".join(chosen), {}).update(words)
        grid = (sweep.hydra.sweeper.get("params") or {}).items()
        grid = [f"{key}={values}".split(",")[0] for key, values in grid if "(" not in str(values)]
        own = [f"+sweeps={path.stem}", *grid]
        rows = [
            SweepJob(SweepRow(), [*own, *words.values()]) for words in [*jobs.values()][:choices]
        ]
        _, configs, mistakes = compose_jobs(sweep, rows)
    assert mistakes == []
    spec = spec_of(sweep)
    assert all((spec.question, spec.expected, spec.time, spec.command))
    assert check_keys(spec, configs) == []
    for cfg in configs:
        assert not OmegaConf.missing_keys(cfg.aggregator)
        if cfg.budget.epsilon is None:
            build(cfg, "aggregator")


def test_unknown_metrics_and_columns_are_refused_before_jobs(
    run_nzc: RunNzc,
) -> None:
    f1 = "metrics: {f1: {_target_: sklearn.metrics.f1_score, average: macro}}\n"
    write("sweeps/mine.yaml", f"{SWEEP}  columns: [metrics.f1]\n{f1}")
    wrong = {"gamma": "aggregator.gamma", "f1": "metrics.f1"}
    said = run_nzc("+sweeps=mine", f"sweep.columns=[{','.join(wrong)}]", code=2).err.splitlines()
    for line, (key, hint) in zip(said, wrong.items(), strict=True):
        assert line.startswith(f"nzc: sweep.columns={key}: ") and hint in line
    assert not Path("outputs").exists()


def test_a_search_finds_its_aim_and_is_in_the_ledger(run_nzc: RunNzc) -> None:
    search = ["+sweeps=search_noise", *FILE, "teachers.labels=labels.npy"]
    trials = ["hydra.sweeper.n_trials=3", "hydra.sweep.subdir=t${hydra.job.num}"]
    ran = run_nzc(*search, "hydra/sweeper=optuna", *trials)
    folder = next(ran.folder.glob("outputs/sweeps/*/*"))
    best = OmegaConf.load(folder / "optimization_results.yaml")
    jobs = read_jobs(folder)
    measured = jobs[["label_accuracy", "epsilon.exact"]].to_numpy().tolist()
    assert all(solution["values"] in measured for solution in best.solutions)
    best_first = jobs.assign(wrong=-jobs["label_accuracy"]).sort_values(["wrong", "epsilon.exact"])
    assert [*Sweep(folder).table.cells.index] == [*best_first["name"]]
    assert [*jobs["folder"]] == [folder / "t0", folder / "t1", folder / "t2"]
    assert max(jobs["epsilon.ledger_total"]) > max(jobs["epsilon.exact"])
    assert job_name(folder, 0, ["aggregator.sigma=5", "dataset=none"]) == "σ=5"
    assert "INTERVAL_SWEEP" in run_nzc(*search, "tracking=mlflow", code=2).err
    assert list(ran.folder.glob("outputs/sweeps/*/*")) == [folder]
    assert not Path("mlflow.db").exists()
