"""Is anything lost, or released twice, when a command is stopped? A command is stopped before its
writes, and repeated.

SIGKILL, SIGTERM  afterwards everything must be as if the command had not been stopped: results,
                  labels, the ledger's entries, each teacher trained once, no stray file in the
                  store, no tracked run left open. SIGTERM ends the command with exit code 130 and
                  one line. Commands: a tracked run (run), a sweep of two runs (sweep), and a run on
                  system noise (votes), which is also published: only whole ones may be
in a row          a run is stopped in the folder of a finished one with other noise; afterwards what
is published is
                  that of one of the two, whole, or nothing
at once           a run is suspended before a write; a second one in its folder is refused, and the
first ends well
"""

import argparse
import filecmp
import os
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import _nzc as trial
import numpy as np
from _nzc import (
    ERR,
    STUDENT,
    Watch,
    entries,
    error_of,
    must_run,
    names,
    open_runs,
    result,
    run,
    trained,
)

VOTES = ["teachers=votes", "teachers.path=V.npy", "dataset=none", "student=none", "figures=false"]
VOTES += ["queries=40", "trainer.accelerator=cpu", "dataset.name=people"]
SYSTEM = [*VOTES, "tracking=none", "rng=system", "hydra.run.dir=run", "aggregator.sigma=200"]
COMMANDS = {
    "run": STUDENT,
    "sweep": ["--multirun", *STUDENT, "tracking=none", "aggregator=gnmax,lnmax"],
    "votes": SYSTEM,
}
#: A run with so little noise that its labels are the plurality.
OTHER = [*SYSTEM[:-1], "aggregator.sigma=2", "seed=1", "budget.epsilon=1e6"]
#: Seconds that a command may take.
LIMIT = 120


