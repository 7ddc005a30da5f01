"""Wrong input: one line that names the key, the value and what is allowed; exit code 2; nothing
left behind.
"""

import ast
import pickle
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import VOTES, Command, Nzc
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from nzc.app.build import build
from nzc.app.components import build_components
from nzc.app.config import CONF, GROUPS, compose_run
from nzc.app.errors import error_line, input_error
from nzc.app.keys import _chosen, refuse_unknown_keys
from nzc.runs.layout import RESULT, STUDENT, STUDENT_INPUT, flatten

FILE = [*VOTES, "teachers.path=votes.npy"]
FLAT = np.full((30, 3), 10)
FLAT_VOTES = " ".join(FILE)
NULL = "queries=20 budget.epsilon=1"
CONFIDENT = "aggregator=confident aggregator.threshold=40 aggregator.sigma1=1 aggregator.sigma=null"
PLAN = "plan --teachers 100 --classes 4 --epsilon 30 --queries 8"
NEAR_ZERO = "recipe=near_zero teachers=logistic tracking=mlflow trainer.accelerator=cpu"
#: Arguments, and what the line contains.
WRONG = [
    ("aggregator=foo", "aggregator=foo", "lnmax"),
    ("dataest=mnist", "dataest=mnist", "did you mean dataset?"),
    ("aggregator=lnmax aggregator.gama=1", "aggregator.gama=1", "did you mean gamma?"),
    ("+sweeps=foo", "sweeps/foo", "digits"),
    ("aggregator=[", "[", "hydra.cc"),
    ("dataset=folder dataset.path=2024", "dataset.path=2024", '"2024"'),
    ("seed=1,2", "seed=1,2", "add --multirun"),
    ("teachers=100", "teachers=100", "name of an option"),
    ("budget=3", "budget=3", "Budget"),
    ("--config-name=mnist", "primary config 'mnist'", ""),
    ("pubish run dest", "pubish", "did you mean publish?"),
    ("audit=50", "audit=50", "100 or more"),
    ("audit=maybe", "audit=maybe", "true, false"),
    ("bound=exact", "bound=exact", "data_independent, sanitised"),
    ("baseline", "nzc=baseline", "KEY=VALUE"),
    ("student.threshold=0.3", "student.threshold=0.3", "there are 10"),
    ("seed=abc", "seed=abc", "Integer"),
    ("seed=null", "seed=null", "not Optional"),
    ("seed=${oc.env:NOPE}", "seed=${oc.env:NOPE}", "NOPE"),
    ("hydra.run.dir=${oc.env:NOPE}", "NOPE", ""),
    ("+budget.epsilom=1", "budget.epsilom=1", "did you mean epsilon?"),
    ("+aggregator.gama=1", "aggregator.gama=1", "keys of nzc.GNMax"),
    ("aggregator._target_=builtins.dict", "aggregator._target_=builtins.dict", "NoisyArgmax"),
    ("aggregator._target_=nzc.Nothing", "aggregator._target_=nzc.Nothing", "class or function"),
    ("aggregator._target_=mine.lost", "aggregator._target_=mine.lost", "wrong backend"),
    (
        "student.optimizer={_target_: torch.optim.SGD, lrr: 1}",
        "student.optimizer.lrr=1",
        "did you mean lr?",
    ),
    # Parts of one's own, before any file is read
    (
        "dataset=npz dataset.path=no.npz student._target_=mine.Missing",
        "student._target_=mine.Missing",
        "imported",
    ),
    ("queries=401", "queries=401", "from 1 to 400"),
    ("teachers.count=2.5", "teachers.count=2.5", "whole number"),
    ("student.network=foo", "student.network=foo", "mlp"),
    ("dataset.augment.rotate=abc", "augment.rotate=abc", "number"),
    ("dataset.private=1797", "dataset.private=1797", "at most 1396"),
    ("aggregator=nzc aggregator.noise=abc", "aggregator.noise", "gamma"),
    ("trainer.accelerator=foo", "foo", "Trainer"),
    ("dataset=none", "student=supervised", "none"),
    ("dataset=none student=none", "dataset=none", "teachers=votes"),
    ("dataset=npz dataset.path=none.npz", "dataset.path=none.npz", "No such file"),
    ("paths.output=/proc/x", "paths.output=/proc/x", "can be written"),
    ("tracking=mlflow tracking.uri=foo://x", "tracking.uri=foo://x", "MLflow"),
    ("tracking=mlflow tracking.uri=sqlite:///damaged", "tracking.uri=sqlite:///", "new file"),
    ("tracking=mlflow tracking.uri=sqlite:///mine.py/mlflow.db", "tracking.uri=", "written"),
    (f"{NEAR_ZERO} student=gan_ssl student.network={{_target_:mine.Own}}", "student", ""),
    (
        f"{NEAR_ZERO} representation=contrastive representation.encoder.network={{_target_:mine.Own}}",
        "encoder",
        "",
    ),
    (" ".join(VOTES), "teachers.path=???", "must be given"),
    (
        f"{FLAT_VOTES} aggregator.sigma=null queries=20",
        "aggregator.sigma=null",
        "where budget.epsilon is null",
    ),
    (
        f"{FLAT_VOTES} {NULL} aggregator=confident aggregator.sigma1=null",
        "aggregator.sigma1=null",
        "left out",
    ),
    (
        f"{FLAT_VOTES} {NULL} aggregator=nzc aggregator.sensitivity=local",
        "budget.epsilon=1.0",
        "must be null",
    ),
    ("dataset=none student=none budget.epsilon=1", "dataset=none", "teachers=votes"),
    (f"{FLAT_VOTES} {NULL} {CONFIDENT}", "budget.epsilon=1.0", "must be above"),
    (f"{PLAN} --agreement 0.2", "--agreement=0.2:", "above the share of the runner-up, 0.4"),
    (f"{PLAN} --queries 5,x", "nzc plan=", "5,x: must be whole numbers, separated by commas"),
    (f"{PLAN} --agreement-from none.npy y.npy", "--agreement-from=none.npy y.npy:", "No such file"),
    (
        f"{PLAN} --agreement-from v.npy wrong.npy",
        "--agreement-from=v.npy wrong.npy:",
        "that of the true class",
    ),
    (f"{PLAN} --agreement-from three.npy y.npy", "--agreement-from=three.npy y.npy:", "4 classes"),
    ("report damaged", "FOLDER=damaged", "whole files"),
    ("report nowhere", "FOLDER=nowhere", "run or a sweep"),
    ("predict damaged new.npy", "FOLDER=damaged", "student that can be read"),
    ("paths.store=store teachers.count=6 student=none", "ledger.db", "must be a whole ledger file"),
    ("student=mine", "student._target_=null", "a class derived from Student; or student=none"),
]


