"""What a user adds beside their data, without touching the package."""

from pathlib import Path
from typing import Any

from conftest import TEACHERS, Nzc, mlflow_client, parametrize, tracked_runs
from omegaconf import OmegaConf
from pytest import raises

from nzc.app.build import build
from nzc.app.config import compose_run, names_of, options
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
    "conf/dataset/mnist_like.yaml": """
defaults: [digits, _self_]
_target_: own_classes.HospitalDigits
""",
    "conf/student/vat_like.yaml": """
defaults: [supervised, _self_]
_target_: own_classes.SoftLabels
""",
    "conf/site/lab.yaml": "# @package _global_\nseed: 7\n",
    "conf/aggregator/confident_gumbel.yaml": """
_target_: nzc.NoisyArgmax
screen: {_target_: nzc.ThresholdScreen, threshold: 4, sigma1: 1}
noise: {_target_: nzc.GumbelNoise, gamma: 0.5}
""",
}


def test_files_beside_the_data_are_options_and_their_names_stand_everywhere(nzc: Nzc) -> None:
    for name, text in FILES.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    own = [*TEACHERS, "+site=lab", "dataset=mnist_like", "aggregator=confident_gumbel"]
    own.append("aggregator.noise.gamma=0.2")
    words = ["student.steps=20", "tracking=mlflow", "tracking.register=mine"]
    ran = nzc(*own, "student=vat_like", *words)
    names = {"dataset": "mnist_like", "aggregator": "confident_gumbel", "student": "vat_like"}
    assert ran.result.items() >= (names | {"seed": 7}).items()
    assert " · ".join(names.values()) in ran.out
    client = mlflow_client()
    (run,) = tracked_runs()
    assert run.data.params.items() >= (names | {"teachers": "ensemble"}).items()
    assert client.get_experiment_by_name("mnist_like") is not None
    (version,) = client.search_model_versions("name = 'mine'")
    del names["student"]
    assert version.tags.items() >= (names | {"mechanism": ran.result["mechanism"]}).items()
    assert ran.result["mechanism"] in version.description  # a file's name proves nothing
    assert "confident_gumbel" in options("conf/aggregator")


@parametrize(
    ("typed", "names"),
    [
        (["dataset=torchvision", "dataset.kind=KMNIST"], {"dataset": "KMNIST"}),
        (
            ["recipe=near_zero", "student=none"],
            {"teachers": "cells", "aggregator": "counts", "student": "none"},
        ),
        (["student._target_=mine.Student"], {"dataset": "digits", "student": "mine.Student"}),
        (["++aggregator={_target_: nzc.LNMax, gamma: 1}"], {"aggregator": "nzc.LNMax"}),
    ],
)
def test_a_part_is_called_by_what_was_typed(typed: list[str], names: dict[str, str]) -> None:
    cfg = compose_run(typed)
    found = names_of(cfg, cfg.hydra.runtime.choices)
    assert found.keys() == {"dataset", "representation", "teachers", "aggregator", "student"}
    assert found.items() >= names.items()


GNMAX = {"_target_": "nzc.NoisyArgmax", "noise": {"_target_": "nzc.GaussianNoise", "sigma": 4}}
SKLEARN = {"_target_": "nzc.teachers.sklearn.Sklearn", "count": 2, "seed": 0}


def _build(group: str, node: Any, **others: Any) -> Any:
    return build(OmegaConf.create({group: node, **others}), group)


def test_parts_inside_parts_are_built_from_plain_lists() -> None:
    tree = {"_target_": "sklearn.tree.DecisionTreeClassifier"}
    bagging = {"_target_": "sklearn.ensemble.BaggingClassifier", "n_estimators": 2}
    scaler = {"_target_": "sklearn.preprocessing.StandardScaler"}
    steps = [["scale", scaler], ["bag", bagging | {"estimator": tree}]]
    pipeline = {"_target_": "sklearn.pipeline.Pipeline", "steps": steps}
    built = _build("teachers", SKLEARN | {"estimator": pipeline}).estimator
    assert type(built.named_steps["bag"].estimator).__name__ == "DecisionTreeClassifier"
    assert type(built.steps) is list  # the keys of stored predictions describe them
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
"""


def test_parts_that_no_price_holds_for_are_refused_by_their_key(here: Path) -> None:
    Path("priceless.py").write_text(OWN_PARTS)
    for node, message in (
        ({"_target_": "priceless.counts", "gamma": 0.1}, r"^aggregator\.noise=Exponential"),
        (GNMAX | {"noise": {"_target_": "priceless.Wide", "gamma": 1}}, "noise=Wide.*`sample`"),
    ):
        with raises(InputError, match=message):
            _build("aggregator", node)
