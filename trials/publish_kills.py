"""Are only whole runs published? A run is killed before each of its writes, and then published.

killed     a run on system noise; it is published only if every file of a whole run is in its folder. Then the same
           command runs again, ends well, and is published
in a row   a run is killed in the folder of a finished one, with other noise and labels; what is published then is
           the finished run's, or nothing
at once    a run is stopped before a write; a second one in its folder is refused in one line; the first goes on
"""

import argparse
import fcntl
import filecmp
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from _cases import ACCEPTED, Case, WriteTrap, refusal, show_cases, shown, writes
from _nzc import ERR, progress, run, start, wait, warm_up

from nzc.data.own_folder import MARKER

RUN, OUT = "run", "out"
#: A run with all files that a run may leave, and one of a second, whose votes are in a file.
_PLAIN = ["recipe=papers", "rng=system", "tracking=none", "trainer.accelerator=cpu", "trainer.progress=false"]
_PLAIN += [f"hydra.run.dir={RUN}", "queries=40"]
STUDENT = [*_PLAIN, "teachers.count=6", "teachers.epochs=5", "student.steps=10"]
VOTES = [*_PLAIN, "teachers=votes", "teachers.path=votes.npy", "dataset=none", "student=none", "figures=false"]
#: How the noise scale of little noise is written in a mechanism; the options of much noise, and of little.
LITTLE = "sigma=2)"
MUCH_NOISE, LITTLE_NOISE = ["aggregator.sigma=200"], ["aggregator.sigma=2", "seed=1", "budget.epsilon=1e6"]
#: Seconds that a command may take.
LIMIT = 90


class Workshop:
    """A folder of trials. All trials of a command start from one store, in which the teachers are trained already."""

    def __init__(self, folder: Path, command: list[str]) -> None:
        self.folder, self.command, self.home = folder, command, folder / "home"
        self.home.mkdir(parents=True)
        np.save(self.home / "votes.npy", np.random.default_rng(0).multinomial(60, [0.6, 0.3, 0.1], 40))
        for options in (MUCH_NOISE, LITTLE_NOISE):
            self.must(self.home, [*command, *options])
        shutil.rmtree(self.home / RUN)
        shutil.copytree(self.home, folder / "start")  # trained teachers, and a ledger
        self.must(self.home, [*command, *MUCH_NOISE])
        shutil.copytree(self.home, folder / "finished")
        self.whole = names(self.home / RUN)
        self.must(self.home, ["publish", RUN, OUT])
        shutil.copytree(self.home / OUT, folder / "published")

    def must(self, home: Path, command: list[str]) -> None:
        """Run a command that must end well."""
        if code := run(home, command):
            raise RuntimeError(f"{command} ends with exit code {code}: {(home / ERR).read_text()}")

    def restore(self, name: str) -> Path:
        """Put back what `start` or `finished` has, and return the folder."""
        shutil.rmtree(self.home)
        shutil.copytree(self.folder / name, self.home)
        return self.home

    def trap(self, call: int, number: int = signal.SIGKILL) -> WriteTrap:
        """Return a trap at a write into the run's folder or into the ledger; the store of predictions is left out."""
        return WriteTrap(self.home, call, self.folder / "writes.txt", number)

    def points(self, name: str, options: list[str]) -> list[str]:
        """Return all writes of a command that starts from `start` or `finished`."""
        trap = self.trap(0)
        run(self.restore(name), [*self.command, *options], trap)
        return writes(trap)

    def killed(self, call: int, point: str) -> Case:
        """Kill a run before a write, publish, repeat the run, and publish again."""
        home, problems = self.restore("start"), []
        run(home, [*self.command, *MUCH_NOISE], self.trap(call), LIMIT)
        whole = names(home / RUN) == self.whole
        published = run(home, ["publish", RUN, OUT], seconds=LIMIT) == 0
        if published and not whole:
            problems.append(f"published without {' '.join(sorted(self.whole - names(home / RUN)))}")
        if not published and (home / OUT).exists():
            problems.append("refused, but something was written")
        shutil.rmtree(home / OUT, ignore_errors=True)
        if run(home, [*self.command, *MUCH_NOISE], seconds=LIMIT):
            problems.append(f"repeated: {(home / ERR).read_text().strip()}")
        elif run(home, ["publish", RUN, OUT], seconds=LIMIT):
            problems.append(f"repeated, but not published: {(home / ERR).read_text().strip()}")
        return shown(Case("killed", point, "; ".join(problems)))

    def in_a_row(self, call: int, point: str, number: int) -> Case:
        """End a run before a write, in the folder of a finished run, and publish."""
        home = self.restore("finished")
        run(home, [*self.command, *LITTLE_NOISE], self.trap(call, number), LIMIT)
        return shown(Case(f"in a row, {signal.Signals(number).name}", point, self.mixed(home, finished=True)))

    def at_once(self, call: int, point: str) -> Case:
        """Stop a run before a write; a second one in its folder must be refused; the first must end well."""
        home = self.restore("start")
        first = start(home, [*self.command, *MUCH_NOISE], self.trap(call, signal.SIGSTOP), name="first.")
        os.waitpid(first, os.WUNTRACED)
        taken = is_taken(home / RUN)
        problems = [refusal(run(home, [*self.command, *LITTLE_NOISE], seconds=LIMIT), home)]
        if problems == [ACCEPTED] and not taken:
            problems = []
        os.kill(first, signal.SIGCONT)
        code, said = wait(first, LIMIT), (home / f"first.{ERR}").read_text().strip()
        if code not in (0, 2) or "\n" in said:
            problems.append(f"the first ended with exit code {code}: {said}")
        problems.append(self.mixed(home, finished=False))
        return shown(Case("at once", point, "; ".join(filter(None, problems))))

    def mixed(self, home: Path, finished: bool) -> str:
        """Publish, and return what is wrong with what is published; nothing is, where publishing is refused.

        finished  whether the finished run was published before: the same may be published again
        """
        if run(home, ["publish", RUN, OUT], seconds=LIMIT):
            return ""
        if finished and same_files(home / OUT, self.folder / "published"):
            return ""
        if missing := self.whole - names(home / RUN):
            return f"published another run without {' '.join(sorted(missing))}"
        if not (home / "votes.npy").is_file():
            return ""
        mechanism = json.loads((home / OUT / "privacy.json").read_text())["mechanism"]
        plurality = np.load(home / "votes.npy").argmax(1)
        table = np.loadtxt(home / OUT / "labels.csv", delimiter=",", skiprows=1, dtype=int)
        little_noise = bool((table[:, 1] == plurality[table[:, 0]]).all())
        return "published labels of one run and the noise of the other" if little_noise != (LITTLE in mechanism) else ""


