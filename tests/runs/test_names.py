"""Names in results are those of the objects that ran, whatever files they were chosen by."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import TEACHERS, Nzc
from hydra import compose, initialize_config_dir

import nzc as nzc_
from nzc.app.build import build
from nzc.app.config import CONF, register
from nzc.mechanisms import Adjacency, NoisyArgmax
from nzc.runs.names import name_of

OPTIONS = [
    (group, path.stem) for group in ("dataset", "aggregator", "student") for path in CONF.glob(f"{group}/*.yaml")
]
#: Settings that an option has no value for.
NEEDED = {
    "npz": ["dataset.path=x.npz"],
    "torchvision": ["dataset.kind=KMNIST"],
    "folder": ["dataset.path=x"],
    "table": ["dataset.private=a.csv", "dataset.public=b.csv", "dataset.label=y"],
}


@pytest.mark.parametrize(("group", "option"), OPTIONS)
def test_every_preset_is_called_by_its_option(group: str, option: str) -> None:
    register()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        overrides = ["recipe=papers", f"{group}={option}", *NEEDED.get(option, [])]
        cfg = compose("config", overrides)
    assert name_of(build(cfg, group)) == {"torchvision": "kmnist"}.get(option, option)


@dataclass(frozen=True)
class StudentTNoise(nzc_.GaussianNoise):
    """A noise of one's own."""


class GroundUpMechanism(NoisyArgmax):
    """A mechanism of one's own."""


@pytest.mark.parametrize(
    ("mechanism", "name"),
    [
        (nzc_.NZC(c=0, gamma=1), "lnmax"),  # no boost is left
        (nzc_.NZC(c=0, gamma=1, sensitivity="smooth"), "nzc"),  # the noise is another
        (nzc_.GNMax(3).between(Adjacency(2)), "gnmax"),
        (NoisyArgmax(StudentTNoise(3)), "student_t_noise"),
        (NoisyArgmax(nzc_.GumbelNoise(3), screen=nzc_.ThresholdScreen(2, 1)), "gumbel_threshold_screen"),
        (NoisyArgmax(nzc_.GumbelNoise(3), nzc_.Boost(2)), "gumbel_boost"),
        (GroundUpMechanism(nzc_.GaussianNoise(3)), "ground_up_mechanism"),
    ],
)
def test_an_aggregator_is_called_by_its_parts(mechanism: Any, name: str) -> None:
    assert name_of(mechanism) == name


OWN = """
from dataclasses import dataclass
import nzc
from nzc.data.digits import Digits
from nzc.students.supervised import Supervised

@dataclass(frozen=True)
class HospitalDigits(Digits):
    pass

@dataclass(frozen=True)
class SoftLabels(Supervised):
    pass

def quiet(sigma):
    return nzc.GNMax(sigma)
"""
FILES = {
    "own_parts.py": OWN,
    "conf/dataset/mnist_like.yaml": "defaults: [digits, _self_]\n_target_: own_parts.HospitalDigits\n",
    "conf/student/vat_like.yaml": "defaults: [supervised, _self_]\n_target_: own_parts.SoftLabels\n",
    "conf/aggregator/lnmax_like.yaml": "_target_: own_parts.quiet\nsigma: 1\n",
    "conf/student/no_student.yaml": "",
}


def test_parts_of_ones_own_are_called_by_their_classes_and_an_empty_option_is_none(nzc: Nzc, tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    own = [*TEACHERS, "dataset=mnist_like", "aggregator=lnmax_like"]
    for student, name in (("vat_like", "soft_labels"), ("no_student", "none")):
        result = nzc(*own, f"student={student}", *(["student.steps=20"] if name != "none" else [])).result
        assert [result[group] for group in ("dataset", "aggregator", "student")] == ["hospital_digits", "gnmax", name]
        assert (result["accuracy"] is None) == (name == "none")
