"""Whose folder is it? nzc replaces and removes what it made, and nothing else."""

import fcntl
from pathlib import Path

from conftest import VOTES, Command, Nzc

FILE = [*VOTES, "teachers.path=votes.npy"]
MARKER = ".nzc-made"
OWN = ("student.csv", "report.html", "error.txt", "curves.csv", "labels.csv", ".hydra/notes.txt", "figures/gaps.svg")


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
    for arguments in (["hydra.run.dir=a/b"], ["paths.store=a/b"], ["--multirun", "hydra.sweep.dir=a/b", "sed=0,1"]):
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
        for arguments in (["hydra.run.dir=here"], ["--multirun", "hydra.sweep.dir=here", "seed=0,1"]):
            ran = nzc(*FILE, *arguments, "aggregator.sigma=9")
            assert (ran.code, ran.err.count("\n")) == (2, 1) and "run under way" in ran.err
            assert _state(Path("here")) == before
    assert nzc(*FILE, "hydra.run.dir=here", "aggregator.sigma=9").code == 0
