"""Whose folder is it? nzc replaces and removes what it made, and nothing else."""

import fcntl
import json
import stat
from pathlib import Path

from conftest import (
    FILE,
    VOTES,
    Command,
    RunNzc,
    contents,
    parametrize,
    tracked_runs,
    write,
)
from hydra.core.override_parser.types import Quote, QuotedString
from pytest import MonkeyPatch

from nzc.sweeps.table import read_sweep

MARKER = ".nzc-made"
#: Files of a person's own, with names that nzc uses too.
OWN = "student.csv report.html error.txt curves.csv labels.csv .hydra/notes.txt figures/gaps.svg"
SWEEP = ["--multirun", "seed=0,1"]


def _state(folder: Path) -> dict[Path, tuple[object, ...]]:
    """Return mode, time and content of everything in a folder."""
    state: dict[Path, tuple[object, ...]] = {}
    for path in (folder, *folder.rglob("*")):
        stat = path.stat()
        state[path] = (stat.st_mode,)
        if path.is_file():
            state[path] = (stat.st_mode, stat.st_mtime_ns, path.read_bytes())
    return state


@parametrize(
    "arguments",
    [
        ["hydra.run.dir=shared"],
        ["hydra.run.dir=link"],
        ["paths.store=shared"],
        [*SWEEP, "hydra.sweep.dir=shared"],
        ["hydra.run.dir=shared", "aggregator.sigma=-1"],
    ],
)
def test_a_persons_own_folder_is_left_as_it_is(
    run_nzc: RunNzc, histograms: Path, arguments: list[str]
) -> None:
    shared = Path("shared")
    for name in OWN.split():
        write(shared / name, f"a person's own {name}")
    shared.chmod(0o2775)
    Path("link").symlink_to("shared")
    before = _state(shared)
    assert run_nzc(*FILE, *arguments, code=2).err.count("\n") == 1
    assert _state(shared) == before


def test_one_run_at_a_time_has_a_folder(run_nzc: RunNzc, histograms: Path) -> None:
    """Another command is told so before it changes anything."""
    run_nzc(*FILE, "hydra.run.dir=here")
    before = _state(Path("here"))
    with Path("here", MARKER).open("r+") as marker:
        fcntl.flock(marker, fcntl.LOCK_EX)
        for words in (["hydra.run.dir=here"], [*SWEEP, "hydra.sweep.dir=here"]):
            err = run_nzc(*FILE, *words, "aggregator.sigma=9", code=2).err
            assert err.count("\n") == 1 and (f"{words[-1]}: " in err or "/here: " in err)
            assert _state(Path("here")) == before
    run_nzc(*FILE, "hydra.run.dir=here", "aggregator.sigma=9")


ODD = "größe 数 😀 100%25 #?&'=,"


def test_a_folder_may_have_any_name(
    run_nzc: RunNzc, command: Command, histograms: Path, monkeypatch: MonkeyPatch
) -> None:
    """That of the working directory, the store, the output, the tracker and the votes."""
    here = histograms.rename(histograms.parent / f"{ODD}.npy").parent / ODD
    here.mkdir()
    monkeypatch.chdir(here)
    places = {
        "paths.store": f"s {ODD}",
        "hydra.run.dir": f"r {ODD}",
        "tracking.uri": f"sqlite:///t {ODD}.db",
        "teachers.path": f"../{ODD}.npy",
    }
    words = ["tracking=mlflow", "tracking.model=false", "rng=system", "dataset.name=p", "answers=1"]
    for key, place in places.items():
        words.append(f"{key}={QuotedString(place, Quote.single).with_quotes()}")
    assert "could not" not in run_nzc(*VOTES, *words).err
    assert Path(f"s {ODD}/ledger.db").is_file()
    assert Path(f"t {ODD}.db").is_file() and [*Path("mlartifacts").rglob("labels.csv")]
    for words in (["publish", f"r {ODD}", f"p {ODD}"], ["store", "--root", f"s {ODD}"]):
        assert command(*words)[0] == 0
    assert Path(f"p {ODD}/labels.csv").is_file()


def test_a_job_may_change_its_folder(run_nzc: RunNzc, command: Command, histograms: Path) -> None:
    """Relative paths start where the command began: of a run, and of the jobs of a sweep."""
    here = Path.cwd()
    words = [*FILE, "hydra.job.chdir=true", "tracking=mlflow", "tracking.model=false"]
    run_nzc(*words, "hydra.run.dir=run", "rng=system", "dataset.name=p")
    run_nzc(*words, "--multirun", "hydra.sweep.dir=sw", "queries=1,3")
    assert Path.cwd() == here and read_sweep("sw")["answered"].tolist() == [1, 3]
    assert sorted(str(path) for path in Path().rglob("*.db")) == [".nzc/ledger.db", "mlflow.db"]
    for run in tracked_runs():
        assert run.info.status == "FINISHED"
    assert command("publish", "run", "published")[0] == 0


def test_two_runs_in_one_folder_are_not_mixed(run_nzc: RunNzc, histograms: Path) -> None:
    folder = Path("here")
    words = [*FILE, "teachers.labels=labels.npy", "hydra.run.dir=here"]
    run_nzc(*words, "figures=true")
    assert any((folder / "figures").iterdir())
    (folder / "mine.txt").write_text("a person's own")
    before = dict(contents(folder))
    run_nzc(*words, "queries=500", code=2)
    assert dict(contents(folder)) == before
    assert run_nzc(*words, "aggregator=lnmax", "aggregator.gamma=5").err == ""
    assert json.loads((folder / "result.json").read_text())["aggregator"] == "lnmax"
    assert stat.S_IMODE((folder / "curves.csv").stat().st_mode) == 0o600
    left = {path.name for path in folder.iterdir() if path.is_file()}
    assert left == {".nzc-made", "result.json", "labels.csv", "curves.csv", "mine.txt"}
    assert not list((folder / "figures").iterdir())
