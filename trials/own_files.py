"""Does nzc leave alone what it did not make? A person's own files lie where nzc is told to work.

They have the names that nzc gives to its files. Each case gives nzc this folder as that of the run, the sweep, the
store or the artifacts, or to a subcommand; by its name or by a link. The input is right, or wrong in several ways, or
the command is killed before one of its writes. Afterwards every file and folder must be as before: content, owner, mode
and, for files, time of modification. The command may run, or refuse in one line with exit code 2.
"""

import argparse
import os
import random
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import numpy as np
from _cases import Case, WriteTrap, differences, refusal, show_cases, shown, snapshot, writes
from _nzc import in_own_process, progress, run, warm_up
from fuzz_tables import VOTES
from mlflow import MlflowClient

#: Where the person's files are, a link to it, and where the votes and the tracking database are.
OWN, LINK, BESIDE = "own", "link", "beside"
FILES = """
result.json error.txt labels.csv student.pt2 student.json predictions.csv student.csv curves.csv report.html
tracking.json .tracking.lock multirun.yaml jobs.json table.md table.csv notes.txt .result.json.partial
figures/x.svg figures/cost.svg figures/gaps.png .hydra/notes.txt .hydra/config.yaml .hydra/overrides.yaml
0/labels.csv 0/result.json 0/.hydra/notes.txt 1/notes.txt predictions/own.npz predictions/own.lock
predictions/own.work/1.npz predictions/own.damaged-0 mlartifacts/own.txt conf/own.yaml
"""
#: A run of half a second; its votes are beside the folder.
BASE = [f"teachers.path=../{BESIDE}/votes.npy" if each.startswith("teachers.path=") else each for each in VOTES]
#: Where nzc is told to work. PLACE stands for the folder, `.`, and for a link to it.
PLACE = "PLACE"
_OUTSIDE = [f"hydra.run.dir=../{BESIDE}/run", f"paths.store=../{BESIDE}/store"]
_TRACKED = ["tracking=mlflow", "tracking.system_metrics=false"]
_SWEEP = ["--multirun", "aggregator.sigma=40,50"]
RUNS: dict[str, list[str]] = {
    "run's folder": [f"hydra.run.dir={PLACE}"],
    "run's folder, figures": [f"hydra.run.dir={PLACE}", "figures=true"],
    "run's folder, empty": [f"hydra.run.dir={PLACE}/empty"],
    "output": [f"paths.output={PLACE}"],
    "output, empty": [f"paths.output={PLACE}/empty"],
    "sweep's folder": [f"hydra.sweep.dir={PLACE}", *_SWEEP],
    "sweep's folder, empty": [f"hydra.sweep.dir={PLACE}/empty", *_SWEEP],
    "store": [f"paths.store={PLACE}", _OUTSIDE[0]],
    "store, empty": [f"paths.store={PLACE}/empty", _OUTSIDE[0]],
    "artifacts": [*_OUTSIDE, *_TRACKED, f"tracking.artifacts={PLACE}", f"tracking.uri=sqlite:///../{BESIDE}/mlflow.db"],
    "tracking database": [*_OUTSIDE, *_TRACKED, f"tracking.uri=sqlite:///{PLACE}/ledger.db"],
    "everything": [f"hydra.run.dir={PLACE}", f"paths.store={PLACE}"],
}
#: What else is given with each of them.
INPUTS: dict[str, list[str]] = {
    "right": [],
    "wrong value": ["seed=-1"],
    "wrong key": ["sed=1"],
    "wrong votes": [f"teachers.path=../{BESIDE}/missing.npy"],
    "wrong queries": ["queries=10000"],
}
COMMANDS: dict[str, list[str]] = {
    "report": ["report", PLACE],
    "store --all": ["store", "--root", PLACE, "--all", "--yes"],
    "store --older": ["store", "--root", PLACE, "--older", "0", "--yes"],
    "store --prune": ["store", "--root", PLACE, "--prune", "own.npz", "--yes"],
    "store --forget": ["store", "--root", PLACE, "--forget", "--yes"],
    "store": ["store", "--root", PLACE],
    "sync": ["sync", PLACE],
    "publish": ["publish", PLACE, f"../{BESIDE}/out"],
    "publish into": ["publish", f"../{BESIDE}", PLACE],
    "predict": ["predict", PLACE, "labels.csv"],
}


