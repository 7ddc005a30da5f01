"""Does `nzc publish` refuse what was tampered with? Every tampering of a run's folder, its ledger and the destination.

One run on system noise is made, and one beside it in the same store. Each case starts from an equal copy of both, in
the same place, and changes one thing. Publishing must then end in one line with exit code 2, and must write nothing.
The untouched run must be published.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _cases import ACCEPTED, Case, differences, refusal, show_cases, shown, snapshot
from _nzc import ERR, progress, run, start, wait, warm_up
from publish_tampering import CASES, DESTINATIONS, OLDER, OTHER, RUN, TARGET, Swap

#: A small run as `recipe=near_zero` does it, with a student.
SMALL = ["rng=system", "teachers.count=100", "student.steps=30", "tracking=none", "figures=false"]
SMALL += ["trainer.accelerator=cpu", "trainer.progress=false"]
#: Seconds that publishing may take.
LIMIT = 20


class Workshop:
    """A run and another one in one store, as they were left: `home` is where they were made, `good` is a copy."""

    def __init__(self, folder: Path) -> None:
        self.home, self.good = folder / "home", folder / "good"
        commands = {RUN: ["aggregator.gamma=0.2"], OTHER: ["aggregator.gamma=2", "seed=1"]}
        for name in (OTHER, RUN):
            if code := run(self.home, [*SMALL, f"hydra.run.dir={name}", *commands[name]]):
                raise RuntimeError(f"{name} ends with exit code {code}: {(self.home / ERR).read_text()}")
            if name == OTHER:  # the ledger before the run was made
                shutil.copy(self.home / ".nzc" / "ledger.db", folder / "older.db")
        stranger = folder / "stranger"
        if code := run(stranger, [*SMALL, "hydra.run.dir=run", "dataset.seed=5"]):
            raise RuntimeError(f"the stranger's run ends with exit code {code}: {(stranger / ERR).read_text()}")
        shutil.copytree(self.home, self.good, symlinks=True)

    def restore(self) -> Path:
        """Put everything back as the runs left it, and return the folder."""
        shutil.rmtree(self.home)
        shutil.copytree(self.good, self.home, symlinks=True)
        return self.home

    def try_case(self, kind: str, name: str, tamper: Callable[[Path], Any], target: str = TARGET) -> Case:
        """Tamper with the folder, publish, and return what is wrong."""
        home = self.restore()
        swap = made if isinstance(made := tamper(home), Swap) else None
        before = snapshot(home)
        code = wait(start(home, ["publish", RUN, target], swap), LIMIT)
        problem = refusal(code, home)
        if problem == ACCEPTED and kind != "destination" and self._is_untouched(home / target):
            problem = ""  # as where a file of the other run has the same content, or is read before it is replaced
        elif not problem and name != OLDER:  # the ledger of an older version gets the tables that it lacks
            problem = differences(before, snapshot(home), added=True)
        return shown(Case(kind, name, problem))

    def _is_untouched(self, published: Path) -> bool:
        """Return whether each published file of the run is as the run wrote it."""
        files = [path for path in published.iterdir() if (self.good / RUN / path.name).is_file()]
        return all(path.read_bytes() == (self.good / RUN / path.name).read_bytes() for path in files)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases with this text in `kind: name`")
    parser.add_argument("--keep", help="folder to work in, which is kept; by default a temporary folder is removed")
    chosen = parser.parse_args()
    warm_up()
    folder = Path(chosen.keep or tempfile.mkdtemp(prefix="nzc-publish-")).absolute()
    os.umask(0o077)
    workshop = Workshop(folder)
    code = run(workshop.restore(), ["publish", RUN, TARGET], seconds=LIMIT)
    problem = "" if code == 0 else (workshop.home / ERR).read_text() or f"exit code {code}"
    cases = [shown(Case("untouched", "published", problem))]
    todo = [(kind, name, tamper, TARGET) for kind, group in CASES.items() for name, tamper in group.items()]
    todo += [("destination", name, prepare, target) for name, (prepare, target) in DESTINATIONS.items()]
    for kind, name, tamper, target in todo:
        if chosen.only in f"{kind}: {name}":
            cases.append(workshop.try_case(kind, name, tamper, target))
            progress(f"{len(cases)} of {len(todo) + 1}, {sum(bool(case.problem) for case in cases)} wrong; {name}")
    if chosen.keep is None:
        shutil.rmtree(folder)
    published = sum(case.problem == ACCEPTED for case in cases)
    sys.exit(show_cases(f"tampered runs: {published} of {len(cases) - 1} published", cases))


if __name__ == "__main__":
    main()
