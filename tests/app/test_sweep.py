"""Sweeps: rows and grids, children under one parent, and a table with the paper's numbers."""

from pathlib import Path

import pytest
from conftest import SMALL, TEACHERS, VOTES, Nzc
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from nzc.app import config
from nzc.app.sweep import expand_rows
from nzc.runs.layout import job_name, read_jobs
from nzc.runs.pipeline import PreparedRun
from nzc.runs.publish import publish
from nzc.runs.sweep_spec import SweepRow
from nzc.runs.sweep_table import _measured
from nzc.validation import InputError

SWEEP = """# @package _global_
hydra:
  mode: MULTIRUN
sweep:
  rows:
    - {name: first, set: [aggregator=plurality], paper: {accuracy: 0.9, epsilon: 2.04}}
    - {name: second, set: [aggregator=nzc, queries=20]}
"""


def _sweep(text: str = SWEEP) -> None:
    Path("sweeps").mkdir()
    Path("sweeps/mine.yaml").write_text(text)


def test_rows_become_runs_and_a_table(nzc: Nzc) -> None:
    _sweep()
    ran = nzc("+sweeps=mine", *SMALL)
    assert ran.code == 0, ran.err
    assert [(result["aggregator"], result["queries"]) for result in ran.results] == [("plurality", 400), ("nzc", 20)]
    table = next(ran.folder.glob("outputs/sweeps/*/*/table.md")).read_text()
    assert "| first | 400 |" in table
    assert "90.0 %" in table
    assert "2.04" in table
    assert "∞" in table
    assert "first" in ran.out


def test_a_sweep_in_the_folder_of_another_is_that_sweep_alone(nzc: Nzc) -> None:
    again = ["--multirun", *TEACHERS, "student=none", "hydra.sweep.dir=sw", "teachers.seed=0"]
    assert nzc(*again, "seed=0,1,2", "queries=20,30,40").code == 0
    ran = nzc(*again, "queries=10,1000,20,30")
    assert ran.code == 2  # of the wrong one
    table = Path("sw/table.md").read_text().splitlines()[4:]
    assert [line.split(" | ")[0] for line in table] == [
        "| queries=10",
        f"| queries=1000: {Path('sw/1/error.txt').read_text().strip()}",
        "| queries=20",
        "| queries=30",
    ]
    assert nzc(*again, "queries=10,15").code == 0
    assert not Path("sw/1/error.txt").exists()
    assert Path("sw/table.md").read_text().count("| queries=") == 2


