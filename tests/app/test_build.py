"""Parts are built from a configuration, or refused by the key of what is wrong."""

from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from pytest import raises

from nzc.app.build import build
from nzc.protocols.sums import RecordSums
from nzc.validation import InputError

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


def test_configurations_of_older_versions_find_their_classes() -> None:
    stored = OmegaConf.create({"teachers": {"_target_": "nzc.teachers.sums.Sums"}})
    assert isinstance(build(stored, "teachers"), RecordSums)