@pytest.mark.parametrize("words", [(), ("--multirun", "seed=1,2")], ids=["run", "sweep"])
@pytest.mark.parametrize(
    "name",
    [
        "p (1).csv",
        "p=1.csv",
        "p#2.csv",
        "p ü.csv",
        "it's p.csv",
        "p&co[1]!.csv",
        "[1] p.csv",
        "p,2.csv",
    ],
)
def test_a_file_name_that_hydra_cannot_read_is_answered_with_what_to_type(
    nzc: Nzc, words: tuple[str, ...], name: str
) -> None:
    Path(name).touch()
    for key in ("dataset.private", "+dataset.whatever", "paths.store"):
        ran = nzc(*words, "dataset=table", f"{key}={name}")
        assert (ran.code, ran.out, ran.err.count("\n")) == (
            2,
            "",
            1,
        ) and f"{key}={name}: " in ran.err
        (typed,) = shlex.split(re.search(r"type (.*?'); ", ran.err)[1])  # type: ignore[index]
        assert OverridesParser.create().parse_override(typed).value() == name


@given(text=st.text("aü \\\"'=#,()[]{}&!$:1\n", min_size=1, max_size=12))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_any_text_can_be_typed_as_the_line_says(text: str) -> None:
    try:
        compose_run([f"dataset.name={text}", "tracking=none"])
    except Exception as error:
        wrong = input_error(error)
        typed = re.search(r"type (.*); ", wrong.allowed, re.DOTALL) if wrong is not None else None
        if typed is not None and text[0] not in "[{":
            assert OverridesParser.create().parse_override(shlex.split(typed[1])[0]).value() == text


def test_names_in_a_list_are_answered_in_quotes(nzc: Nzc) -> None:
    for names in (["Größe", "RH"], ["CO(GT)"], ["a b", "c=1 #"]):
        ran = nzc("dataset=table", f"dataset.drop=[{','.join(names)}]")
        (typed,) = shlex.split(re.search(r"type (.*?'); ", ran.err)[1])  # type: ignore[index]
        assert OverridesParser.create().parse_override(typed).value() == names


OWN_NETWORK = """def Own():
    from torch.nn import Flatten, Linear, Sequential, Softmax
    return Sequential(Flatten(), Linear(64, 10), Softmax(1))
"""


