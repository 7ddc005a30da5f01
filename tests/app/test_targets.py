"""What a configuration may build: a `_target_` is checked before anything is called."""

import pickle
from pathlib import Path
from typing import Any

import pytest
from conftest import Nzc
from omegaconf import OmegaConf

from nzc.app.components import build
from nzc.mechanisms import NoisyArgmax
from nzc.validation import InputError

LOAD = {"_target_": "joblib.load", "filename": "foreign.pkl"}
COPY = {"_target_": "shutil.copy", "src": "foreign.pkl", "dst": "written"}
MAP = {"_target_": "numpy.memmap", "filename": "written", "mode": "w+", "shape": 3}
TREE = {"_target_": "sklearn.tree.DecisionTreeClassifier"}
SKLEARN = {"_target_": "nzc.teachers.sklearn.Sklearn", "count": 2, "seed": 0}
GNMAX = {"_target_": "nzc.NoisyArgmax", "noise": {"_target_": "nzc.GaussianNoise", "sigma": 4}}


class Foreign:
    """Writes a file when it is unpickled."""

    def __reduce__(self) -> Any:
        return Path.touch, (Path("written"),)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("foreign.pkl").write_bytes(pickle.dumps(Foreign()))
    return tmp_path


def _build(group: str, node: Any) -> Any:
    return build(OmegaConf.create({group: node}), group)


@pytest.mark.parametrize("foreign", [
    LOAD, COPY, MAP, {"_target_": "torch.load", "f": "foreign.pkl", "weights_only": False},
    {"_target_": "numpy.load", "file": "foreign.pkl", "allow_pickle": True},
    {"_target_": "pandas.read_pickle", "filepath_or_buffer": "foreign.pkl"},
    {"_target_": "subprocess.Popen", "args": ["touch", "written"]},
    {"_target_": "sklearn.os.system", "command": "touch written"},
    {"_target_": "builtins.open", "file": "written", "mode": "w"},
])  # fmt: skip
@pytest.mark.parametrize(("group", "key", "node"), [
    ("teachers", "estimator", SKLEARN),
    ("teachers", "estimator.steps.0.1", SKLEARN | {
        "estimator": {"_target_": "sklearn.pipeline.Pipeline", "steps": [["scale", TREE], ["tree", TREE]]}}),
    ("teachers", "estimator.estimator", SKLEARN | {"estimator": {"_target_": "sklearn.ensemble.BaggingClassifier"}}),
    ("aggregator", "", GNMAX), ("aggregator", "noise", GNMAX), ("aggregator", "screen", GNMAX),
    ("aggregator", "first", GNMAX),
    ("dataset", "", {}), ("dataset", "augment", {"_target_": "nzc.data.digits.Digits"}),
    ("dataset", "suits.vat.network", {"_target_": "nzc.data.digits.Digits"}),
    ("student", "network", {"_target_": "nzc.students.supervised.Supervised"}),
    ("student", "optimizer", {"_target_": "nzc.students.supervised.Supervised"}),
    ("student", "schedule", {"_target_": "nzc.students.supervised.Supervised"}),
    ("trainer", "strategy", {"_target_": "nzc.training.trainer.TrainerSettings"}),
    ("tracking", "uri", {"_target_": "nzc.tracking.mlflow.MLflow"}),
])  # fmt: skip
def test_nothing_runs_but_what_the_key_wants(group: str, key: str, node: Any, foreign: dict[str, Any]) -> None:
    config: Any = OmegaConf.create({group: node})
    OmegaConf.update(config, f"{group}.{key}".strip("."), foreign, merge=False, force_add=True)
    with pytest.raises(InputError) as refused:
        build(config, group)
    assert refused.value.key == f"{group}.{key}".strip(".") + "._target_"
    assert str(foreign["_target_"]) in str(refused.value)
    assert not Path("written").exists()


def test_a_program_is_not_imported(capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("this.s", "antigravity.fly", "json.tool.main", "mine.__main__.main", "mine:__main__"):
        with pytest.raises(InputError, match="NoisyArgmax"):
            _build("aggregator", {"_target_": name})
    assert capfd.readouterr().out == ""


def test_parts_that_fit_are_built() -> None:
    scaler = {"_target_": "sklearn.preprocessing.StandardScaler"}
    bagging = {"_target_": "sklearn.ensemble.BaggingClassifier", "estimator": TREE, "n_estimators": 2}
    pipeline = {"_target_": "sklearn.pipeline.Pipeline", "steps": [["scale", scaler], ["bag", bagging]]}
    built = _build("teachers", SKLEARN | {"estimator": pipeline}).estimator
    assert type(built.named_steps["bag"].estimator).__name__ == "DecisionTreeClassifier"
    screen = {"_target_": "nzc.ThresholdScreen", "threshold": 2, "sigma1": 3}
    first = {"_target_": "nzc.GNMax", "sigma": 5}
    assert _build("aggregator", GNMAX | {"screen": screen, "first": first}).first.noise.sigma == 5


def test_functions_of_ones_own_need_no_annotation_and_those_of_others_do() -> None:
    source = "import nzc\nfrom shutil import copy\nfrom nzc import run\ndef mine(sigma):\n    return nzc.GNMax(sigma)\n"
    Path("own_parts.py").write_text(source)
    assert isinstance(_build("aggregator", {"_target_": "own_parts.mine", "sigma": 3}), NoisyArgmax)
    assert isinstance(_build("aggregator", {"_target_": "nzc.GNMax", "sigma": 3}), NoisyArgmax)
    for name in ("own_parts.copy", "own_parts.run", "nzc.run", "nzc.calibrate"):
        with pytest.raises(InputError, match="return annotation"):
            _build("aggregator", {"_target_": name, "src": "foreign.pkl", "dst": "written"})
    assert not Path("written").exists()


@pytest.mark.parametrize(("key", "node"), [
    ("callbacks.x._target_", "+hydra.callbacks.x={_target_: joblib.load, filename: foreign.pkl}"),
    ("callbacks.run._target_", "hydra.callbacks.run._target_=shutil.copy"),
    ("launcher.x._target_", "+hydra.launcher.x={_target_: shutil.copy, src: foreign.pkl, dst: written}"),
    ("sweeper.x._target_", "+hydra.sweeper.x={_target_: shutil.copy, src: foreign.pkl, dst: written}"),
    ("job_logging.handlers.a.()", "hydra/job_logging=foreign"),
    ("callbacks.x._target_", "+sweeps=foreign"),
])  # fmt: skip
def test_hydras_own_keys_build_nothing_else(nzc: Nzc, key: str, node: str) -> None:
    for name, text in {
        "conf/hydra/job_logging/foreign.yaml": "version: 1\nroot: {handlers: [a]}\nhandlers: "
        "{a: {'()': shutil.copy, src: foreign.pkl, dst: written}}",
        "sweeps/foreign.yaml": "# @package _global_\nhydra: {callbacks: {x: '${objective}'}}\n"
        "objective: {_target_: joblib.load, filename: foreign.pkl}",
    }.items():
        Path(name).parent.mkdir(parents=True)
        Path(name).write_text(text)
    ran = nzc("--multirun", "seed=0,1", node)
    assert (ran.code, ran.err.count("\n")) == (2, 1), ran.err
    assert ran.err.startswith(f"nzc: hydra.{key}=")
    assert not Path("written").exists() and not Path("outputs").exists()
