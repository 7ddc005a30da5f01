"""The points at which trials/faults.py stops a command, and the commands that it stops."""

from typing import NamedTuple

from _nzc import BASE, SMALL

_PLAIN = [*SMALL, "tracking.model=false"]
#: The commands by name. The forest is trained in one process, because a killed fork leaves joblib's workers behind.
COMMANDS = {
    "run": _PLAIN,
    "model": SMALL,
    "figures": [*_PLAIN, "figures=true"],
    "rounds": [*_PLAIN, "aggregator=interactive", "rounds=2"],
    "system": [*_PLAIN, "rng=system"],
    "forest": ["teachers=forest", "teachers.count=6", "teachers.parallel=1", "student=none", *BASE[2:]],
    "sweep": ["--multirun", *_PLAIN, "aggregator=gnmax,lnmax,gumbel"],
}


class Point(NamedTuple):
    """A point in a command: before or after the `call`-th call of a function.

    about  only calls with this text in one of their arguments are counted
    """

    stage: str
    name: str
    where: str
    after: bool = False
    call: int = 1
    command: str = "run"
    about: str = ""


_DIGITS, _SHARDED, _ENGINE = "nzc.data.digits", "nzc.teachers.sharded", "nzc.teachers.engine"
_STORE, _SAVE = "nzc.teachers.prediction_store", "nzc.teachers.prediction_store:save"
_SESSION, _LEDGER = "nzc.labeling.session:LabelingSession", "nzc.labeling.ledger:Ledger"
_STUDENT, _RUN = "nzc.students.module:StudentModule", "nzc.runs.pipeline:PreparedRun"
_TRACKED, _MLFLOW, _CLIENT = "nzc.tracking.outbox:TrackedRun", "nzc.tracking.mlflow:MLflow", "mlflow:MlflowClient"
_SWEEP, _RENAME = "nzc.app.sweep:SweepHooks", "pathlib:Path.rename"
#: One of the steps in which MLflow creates its database.
DATABASE_STEP = "alembic.runtime.migration:HeadMaintainer.update_to_step"

