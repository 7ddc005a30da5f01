"""Is anything lost when a run is killed? Each trial stops a run at a known point, then gives the same command again.

Afterwards all must be as if nothing had happened: result.json (clocks aside), labels.csv, the ledger's releases and ε,
every teacher trained once, no stray file in the store. SIGINT and SIGTERM must also end the first command with exit
code 130 and one line that says how to go on, and close its tracked run as KILLED.
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

from _nzc import BASE, ERR, SMALL, TRAINED, Left, Trap, apart, left, progress, run, warm
from mlflow import MlflowClient
from rich.table import Table

from nzc.runs.formatting import show

PLAIN = [*SMALL, "tracking.model=false"]
#: Commands that trials run: the usual, with a model, with figures, by rounds (the student is asked), with
#: scikit-learn's teachers (in one process: a fork cannot send joblib's workers home), and a sweep.
COMMANDS = {
    "run": PLAIN,
    "model": SMALL,
    "figures": [*PLAIN, "figures=true"],
    "rounds": [*PLAIN, "aggregator=interactive", "rounds=2"],
    "forest": ["teachers=forest", "teachers.count=6", "teachers.parallel=1", "student=none", *BASE[3:]],
    "sweep": ["--multirun", *PLAIN, "aggregator=gnmax,lnmax,gumbel"],
}


class Point(NamedTuple):
    """Where a run is stopped: at the `call`-th call of a function, before it or after."""

    stage: str
    what: str
    where: str
    after: bool = False
    call: int = 1
    command: str = "run"


_ENGINE, _STORE, _MAIN = "nzc.teachers.engine", "nzc.store.store", "nzc.__main__"
_ASK, _LEDGER, _MLFLOW = "nzc.labeling.session:LabelingSession", "nzc.store.ledger:Ledger", "nzc.tracking.mlflow:MLflow"
_CLIENT, _STEP = "mlflow:MlflowClient", "alembic.runtime.migration:HeadMaintainer.update_to_step"
POINTS = [
    Point("loading", "entry", "nzc.data.digits:Digits.load"),
    Point("loading", "middle", "nzc.data.digits:choose"),
    Point("loading", "exit", "nzc.data.digits:Digits.load", after=True),
    Point("loading", "store opened", f"{_STORE}:Store.open", after=True),
    Point("teachers", "entry", "nzc.teachers.ensemble:Ensemble.train"),
    Point("teachers", "in training", f"{_ENGINE}:_Teacher.train_once", call=50),
    Point("teachers", "one trained", f"{_ENGINE}:save", after=True),
    Point("teachers", "before the last is kept", f"{_ENGINE}:save", call=6),
    Point("teachers", "all trained", f"{_STORE}:_write"),
    Point("teachers", "entry half written", f"{_STORE}:_digest"),
    Point("teachers", "entry written", f"{_STORE}:_write", after=True),
    Point("teachers", "exit", "nzc.teachers.ensemble:Ensemble.train", after=True),
    Point("teachers", "forest, half fitted", "nzc.teachers.sklearn:save", call=4, command="forest"),
    Point("votes", "entry", "nzc.teachers.sharded:Sharded.vote"),
    Point("votes", "middle", "nzc.teachers.teachers:VoteHistograms.tally"),
    Point("votes", "exit", "nzc.teachers.sharded:Sharded.vote", after=True),
    Point("labels", "entry", f"{_ASK}.ask"),
    Point("labels", "labels drawn", "nzc.mechanisms.noisy_argmax:NoisyArgmax.label", after=True),
    Point("labels", "exit", f"{_ASK}.ask", after=True),
    Point("accounting", "entry", f"{_ASK}.record"),
    Point("accounting", "ledger made", f"{_LEDGER}.__init__", after=True),
    Point("accounting", "recorded, not committed", f"{_LEDGER}._select"),
    Point("accounting", "recorded", f"{_LEDGER}.record", after=True),
    Point("accounting", "exit", f"{_ASK}.epsilon", after=True),
    Point("accounting", "second round", f"{_LEDGER}._select", call=2, command="rounds"),
    Point("student", "entry", "nzc.runs.pipeline:_learn"),
    Point("student", "middle", "nzc.students.module:Student.training_step", call=30),
    Point("student", "exit", "nzc.runs.pipeline:_learn", after=True),
    Point("student", "between rounds", "nzc.students.module:Student.probabilities", after=True, command="rounds"),
    Point("student", "second round", "nzc.students.module:Student.training_step", call=90, command="rounds"),
    *(Point("tracking", f"database, step {step}", _STEP, call=step) for step in (2, 10, 20, 30, 40)),
    Point("tracking", "run opened, not told of", f"{_CLIENT}.log_batch"),
    Point("tracking", "opened", "nzc.tracking.mlflow:SystemMetricsMonitor.start", after=True),
    Point("tracking", "curves", f"{_MLFLOW}.draw", call=20),
    Point("tracking", "result half written", "pathlib:Path.rename", call=8),
    Point("tracking", "result written", f"{_MAIN}:_write_labels"),
    Point("tracking", "labels half written", "pathlib:Path.rename", call=9),
    Point("tracking", "labels written", f"{_MAIN}:_write_labels", after=True),
    Point("tracking", "figures drawn", "nzc.figures:of_run", after=True, command="figures"),
    Point("tracking", "finish", f"{_MLFLOW}.finish"),
    Point("tracking", "files sent", f"{_CLIENT}.log_artifact", after=True, call=2),
    Point("tracking", "model", "mlflow.pytorch:log_model", command="model"),
    Point("tracking", "model sent", "mlflow.pytorch:log_model", after=True, command="model"),
    Point("tracking", "exit", f"{_MLFLOW}.finish", after=True),
    Point("sweep", "entry", "nzc.sweep:SweepReport.on_multirun_start", after=True, command="sweep"),
    Point("sweep", "second job", "nzc.runs.pipeline:run", call=2, command="sweep"),
    Point("sweep", "third job, recorded", f"{_LEDGER}.record", after=True, call=3, command="sweep"),
    Point("sweep", "last job done", "nzc.sweep:SweepReport.on_multirun_end", command="sweep"),
    Point("sweep", "exit", "nzc.sweep:SweepReport.on_multirun_end", after=True, command="sweep"),
]  # fmt: skip


class Trial(NamedTuple):
    """What was done, and what was lost by it."""

    stage: str
    signal: str
    what: str
    lost: list[str]


class Workshop:
    """A folder of trials, and what commands leave that nobody disturbs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.number = folder, 0
        self.template = folder / "mlflow.db"
        apart(lambda: MlflowClient(f"sqlite:///{self.template}").search_experiments())
        self.expected: dict[str, Left] = {}
        self.seconds: dict[str, float] = {}

    def fresh(self, database: bool = True) -> Path:
        """The folder of a trial, with an empty database of runs: to make one anew each time would be slow."""
        self.number += 1
        folder = self.folder / str(self.number)
        folder.mkdir()
        if database:
            shutil.copy(self.template, folder)
        return folder

    def undisturbed(self, name: str) -> Left:
        if name not in self.expected:
            folder, begun = self.fresh(), time.monotonic()
            if code := run(folder, COMMANDS[name]):
                raise RuntimeError(f"{name} ends with {code}: {(folder / ERR).read_text()}")
            self.seconds[name] = time.monotonic() - begun
            self.expected[name] = left(folder)
        return self.expected[name]

    def again(self, folder: Path, name: str) -> list[str]:
        """The same command once more; what is not as if it had never been stopped."""
        code = run(folder, COMMANDS[name])
        if code:
            return [f"again: exit code {code}: {(folder / ERR).read_text().strip()[-300:]}"]
        after = left(folder)
        lost = after.told(self.undisturbed(name))
        if set(after.states) - {"FINISHED", "KILLED"}:
            lost.append(f"tracked runs {dict(after.states)}")
        if not lost:
            shutil.rmtree(folder)
        return lost

    def stopped_at(self, point: Point, number: int) -> Trial:
        self.undisturbed(point.command)
        folder = self.fresh(database=point.where != _STEP)
        code = run(folder, COMMANDS[point.command], Trap(point.where, point.after, point.call, number))
        lost = []
        if number == signal.SIGKILL:
            if code != -signal.SIGKILL:
                lost.append(f"was not stopped: exit code {code}")
        else:
            lost += _unclean(folder, code, whole=point.command != "sweep")
        lost += self.again(folder, point.command)
        return Trial(point.stage, signal.Signals(number).name, point.what, lost)

    def stopped_after(self, seconds: float, name: str, cold: bool) -> Trial:
        """SIGKILL after so long; of a new process, imports and all, if `cold`."""
        self.undisturbed(name)
        folder, what = self.fresh(), f"after {seconds:.2f} s"
        if cold:
            with (folder / ERR).open("w") as said:
                process = subprocess.Popen(
                    [sys.executable, "-m", "nzc", *COMMANDS[name]], cwd=folder, stdout=said, stderr=said
                )
                time.sleep(seconds)
                process.kill()
                process.wait()
            kept = {path.stem for path in folder.glob(".nzc/predictions/*.work/*.npy")}
            if list(folder.glob(".nzc/predictions/*/predictions.npy")):
                kept = set(self.undisturbed(name).trained)
            (folder / TRAINED).write_text("".join(f"{teacher}\n" for teacher in kept))  # nobody counted them
        else:
            run(folder, COMMANDS[name], seconds=seconds)
        return Trial("any, a new process" if cold else "any", "SIGKILL", what, self.again(folder, name))


