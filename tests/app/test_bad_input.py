"""Wrong input: one line that names key and value, exit code 2, and nothing left behind."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import FILE, VOTES, Command, Nzc, hydra_value, parametrize
from pytest import MonkeyPatch, raises

from nzc.app.build import build
from nzc.app.config import compose_run
from nzc.app.errors import input_error
from nzc.app.keys import refuse_unknown_keys
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
teachers.count=3 dataset=npz dataset.path=unlabelled.npz aggregator=ground_truth
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
def _files(nzc: Nzc, monkeypatch: MonkeyPatch) -> None:
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
    np.savez("unlabelled.npz", x=x, y=np.where(role == "public", -1, y), role=role)
    np.savez("one_class.npz", x=x, y=np.where(role == "private", 1, y), role=role)
    for whole, kind in (("votes.npy", "npy"), ("one_class.npz", "npz")):
        Path(f"cut.{kind}").write_bytes(Path(whole).read_bytes()[:-99])
        Path(f"pickled.{kind}").write_bytes(pickle.dumps(flat))
    Path("store/ledger.db").write_bytes(b"SQLite format 3" + bytes(5000))
    Path("conf/student/mine.yaml").write_text("steps: 60")


@pytest.mark.usefixtures("_files")
@parametrize("line", WRONG.strip().splitlines())
def test_one_line_and_nothing_left(nzc: Nzc, command: Command, line: str) -> None:
    before = set(Path().rglob("*"))
    words, _, begins = line.partition(" | ")
    for short, words_meant in SHORT.items():
        words = words.replace(short, words_meant)
    arguments = words.split()
    is_subcommand = arguments[0] in ("plan", "predict", "report")
    ended = command(*arguments) if is_subcommand else nzc(*arguments, code=2)
    _complains(ended, begins or arguments[-1])
    assert set(Path().rglob("*")) == before


@parametrize(
    ("name", "words"),
    [("it's p (1)=1#.csv", []), ("[1] pü.csv", ["--multirun", "seed=1,2"])],
)
def test_a_file_name_that_hydra_cannot_read_is_answered_with_what_to_type(
    nzc: Nzc, name: str, words: list[str]
) -> None:
    Path(name).touch()
    err = nzc(*words, "dataset=table", f"dataset.private={name}", code=2).err
    assert err.startswith(f"nzc: dataset.private={name}: ")
    typed = err.partition(" type ")[2].partition("; ")[0]
    assert hydra_value(typed) == name


#: Overrides, the last of which is refused, and what the line says of its key.
REFUSED = """
recipe=near_zero teachers.count=50 | teachers=cells, which recipe=near_zero chose | ensemble
teachers=cells teachers.count=5 | teachers=cells, which you chose | sklearn or votes has it
recipe=near_zero dataset=adult student.steps=5 | student=none, which recipe=near_zero_sums chose
aggregator.sigma1=3 | aggregator=gnmax, the default | confident, interactive or stable has it
student=none student.alpha=5 | student=none, which you chose | student=heir or vat has it
+sweeps=published_mnist student.alpha=5 | student=softmatch, which sweeps=published_mnist chose
aggregator=lnmax aggregator.gama=5 | gamma
+aggregator.threshold=3 | sigma | confident, interactive or stable has threshold
epsilon=1 | budget.epsilon
sigma=3 | aggregator.sigma
recipe=near_zero count=50 | teachers.count (with teachers=ensemble, forest,
kind=KMNIST | dataset.kind (with dataset= | torchvision)
threshold=3 | aggregator.threshold (with aggregator=confident | student.threshold
"""


@parametrize("line", REFUSED.strip().splitlines())
def test_a_refused_key_names_its_cause(line: str, here: Path) -> None:
    """Who chose the option that lacks it, and which have it, also in the working directory."""
    Path("conf/student").mkdir(parents=True)
    Path("conf/student/heir.yaml").write_text("defaults: [vat, _self_]")
    words, *says = line.split(" | ")
    overrides = words.split()
    with raises(Exception) as caught:
        cfg = compose_run(overrides)
        refuse_unknown_keys(cfg)
        build(cfg, "aggregator")
    wrong = input_error(caught.value, overrides)
    assert wrong is not None and f"{wrong.key}={wrong.value}" == overrides[-1].lstrip("+")
    assert all(text in wrong.allowed for text in says) and len(str(wrong)) < 500


#: What stands in a sweep file, and how the line begins.
SLIPS = """
sweep: {rows: [{name: a, sett: [seed=1]}]} | sweep.rows.0.sett=['seed=1']
sweep: [ | while parsing
ROW student=supervisd | student=supervisd
FIGURE b, x: seed | sweep.figures.1=
FIGURE b, x: seed, y: acuracy | sweep.figures.b=acuracy
FIGURE b, x: budget.epsilon, y: accuracy | sweep.figures.b=budget.epsilon
FIGURE b, curve: gap | sweep.figures.1=
"""


@parametrize("line", SLIPS.strip().splitlines())
def test_sweep_files_with_a_slip(nzc: Nzc, line: str) -> None:
    text, _, begins = line.partition(" | ")
    kind, _, slip = text.partition(" ")
    if kind == "ROW":
        text = f"sweep: {{rows: [{{name: a, set: [{slip}]}}]}}"
    elif kind == "FIGURE":
        text = f"sweep: {{figures: [{{name: a, curve: asked}}, {{name: {slip}}}]}}"
    Path("sweeps").mkdir()
    Path("sweeps/mine.yaml").write_text(f"# @package _global_\n{text}")
    _complains(nzc("--multirun", "+sweeps=mine", code=2), begins)