class Workshop:
    """A folder of trials. Each one starts from a copy of `start`, in the same place.

    expected  what each command leaves when nothing stops it
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.home, self.log = folder, folder / "home", folder / "writes.txt"
        self.home.mkdir(parents=True)
        np.save(self.home / "V.npy", np.random.default_rng(0).multinomial(60, [0.6, 0.3, 0.1], 40))
        must_run(self.home, VOTES)  # makes MLflow's database, which takes seconds
        shutil.rmtree(self.home / ".nzc")
        shutil.rmtree(self.home / "outputs")
        shutil.copytree(self.home, folder / "start")
        self.points: dict[str, list[str]] = {}
        self.expected: dict[str, dict[str, Any]] = {}
        for name, command in COMMANDS.items():
            self.points[name] = self.points_of("start", command)
            self.expected[name] = self.left()
        self.whole = names(self.home / "run")
        must_run(self.home, ["publish", "run", "out"])
        shutil.copytree(self.home, folder / "finished")
        self.points["in a row"] = self.points_of("finished", OTHER)

    def restore(self, name: str = "start") -> None:
        shutil.rmtree(self.home)
        self.log.unlink(missing_ok=True)
        shutil.copytree(self.folder / name, self.home)

    def watch(self, stop: int | None = None, number: int = signal.SIGKILL) -> Watch:
        return Watch(self.home, self.log, stop, number)

    def points_of(self, name: str, command: list[str]) -> list[str]:
        """Return the writes of a command before which something has changed, with numbers."""
        self.restore(name)
        must_run(self.home, command, self.watch(stop=0))
        first: dict[str, str] = {}
        for line in self.log.read_text().splitlines():
            first.setdefault(line.split()[0], line)
        return list(first.values())

    def left(self) -> dict[str, Any]:
        """Return what the commands left: results of the newest run or sweep, ledger, store and
        tracked runs.
        """
        paths = sorted(self.home.glob("**/result.json"), key=lambda path: path.stat().st_mtime_ns)
        last = paths[-1].parents[1]  # the folder of the sweep, or that of all runs
        newest = (
            [path for path in paths if path.parents[1] == last]
            if "sweeps" in last.parts
            else paths[-1:]
        )
        return {
            "results": [result(path) for path in newest],
            "labels": [(path.parent / "labels.csv").read_text() for path in newest],
            "ledger": sorted(entries(self.home / ".nzc")),
            "teachers": trained([self.log] if self.log.exists() else []),
            "store": names(self.home / ".nzc"),
            "open runs": open_runs(self.home),
        }

    def stopped(self, name: str, call: int, number: int, seconds: float = LIMIT) -> list[str]:
        """Stop a command before a write, or kill it after some seconds; repeat it.

        Return what is wrong.
        """
        self.restore()
        problems, command = [], COMMANDS[name]
        code = run(self.home, command, self.watch(call, number), seconds)
        if code != (130 if number == signal.SIGTERM else -number) and seconds == LIMIT:
            problems.append(f"exit code {code}: {error_of(self.home)}")
        elif code == 130 and not (self.home / ERR).read_text().startswith("nzc: "):
            problems.append(f"standard error: {error_of(self.home)}")
        whole = names(self.home / "run") == self.whole
        if name == "votes":
            problems += self.published(must=False)
            if (self.home / "out").exists() and not whole:
                problems.append("published, although files were missing")
            shutil.rmtree(self.home / "out", ignore_errors=True)
        if run(self.home, command, self.watch(), LIMIT):
            return [*problems, f"repeated: {error_of(self.home)}"]
        run(self.home, ["sync"], seconds=LIMIT)
        left, expected = self.left(), self.expected[name]
        differ = {key for key in expected if left[key] != expected[key]}
        if (
            name == "votes"
        ):  # system noise; a run that was whole before may draw anew, which is a second release
            differ -= {"results", "labels", "ledger"}
            if not 1 <= len(left["ledger"]) <= 1 + whole:
                problems.append(f"{len(left['ledger'])} releases in the ledger")
            problems += self.published(must=True)
        return problems + [f"{key} differ: {left[key]}" for key in sorted(differ)]

    def stopped_after(self, tenths: int) -> list[str]:
        """Kill a run after so many tenths of a second. Return what is wrong."""
        return self.stopped("run", 0, signal.SIGKILL, tenths / 10)

    def published(self, must: bool) -> list[str]:
        """Publish the run. Return what is wrong."""
        code = run(self.home, ["publish", "run", "out"], seconds=LIMIT)
        if code not in ((0,) if must else (0, 2)) or (code and (self.home / "out").exists()):
            return [f"publish: exit code {code}: {error_of(self.home)}"]
        return []

    def in_a_row(self, call: int, number: int) -> list[str]:
        """Stop a run in the folder of a finished one, and publish again. Return what is wrong."""
        self.restore("finished")
        shutil.rmtree(self.home / "out")
        run(self.home, OTHER, self.watch(call, number), LIMIT)
        return self.published(must=False) or self.mixed()

    def at_once(self, call: int) -> list[str]:
        """Suspend a run before a write, start a second one in its folder, and publish.

        Return what is wrong.
        """
        self.restore()
        first = trial.start(self.home, SYSTEM, self.watch(call, signal.SIGSTOP), err="first.txt")
        os.waitpid(first, os.WUNTRACED)
        code = run(self.home, OTHER, seconds=LIMIT)
        refused = code == 2 and (self.home / ERR).read_text().count("\n") == 1
        os.kill(first, signal.SIGCONT)
        end = trial.wait(first, LIMIT)
        if end == 0 and (
            refused or code == 0
        ):  # the second one may be whole before the first has taken the folder
            return self.published(must=True) or self.mixed()
        if end == 2 and code == 0:
            return []
        return [
            f"exit codes {end}, {code}: {error_of(self.home, 'first.txt')} {error_of(self.home)}"
        ]

    def mixed(self) -> list[str]:
        """Return what is wrong with a published folder: labels of one run beside the mechanism of
        the other.
        """
        out, finished = self.home / "out", self.folder / "finished" / "out"
        if (
            not out.exists()
            or not filecmp.cmpfiles(out, finished, names(finished), shallow=False)[1]
        ):
            return []
        row, label = np.loadtxt(out / "labels.csv", delimiter=",", skiprows=1, dtype=int).T[:2]
        plurality = bool((label == np.load(self.home / "V.npy").argmax(1)[row]).all())
        little = "sigma=2)" in (out / "privacy.json").read_text()
        return (
            []
            if plurality == little
            else ["published labels of one run and the mechanism of the other"]
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--share", type=float, default=1, help="share of the writes that are tried (default 1: all)"
    )
    parser.add_argument(
        "--random", type=int, default=10, help="kills at random moments of a run (default 10)"
    )
    parser.add_argument(
        "--only", default="", help="only kinds that contain this text, such as votes"
    )
    parser.add_argument(
        "--keep", help="folder to work in, which is kept; by default a temporary folder is removed"
    )
    chosen = parser.parse_args()
    trial.warm_up()
    os.umask(0o077)
    folder, rng = (
        Path(chosen.keep or tempfile.mkdtemp(prefix="nzc-kills-")).absolute(),
        random.Random(0),
    )
    workshop = Workshop(folder)
    kinds: dict[str, tuple[list[str], Callable[[int], list[str]]]] = {}
    for number in (signal.SIGKILL, signal.SIGTERM):
        for name in COMMANDS:
            kinds[f"{name}, {number.name}"] = (
                workshop.points[name],
                partial(workshop.stopped, name, number=number),
            )
        kinds[f"in a row, {number.name}"] = (
            workshop.points["in a row"],
            partial(workshop.in_a_row, number=number),
        )
    kinds["at once"] = workshop.points["votes"], workshop.at_once
    moments = [f"{call} tenths of a second" for call in rng.choices(range(50), k=chosen.random)]
    kinds["run, random moments"] = moments, workshop.stopped_after
    tried, wrong = Counter[str](), Counter[str]()
    for kind, (points, attempt) in kinds.items():
        for point in points if chosen.only in kind else ():
            if rng.random() < chosen.share:
                problems = attempt(int(point.split()[0]))
                tried[kind] += 1
                wrong[kind] += bool(problems)
                trial.progress(f"{kind}: {point}: {'; '.join(problems) or 'nothing lost'}")
    if chosen.keep is None:
        shutil.rmtree(folder)
    rows = [
        (kind, str(tried[kind]), str(tried[kind] - wrong[kind]), str(wrong[kind])) for kind in tried
    ]
    trial.show_table("stopped commands", ("kind", "tried", "survived", "lost"), rows)
    sys.exit(wrong.total() > 0)


if __name__ == "__main__":
    main()