def test_what_a_sweep_did_not_begin_shows_nothing_of_an_earlier_one(
    nzc: Nzc, histograms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = ["--multirun", *VOTES, f"teachers.path={histograms}", "hydra.sweep.dir=sw"]
    assert nzc(*again, "queries=10,20,30").code == 0
    runs = iter([PreparedRun.execute])  # one, and no second
    monkeypatch.setattr(PreparedRun, "execute", lambda *arguments: next(runs, _interrupted)(*arguments))
    assert nzc(*again, "queries=15,25").code == 130
    table = Path("sw/table.md").read_text().splitlines()[4:]
    assert [line.split(" | ")[0] for line in table] == ["| queries=15", "| queries=25: was not started"]
    Path("sw/jobs.json").unlink()  # as of a sweeper that leaves none
    assert [job.folder.name for job in read_jobs(Path("sw"))] == ["0"]
    with pytest.raises(InputError, match="must be finished"):
        publish(Path("sw/1"), Path("published"))


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_rows_times_grid(nzc: Nzc) -> None:
    _sweep()
    ran = nzc("+sweeps=mine", *TEACHERS, "student=none", "teachers.seed=0", "seed=0,1")
    assert [line.split(": ")[0] for line in ran.out.splitlines() if "released" in line] == [
        "first, seed=0", "second, seed=0", "first, seed=1", "second, seed=1",
    ]  # fmt: skip
    assert sorted((result["seed"], result["aggregator"]) for result in ran.results) == [
        (0, "nzc"), (0, "plurality"), (1, "nzc"), (1, "plurality"),
    ]  # fmt: skip


def test_seeds_are_one_line_and_the_rest_of_the_grid_is_told_apart(nzc: Nzc) -> None:
    _sweep()
    grid = ["seed=0,1,2", "delta=1e-5,1e-6", "teachers.seed=0"]
    ran = nzc("+sweeps=mine", *TEACHERS, "student=none", *grid)
    assert len(ran.results) == 12
    lines = next(ran.folder.glob("outputs/sweeps/*/*/table.md")).read_text().splitlines()[4:]
    assert [line.split(" | ")[0] for line in lines] == [
        "| first, delta=1e-05", "| second, delta=1e-05",
        "| first, delta=1e-06", "| second, delta=1e-06",
    ]  # fmt: skip


def test_a_line_of_several_seeds_is_mean_and_deviation() -> None:
    assert _measured("accuracy", [0.9, 0.92, 0.94]) == "92.0 ± 2.0 %"
    assert _measured("epsilon.exact", [1.0, 2.0]) == "1.500 ± 0.707"
    assert _measured("epsilon.exact", [1.0, float("inf")]) == "∞"
    assert _measured("answered", [1000, 3000]) == "2,000 ± 1,414"
    assert _measured("answered", [1000, 1000]) == "1,000"
    assert _measured("accuracy", [None, None]) == "–"
    assert _measured("accuracy", []) == "–"


def test_a_row_may_be_a_grid_and_the_command_line_has_the_last_word(nzc: Nzc) -> None:
    _sweep(
        SWEEP.replace("aggregator=plurality", 'aggregator=lnmax, "aggregator.gamma=0.1,0.2"').replace(
            "  mode", "  sweeper: {params: {delta: '1e-5,1e-6,1e-7'}}\n  mode"
        )
    )
    ran = nzc("+sweeps=mine", *TEACHERS, "student=none", "delta=1e-4,1e-5")
    assert sorted((result["delta"], result["aggregator"]) for result in ran.results) == [
        (1e-5, "lnmax"), (1e-5, "lnmax"), (1e-5, "nzc"), (1e-4, "lnmax"), (1e-4, "lnmax"), (1e-4, "nzc"),
    ]  # fmt: skip
    lines = next(ran.folder.glob("outputs/sweeps/*/*/table.md")).read_text().splitlines()[4:]
    assert [line.split(" | ")[0] for line in lines[:3]] == [
        "| first, aggregator.gamma=0.1, delta=0.0001", "| first, aggregator.gamma=0.2, delta=0.0001",
        "| second, delta=0.0001",
    ]  # fmt: skip


def test_a_grid_without_rows(nzc: Nzc) -> None:
    ran = nzc(*TEACHERS, "--multirun", "student=none", "aggregator=lnmax", "aggregator.gamma=0.1,0.2")
    assert ran.code == 0, ran.err
    assert len(ran.results) == 2
    assert "aggregator.gamma=0.1" in ran.out


def test_a_wrong_row_does_not_stop_the_others(nzc: Nzc) -> None:
    _sweep(SWEEP.replace("queries=20", "queries=100000"))
    ran = nzc("+sweeps=mine", *TEACHERS, "student=none")
    assert ran.code == 2
    assert len(ran.results) == 1
    assert "queries=100000" in ran.err
    assert "| second: queries=100000" in next(ran.folder.glob("outputs/sweeps/*/*/table.md")).read_text()


def test_a_row_that_sets_what_there_is_not_leaves_nothing(nzc: Nzc) -> None:
    _sweep(SWEEP.replace("queries=20", "sed=20"))
    ran = nzc("+sweeps=mine", *VOTES, "teachers.path=votes.npy", "tracking=none")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "did you mean seed?" in ran.err
    assert [path.name for path in Path.cwd().iterdir()] == ["sweeps"]


def test_children_stand_under_one_parent(nzc: Nzc) -> None:
    from mlflow import MlflowClient

    _sweep(SWEEP + "  figures: [{name: gaps, curve: gap_above}]\n")
    nzc("+sweeps=mine", *TEACHERS, "student=none", "tracking=mlflow", "figures=null")
    client = MlflowClient(f"sqlite:///{Path.cwd()}/mlflow.db")
    runs = client.search_runs([client.get_experiment_by_name("digits").experiment_id])
    parents = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    assert len(parents) == 1
    assert parents[0].info.status == "FINISHED"
    assert [run.data.tags["mlflow.parentRunId"] for run in runs if run not in parents] == [parents[0].info.run_id] * 2
    assert "table.md" in {file.path for file in client.list_artifacts(parents[0].info.run_id)}
    assert "figures/gaps.svg" in {file.path for file in client.list_artifacts(parents[0].info.run_id, "figures")}


@pytest.mark.parametrize("path", sorted((config.HOME / "sweeps").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_sweep_file_composes_row_by_row(path: Path) -> None:
    config.register()
    text = path.read_text()
    for heading in ("# Question:", "# Expected:", "# Time:", "# Command:"):
        assert heading in text
    with initialize_config_dir(str(config.CONF), version_base="1.3"):
        for row in expand_rows(compose("config", [f"+sweeps={path.stem}"])) or [SweepRow()]:
            cfg = compose("config", [f"+sweeps={path.stem}", *row.set])
            assert not OmegaConf.missing_keys(cfg.aggregator)


def test_only_some_rows(nzc: Nzc) -> None:
    _sweep()
    ran = nzc("+sweeps=mine", *TEACHERS, "student=none", "+sweep.only=eco")
    assert [result["aggregator"] for result in ran.results] == ["nzc"]
    ran = nzc("+sweeps=mine", *TEACHERS, "student=none", "+sweep.only=third")
    assert ran.code == 2
    assert next(ran.folder.glob("outputs/sweeps/*/*/table.md")).read_text().splitlines()[4].startswith("| second |")
    assert "sweep.only=third: must be in the name of a row: first; second" in ran.err


def test_a_job_of_a_search_is_called_by_what_is_searched(tmp_path: Path) -> None:
    (tmp_path / "multirun.yaml").write_text("hydra: {overrides: {task: [teachers.count=10]}}")
    assert job_name(tmp_path, 0, ["aggregator.sigma=5", "teachers.count=10"]) == "aggregator.sigma=5"


def test_a_search_finds_what_it_is_after_and_its_cost_is_in_the_ledger(nzc: Nzc) -> None:
    search = ["+sweeps=search_noise", *TEACHERS]
    ran = nzc(*search, "hydra/sweeper=optuna", "hydra.sweeper.n_trials=3")
    assert ran.code == 0, ran.err
    folder = next(ran.folder.glob("outputs/sweeps/*/*"))
    best = OmegaConf.load(folder / "optimization_results.yaml")
    found = {(result["label_accuracy"], result["epsilon"]["exact"]) for result in ran.results}
    assert {tuple(solution["values"]) for solution in best.solutions} <= found
    totals = [result["epsilon"]["ledger_total"] for result in ran.results]
    assert max(totals) > max(epsilon for _, epsilon in found)
    assert "hydra/sweeper=rows: must be optuna" in nzc(*search, "tracking=mlflow").err
    assert list(ran.folder.glob("outputs/sweeps/*/*")) == [folder]
    assert not Path("mlflow.db").exists()
    assert (
        "objective=accuracy: must be a number" in nzc("--multirun", *TEACHERS, "student=none", "objective=accuracy").err
    )
