"""Sweeps: rows and grids, children under one parent, and a table with the paper's numbers."""

import json
import re
from pathlib import Path

import pytest
from conftest import VOTES, Command, Nzc
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from nzc.app import config
from nzc.app.publish import publish_run as publish
from nzc.app.sweep import SweepJob, compose_jobs, expand_rows
from nzc.runs import pipeline
from nzc.sweeps.jobs import SweepRow, check_keys, job_name, read_jobs, spec_of
from nzc.sweeps.table import read_sweep
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
OWN = [*VOTES, "teachers.path=votes.npy"]
pytestmark = pytest.mark.usefixtures("histograms")


def _sweep(text: str) -> None:
    Path("sweeps").mkdir()
    Path("sweeps/mine.yaml").write_text(text)


def _table(folder: Path) -> list[str]:
    """The first cells of a sweep's table, then its notes and failures; without warnings."""
    lines = next(folder.rglob("table.md")).read_text().splitlines()[4:]
    return [
        line.split(" | ")[0].removeprefix("| ") for line in lines if line and ") warn: " not in line
    ]


def test_a_sweep_in_the_folder_of_another_is_that_sweep_alone(
    nzc: Nzc, monkeypatch: pytest.MonkeyPatch
) -> None:
    again, folder = ["--multirun", *OWN, "hydra.sweep.dir=sw"], Path("sw")
    assert nzc(*again, "seed=0,1", "queries=20,30").code == 0
    assert nzc(*again, "queries=10,1000,20").code == 2  # of the wrong one
    failed = f"- 1 job: {Path('sw/1/error.txt').read_text().strip()} (job 1: queries=1000)"
    assert _table(folder) == ["queries=10", "queries=20", failed]
    assert nzc(*again, "queries=10,15").code == 0
    assert not Path("sw/1/error.txt").exists() and _table(folder) == ["queries=10", "queries=15"]
    # One that is stopped shows what has finished, and nothing of an earlier one in the jobs that
    # did not begin.
    runs = iter([pipeline.execute])  # one, and no second
    monkeypatch.setattr(
        pipeline, "execute", lambda *arguments: next(runs, _interrupted)(*arguments)
    )
    assert nzc(*again, "queries=15,25").code == 130
    assert _table(folder) == ["queries=15", "- 1 job: was not started (job 1: queries=25)"]
    Path(
        "sw/jobs.json"
    ).unlink()  # as of a sweeper that leaves none; 2 and 3 are whole runs of the first sweep
    assert [job.name for job in read_jobs(folder)["folder"]] == ["0", "2", "3"]
    with pytest.raises(InputError, match="must be finished"):
        publish(Path("sw/1"), Path("published"))


@pytest.mark.parametrize(
    "subdir",
    [
        "${queries}",
        "'a ${queries}%/b'",
        "${hydra.job.override_dirname}",
        "'${now:%f} ${hydra:job.num}'",
    ],
)
def test_each_job_is_shown_with_what_its_own_folder_says(
    nzc: Nzc, command: Command, subdir: str
) -> None:
    """The file of overrides, which Hydra writes, says whose folder it is. The number of a job is
    not in its name.
    """
    ran = nzc(
        "--multirun",
        *OWN,
        "queries=1,0,3",
        "hydra.sweep.dir='sw %20'",
        f"hydra.sweep.subdir={subdir}",
    )
    assert ran.code == 2
    told = {}
    for result in Path("sw %20").rglob("result.json"):
        words = OmegaConf.load(result.parent / ".hydra/overrides.yaml")
        told[next(word for word in words if word.startswith("queries="))] = json.loads(
            result.read_text()
        )["answered"]
    assert told == {"queries=1": 1, "queries=3": 3}
    table = read_sweep("sw %20").set_index("name")
    assert table["answered"].dropna().to_dict() == told
    assert table["job"].tolist() == [0, 1, 2] and "queries=0" in table["failure"]["queries=0"]
    assert command("report", "sw %20")[0] == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["subdir=same"], "subdir=same: .* jobs 0 and 1 both have same"),
        (["subdir=s${seed}"], r"subdir=s\$\{seed\}: .* jobs 0 and 1 both have s0"),
        (["subdir=../q${queries}"], "must name a folder below hydra.sweep.dir"),
        (["subdir=."], "must name a folder below hydra.sweep.dir"),
        (["subdir=${nothing}"], "Interpolation key 'nothing' not found"),
        (["subdir=" + "x" * 300 + "${queries}"], "name too long"),
        (["subdir=mine${queries}"], "subdir=sw/mine1: .* other files"),
        (["dir='sw/${queries}'"], "dir=sw/1: must be the same for all jobs"),
        (["subdir=q${queries}", "hydra/sweeper=basic"], "must be .*job.num.* with hydra/sweeper=basic"),
        (["subdir=q${queries}", "hydra.output_subdir=null"], "output_subdir=null: must be .hydra"),
    ],
)  # fmt: skip
def test_folders_of_jobs_are_refused_before_the_first_job(
    nzc: Nzc, words: list[str], says: str
) -> None:
    Path("sw/mine1").mkdir(parents=True)
    Path("sw/.nzc-made").touch()
    Path("sw/mine1/labels.csv").write_text("a person's own")
    before = sorted(Path().rglob("*"))
    ran = nzc(
        "--multirun",
        *OWN,
        "queries=1,3",
        "hydra.sweep.dir=sw",
        *[f"hydra.sweep.{words[0]}", *words[1:]],
    )
    assert (ran.code, ran.err.count("\n")) == (2, 1) and re.search(says, ran.err), ran.err
    assert sorted(Path().rglob("*")) == before


