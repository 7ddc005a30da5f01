"""Whose folder is it? nzc replaces and removes what it made, and nothing else."""

import fcntl
import shutil
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from conftest import VOTES, Command, Nzc, tracked_runs
from hydra.core.override_parser.types import Quote, QuotedString
from mlflow import MlflowClient

from nzc.labeling.ledger import Ledger
from nzc.runs import pipeline
from nzc.sweeps.table import read_sweep
from nzc.tracking import mlflow
from nzc.validation import InputError

FILE = [*VOTES, "teachers.path=votes.npy"]
MARKER = ".nzc-made"
OWN = (
    "student.csv",
    "report.html",
    "error.txt",
    "curves.csv",
    "labels.csv",
    ".hydra/notes.txt",
    "figures/gaps.svg",
)


def _state(folder: Path) -> dict[Path, tuple[object, ...]]:
    """Return mode, time and content of everything in a folder."""
    paths = [folder, *folder.rglob("*")]
    files = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in paths if path.is_file()}
    return {path: (path.stat().st_mode, files.get(path)) for path in paths}


def test_a_persons_own_folder_is_left_as_it_is(nzc: Nzc, histograms: Path) -> None:
    """Its files have names that nzc uses too."""
    shared = Path("shared")
    for name in OWN:
        (shared / name).parent.mkdir(parents=True, exist_ok=True)
        (shared / name).write_text(f"a person's own {name}")
    shared.chmod(0o2775)
    Path("link").symlink_to("shared")
    before = _state(shared)
    for arguments in (
        ["hydra.run.dir=shared"], ["hydra.run.dir=link"], ["hydra.run.dir=shared/labels.csv/x"], ["paths.store=shared"],
        ["--multirun", "hydra.sweep.dir=shared", "seed=0,1"], ["hydra.run.dir=shared", "aggregator.sigma=-1"],
    ):  # fmt: skip
        ran = nzc(*FILE, *arguments)
        assert (ran.code, ran.err.count("\n")) == (2, 1), ran.err
        assert _state(shared) == before, arguments
    Path("a/b").mkdir(parents=True)  # an empty folder stays after wrong input
    for arguments in (
        ["hydra.run.dir=a/b"],
        ["paths.store=a/b"],
        ["--multirun", "hydra.sweep.dir=a/b", "sed=0,1"],
    ):
        assert nzc(*FILE, *arguments, "aggregator.sigma=-1").code == 2
        assert Path("a/b").is_dir() and not any(Path("a/b").iterdir())


def test_a_store_of_an_earlier_version_is_used_again_and_nothing_but_entries_is_pruned(
    nzc: Nzc, command: Command, histograms: Path
) -> None:
    assert nzc(*FILE).code == 0
    Path(".nzc", MARKER).unlink()  # earlier versions left none
    mine = Path(".nzc/predictions/mine.npz")
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("a person's own")
    assert nzc(*FILE, "seed=1").code == 0
    assert command("store", "--all", "--yes")[0] == 0
    assert mine.read_text() == "a person's own" and Path(".nzc/ledger.db").is_file()


def test_one_run_at_a_time_has_a_folder(nzc: Nzc, histograms: Path) -> None:
    """Another command is told so before it changes anything."""
    assert nzc(*FILE, "hydra.run.dir=here").code == 0
    before = _state(Path("here"))
    with Path("here", MARKER).open("r+") as marker:
        fcntl.flock(marker, fcntl.LOCK_EX)
        for arguments in (
            ["hydra.run.dir=here"],
            ["--multirun", "hydra.sweep.dir=here", "seed=0,1"],
        ):
            ran = nzc(*FILE, *arguments, "aggregator.sigma=9")
            assert (ran.code, ran.err.count("\n")) == (2, 1) and "run under way" in ran.err
            assert _state(Path("here")) == before
    assert nzc(*FILE, "hydra.run.dir=here", "aggregator.sigma=9").code == 0


ODD = "größe 数 😀 100%25 #?&'=,"


