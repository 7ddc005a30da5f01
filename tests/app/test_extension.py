"""What a user adds beside their data, without touching the package."""

from pathlib import Path
from typing import Any

import pytest
from conftest import TEACHERS, Nzc
from omegaconf import OmegaConf

from nzc.app.build import build
from nzc.app.config import options
from nzc.validation import InputError

FILES = {
    "own_classes.py": """
from dataclasses import dataclass
from nzc.data.digits import Digits
from nzc.students.supervised import Supervised

@dataclass(frozen=True)
class HospitalDigits(Digits):
    pass

@dataclass(frozen=True)
class SoftLabels(Supervised):
    pass
""",
    "conf/dataset/mnist_like.yaml": "defaults: [digits, _self_]\n_target_: own_classes.HospitalDigits\n",
    "conf/student/vat_like.yaml": "defaults: [supervised, _self_]\n_target_: own_classes.SoftLabels\n",
    "conf/student/no_student.yaml": "",
    "conf/site/lab.yaml": "# @package _global_\nseed: 7\n",
    "conf/aggregator/confident_gumbel.yaml": """
_target_: nzc.NoisyArgmax
screen: {_target_: nzc.ThresholdScreen, threshold: 4, sigma1: 1}
noise: {_target_: nzc.GumbelNoise, gamma: 0.5}
""",
}


def test_files_beside_the_data_are_options_and_results_have_the_names_of_their_classes(nzc: Nzc) -> None:
    for name, text in FILES.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    own = [*TEACHERS, "+site=lab", "dataset=mnist_like", "aggregator=confident_gumbel", "aggregator.noise.gamma=0.2"]
    for student, name in (("vat_like", "soft_labels"), ("no_student", "none")):
        ran = nzc(*own, f"student={student}", *(["student.steps=20"] if name != "none" else []))
        assert ran.code == 0, ran.err
        names = [ran.result[group] for group in ("dataset", "aggregator", "student")]
        assert names == ["hospital_digits", "gumbel_threshold_screen", name]
        assert (ran.result["seed"], ran.result["accuracy"] is None) == (7, name == "none")
    assert 0 < ran.result["answered"] < ran.result["queries"]
    assert ran.result["epsilon"]["exact"] < ran.result["epsilon"]["data_independent"]
    assert "confident_gumbel" in options("conf/aggregator")
    assert "gama" in nzc(*own, "aggregator.noise.gama=0.2").err


GNMAX = {"_target_": "nzc.NoisyArgmax", "noise": {"_target_": "nzc.GaussianNoise", "sigma": 4}}
SKLEARN = {"_target_": "nzc.teachers.sklearn.Sklearn", "count": 2, "seed": 0}


def _build(group: str, node: Any, **others: Any) -> Any:
    return build(OmegaConf.create({group: node, **others}), group)


def test_parts_inside_parts_are_built_from_plain_lists() -> None:
    tree, scaler = (
        {"_target_": "sklearn.tree.DecisionTreeClassifier"},
        {"_target_": "sklearn.preprocessing.StandardScaler"},
    )
    bagging = {"_target_": "sklearn.ensemble.BaggingClassifier", "estimator": tree, "n_estimators": 2}
    pipeline = {"_target_": "sklearn.pipeline.Pipeline", "steps": [["scale", scaler], ["bag", bagging]]}
    built = _build("teachers", SKLEARN | {"estimator": pipeline}).estimator
    assert type(built.named_steps["bag"].estimator).__name__ == "DecisionTreeClassifier"
    assert [type(built.steps), type(built.steps[0])] == [list, list]  # the keys of stored predictions describe them
    first = {"_target_": "nzc.GNMax", "sigma": 5}
    assert _build("aggregator", GNMAX | {"first": first}).first.noise.sigma == 5


OWN_PARTS = """
import nzc
from nzc.mechanisms import NoisyCounts

def counts(gamma):
    return NoisyCounts(nzc.ExponentialNoise(gamma))

class Wide(nzc.GumbelNoise):
    def sample(self, shape, rng):
        return 8 * super().sample(shape, rng)

class Silent(nzc.ThresholdScreen):
    def answers(self, votes, rng, student_probs):
        return votes.max(axis=-1) >= self.threshold
"""


def test_parts_that_no_price_holds_for_are_refused_by_their_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("priceless.py").write_text(OWN_PARTS)
    wide = GNMAX | {"noise": {"_target_": "priceless.Wide", "gamma": 1}}
    silent = GNMAX | {"screen": {"_target_": "priceless.Silent", "threshold": 4, "sigma1": 1}}
    for node, message in (
        (
            {"_target_": "priceless.counts", "gamma": 0.1},
            r"^aggregator\.noise=ExponentialNoise.*where noisy counts are",
        ),
        (wide, r"^aggregator\.noise=Wide: must leave `sample` as GumbelNoise has it"),
        (silent, r"^aggregator\.screen=Silent: must leave `answers` as ThresholdScreen has it"),
    ):
        with pytest.raises(InputError, match=message):
            _build("aggregator", node)


def test_a_network_is_called_later_wherever_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own_nets.py").write_text("def net(shape, classes, hidden):\n    raise RuntimeError\n")
    ensemble = {"_target_": "nzc.teachers.ensemble.Ensemble", "count": 2, "seed": 0, "network": "${dataset.network}"}
    ensemble |= {"epochs": 1, "batch_size": 1, "lr": 1.0, "weight_decay": 0.0}
    built = _build("teachers", ensemble, dataset={"network": {"_target_": "own_nets.net", "hidden": 3}})
    assert (built.network.func.__name__, built.network.keywords) == ("net", {"hidden": 3})
    with pytest.raises(InputError, match=r"teachers\.network\.hiden=3: .* did you mean hidden"):
        _build("teachers", ensemble | {"network": {"_target_": "own_nets.net", "hiden": 3}})
