"""Wrong input: one line that names key and value, exit code 2, and nothing left behind."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import FILE, VOTES, Command, RunNzc, parametrize
from pytest import MonkeyPatch

from nzc.runs.layout import RESULT, STUDENT, STUDENT_INPUT

#: Arguments, and how the line begins, if not with the last of them.
WRONG = """
aggregator=foo
dataest=mnist
aggregator=lnmax aggregator.gama=1
+sweeps=foo | sweeps=foo
seed=1,2
--config-name=mnist | Cannot find primary config 'mnist'
audit=maybe
baseline | nzc=baseline
seed=-1
seed=${oc.env:NOPE}
sanitise.order=1 | sanitise.order=1.0
aggregator._target_=mine.lost
student.optimizer={_target_:torch.optim.SGD,lrr:1} | student.optimizer.lrr=1
teachers.count=2.5
student.network=foo
dataset.augment.rotate=abc
aggregator=nzc aggregator.noise=abc
trainer.accelerator=foo | trainer={'accelerator': 'foo'
dataset=none | student=supervised
dataset=npz dataset.path=none.npz
dataset=npz dataset.path=one_class.npz | dataset=npz
teachers.count=3 dataset=npz dataset.path=unlabeled.npz aggregator=ground_truth
dataset=folder dataset.path=store dataset.public=2
paths.output=/proc/x
tracking=mlflow tracking.uri=sqlite:///damaged | tracking.uri=sqlite:////
NEAR_ZERO student=gan_ssl student.network={_target_:mine.Own} | student.network
NEAR_ZERO representation=contrastive ENCODER={_target_:mine.Own} | representation
VOTES | teachers.path=???
FLAT queries=20 budget.epsilon=1 aggregator=confident aggregator.sigma1=null
FLAT queries=20 aggregator=nzc aggregator.sensitivity=local budget.epsilon=1 | budget.epsilon=1.0
PLAN --agreement 0.2 | --agreement=0.2
PLAN --queries 5,x | nzc plan=
report nowhere | FOLDER=nowhere
predict damaged new.npy | FOLDER=damaged
teachers.count=6 student=none paths.store=store | ledger=/
student=mine | student._target_=null
FLAT budget.groups={careful:0.5,open:2}
dataset=table dataset.budget=whose | dataset.budget
FLAT hydra.output_subdir=null
FLAT tracking=mlflow tracking.register=a/b
MULTIRUN hydra.sweep.subdir=s${seed} | hydra.sweep.subdir=s${seed}: must give each job a
MULTIRUN hydra/sweeper=basic hydra.sweep.subdir=../${hydra.job.num}
MULTIRUN hydra/sweeper=optuna hydra.sweep.subdir=q${queries}
MULTIRUN teachers.path=votes.npy,lost.npy | teachers.path=lost.npy: must
MULTIRUN teachers.path=votes.npy,halves.npy | teachers.path=halves.npy: must
--multirun dataset=npz dataset.path=one_class.npz,lost.npz | dataset.path=lost.npz: must
--multirun dataset=adult dataset.root=lost seed=0,1 | dataset.root=lost: must have 32,561 whole
MULTIRUN aggregator=confident,stable aggregator.threshold=3 | aggregator.threshold=3: must be typed
MULTIRUN aggregator=confident,interactive ++aggregator.threshold=30 teachers.path=halves.npy
FLAT --config-path=mine
--experimental-rerun=config.pickle
--cfg=job --config-path=mine
--seeds 3 | nzc=--seeds 3
--cfg=jobs | nzc=--cfg=jobs
+sweep=digits | sweep=digits: must be a section of a sweep file; did you mean +sweeps=digits?
sweep=digits
--multirun ++sweep=digits | sweep=digits
+sweeps=digit | sweeps=digit: must be the name of a sweep file; did you mean +sweeps=digits?
sweeps=digits | Could not override 'sweeps'. No match in the defaults list. To append to your
+recipes=near_zero | recipes=near_zero: must be one of the keys of nzc; did you mean recipe?
+sweps=digits | sweps=digits: must be one of the keys of nzc; did you mean +sweeps?
+dataset=digits | dataset=digits: must be dataset=OPTION, without a plus
help | nzc=help: must be KEY=VALUE (nzc --help), or a subcommand
plan | nzc plan=plan: the following arguments are required: --classes, --epsilon; nzc plan --help
report | nzc report=report: the following arguments are required: FOLDER
FLAT +hydra.callbacks.mine={_target_:mine.lost,x:1} | Error in call to target 'mine.lost'
MULTIRUN hydra/sweeper=basic hydra.output_subdir=null
VOTES teachers.path=halves.npy
VOTES teachers.path=line.npy
VOTES teachers.path=cut.npy
VOTES teachers.path=pickled.npy
FLAT teachers.labels=threes.npy
teachers=votes teachers.path=ones.npy
dataset=npz dataset.path=cut.npz
dataset=npz dataset.path=pickled.npz
"""
#: What stands for several arguments in these lines.
SHORT = {
    "VOTES": " ".join(VOTES),
    "FLAT": " ".join(FILE),
    "MULTIRUN": " ".join(["--multirun", *FILE, "queries=1,3"]),
    "PLAN": "plan --teachers 100 --classes 4 --epsilon 30 --queries 8",
    "NEAR_ZERO": "recipe=near_zero teachers=logistic tracking=mlflow trainer.accelerator=cpu",
    "ENCODER": "representation.encoder.network",
}
MINE = """def Own():
    from torch.nn import Flatten, Linear, Sequential, Softmax
    return Sequential(Flatten(), Linear(64, 10), Softmax(1))
def lost(**settings):
    import broken_library
"""


def _complains(ended: tuple[Any, ...], begins: str) -> None:
    code, out, err, *_ = ended
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert err.startswith(f"nzc: {begins}") and len(err) < 520, err


@pytest.fixture
def _files(run_nzc: RunNzc, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(".")
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    for folder in ("damaged/.hydra", "conf/student", "store"):
        Path(folder).mkdir(parents=True)
    Path("mine.py").write_text(MINE)
    Path("broken_library.py").write_text("raise ValueError('wrong backend')")
    Path("damaged/.hydra/hydra.yaml").write_text("hydra: {runtime: {choices: {student: none}}}")
    for name in (RESULT, STUDENT, STUDENT_INPUT):
        Path("damaged", name).write_text("{")
    flat = np.full((30, 3), 10)
    arrays = {"votes": flat, "halves": flat + 0.5, "line": flat[0], "threes": flat[:, 0] - 7}
    for name, array in (arrays | {"ones": np.ones((300, 3), int)}).items():
        np.save(f"{name}.npy", array)
    x = np.random.default_rng(0).random((60, 8))
    y = np.arange(60) % 3
    role = np.repeat(["private", "public", "test"], 20)
    np.savez("unlabeled.npz", x=x, y=np.where(role == "public", -1, y), role=role)
    np.savez("one_class.npz", x=x, y=np.where(role == "private", 1, y), role=role)
    for whole, kind in (("votes.npy", "npy"), ("one_class.npz", "npz")):
        Path(f"cut.{kind}").write_bytes(Path(whole).read_bytes()[:-99])
        Path(f"pickled.{kind}").write_bytes(pickle.dumps(flat))
    Path("store/ledger.db").write_bytes(b"SQLite format 3" + bytes(5000))
    Path("conf/student/mine.yaml").write_text("steps: 60")


@pytest.mark.usefixtures("_files")
@parametrize("line", WRONG.strip().splitlines())
def test_one_line_and_nothing_left(run_nzc: RunNzc, command: Command, line: str) -> None:
    before = set(Path().rglob("*"))
    words, _, begins = line.partition(" | ")
    for short, words_meant in SHORT.items():
        words = words.replace(short, words_meant)
    arguments = words.split()
    is_subcommand = arguments[0] in ("plan", "predict", "report")
    ended = command(*arguments) if is_subcommand else run_nzc(*arguments, code=2)
    _complains(ended, begins or arguments[-1])
    assert set(Path().rglob("*")) == before
