"""Sweeps: rows and grids, children under one parent, and a table with the paper's numbers."""

from pathlib import Path

import pytest
from conftest import SMALL, TEACHERS, VOTES, Nzc
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from nzc.app import config
from nzc.app.jobs import SweepJob, compose_jobs, expand_rows
from nzc.app.publish import publish_run as publish
from nzc.runs import pipeline
from nzc.sweeps.check import check_keys
from nzc.sweeps.frame import job_name, read_jobs
from nzc.sweeps.spec import SweepRow, changed_settings, figures_of, rows_of
from nzc.validation import InputError

SWEEP = """# @package _global_
defaults: [override /recipe: papers]
hydra:
  mode: MULTIRUN
teachers: {count: 6, epochs: 20}
student: {steps: 60}
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
    ran = nzc("+sweeps=mine", *SMALL, "dataset=digits")  # as the file says
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
    assert nzc(*again, "seed=0,1", "queries=20,30").code == 0
    ran = nzc(*again, "queries=10,1000,20")
    assert ran.code == 2  # of the wrong one
    table = Path("sw/table.md").read_text().splitlines()[4:]
    assert [line.split(" | ")[0] for line in table] == [
        "| queries=10",
        "| queries=20",
        "",
        f"- 1 job: {Path('sw/1/error.txt').read_text().strip()} (job 1: queries=1000)",
    ]
    assert nzc(*again, "queries=10,15").code == 0
    assert not Path("sw/1/error.txt").exists()
    assert Path("sw/table.md").read_text().count("| queries=") == 2


def test_what_a_sweep_did_not_begin_shows_nothing_of_an_earlier_one(
    nzc: Nzc, histograms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = ["--multirun", *VOTES, f"teachers.path={histograms}", "hydra.sweep.dir=sw"]
    assert nzc(*again, "queries=10,20,30").code == 0
    runs = iter([pipeline.execute])  # one, and no second
    monkeypatch.setattr(pipeline, "execute", lambda *arguments: next(runs, _interrupted)(*arguments))
    assert nzc(*again, "queries=15,25").code == 130
    table = Path("sw/table.md").read_text().splitlines()[4:]
    assert [line.split(" | ")[0] for line in table] == [
        "| queries=15", "", "- 1 job: was not started (job 1: queries=25)"
    ]  # fmt: skip
    Path("sw/jobs.json").unlink()  # as of a sweeper that leaves none
    assert [folder.name for folder in read_jobs(Path("sw"))["folder"]] == ["0"]
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
    grid = ["seed=0,1", "delta=1e-5,1e-6", "teachers.seed=0"]
    ran = nzc("+sweeps=mine", *TEACHERS, "student=none", *grid)
    assert len(ran.results) == 8
    lines = next(ran.folder.glob("outputs/sweeps/*/*/table.md")).read_text().splitlines()[4:8]
    assert [line.split(" | ")[0] for line in lines] == [
        "| first, delta=1e-05", "| second, delta=1e-05",
        "| first, delta=1e-06", "| second, delta=1e-06",
    ]  # fmt: skip


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
    table = next(ran.folder.glob("outputs/sweeps/*/*/table.md")).read_text()
    assert "- 1 job: queries=100000: " in table and "(job 1: second)" in table


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("sed=20", ["sed", "did you mean seed?", "(row second)"]),
        ("+sed=20", ["sed=20", "did you mean seed?", "(row second)"]),
        ("aggregator.gama=1", ["aggregator.gama", "did you mean gamma?", "(row second)"]),
        ("+aggregator.gama=1", ["aggregator.gama=1", "keys of nzc.NZC", "(row second)"]),
        ("student=supervisd", ["student/supervisd", "supervised", "(row second)"]),
    ],
)
def test_a_wrong_key_of_a_row_is_said_before_anything_runs(nzc: Nzc, wrong: str, said: list[str]) -> None:
    _sweep(SWEEP.replace("queries=20", wrong).replace("epsilon: 2.04", "acuracy: 2.04"))
    ran = nzc("+sweeps=mine", "tracking=mlflow", "seed=0,1", "hydra.sweeper.max_batch_size=1")
    assert (ran.code, ran.err.count("\n")) == (2, 2), ran.err
    row, paper = ran.err.splitlines()
    assert all(text in row for text in said), row
    assert "sweep.rows.0.paper.acuracy=2.04: must be for a key of result.json; did you mean accuracy?" in paper
    assert [path.name for path in Path.cwd().iterdir()] == ["sweeps"]


def test_a_row_sets_a_key_once(nzc: Nzc) -> None:
    _sweep(SWEEP.replace("queries=20", "aggregator=lnmax"))
    ran = nzc("+sweeps=mine")
    assert ran.code == 2 and ran.err.startswith("nzc: sweep.rows.1.set=") and "must set each key once" in ran.err


def test_the_table_names_what_the_command_line_changed(nzc: Nzc) -> None:
    _sweep()
    ran = nzc("+sweeps=mine", *SMALL, "dataset.private=600", "seed=3")
    assert ran.code == 0, ran.err
    folder = next(ran.folder.glob("outputs/sweeps/*/*"))
    changed = changed_settings(OmegaConf.load(folder / "multirun.yaml"))
    assert {"dataset.private=600", "teachers.count=6"} <= {*changed} and not {"seed=3", "+sweeps=mine"} & {*changed}
    for text in (ran.out, (folder / "table.md").read_text()):
        assert "paper's values" in text and "dataset.private=600" in text


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
        sweep = compose("config", [f"+sweeps={path.stem}"], return_hydra_config=True)
        rows = expand_rows(sweep) or [SweepRow()]
        configs, mistakes = compose_jobs(sweep, [SweepJob(row, [f"+sweeps={path.stem}", *row.set]) for row in rows])
    assert mistakes == []
    assert check_keys(rows_of(sweep), figures_of(sweep), configs) == []
    assert not any(OmegaConf.missing_keys(cfg.aggregator) for cfg in configs)


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
    assert "needs hydra/sweeper=optuna" in nzc(*search, "tracking=mlflow").err
    assert list(ran.folder.glob("outputs/sweeps/*/*")) == [folder]
    assert not Path("mlflow.db").exists()
    assert (
        "objective=accuracy: must be a number" in nzc("--multirun", *TEACHERS, "student=none", "objective=accuracy").err
    )
