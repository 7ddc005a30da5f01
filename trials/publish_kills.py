"""Are only whole runs published? A run is killed before each of its writes, and then published.

killed     a run on system noise; it is published only if every file of a whole run is in its folder. Then the same
           command runs again, ends well, and is published
in a row   a run is killed in the folder of a finished one, with other noise and labels; what is published then is
           the finished run's, or nothing
at once    a run is stopped before a write; a second one in its folder is refused in one line; the first goes on
"""

import argparse
import filecmp
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from _cases import Case, WriteTrap, refusal, show_cases, shown, writes
from _nzc import ERR, progress, run, start, wait, warm_up

RUN, OUT = "run", "out"
#: Runs of one or two seconds, with all files that a run may leave, and without a student. The second of each pair has
#: another noise scale and another seed.
_PLAIN = ["recipe=papers", "rng=system", "tracking=none", "trainer.accelerator=cpu", "trainer.progress=false"]
_PLAIN += [f"hydra.run.dir={RUN}", "queries=40"]
STUDENT = [*_PLAIN, "teachers.count=6", "teachers.epochs=5", "student.steps=10"]
ALONE = [*_PLAIN, "teachers=logistic", "teachers.count=6", "teachers.parallel=1", "student=none", "figures=false"]
LOW, HIGH = ["aggregator.sigma=200"], ["aggregator.sigma=2", "seed=1"]
#: Seconds that a command may take.
LIMIT = 90


class Workshop:
    """A folder of trials. All trials of a command start from one store, in which the teachers are trained already."""

    def __init__(self, folder: Path, command: list[str]) -> None:
        self.folder, self.command, self.home = folder, command, folder / "home"
        shutil.rmtree(folder, ignore_errors=True)
        for options in (LOW, HIGH):
            self.must(self.home, [*command, *options])
        shutil.rmtree(self.home / RUN)
        shutil.copytree(self.home, folder / "start")  # trained teachers, and a ledger
        self.must(self.home, [*command, *LOW])
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
        run(home, [*self.command, *LOW], self.trap(call), LIMIT)
        whole = names(home / RUN) == self.whole
        published = run(home, ["publish", RUN, OUT], seconds=LIMIT) == 0
        if published and not whole:
            problems.append(f"published without {' '.join(sorted(self.whole - names(home / RUN)))}")
        if not published and (home / OUT).exists():
            problems.append("refused, but something was written")
        shutil.rmtree(home / OUT, ignore_errors=True)
        if run(home, [*self.command, *LOW], seconds=LIMIT):
            problems.append(f"repeated: {(home / ERR).read_text().strip()}")
        elif run(home, ["publish", RUN, OUT], seconds=LIMIT):
            problems.append(f"repeated, but not published: {(home / ERR).read_text().strip()}")
        return shown(Case("killed", point, "; ".join(problems)))

    def in_a_row(self, call: int, point: str, number: int) -> Case:
        """End a run before a write, in the folder of a finished run, and publish."""
        home = self.restore("finished")
        run(home, [*self.command, *HIGH], self.trap(call, number), LIMIT)
        return shown(Case(f"in a row, {signal.Signals(number).name}", point, self.mixed(home)))

    def at_once(self, call: int, point: str) -> Case:
        """Stop a run before a write; a second one in its folder must be refused; the first must end well."""
        home = self.restore("start")
        first = start(home, [*self.command, *LOW], self.trap(call, signal.SIGSTOP), name="first.")
        os.waitpid(first, os.WUNTRACED)
        problems = [refusal(run(home, [*self.command, *HIGH], seconds=LIMIT), home)]
        os.kill(first, signal.SIGCONT)
        if code := wait(first, LIMIT):
            problems.append(f"the first ended with exit code {code}: {(home / f'first.{ERR}').read_text().strip()}")
        problems.append(self.mixed(home, labels=False))
        return shown(Case("at once", point, "; ".join(filter(None, problems))))

    def mixed(self, home: Path, labels: bool = True) -> str:
        """Publish, and return what is wrong unless it is refused, or is the finished run's own.

        labels  whether the labels must be the same as those of the finished run
        """
        if run(home, ["publish", RUN, OUT], seconds=LIMIT):
            return ""
        published, expected = home / OUT, self.folder / "published"
        mechanism, wanted = (
            json.loads((each / "privacy.json").read_text())["mechanism"] for each in (published, expected)
        )
        if mechanism != wanted:
            return f"published {mechanism}, not {wanted}"
        own = filecmp.cmp(published / "labels.csv", home / RUN / "labels.csv", shallow=False)
        same = filecmp.cmp(published / "labels.csv", expected / "labels.csv", shallow=False)
        return "" if own and (same or not labels) else "published labels of the other run"


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
    workshop, rng, cases = Workshop(folder, STUDENT if chosen.student else ALONE), random.Random(0), []
    begun = time.monotonic()
    trials = {
        "killed": ("start", LOW, [workshop.killed]),
        "in a row": (
            "finished", HIGH,
            [lambda *at: workshop.in_a_row(*at, signal.SIGKILL), lambda *at: workshop.in_a_row(*at, signal.SIGINT)],
        ),
        "at once": ("start", LOW, [workshop.at_once]),
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
