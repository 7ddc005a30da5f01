"""Is anything lost when a command is stopped? Each trial stops a command at a known point and then repeats it.

Afterwards everything must be as if the command had not been stopped: result.json without times, labels.csv, the
ledger's releases, every teacher trained once, no stray file in the store. SIGINT, SIGTERM and SIGHUP must also end the
first command with exit code 130 and one line that says how to continue, and its tracked run must be closed as KILLED.
With --twice they are sent again 0.05 s later, while the command cleans up. --only runs a part.
"""

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from _nzc import ERR, TRAINED, Trap, find, in_own_process, progress, run, warm_up
from _traces import Traces, run_states, traces_of
from faults_points import COMMANDS, DATABASE_STEP, POINTS, Point
from mlflow import MlflowClient
from rich.table import Table

from nzc.app.interrupt import STOPPED
from nzc.runs.formatting import show

SIGNALS = ("SIGKILL", "SIGINT", "SIGTERM", "SIGHUP")
#: How a line begins that a run may print before it is stopped.
_WARNING = "nzc: the student's accuracy"
#: About how many seconds a new process takes to import what it needs.
IMPORT_SECONDS = 12


class Trial(NamedTuple):
    """One stopped command, and in words what is not as it should be afterwards."""

    stage: str
    signal: str
    name: str
    problems: list[str]