def _unclean(folder: Path, code: int, whole: bool) -> list[str]:
    """What is wrong with the end of a command that was asked to stop."""
    said, wrong = (folder / ERR).read_text(), []
    if code != 130:
        wrong.append(f"exit code {code}")
    if said.count("\n") != 1 or "the same command goes on" not in said:
        wrong.append(f"said {said.strip()[-400:]!r}")
    states = left(folder).states
    if set(states) - ({"KILLED"} if whole else {"KILLED", "FINISHED"}):
        wrong.append(f"tracked runs {dict(states)}")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--signals", nargs="+", default=["SIGKILL", "SIGINT", "SIGTERM"], metavar="SIGNAL")
    parser.add_argument(
        "--only", nargs="+", default=[""], metavar="TEXT", help="only points with this in `stage: what`"
    )
    parser.add_argument("--random", type=int, default=12, help="kills at random moments of a run (default 12)")
    parser.add_argument("--cold", type=int, default=6, help="and of a new process, its imports included (default 6)")
    parser.add_argument("--seed", type=int, default=0, help="of those moments")
    parser.add_argument("--keep", help="a folder to work in; it stays. Else what was lost is shown, and removed")
    chosen = parser.parse_args()
    warm()
    points = [point for point in POINTS if any(text in f"{point.stage}: {point.what}" for text in chosen.only)]
    rng, trials = random.Random(chosen.seed), []
    folder = Path(chosen.keep or tempfile.mkdtemp(prefix="nzc-faults-")).absolute()
    folder.mkdir(exist_ok=True)
    workshop = Workshop(folder)
    todo = [(point, signal.Signals[name]) for name in chosen.signals for point in points]
    moments = [(cold, rng.random()) for cold in (False, True) for _ in range(chosen.cold if cold else chosen.random)]
    total = len(todo) + len(moments)
    for point, number in todo:
        trials.append(workshop.stopped_at(point, number))
        _say(trials, total)
    for cold, moment in moments:
        seconds = moment * ((COLD if cold else 0) + workshop.seconds.get("run", 5))
        trials.append(workshop.stopped_after(seconds, "run", cold))
        _say(trials, total)
    if chosen.keep is None:
        shutil.rmtree(folder)
    sys.exit(_tell(trials))


#: About how many seconds a new process takes to import what it needs.
COLD = 12


def _say(trials: list[Trial], total: int) -> None:
    last = trials[-1]
    for word in last.lost:
        progress(f"LOST {last.stage}: {last.what}, {last.signal}: {word}\n")
    lost = sum(bool(trial.lost) for trial in trials)
    progress(f"{len(trials)} of {total} faults, {lost} lost; {last.stage}: {last.what}, {last.signal}")


def _tell(trials: list[Trial]) -> int:
    """The table; how many lost something."""
    table = Table(title="faults", title_style="bold")
    table.add_column("stage")
    for name in ("SIGKILL", "SIGINT", "SIGTERM", "tried", "survived", "lost"):
        table.add_column(name, justify="right")
    by: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        by[trial.stage].append(trial)
    for stage, of in [*by.items(), ("all", trials)]:
        counts = [sum(trial.signal == name for trial in of) for name in ("SIGKILL", "SIGINT", "SIGTERM")]
        lost = sum(bool(trial.lost) for trial in of)
        table.add_row(stage, *map(str, (*counts, len(of), len(of) - lost, lost)))
    show(table)
    return int(any(trial.lost for trial in trials))


if __name__ == "__main__":
    main()