def test_a_folder_may_have_any_name(
    nzc: Nzc, command: Command, histograms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the working directory, of the store, of the output, of the tracker and of the votes."""
    here = histograms.rename(histograms.parent / f"{ODD}.npy").parent / ODD
    here.mkdir()
    monkeypatch.chdir(here)
    create = mlflow.create_database
    monkeypatch.setattr(mlflow, "create_database", lambda path: (path.parent.mkdir(), create(path)))
    quoted = {key: QuotedString(f"{place}{ODD}", Quote.single).with_quotes() for key, place in
              {"paths.store": "s ", "hydra.run.dir": "r ", "tracking.uri": "sqlite:///t ",
               "teachers.path": "../"}.items()}  # fmt: skip
    quoted["tracking.uri"] = quoted["tracking.uri"][:-1] + "/mlflow.db'"
    quoted["teachers.path"] = quoted["teachers.path"][:-1] + ".npy'"
    words = [f"{key}={value}" for key, value in quoted.items()]
    ran = nzc(
        *VOTES,
        *words,
        "tracking=mlflow",
        "tracking.model=false",
        "rng=system",
        "dataset.name=people",
        "answers=1",
    )
    assert (ran.code, "could not" in ran.err) == (0, False), ran.err
    assert Path(f"s {ODD}/ledger.db").is_file() and Path(f"t {ODD}/mlflow.db").is_file()
    (run,) = tracked_runs(MlflowClient(mlflow.address_of(Path(f"t {ODD}/mlflow.db").absolute())))
    assert run.info.status == "FINISHED" and list(Path("mlartifacts").rglob("labels.csv"))
    assert (
        command("publish", f"r {ODD}", f"p {ODD}")[0] == 0 and Path(f"p {ODD}/labels.csv").is_file()
    )
    assert command("store", "--root", f"s {ODD}")[0] == 0 and command("report", f"r {ODD}")[0] == 0
    assert command("sync", f"r {ODD}")[1].startswith("0 sent, 0 not")


def test_a_database_has_an_address_whatever_its_path(tmp_path: Path) -> None:
    """SQLAlchemy, which MLflow opens it with, opens that file; a path that it cannot have is
    refused.
    """
    for name in (
        "plain",
        "a%20b",
        "a b",
        "q?x=1",
        "h#ash",
        "at@x:y",
        "größe 数",
        "it's",
        "new\nline",
    ):
        file = tmp_path / f"{name}.db"
        if "?" not in name or sqlalchemy.__version__ >= "2.1":
            sqlalchemy.create_engine(mlflow.address_of(file)).connect().close()
            assert file.is_file(), name
    with pytest.raises(InputError, match="must be a path in UTF-8"):
        mlflow.address_of(tmp_path / "bad\udcff.db")


def test_a_job_may_change_its_folder(nzc: Nzc, command: Command, histograms: Path) -> None:
    """Relative paths start where the command began: of a run, and of the jobs of a sweep."""
    chdir, here = ["hydra.job.chdir=true", "tracking=mlflow", "tracking.model=false"], Path.cwd()
    assert nzc(*FILE, *chdir, "hydra.run.dir=run", "rng=system", "dataset.name=p").code == 0
    sweep = ["hydra.sweep.dir=sw", "hydra.sweep.subdir=q${queries}", "queries=1,3"]
    ran = nzc("--multirun", *FILE, *chdir, *sweep)
    assert ran.code == 0, ran.err
    assert Path.cwd() == here and read_sweep("sw")["answered"].tolist() == [1, 3]
    assert sorted(str(path) for path in Path().rglob("*.db")) == [".nzc/ledger.db", "mlflow.db"]
    assert {run.info.status for run in tracked_runs(MlflowClient("sqlite:///mlflow.db"))} == {
        "FINISHED"
    }
    assert command("publish", "run", "published")[0] == 0


def test_no_label_is_drawn_for_a_folder_that_has_gone(
    nzc: Nzc, histograms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vote = pipeline.Execution._vote

    def vanish(*arguments: Any) -> Any:
        shutil.rmtree("outputs")
        return vote(*arguments)

    monkeypatch.setattr(pipeline.Execution, "_vote", vanish)
    ran = nzc(*FILE, "rng=system")
    assert ran.code == 1 and "can no longer be written" in ran.err
    assert Ledger(".nzc/ledger.db").entries() == []


def test_a_run_without_a_record_of_its_configuration_is_refused(nzc: Nzc, histograms: Path) -> None:
    ran = nzc(*FILE, "hydra.output_subdir=null")
    assert (ran.code, ran.err.count("\n")) == (
        2,
        1,
    ) and "hydra.output_subdir=null: must be .hydra" in ran.err
    assert not Path("outputs").exists() and not Path(".nzc").exists()
