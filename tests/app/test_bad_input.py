"""Wrong input: one line that names the key, the value and what is allowed; exit code 2; nothing left behind."""

import pickle
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
from conftest import TEACHERS, VOTES, Nzc
from hydra import compose, initialize_config_dir
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from nzc.app import config
from nzc.app.components import build_components
from nzc.app.errors import error_line
from nzc.app.run import _compose
from nzc.runs.layout import flatten

WRONG = [
    (["aggregator=foo"], "aggregator=foo", "lnmax"),
    (["dataest=mnist"], "dataest", "dataset"),
    (["aggregator.gama=1", "aggregator=lnmax"], "aggregator.gama", "gamma"),
    (["sed=1"], "sed", "seed"),
    (["+sweeps=foo"], "sweeps=foo", "nzc_table1_mnist"),
    (["aggregator=["], "aggregator=[", "KEY=VALUE"),
    (["seed=abc"], "seed=abc", "Integer"),
    (["seed=-1"], "seed=-1", "from 0"),
    (["delta=0"], "delta=0", "between 0 and 1"),
    (["delta=2"], "delta=2", "between 0 and 1"),
    (["delta=nan"], "delta=nan", "between 0 and 1"),
    (["queries=0"], "queries=0", "1 or more"),
    (["queries=401"], "queries=401", "from 1 to 400"),
    (["teachers.count=0"], "teachers.count=0", "1 or more"),
    (["teachers.count=1000000000"], "teachers.count=1000000000", "from 1 to 1,200"),
    (["teachers.count=10**9"], "teachers.count=10**9", "whole number"),
    (["teachers.count=2.5"], "teachers.count=2.5", "whole number"),
    (["teachers.network=foo"], "teachers.network=foo", "mlp"),
    (["teachers.lr=0"], "teachers.lr=0", "above 0"),
    (["student.steps=0"], "student.steps=0", "1 or more"),
    (["student.network=foo"], "student.network=foo", "mlp"),
    (["dataset.augment.rotate=-1"], "rotate=-1", "0 or above"),
    (["dataset.private=1797"], "dataset.private=1797", "at most 1396"),
    *[
        (["aggregator=lnmax", f"aggregator.gamma={value}"], f"aggregator.gamma={value}", "finite number above 0")
        for value in ("-1", "0", "nan", "inf", "abc")
    ],
    (["aggregator.sigma=-1"], "aggregator.sigma=-1", "finite number above 0"),
    (["aggregator=nzc", "aggregator.c=-1"], "aggregator.c=-1", "0 or above"),
    (["aggregator=nzc", "aggregator.c=inf"], "aggregator.c=inf", "finite"),
    (["aggregator=nzc", "aggregator.sensitivity=foo"], "aggregator.sensitivity=foo", "smooth"),
    (["aggregator=nzc", "aggregator.beta=-1"], "aggregator.beta=-1", "0 or above"),
    (["dataset=none"], "student=supervised", "none"),
    (["dataset=none", "student=none"], "dataset=none", "teachers=votes"),
    (["trainer.accelerator=foo"], "foo", "Trainer"),
    (["trainer.threads=0"], "trainer.threads=0", "from 1 to 4,096"),
    (["paths.output=/proc/x"], "paths.output=/proc/x", "can be written"),
    (["paths.store=/proc/x"], "paths.store=/proc/x", "can be written"),
    (["tracking.uri=foo://x"], "tracking.uri=foo://x", "MLflow"),
    (["wait=0"], "wait=0", "above 0"),
    (["wait=soon"], "wait=soon", "Float"),
    (["dataset=svhn", "dataset.root=null"], "dataset.root=null", "text"),
    (["dataset=mnist", "dataset.root=/proc/x"], "dataset.root=/proc/x", "MNIST/raw"),
    (VOTES, "teachers.path=???", "given"),
    ([*VOTES, "teachers.path=none.npy"], "teachers.path=none.npy", "No such file"),
    ([*VOTES, "teachers.path='a\nb\x1b'"], r"teachers.path=a\nb\x1b", "No such file"),
    (["aggregator=nzc", "aggregator.noise=abc"], "aggregator.noise", "gamma"),
    (["aggregator._target_=builtins.dict"], "aggregator._target_=builtins.dict", "NoisyArgmax"),
    (["aggregator._target_=nzc.Nothing"], "aggregator._target_=nzc.Nothing", "class or function"),
    (["student.augment=abc"], "student.augment=abc", "callable"),
    (["aggregator.sigma=1e308"], "aggregator.sigma=1e+308", "1e-100 to 1e+100"),
    (["trainer.precision=64-true"], "trainer.precision=64-true", "32-true"),
    (["+trainer.max_steps=0"], "trainer.max_steps=0", "nzc sets it"),
    (["+trainer.detect_anomaly=3"], "trainer.detect_anomaly=3", "true or false"),
    (["--cfg", "no"], "--cfg", "choose from"),
    (["--resolve"], "--resolve", "--cfg"),
    (["+aggregator.gama=1"], "aggregator.gama=1", "keys of nzc.GNMax"),
    (["++sed=1"], "sed=1", "did you mean seed"),
    (["student.wrong=0.1"], "student.wrong=0.1", "student.label_noise_rate now"),
    (["student.optimizer={_target_: torch.optim.SGD, lrr: 1}"], "student.optimizer.lrr=1", "did you mean lr"),
    (["aggregator=nzc", "aggregator._target_=nzc.Confident"], "aggregator.c=1e+100", "threshold"),
    (["dataset.augment.rotate=abc"], "augment.rotate=abc", "number"),
    (["dataset.network=7"], "network", "must be"),
    (["--experimental-rerun", "job.pickle"], "--experimental-rerun", "unrecognized"),
    (["hydra.job.chdir=true", "seed=-1"], "seed=-1", "from 0"),
    (["teachers=100"], "teachers=100", "ensemble"),
    (["student=null"], "student=null", "none"),
    (["~tracking"], "tracking=null", "none"),
    (["sweeps=digits"], "sweeps", "+sweeps"),
    (["--config-name", "mnist"], "primary config 'mnist'", "search path"),
    (["budget=3"], "budget=3", "budget.epsilon"),
    (["seed=null"], "seed=null", "not Optional"),
]