# No point of `system` is after the draws are deleted: labels and result are stored then, and a repeated run is another
# release.
POINTS = [
    Point("preparation", "before the data are loaded", f"{_DIGITS}:Digits.load"),
    Point("preparation", "while the data are loaded", f"{_DIGITS}:choose"),
    Point("preparation", "after the data are loaded", f"{_DIGITS}:Digits.load", after=True),
    Point("preparation", "components built", "nzc.app.run:build_components", after=True),
    Point("preparation", "input checked", "nzc.app.main:prepare", after=True),
    *(Point("tracking", f"database, step {step}", DATABASE_STEP, call=step) for step in (2, 10, 20, 30, 40)),
    Point("tracking", "record half written", _RENAME, about="tracking.json"),
    Point("tracking", "run created, its id not recorded", f"{_CLIENT}.log_batch"),
    Point("tracking", "system metrics started", "nzc.tracking.mlflow:SystemMetricsMonitor.start", after=True),
    Point("tracking", "run opened", f"{_TRACKED}.start", after=True),
    Point("teachers", "before training", f"{_SHARDED}:ShardedTeachers.train"),
    Point("teachers", "in a pass", "nzc.teachers.teacher:Teacher.train_pass", call=50),
    Point("teachers", "first teacher half saved", _RENAME, about="0.npz"),
    Point("teachers", "first teacher saved", f"{_ENGINE}:save", after=True),
    Point("teachers", "before the last teacher is saved", f"{_ENGINE}:save", call=6),
    Point("teachers", "all trained, no entry", _SAVE),
    Point("teachers", "entry encoded", f"{_STORE}:write_private", call=7),
    Point("teachers", "entry half written", _RENAME, about="/predictions/."),
    Point("teachers", "entry written", _SAVE, after=True),
    Point("teachers", "after training", f"{_SHARDED}:ShardedTeachers.train", after=True),
    Point("teachers", "forest, half of it saved", "nzc.teachers.sklearn:save", call=4, command="forest"),
    Point("votes", "before voting", f"{_SHARDED}:ShardedTeachers.vote"),
    Point("votes", "before counting", f"{_SHARDED}:count_votes"),
    Point("votes", "after voting", f"{_SHARDED}:ShardedTeachers.vote", after=True),
    Point("labels", "before asking", f"{_SESSION}.ask"),
    Point("labels", "labels drawn", "nzc.mechanisms.noisy_argmax:NoisyArgmax.release", after=True),
    Point("labels", "after asking", f"{_SESSION}.ask", after=True),
    Point("labels", "draw not kept", f"{_LEDGER}.keep_draw", command="system"),
    Point("labels", "draw kept", f"{_LEDGER}.keep_draw", after=True, command="system"),
    Point("accounting", "before recording", f"{_SESSION}.record"),
    Point("accounting", "ledger created", f"{_LEDGER}.__init__", after=True),
    Point("accounting", "recorded, not committed", f"{_LEDGER}._select"),
    Point("accounting", "recorded", f"{_LEDGER}.record", after=True),
    Point("accounting", "recorded, with a draw", f"{_LEDGER}.record", after=True, command="system"),
    Point("accounting", "ε computed", f"{_SESSION}.epsilon", after=True),
    Point("accounting", "second round, not committed", f"{_LEDGER}._select", call=2, command="rounds"),
    Point("output", "run not recorded", f"{_LEDGER}.finish_run", command="system"),
    Point("student", "before training", f"{_RUN}._learn"),
    Point("student", "in a step", f"{_STUDENT}.training_step", call=30),
    Point("student", "learning curves are sent", f"{_MLFLOW}.log_metrics", call=20),
    Point("student", "after training", f"{_RUN}._learn", after=True),
    Point("student", "between rounds", f"{_STUDENT}.probabilities", after=True, command="rounds"),
    Point("student", "in a step of the second round", f"{_STUDENT}.training_step", call=90, command="rounds"),
    Point("output", "labels half written", _RENAME, about="labels.csv"),
    Point("output", "labels written", "nzc.runs.pipeline:write_labels", after=True),
    Point("output", "student half written", _RENAME, about="student.pt2"),
    Point("output", "student written", "nzc.runs.pipeline:write_student", after=True),
    Point("output", "result half written", _RENAME, about="result.json"),
    Point("output", "result written", "nzc.runs.result:RunResult.write", after=True),
    Point("output", "session closed", f"{_SESSION}.close", after=True),
    Point("output", "learning curves written", "nzc.runs.curves:LearningCurves.write", after=True),
    Point("output", "curves written", "nzc.runs.pipeline:write_curves", after=True),
    Point("output", "figures drawn", "nzc.runs.plots:plot_run", after=True, command="figures"),
    Point("sending", "before the end", f"{_TRACKED}.finish"),
    Point("sending", "before files are sent", f"{_MLFLOW}.finish"),
    Point("sending", "second file sent", f"{_CLIENT}.log_artifact", after=True, call=2),
    Point("sending", "before the model is sent", "nzc.tracking.mlflow:log_student", command="model"),
    Point("sending", "model sent", "nzc.tracking.mlflow:log_student", after=True, command="model"),
    Point("sending", "everything sent", f"{_MLFLOW}.finish", after=True),
    Point("sending", "run closed", f"{_TRACKED}.finish", after=True),
    Point("sweep", "parent run opened", f"{_SWEEP}.on_multirun_start", after=True, command="sweep"),
    Point("sweep", "before the second job", f"{_RUN}.execute", call=2, command="sweep"),
    Point("sweep", "third job recorded", f"{_LEDGER}.record", after=True, call=3, command="sweep"),
    Point("sweep", "last job finished", f"{_SWEEP}.on_multirun_end", command="sweep"),
    Point("sweep", "sweep finished", f"{_SWEEP}.on_multirun_end", after=True, command="sweep"),
]
