"""Wrong input: one line that names the key, the value and what is allowed; exit code 2; nothing left behind."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from conftest import TEACHERS, VOTES, Command, Nzc
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from nzc.app.build import build_components
from nzc.app.errors import error_line
from nzc.app.run import compose_run
from nzc.runs import plots
from nzc.runs.layout import RESULT, STUDENT, STUDENT_INPUT, flatten

FILE = [*VOTES, "teachers.path=votes.npy"]
#: Arguments, and what the line contains.
WRONG = [
    ("aggregator=foo", "aggregator/foo", "lnmax"),
    ("dataest=mnist", "dataest=mnist", "did you mean dataset?"),
    ("aggregator=lnmax aggregator.gama=1", "aggregator.gama=1", "did you mean gamma?"),
    ("+sweeps=foo", "sweeps/foo", "digits"),
    ("sweeps=digits", "sweeps", "+sweeps"),
    ("aggregator=[", "[", "hydra.cc"),
    ("teachers=100", "teachers=100", "name of an option"),
    ("student=null", "student=null", "name of an option"),
    ("budget=3", "budget=3", "Budget"),
    ("--config-name=mnist", "primary config 'mnist'", ""),
    ("pubish run dest", "pubish", "did you mean publish?"),
    ("seed=abc", "seed=abc", "Integer"),
    ("seed=-1", "seed=-1", "from 0"),
    ("seed=null", "seed=null", "not Optional"),
    ("seed=${oc.env:NOPE}", "seed=${oc.env:NOPE}", "NOPE"),
    ("hydra.run.dir=${oc.env:NOPE}", "NOPE", ""),
    ("++sed=1", "sed=1", "did you mean seed?"),
    ("+budget.epsilom=1", "budget.epsilom=1", "did you mean epsilon?"),
    ("+aggregator.gama=1", "aggregator.gama=1", "keys of nzc.GNMax"),
    ("aggregator=nzc aggregator._target_=nzc.Confident", "aggregator.c=1e+100", "threshold"),
    ("aggregator._target_=builtins.dict", "aggregator._target_=builtins.dict", "NoisyArgmax"),
    ("aggregator._target_=nzc.Nothing", "aggregator._target_=nzc.Nothing", "class or function"),
    ("aggregator._target_=mine.lost", "aggregator._target_=mine.lost", "wrong backend"),
    ("student.optimizer={_target_: torch.optim.SGD, lrr: 1}", "student.optimizer.lrr=1", "did you mean lr?"),
    ("delta=nan", "delta=nan", "between 0 and 1"),
    ("queries=401", "queries=401", "from 1 to 400"),
    ("teachers.count=2.5", "teachers.count=2.5", "whole number"),
    ("teachers.count=1000000000", "teachers.count=1000000000", "from 1 to 1,200"),
    ("teachers.network=foo", "teachers.network=foo", "mlp"),
    ("teachers.lr=0", "teachers.lr=0", "above 0"),
    ("student.network=foo", "student.network=foo", "mlp"),
    ("student.augment=abc", "student.augment=abc", "callable"),
    ("dataset.augment.rotate=abc", "augment.rotate=abc", "number"),
    ("dataset.private=1797", "dataset.private=1797", "at most 1396"),
    ("aggregator.sigma=1e308", "aggregator.sigma=1e+308", "1e-100 to 1e+100"),
    ("aggregator=nzc aggregator.noise=abc", "aggregator.noise", "gamma"),
    ("trainer.accelerator=foo", "foo", "Trainer"),
    ("+trainer.max_steps=0", "trainer.max_steps=0", "nzc sets it"),
    ("dataset=none", "student=supervised", "none"),
    ("dataset=none student=none", "dataset=none", "teachers=votes"),
    ("dataset=svhn dataset.root=null", "dataset.root=null", "text"),
    ("dataset=npz dataset.path=none.npz", "dataset.path=none.npz", "No such file"),
    (f"dataset=npz dataset.path={'x' * 5000}", "dataset.path=xxx", "too long"),
    ("paths.output=/proc/x", "paths.output=/proc/x", "can be written"),
    ("tracking=mlflow tracking.uri=foo://x", "tracking.uri=foo://x", "MLflow"),
    ("wait=0", "wait=0", "above 0"),
    (" ".join(VOTES), "teachers.path=???", "Missing"),
    ("report .", "FOLDER=.", "run or a sweep"),
    ("report damaged", "FOLDER=damaged", "whole files"),
    ("predict damaged new.npy", "FOLDER=damaged", "student that can be read"),
]


@pytest.fixture
def _files(nzc: Nzc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(".")
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    Path("mine.py").write_text("def lost(**settings):\n    import broken_library")
    Path("broken_library.py").write_text("raise ValueError('wrong backend')")
    Path("damaged/.hydra").mkdir(parents=True)
    choices = "{dataset: digits, aggregator: gnmax, student: none}"
    Path("damaged/.hydra/hydra.yaml").write_text(f"hydra: {{runtime: {{choices: {choices}}}}}")
    for name in (RESULT, STUDENT, STUDENT_INPUT):
        Path("damaged", name).write_text("{")


@pytest.mark.usefixtures("_files")
@pytest.mark.parametrize(("line", "names", "allows"), WRONG, ids=[case[0][:50] for case in WRONG])
def test_one_line_and_nothing_left(nzc: Nzc, command: Command, line: str, names: str, allows: str) -> None:
    before = set(Path().rglob("*"))
    if line.startswith(("report", "predict")):
        code, out, err = command(*line.split())
        assert (code, out, err.count("\n")) == (2, "", 1) and names in err and allows in err, err
    else:
        _complains(nzc, [line] if "{" in line else line.split(), names, allows)
    assert set(Path().rglob("*")) == before


def _complains(nzc: Nzc, arguments: list[str], names: str, allows: str) -> None:
    ran = nzc(*arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1), ran.err
    assert names in ran.err and allows in ran.err, ran.err
    assert len(ran.err) < 520


JUNK = ("abc", "null", "-1", "0", "nan", "1e400", "[]", "[1,{a: 2}]", "{a: 1}", "true", "${nope}", "???")
KEYS = [
    key
    for key in flatten(OmegaConf.to_container(compose_run(["recipe=papers", "tracking=none"]), resolve=False))  # type: ignore[arg-type]
    if not key.endswith("_target_") and not key.startswith("hydra.")
]


@given(key=st.sampled_from(KEYS), value=st.sampled_from(JUNK))
@settings(derandomize=True, deadline=None, max_examples=30)
def test_any_value_of_any_key_is_taken_or_refused_in_one_line(key: str, value: str) -> None:
    try:
        cfg = compose_run([f"{key}={value}", "recipe=papers", "tracking=none"])
        build_components(cfg, cfg.hydra.runtime.choices, figures=False)
    except Exception as error:
        code, line = error_line(error)
        assert code == 2 and "\n" not in line, line
        assert key.rpartition(".")[2] in line


@pytest.mark.parametrize(
    ("text", "names", "allows"),
    [
        ("sweep: {rows: [{name: a, sett: [seed=1]}]}", "sweep.rows.0.sett=['seed=1']", "not permitted"),
        ("sweep: {rows: [1]}", "sweep.rows.0", "mapping"),
        ("sweep: {rows: [{name: a, set: seed}]}", "sweep.rows.0", "list"),
        ("sweep: {rows: [{name: a, set: [+sed=1]}]}", "sed=1", "did you mean seed?"),
        ("sweep: {rows: [{name: a, set: [+aggregator.gama=1]}]}", "aggregator.gama=1", "(row a)"),
        ("sweep: [", "mine.yaml", ""),
        ("sweep: 3", "sweep=3", ""),
        (None, "+sweeps", "# @package _global_"),
    ],
)
def test_sweep_files_with_a_slip(nzc: Nzc, text: str | None, names: str, allows: str) -> None:
    Path("sweeps").mkdir()
    content = "sweep: {rows: [{name: a}]}" if text is None else f"# @package _global_\n{text}"
    Path("sweeps/mine.yaml").write_text(content)
    _complains(nzc, ["--multirun", "+sweeps=mine"], names, allows)


FLAT = np.full((30, 3), 10)
NPY = {
    "fractions": (FLAT + 0.5, "whole numbers"),
    "missing": (np.where(np.eye(30, 3) > 0, np.nan, FLAT), "whole numbers"),
    "uneven": (FLAT + (np.arange(90).reshape(30, 3) == 22), "row 7 does not"),
    "negative": (FLAT - np.array([20, -20, 0]), "counts from 0"),
    "flat": (np.arange(9), "[queries, "),
    "nobody": (np.zeros((4, 3), int), "1 or more; row 0 does not"),
    "words": (np.array([["a", "b"]]), "whole numbers"),
}


@pytest.mark.parametrize("kind", NPY)
def test_vote_files(nzc: Nzc, kind: str) -> None:
    array, allows = NPY[kind]
    np.save("votes.npy", array)
    _complains(nzc, FILE, "teachers.path=votes.npy", allows)
    assert [path.name for path in Path.cwd().iterdir()] == ["votes.npy"]


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_files_that_are_no_arrays(nzc: Nzc, suffix: str) -> None:
    np.save("data.npy", FLAT)
    np.savez("data.npz", x=X, y=Y)
    path = Path(f"data.{suffix}")
    arguments, key = ([*VOTES, f"teachers.path={path}"], "teachers.path") if suffix == "npy" else (
        ["dataset=npz", f"dataset.path={path}"], "dataset.path",
    )  # fmt: skip
    for content in (path.read_bytes()[:-99], b"", b"age,sex", pickle.dumps(X)):
        path.write_bytes(content)
        _complains(nzc, arguments, f"{key}={path}", f"an .{suffix} ")


@pytest.mark.parametrize(
    ("labels", "allows"),
    [(np.full(30, 3), "from 0 to 2"), (np.zeros(30), "whole numbers"), (np.zeros(31, int), "30 whole numbers")],
)
def test_label_files(nzc: Nzc, labels: np.ndarray, allows: str) -> None:
    np.save("votes.npy", FLAT)
    np.save("labels.npy", labels)
    _complains(nzc, [*FILE, "teachers.labels=labels.npy"], "teachers.labels", allows)


X, Y = np.random.default_rng(0).random((60, 8)), np.arange(60) % 3
ROLE = np.array(["private", "public", "test"])[np.arange(60) // 20]


@pytest.mark.parametrize(
    ("y", "role", "allows"),
    [
        (Y, np.where(ROLE == "private", "test", ROLE), "it has none"),
        (np.where(ROLE == "private", 1, Y), ROLE, "one class"),
    ],
)
def test_teachers_need_private_rows_of_two_classes(nzc: Nzc, y: np.ndarray, role: np.ndarray, allows: str) -> None:
    np.savez("data.npz", x=X, y=y, role=role)
    _complains(nzc, ["dataset=npz", "dataset.path=data.npz"], "dataset=npz", allows)


def test_ground_truth_without_truth(nzc: Nzc) -> None:
    np.save("votes.npy", FLAT)
    _complains(nzc, [*FILE, "aggregator=ground_truth"], "aggregator=ground_truth", "labels")
    role = np.repeat(["private", "public"], 30)
    np.savez("data.npz", x=X, y=np.where(role == "private", Y, -1), role=role)
    own = ["dataset=npz", "dataset.path=data.npz", "teachers.count=3"]
    _complains(nzc, [*own, "aggregator=ground_truth"], "aggregator=ground_truth", "labels")


def test_a_damaged_ledger_is_reported_before_the_run_begins(nzc: Nzc) -> None:
    Path(".nzc").mkdir()
    Path(".nzc/ledger.db").write_bytes(b"SQLite format 3" + bytes(5000))
    _complains(nzc, [*TEACHERS, "student=none"], "ledger.db", "must be a whole ledger file")
    assert not Path("outputs").exists()


def test_figures_that_cannot_be_drawn_cost_a_line(nzc: Nzc, monkeypatch: pytest.MonkeyPatch, histograms: Path) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device", "gaps.svg")

    monkeypatch.setattr(plots, "plot_run", full)
    ran = nzc(*FILE, "figures=true")
    assert (ran.code, ran.err.count("\n")) == (0, 1) and "No space left" in ran.err
    assert ran.result["answered"]