@pytest.mark.parametrize(("arguments", "names", "allows"), WRONG, ids=[" ".join(case[0]) for case in WRONG])
def test_one_line_and_nothing_left(nzc: Nzc, arguments: list[str], names: str, allows: str) -> None:
    _complains(nzc, arguments, names, allows)
    assert not list(Path.cwd().iterdir())


def _complains(nzc: Nzc, arguments: list[str], names: str, allows: str) -> None:
    ran = nzc(*arguments)
    assert ran.code == 2
    assert ran.err.count("\n") == 1, ran.err
    assert names in ran.err
    assert allows in ran.err
    assert not ran.out


MANY = {
    "dataset.private": ["dataset=glyph"],
    "dataset.size": ["dataset=folder", "dataset.path=images"],
    "dataset.classes": ["dataset=npz", "dataset.path=x.npz"],
    "audit_trials": [],
    "teachers.epochs": [],
    "student.steps": [],
    "student.batch_size": [],
    "student.unlabelled": ["student=vat"],
    "student.trees": ["student=forest"],
    "representation.encoder.steps": ["representation=contrastive", "query_choice=representative"],
    "representation.encoder.width": ["representation=contrastive", "query_choice=representative"],
}


@pytest.mark.parametrize("key", MANY)
def test_counts_that_no_memory_holds(nzc: Nzc, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is allocated: the machine seems to have 10 MB for a size of images, and 16 GB for other counts."""
    count, memory = (4000, 10**7) if key == "dataset.size" else (2 * 10**9, 16 * 10**9)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=memory))
    for label in ("cat", "dog"):
        Path("images", label).mkdir(parents=True)
        for number in range(5):
            Path("images", label, f"{label}{number}.png").touch()
    np.savez("x.npz", x=np.zeros((90, 2)) + np.arange(90)[:, None], y=np.arange(90) % 3)
    ran = nzc(*MANY[key], f"{key}={count}")
    assert (ran.code, ran.err.count("\n")) == (2, 1), ran.err
    assert f"{key}={count}: must fit into memory" in ran.err


def _every_key() -> list[str]:
    config.register()
    with initialize_config_dir(str(config.CONF), version_base="1.3"):
        tree = OmegaConf.to_container(compose("config", ["recipe=papers", "tracking=none"]))
    return [key for key in flatten(tree) if not key.endswith("_target_")]  # type: ignore[arg-type]


JUNK = ("abc", "null", "-1", "0", "nan", "1e400", "[]", "[1,{a: 2}]", "{a: 1}", "true", "${nope}", "???")


@given(key=st.sampled_from(_every_key()), value=st.sampled_from(JUNK))
@settings(derandomize=True, deadline=None, max_examples=30)
def test_any_value_of_any_key_is_taken_or_refused_in_one_line(key: str, value: str) -> None:
    try:
        cfg = _compose([f"{key}={value}", "recipe=papers", "tracking=none"])
        build_components(cfg, cfg.hydra.runtime.choices, figures=False)
    except Exception as error:
        code, line = error_line(error)
        assert code == 2 and "\n" not in line, line
        assert key.rpartition(".")[2] in line


def test_a_folder_of_ones_own_stays(nzc: Nzc) -> None:
    Path("mine").write_text("kept")
    for folder in (".", "there"):
        Path(folder).mkdir(exist_ok=True)
        (Path(folder) / "result").write_text("kept")
        _complains(nzc, [f"hydra.run.dir={folder}", "seed=-1"], f"hydra.run.dir={folder}", "new or empty folder")
    assert sorted(str(path) for path in Path().rglob("*")) == ["mine", "result", "there", "there/result"]


def test_sweep_files_with_a_slip(nzc: Nzc) -> None:
    Path("sweeps").mkdir()
    for text, names, allows in (
        (
            "# @package _global_\nsweep: {rows: [{name: a, sett: [seed=1]}]}",
            "sweep.rows.0.sett=['seed=1']",
            "name, set, paper",
        ),
        ("sweep: {rows: [{name: a}]}", "+sweeps", "# @package _global_"),
    ):
        Path("sweeps/mine.yaml").write_text(text)
        _complains(nzc, ["--multirun", "+sweeps=mine"], names, allows)


@pytest.mark.parametrize(
    ("rows", "said"),
    [("[1]", "mapping"), ("[{name: [a]}]", "text"), ("[{name: a, set: seed}]", "list")],
)
def test_sweep_rows_that_are_none(nzc: Nzc, rows: str, said: str) -> None:
    Path("sweeps").mkdir()
    Path("sweeps/mine.yaml").write_text(f"# @package _global_\nsweep: {{rows: {rows}}}\n")
    _complains(nzc, ["--multirun", "+sweeps=mine"], "sweep.rows.0", said)


def test_a_sweep_file_that_is_none(nzc: Nzc) -> None:
    Path("sweeps").mkdir()
    for text, names in ((b"\xff\xfe", "UnicodeDecodeError"), (b"sweep: [", "mine.yaml"), (b"sweep: 3", "sweep=3")):
        Path("sweeps/mine.yaml").write_bytes(b"# @package _global_\n" + text)
        _complains(nzc, ["--multirun", "+sweeps=mine"], names, "")


def _votes() -> np.ndarray:
    return np.full((30, 3), 10)


def _uneven() -> np.ndarray:
    votes = _votes()
    votes[7, 1] += 1
    return votes


VOTE_FILES = {
    "fractions": (_votes() + 0.5, "whole numbers, not fractions"),
    "missing": (np.where(np.eye(30, 3) > 0, np.nan, _votes()), "whole numbers, not NaN"),
    "uneven": (_uneven(), "row 7 does not"),
    "negative": (_votes() - np.array([20, -20, 0]), "counts from 0"),
    "flat": (np.arange(9), "[queries, "),
    "empty": (np.zeros((0, 3), int), "[queries, "),
    "nobody": (np.zeros((4, 3), int), "1 or more; row 0 does not"),
    "words": (np.array([["a", "b"]]), "whole numbers"),
}


@pytest.mark.parametrize("kind", VOTE_FILES)
def test_vote_files(nzc: Nzc, kind: str) -> None:
    array, allows = VOTE_FILES[kind]
    np.save("votes.npy", array)
    _complains(nzc, [*VOTES, "teachers.path=votes.npy"], "teachers.path=votes.npy", allows)
    assert [path.name for path in Path.cwd().iterdir()] == ["votes.npy"]


def test_truncated_and_pickled_vote_files(nzc: Nzc) -> None:
    np.save("votes.npy", _votes())
    whole = Path("votes.npy").read_bytes()
    for damage, allows in (
        (whole[:200], "damaged or cut off"),
        (whole[:50], "damaged or cut off"),
        (b"", "an empty file"),
        (b"3,4,5", "a text file"),
        (pickle.dumps(_votes()), "a pickle"),
    ):
        Path("votes.npy").write_bytes(damage)
        _complains(nzc, [*VOTES, "teachers.path=votes.npy"], "teachers.path=votes.npy", allows)
    np.save("votes.npy", np.array([{}], dtype=object), allow_pickle=True)
    _complains(nzc, [*VOTES, "teachers.path=votes.npy"], "teachers.path=votes.npy", "object array")
    np.savez("votes.npz", _votes())
    _complains(nzc, [*VOTES, "teachers.path=votes.npz"], "teachers.path=votes.npz", "not an .npz archive")


@pytest.mark.parametrize(
    ("labels", "allows"),
    [
        (np.full(30, 3), "from 0 to 2; 30 of 30 labels are others"),
        (np.arange(30) % 3 + 1, "from 0 to 2: subtract 1"),
        (np.full(30, -1), "from 0 to 2; 30 of 30 labels are others"),
        (np.zeros(29, int), "30 whole numbers"),
        (np.zeros(30), "30 whole numbers"),
    ],
)
def test_label_files(nzc: Nzc, labels: np.ndarray, allows: str) -> None:
    np.save("votes.npy", _votes())
    np.save("labels.npy", labels)
    _complains(nzc, [*VOTES, "teachers.path=votes.npy", "teachers.labels=labels.npy"], "teachers.labels", allows)


def test_ground_truth_without_truth(nzc: Nzc) -> None:
    np.save("votes.npy", _votes())
    _complains(nzc, [*VOTES, "teachers.path=votes.npy", "aggregator=ground_truth"], "aggregator=ground_truth", "labels")
    role = np.repeat(["private", "public"], 30)
    np.savez("data.npz", x=X, y=np.where(role == "private", Y, -1), role=role)
    own = ["dataset=npz", "dataset.path=data.npz", "teachers.count=3"]
    _complains(nzc, [*own, "aggregator=ground_truth"], "aggregator=ground_truth", "labels")


X, Y = np.random.default_rng(0).random((60, 8)), np.arange(60) % 3
ROLE = np.array(["private", "public", "test"])[np.arange(60) // 20]


def test_files_that_are_no_npz(nzc: Nzc) -> None:
    np.savez("data.npz", x=X, y=Y)
    np.save("one.npy", X)
    whole = Path("data.npz").read_bytes()
    for content, allows in (
        (b"", "an empty file"),
        (b"age,sex", "a text file; dataset=table"),
        (b"PAR1" + bytes(9), "a Parquet file; dataset=table"),
        (pickle.dumps(X), "a pickle"),
        (Path("one.npy").read_bytes(), "not an .npy file"),
        (whole[:-99], "damaged or cut off"),
        (whole.replace(X[3].tobytes(), X[4].tobytes()), "x is damaged"),
    ):
        Path("data.npz").write_bytes(content)
        _complains(nzc, ["dataset=npz", "dataset.path=data.npz"], "dataset.path=data.npz", allows)
    _complains(nzc, ["dataset=npz", "dataset.path=none.npz"], "dataset.path=none.npz", "No such file")
    _complains(nzc, ["dataset=npz"], "dataset.path=???", "given")


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


def test_a_damaged_ledger_is_reported_before_the_run_begins(nzc: Nzc) -> None:
    Path(".nzc").mkdir()
    Path(".nzc/ledger.db").write_bytes(b"SQLite format 3" + bytes(5000))
    ran = nzc(*TEACHERS, "student=none")
    assert ran.code == 2
    assert "must be a whole ledger file" in ran.err
    assert not Path("outputs").exists()