def furnish(home: Path, database: Path) -> None:
    """Make the person's folder, the link to it, and the folder beside it."""
    own = home / OWN
    for name in FILES.split():
        (own / name).parent.mkdir(parents=True, exist_ok=True)
        (own / name).write_text(f"my own {name}\n")
    (own / "empty").mkdir()
    with closing(sqlite3.connect(own / "ledger.db")) as connection:
        connection.executescript("CREATE TABLE mine (a TEXT); INSERT INTO mine VALUES ('my own ledger');")
    for path in [*own.rglob("*"), own]:
        if os.geteuid() == 0:
            os.chown(path, 1234, 1234)
        path.chmod(0o2775 if path.is_dir() else 0o644)
        os.utime(path, (10**9, 10**9))
    (home / LINK).symlink_to(OWN)
    (home / BESIDE).mkdir()
    shutil.copy(database, home / BESIDE / "mlflow.db")
    np.save(home / BESIDE / "votes.npy", np.random.default_rng(0).multinomial(20, [0.5, 0.3, 0.2], 30))


class Workshop:
    """A folder of trials; each starts afresh."""

    def __init__(self, folder: Path) -> None:
        self.home, self.log, self.database = folder / "home", folder / "writes.txt", folder / "mlflow.db"
        in_own_process(lambda: MlflowClient(f"sqlite:///{self.database}").search_experiments())

    def try_case(self, kind: str, name: str, command: list[str], call: int = 0, must_end: bool = True) -> Case:
        """Run a command in the person's folder, and return what it changed there.

        call      number of the write before which it is killed; 0: it is not killed
        must_end  whether it must run, or refuse in one line
        """
        shutil.rmtree(self.home, ignore_errors=True)
        furnish(self.home, self.database)
        own = self.home / OWN
        before = snapshot(own)
        code = run(own, command, WriteTrap(self.home, call, self.log), 60)
        problem = differences(before, snapshot(own))
        if not problem and must_end and code != 0:
            problem = refusal(code, own)
        return shown(Case(kind, name, problem))

    def killed(self, kind: str, name: str, command: list[str], rng: random.Random, kills: int) -> list[Case]:
        """Kill a command that has run before some of its writes."""
        points = writes(WriteTrap(self.home, 0, self.log))
        calls = rng.sample(range(1, len(points) + 1), min(kills, len(points)))
        names = [(call, f"{name}, killed at write {call}: {points[call - 1]}") for call in sorted(calls)]
        return [self.try_case(kind, point, command, call, must_end=False) for call, point in names]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--kills", type=int, default=4, help="at how many writes each kind of run is killed (default 4)"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases with this text in `kind: name`")
    parser.add_argument("--seed", type=int, default=0, help="seed of the choice of these writes")
    parser.add_argument("--keep", help="folder to work in, which is kept; by default a temporary folder is removed")
    chosen = parser.parse_args()
    warm_up()
    folder = Path(chosen.keep or tempfile.mkdtemp(prefix="nzc-own-")).absolute()
    folder.mkdir(exist_ok=True)
    workshop, rng, cases = Workshop(folder), random.Random(chosen.seed), []
    places = (".", f"../{LINK}", str(folder / "home" / OWN))
    for kind, given in [*RUNS.items(), *COMMANDS.items()]:
        for place, (said, wrong) in [(place, each) for place in places for each in INPUTS.items()]:
            name = f"{'a link' if LINK in place else place if place == '.' else 'its path'}, {said}"
            if chosen.only not in f"{kind}: {name}" or (kind in COMMANDS and wrong):
                continue
            command = [each.replace(PLACE, place) for each in given]
            command = command if kind in COMMANDS else [*BASE, *command, *wrong]
            one_line = not kind.startswith("sweep")  # a sweep says a line for each job
            cases.append(workshop.try_case(kind, name, command, must_end=one_line))
            if said == "right":
                cases += workshop.killed(kind, name, command, rng, chosen.kills)
            progress(f"{len(cases)} cases, {sum(bool(case.problem) for case in cases)} wrong; {kind}: {name}")
    if chosen.keep is None:
        shutil.rmtree(folder)
    sys.exit(show_cases("a person's own files", cases))


if __name__ == "__main__":
    main()