def is_taken(folder: Path) -> bool:
    """Return whether a run holds the lock of its folder. Before that, a second run may come first."""
    try:
        with (folder / MARKER).open("r+") as marker:
            fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def same_files(one: Path, other: Path) -> bool:
    """Return whether two folders have the same files."""
    return names(one) == names(other) and not filecmp.cmpfiles(one, other, names(one), shallow=False)[1]


def names(folder: Path) -> set[str]:
    """Return the names of the files below a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=1, help="share of the writes that are tried (default 1: all)")
    parser.add_argument("--only", default="", help="only kinds that begin with this text")
    parser.add_argument("--student", action="store_true", help="runs with a student and figures: slower, more files")
    parser.add_argument("--keep", help="folder to work in, which is kept; by default a temporary folder is removed")
    chosen = parser.parse_args()
    warm_up()
    os.umask(0o077)
    folder = Path(chosen.keep or tempfile.mkdtemp(prefix="nzc-kills-")).absolute()
    workshop, rng, cases = Workshop(folder, STUDENT if chosen.student else VOTES), random.Random(0), []
    begun = time.monotonic()
    trials: dict[str, tuple[str, list[str], list[Callable[..., Case]]]] = {
        "killed": ("start", MUCH_NOISE, [workshop.killed]),
        "in a row": (
            "finished", LITTLE_NOISE,
            [partial(workshop.in_a_row, number=number) for number in (signal.SIGKILL, signal.SIGINT)],
        ),
        "at once": ("start", MUCH_NOISE, [workshop.at_once]),
    }  # fmt: skip
    for kind, (origin, options, tries) in trials.items():
        if not kind.startswith(chosen.only):
            continue
        points = list(enumerate(workshop.points(origin, options), 1))
        for call, point in points:
            if rng.random() < chosen.share:
                cases += [attempt(call, f"write {call}, {point}") for attempt in tries]
                wrong = sum(bool(case.problem) for case in cases)
                progress(f"{kind} {call} of {len(points)}, {wrong} wrong, {time.monotonic() - begun:.0f} s: {point}")
    if chosen.keep is None:
        shutil.rmtree(folder)
    sys.exit(show_cases("runs that are killed, and folders that two runs share", cases))


if __name__ == "__main__":
    main()