@pytest.fixture
def _files(nzc: Nzc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(".")
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    Path("mine.py").write_text(f"{OWN_NETWORK}def lost(**settings):\n    import broken_library")
    Path("broken_library.py").write_text("raise ValueError('wrong backend')")
    Path("damaged/.hydra").mkdir(parents=True)
    choices = "{dataset: digits, aggregator: gnmax, student: none}"
    Path("damaged/.hydra/hydra.yaml").write_text(f"hydra: {{runtime: {{choices: {choices}}}}}")
    for name in (RESULT, STUDENT, STUDENT_INPUT):
        Path("damaged", name).write_text("{")
    for name, array in {
        "votes": FLAT,
        "v": [[7, 2, 1, 0]],
        "y": [0],
        "wrong": [3],
        "three": [[7, 2, 1]],
    }.items():
        np.save(f"{name}.npy", array)
    Path("store").mkdir()
    Path("store/ledger.db").write_bytes(b"SQLite format 3" + bytes(5000))
    Path("conf/student").mkdir(parents=True)
    Path("conf/student/mine.yaml").write_text("steps: 60")


@pytest.mark.usefixtures("_files")
@pytest.mark.parametrize(("line", "names", "allows"), WRONG, ids=[case[0][:50] for case in WRONG])
def test_one_line_and_nothing_left(
    nzc: Nzc, command: Command, line: str, names: str, allows: str
) -> None:
    before = set(Path().rglob("*"))
    if line.startswith(("report", "predict", "plan")):
        code, out, err = command(*line.split())
        assert (code, out, err.count("\n")) == (2, "", 1) and names in err and allows in err, err
    else:
        _complains(nzc, [line] if ": " in line else line.split(), names, allows)
    assert set(Path().rglob("*")) == before


def _complains(nzc: Nzc, arguments: list[str], names: str, allows: str) -> None:
    ran = nzc(*arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1), ran.err
    assert names in ran.err and allows in ran.err, ran.err
    assert len(ran.err) < 520


#: Overrides, the last of which is refused, and what the line says of its key.
REFUSED = [
    (
        ["recipe=near_zero", "teachers.count=50"],
        ["teachers=cells, which recipe=near_zero chose", "ensemble, forest,"],
    ),
    (
        ["teachers=cells", "teachers.count=5"],
        ["teachers=cells, which you chose", "sklearn or votes has it"],
    ),
    (
        ["aggregator.threshold=3"],
        ["aggregator=gnmax, the default", "confident, interactive or stable has it"],
    ),
    (
        ["aggregator.sigma1=3"],
        ["aggregator=gnmax, the default", "confident, interactive or stable has it"],
    ),
    (
        ["student=linear", "student.steps=5"],
        ["student=linear, which you chose", "supervised or vat has it"],
    ),
    (
        ["student=none", "student.alpha=5"],
        ["student=none, which you chose", "student=heir or vat has it"],
    ),
    (
        ["+sweeps=published_mnist", "student.alpha=5"],
        ["student=softmatch, which sweeps=published_mnist chose"],
    ),
    (
        ["+sweeps=private_knn_mnist", "teachers.count=5"],
        ["teachers=cells, which recipe=near_zero chose"],
    ),
    (
        ["student=mine", "student.alpha=5"],
        ["student=mine, which you chose", "student=heir or vat has it"],
    ),
    (["aggregator=lnmax", "aggregator.gama=5"], ["did you mean gamma?"]),
    (["tracking=none", "tracking.foo=5"], ["left out: tracking has no keys here"]),
    (
        ["+aggregator.threshold=3"],
        ["keys of nzc.GNMax: sigma", "confident, interactive or stable has threshold"],
    ),
    (["epsilon=1"], ["did you mean budget.epsilon?"]),
    (["+epsilon=1"], ["did you mean budget.epsilon?"]),
    (["sigma=3"], ["did you mean aggregator.sigma?"]),
    (
        ["recipe=near_zero", "count=50"],
        ["did you mean teachers.count (with teachers=ensemble, forest,"],
    ),
    (["gamma=0.1"], ["did you mean aggregator.gamma (with aggregator=counts, gumbel,"]),
    (["steps=100"], ["did you mean student.steps?"]),
    (["kind=KMNIST"], ["did you mean dataset.kind (with dataset=", "torchvision)?"]),
    (
        ["threshold=3"],
        ["aggregator.threshold (with aggregator=confident", ") or student.threshold?"],
    ),
    (["epsilom=1"], ["keys of nzc: "]),
]


@pytest.mark.parametrize(
    ("overrides", "says"), REFUSED, ids=[" ".join(case[0]) for case in REFUSED]
)
def test_a_refused_key_names_its_cause(
    overrides: list[str], says: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who chose the option that lacks it, and which options have it, those of the working directory
    included.
    """
    monkeypatch.chdir(tmp_path)
    Path("conf/student").mkdir(parents=True)
    Path("conf/student/heir.yaml").write_text("defaults: [vat, _self_]")
    Path("conf/student/mine.yaml").write_text("_target_: mine.Student")
    with pytest.raises(Exception) as caught:
        cfg = compose_run(overrides)
        refuse_unknown_keys(cfg)
        build(cfg, "aggregator")
    wrong = input_error(caught.value, overrides)
    assert wrong is not None and str(wrong).startswith(f"{overrides[-1].lstrip('+')}: must be ")
    assert all(text in wrong.allowed for text in says) and len(str(wrong)) < 500


def test_a_line_blames_for_an_option_who_chose_it() -> None:
    """As Hydra composes it."""
    sweeps = [f"+sweeps={path.stem}" for path in sorted((CONF.parent / "sweeps").glob("*.yaml"))]
    cases = [
        ["recipe=near_zero", "student=vat"],
        ["recipe=tables"],
        *([sweep] for sweep in sweeps[::4]),
    ]
    for overrides in cases:
        cfg = compose_run(overrides)
        for group, option in cfg.hydra.runtime.choices.items():
            if group in GROUPS and group != "recipe":
                assert _chosen(group, overrides)[0] == option, (overrides, group)


def test_a_key_beside_a_sweep_over_its_group_is_answered_with_what_to_type(nzc: Nzc) -> None:
    Path("votes.npy").write_bytes(b"")
    words = ["--multirun", "aggregator=confident,interactive", *FILE]
    typed = "++aggregator.threshold=30"
    assert f"must be typed as {typed} where" in nzc(*words, "aggregator.threshold=30").err
    assert "votes.npy" in nzc(*words, typed).err  # the next mistake


JUNK = (
    "abc",
    "null",
    "-1",
    "0",
    "nan",
    "1e400",
    "[]",
    "[1,{a: 2}]",
    "{a: 1}",
    "true",
    "${nope}",
    "???",
)
KEYS = [
    key
    for key in flatten(OmegaConf.to_container(compose_run(["tracking=none"]), resolve=False))  # type: ignore[arg-type]
    if not key.endswith("_target_") and not key.startswith("hydra.")
]


@given(key=st.sampled_from(KEYS), value=st.sampled_from(JUNK))
@settings(derandomize=True, deadline=None, max_examples=30)
def test_any_value_of_any_key_is_taken_or_refused_in_one_line(key: str, value: str) -> None:
    try:
        cfg = compose_run([f"{key}={value}", "tracking=none"])
        build_components(cfg, cfg.hydra.runtime.choices, figures=False)
    except Exception as error:
        code, line = error_line(error)
        assert code == 2 and "\n" not in line, line
        assert key.rpartition(".")[2] in line


@pytest.mark.parametrize(
    ("text", "names", "allows"),
    [
        ("sweep: {rows: [{name: a, sett: [seed=1]}]}", "sweep.rows.0.sett=['seed=1']", "not permitted"),
        ("sweep: {only: b, rows: [{name: a}]}", "sweep.only=b", "in the name of a row: a"),
        ("sweep: [", "mine.yaml", ""),
        (None, "+sweeps", "# @package _global_"),
        ("row: sed=1", "sed", "did you mean seed? (row a)"),
        ("row: +aggregator.gama=1", "aggregator.gama=1", "(row a)"),
        ("row: student=supervisd", "student=supervisd", "(row a)"),
        ("figure: b, x: seed", "sweep.figures.1=", "x and y"),
        ("figure: a/b, curve: asked", "sweep.figures.1.name=a/b", "pattern"),
        ("figure: b, curve: asked, by: seed", "sweep.figures.1=", "with by"),
        ("figure: b, x: seed, y: acuracy", "sweep.figures.b=acuracy", "did you mean accuracy?"),
        ("figure: b, x: budget.epsilon, y: accuracy", "sweep.figures.b=budget.epsilon", "a value in at least one"),
        ("figure: b, curve: gap", "sweep.figures.b.curve=gap", "gap_above"),
        ("figure: a, curve: answered", "sweep.figures.name=a", "one figure"),
    ],
)  # fmt: skip
def test_sweep_files_with_a_slip(nzc: Nzc, text: str | None, names: str, allows: str) -> None:
    kind, _, slip = (text or "").partition(": ")
    if kind == "row":
        text = f"sweep: {{rows: [{{name: a, set: [{slip}]}}]}}"
    elif kind == "figure":
        text = f"sweep: {{figures: [{{name: a, curve: asked}}, {{name: {slip}}}]}}"
    Path("sweeps").mkdir()
    content = "sweep: {rows: [{name: a}]}" if text is None else f"# @package _global_\n{text}"
    Path("sweeps/mine.yaml").write_text(content)
    _complains(nzc, ["--multirun", "+sweeps=mine"], names, allows)


X, Y = np.random.default_rng(0).random((60, 8)), np.arange(60) % 3
ROLE = np.array(["private", "public", "test"])[np.arange(60) // 20]
VOTES_KEY, LABELS_KEY = "teachers.path=votes.npy", "teachers.labels=labels.npy"
OWN = ["dataset=npz", "dataset.path=data.npz"]
TRUTH = "aggregator=ground_truth"
#: Arrays of files by name, arguments, and what the line contains.
FILES: list[tuple[dict[str, Any], list[str], str, str]] = [
    ({"votes": FLAT + 0.5}, FILE, VOTES_KEY, "whole numbers"),
    ({"votes": np.arange(9)}, FILE, VOTES_KEY, "[queries, "),
    ({"votes": np.zeros((4, 3), int)}, FILE, VOTES_KEY, "1 or more; row 0 does not"),
    ({"votes": FLAT, "labels": np.full(30, 3)}, [*FILE, LABELS_KEY], LABELS_KEY, "from 0 to 2"),
    (
        {"votes": FLAT, "labels": np.zeros(31, int)},
        [*FILE, LABELS_KEY],
        LABELS_KEY,
        "30 whole numbers",
    ),
    ({"votes": np.ones((300, 3), int)}, ["teachers=votes", VOTES_KEY], VOTES_KEY, "10 classes"),
    (
        {"data": (np.where(ROLE == "public", -1, Y), ROLE)},
        [*OWN, TRUTH, "teachers.count=3"],
        TRUTH,
        "labels",
    ),
    ({"data": (Y, np.where(ROLE == "private", "test", ROLE))}, OWN, "dataset=npz", "it has none"),
    ({"data": (np.where(ROLE == "private", 1, Y), ROLE)}, OWN, "dataset=npz", "one class"),
]


@pytest.mark.parametrize(("arrays", "arguments", "names", "allows"), FILES)
def test_files_of_wrong_numbers(
    nzc: Nzc, arrays: dict[str, Any], arguments: list[str], names: str, allows: str
) -> None:
    for name, array in arrays.items():
        if name == "data":
            np.savez("data.npz", x=X, y=array[0], role=array[1])
        else:
            np.save(f"{name}.npy", array)
    before = set(Path().iterdir())
    _complains(nzc, arguments, names, allows)
    assert set(Path().iterdir()) == before


@pytest.mark.parametrize(("arguments", "key"), [([*FILE], VOTES_KEY), (OWN, OWN[1])])
def test_files_that_are_no_arrays(nzc: Nzc, arguments: list[str], key: str) -> None:
    np.save("votes.npy", FLAT)
    np.savez("data.npz", x=X, y=Y)
    path = Path(key.partition("=")[2])
    for content in (path.read_bytes()[:-99], b"", b"age,sex", pickle.dumps(X)):
        path.write_bytes(content)
        _complains(nzc, arguments, key, f"an {path.suffix} ")


def test_what_a_message_tells_the_user_to_type_exists() -> None:
    """Groups have the options, and YAML files the keys, that stand before = in the strings of nzc."""
    yaml = {
        group: "".join(file.read_text() for file in (CONF / group).glob("*.yaml"))
        for group in GROUPS
    }
    typed = {
        found
        for path in CONF.parent.joinpath("nzc").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for found in re.findall(r"(?<![\w.])([a-z]+)((?:\.[a-z_]+)*)=([a-z_]*)", node.value)
        if found[0] in GROUPS
    }
    assert len(typed) > 20
    for group, keys, option in typed:
        if keys:
            assert re.search(rf"(?m)\b{keys.rpartition('.')[2]}:", yaml[group]), f"{group}{keys}"
        elif option:
            assert (CONF / group / f"{option}.yaml").is_file(), f"{group}={option}"