def test_a_sweep_is_resumed_with_other_folders_for_its_jobs(nzc: Nzc) -> None:
    again = ["--multirun", *OWN, "hydra.sweep.dir=sw"]
    assert nzc(*again, "queries=1,3").code == 0
    assert nzc(*again, "queries=1000,5", "hydra.sweep.subdir=q${queries}").code == 2
    assert _table(Path("sw"))[0] == "queries=5" and len(_table(Path("sw"))) == 2
    assert (
        nzc(*again, "queries=7,1000").code == 2
    )  # in the first folders, of which one is now without a result
    assert _table(Path("sw"))[0] == "queries=7" and len(_table(Path("sw"))) == 2
    assert Path("sw/q5/result.json").is_file()


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
        # Its seeds are averaged; those of the command line are not for it.
        ('aggregator=plurality, "seed=0,1"', "", ["seed=7,8"],
         ["first, seed=0", "first, seed=1", "second, seed=7", "second, seed=8"], ["first", "second"]),
        ("aggregator=plurality", "", ["+sweep.only=eco"], ["second"], ["second"]),
    ],
)  # fmt: skip
def test_rows_times_grid(
    nzc: Nzc, row: str, params: str, typed: list[str], jobs: list[str] | int, lines: list[str]
) -> None:
    _sweep(
        SWEEP.replace("aggregator=plurality", row).replace(
            "  mode", f"  sweeper: {{params: {{{params}}}}}\n  mode"
        )
    )
    ran = nzc("+sweeps=mine", *typed)
    assert ran.code == 0, ran.err
    names = [line.split(": ")[0] for line in ran.out.splitlines() if "released" in line]
    assert jobs in (names, len(names)) and len(ran.results) == len(names)
    assert _table(ran.folder)[: len(lines)] == lines


@pytest.mark.parametrize(
    "path", sorted((config.HOME / "sweeps").glob("*.yaml")), ids=lambda path: path.stem
)
def test_every_sweep_file_composes_row_by_row(path: Path) -> None:
    config.register()
    text = path.read_text()
    for heading in ("# Question:", "# Expected:", "# Time:", "# Command:"):
        assert heading in text
    with initialize_config_dir(str(config.CONF), version_base="1.3"):
        sweep = compose("config", [f"+sweeps={path.stem}"], return_hydra_config=True)
        # Rows that differ by numbers only compose alike.
        unlike = {re.sub(r"=[\d.e+-]+\b", "=", str(row.set)): row for row in expand_rows(sweep)}
        rows = [*unlike.values()] or [SweepRow()]
        grid = (sweep.hydra.sweeper.get("params") or {}).items()
        grid = [f"{key}={values}".split(",")[0] for key, values in grid if "(" not in str(values)]
        own = [f"+sweeps={path.stem}", *grid]
        configs, mistakes = compose_jobs(sweep, [SweepJob(row, [*own, *row.set]) for row in rows])
    assert mistakes == []
    assert check_keys(spec_of(sweep), configs) == []
    assert not any(OmegaConf.missing_keys(cfg.aggregator) for cfg in configs)


def test_a_sweep_file_names_metrics_and_columns(nzc: Nzc) -> None:
    """Unknown ones are refused before the first job, and so is a metric that cannot be."""
    f1 = "metrics: {f1: {_target_: sklearn.metrics.f1_score, average: macro}}\n"
    columns = "  columns: [metrics.f1, seconds.total, aggregator.gamma]\n"
    _sweep(SWEEP + columns + f1)
    wrong = "[metrics.f2,gamma,seconds.totl,f1]"
    said = nzc("+sweeps=mine", f"sweep.columns={wrong}").err.splitlines()
    hints = ["metrics.f1", "aggregator.gamma", "seconds.total", "metrics.f1"]
    assert [line.partition("did you mean ")[2] for line in said] == [f"{hint}?" for hint in hints]
    assert all(
        line.startswith(f"nzc: sweep.columns={key}: ")
        for line, key in zip(said, wrong[1:-1].split(","), strict=True)
    )
    (line,) = nzc("+sweeps=mine", "metrics.f1._target_=sklearn.metrics.f1_scor").err.splitlines()
    assert line.startswith("nzc: metrics.f1._target_=sklearn.metrics.f1_scor: ")
    (line,) = nzc("+sweeps=mine", "+sweep.colums=[seed]").err.splitlines()
    assert line.startswith("nzc: sweep.colums=['seed']: ") and line.endswith(
        "did you mean columns?"
    )
    assert not Path("outputs").exists()

    ran = nzc("+sweeps=mine")
    assert ran.code == 0, ran.err
    table = next(ran.folder.rglob("table.md")).read_text().splitlines()[2:]
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table
        if line.startswith("|")
    ]
    at = [cells[0].index(name) for name in ("aggregator.gamma", "f1")]
    assert [[line[place] for place in at] for line in cells[2:]] == [
        ["–", "–"],
        ["1.0e-10", "–"],
    ]  # there is no student
    page = next(ran.folder.rglob("report.html")).read_text()
    assert all(
        f'<th scope="col">{name}</th>' in page
        for name in ("f1", "seconds.total", "aggregator.gamma")
    )
    csv = read_sweep(next(ran.folder.rglob("table.csv")).parent)
    assert {"metrics.f1", "seconds.total", "aggregator.gamma"} <= {*csv}


def test_a_search_finds_what_it_is_after_and_its_cost_is_in_the_ledger(nzc: Nzc) -> None:
    search = ["+sweeps=search_noise", *OWN, "teachers.labels=labels.npy"]
    ran = nzc(*search, "hydra/sweeper=optuna", "hydra.sweeper.n_trials=2")
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
    assert (
        "objective=accuracy: must be a number" in nzc("--multirun", *OWN, "objective=accuracy").err
    )