class Workshop:
    """A folder of trials, and the traces of commands that were not stopped."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.number = folder, 0
        self.template = folder / "mlflow.db"
        in_own_process(lambda: MlflowClient(f"sqlite:///{self.template}").search_experiments())
        self.expected: dict[str, Traces] = {}
        self.seconds: dict[str, float] = {}

    def new_folder(self, database: bool = True) -> Path:
        """Return the folder of a new trial. It has an empty MLflow database, which takes seconds to create."""
        self.number += 1
        folder = self.folder / str(self.number)
        folder.mkdir()
        if database:
            shutil.copy(self.template, folder)
        return folder

    def undisturbed(self, name: str) -> Traces:
        """Return what a command leaves when nothing stops it."""
        if name not in self.expected:
            folder, begun = self.new_folder(), time.monotonic()
            if code := run(folder, COMMANDS[name]):
                raise RuntimeError(f"{name} ends with exit code {code}: {(folder / ERR).read_text()}")
            self.seconds[name] = time.monotonic() - begun
            self.expected[name] = traces_of(folder)
        return self.expected[name]

    def repeat(self, folder: Path, name: str) -> list[str]:
        """Run a stopped command again, and return what differs from a command that was not stopped."""
        code = run(folder, COMMANDS[name])
        if code:
            return [f"repeated: exit code {code}: {(folder / ERR).read_text().strip()[-300:]}"]
        after = traces_of(folder)
        problems = after.differences(self.undisturbed(name), seeded=name != "system")
        if set(after.states) - {"FINISHED", "KILLED"}:
            problems.append(f"tracked runs {dict(after.states)}")
        if not problems:
            shutil.rmtree(folder)
        return problems

    def stop_at(self, point: Point, number: int, twice: bool = False) -> Trial:
        """Stop a command at a point with a signal, or with two in quick succession, and repeat it."""
        self.undisturbed(point.command)
        folder = self.new_folder(database=point.where != DATABASE_STEP)
        trap = Trap(point.where, point.after, point.call, number, point.about, twice)
        code = run(folder, COMMANDS[point.command], trap)
        problems = []
        if number == signal.SIGKILL:
            if code != -signal.SIGKILL:
                problems.append(f"was not stopped: exit code {code}")
        else:
            problems += _end_problems(folder, code, finished=point.command == "sweep" or point.stage == "sending")
        problems += self.repeat(folder, point.command)
        return Trial(point.stage, signal.Signals(number).name, point.name, problems)

    def stop_after(self, seconds: float, name: str, cold: bool) -> Trial:
        """Stop a command with SIGKILL after so many seconds, and repeat it. `cold`: a new process, with its imports."""
        self.undisturbed(name)
        folder, moment = self.new_folder(), f"after {seconds:.2f} s"
        if cold:
            command = [sys.executable, "-m", "nzc", *COMMANDS[name]]
            with (folder / ERR).open("w") as output:
                process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)
                time.sleep(seconds)
                process.kill()
                process.wait()
            # A new process does not count the teachers that it trains, so they are counted by what they left.
            kept = {path.stem for path in folder.glob(".nzc/predictions/*.work/*.npz")}
            if list(folder.glob(".nzc/predictions/*.npz")):
                kept = set(self.undisturbed(name).trained)
            (folder / TRAINED).write_text("".join(f"{teacher}\n" for teacher in kept))
        else:
            run(folder, COMMANDS[name], seconds=seconds)
        return Trial("any, new process" if cold else "any", "SIGKILL", moment, self.repeat(folder, name))


def _end_problems(folder: Path, code: int, finished: bool) -> list[str]:
    """Return what is wrong with the end of a command that SIGINT, SIGTERM or SIGHUP stopped.

    finished  whether tracked runs may be finished already
    """
    message, problems = (folder / ERR).read_text(), []
    if code != 130:
        problems.append(f"exit code {code}")
    said = [line for line in message.splitlines() if not line.startswith(_WARNING)]
    if said != [STOPPED]:
        problems.append(f"standard error: {message.strip()[-400:]!r}")
    states = run_states(folder)
    if set(states) - ({"KILLED", "FINISHED"} if finished else {"KILLED"}):
        problems.append(f"tracked runs {dict(states)}")
    return problems


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--signals", nargs="+", default=list(SIGNALS), metavar="SIGNAL")
    parser.add_argument(
        "--only", nargs="+", default=[""], metavar="TEXT", help="only points with this text in `stage: name`"
    )
    parser.add_argument("--twice", action="store_true", help="send every signal but SIGKILL twice")
    parser.add_argument("--random", type=int, default=12, help="kills at random moments of a run (default 12)")
    parser.add_argument("--cold", type=int, default=6, help="random kills of a new process, with imports (default 6)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random moments")
    parser.add_argument("--keep", help="folder to work in, which is kept; by default a temporary folder is removed")
    chosen = parser.parse_args()
    warm_up()
    for point in POINTS:
        find(point.where)
    points = [point for point in POINTS if any(text in f"{point.stage}: {point.name}" for text in chosen.only)]
    rng, trials = random.Random(chosen.seed), []
    folder = Path(chosen.keep or tempfile.mkdtemp(prefix="nzc-faults-")).absolute()
    folder.mkdir(exist_ok=True)
    workshop = Workshop(folder)
    todo = [(point, signal.Signals[name]) for name in chosen.signals for point in points]
    moments = [(cold, rng.random()) for cold in (False, True) for _ in range(chosen.cold if cold else chosen.random)]
    total = len(todo) + len(moments)
    for point, number in todo:
        trials.append(workshop.stop_at(point, number, chosen.twice and number != signal.SIGKILL))
        _show_progress(trials, total)
    for cold, moment in moments:
        seconds = moment * ((IMPORT_SECONDS if cold else 0) + workshop.seconds.get("run", 5))
        trials.append(workshop.stop_after(seconds, "run", cold))
        _show_progress(trials, total)
    if chosen.keep is None:
        shutil.rmtree(folder)
    if chosen.twice:
        held = sum(not trial.problems for trial in trials)
        progress(f"signals twice at {len(points)} points: {held} of {len(trials)}")
    sys.exit(_show_table(trials))


def _show_progress(trials: list[Trial], total: int) -> None:
    last = trials[-1]
    for problem in last.problems:
        progress(f"LOST {last.stage}: {last.name}, {last.signal}: {problem}\n")
    lost = sum(bool(trial.problems) for trial in trials)
    progress(f"{len(trials)} of {total} faults, {lost} lost; {last.stage}: {last.name}, {last.signal}")


def _show_table(trials: list[Trial]) -> int:
    """Show how many trials survived, by stage. Return 1 where one did not, else 0."""
    table = Table(title="faults", title_style="bold")
    table.add_column("stage")
    for name in (*SIGNALS, "tried", "survived", "lost"):
        table.add_column(name, justify="right")
    by_stage: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        by_stage[trial.stage].append(trial)
    for stage, group in [*by_stage.items(), ("all", trials)]:
        counts = [sum(trial.signal == name for trial in group) for name in SIGNALS]
        lost = sum(bool(trial.problems) for trial in group)
        table.add_row(stage, *map(str, (*counts, len(group), len(group) - lost, lost)))
    show(table)
    return int(any(trial.problems for trial in trials))


if __name__ == "__main__":
    main()
