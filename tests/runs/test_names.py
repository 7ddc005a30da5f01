"""Names in results are those of the objects that ran, whatever files they were chosen by."""

from dataclasses import dataclass
from typing import Any

import pytest

import nzc as nzc_
from nzc.app.build import build
from nzc.app.config import CONF, compose_run
from nzc.mechanisms import NoisyArgmax, OwnCells
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
    cfg = compose_run([f"{group}={option}", *NEEDED.get(option, [])])
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
        (nzc_.GNMax(3).between(OwnCells()), "gnmax"),
        (nzc_.Counts(3), "counts"),
        (nzc_.CountsGaussian(3), "counts_gaussian"),
        (NoisyArgmax(StudentTNoise(3)), "student_t_noise"),
        (NoisyArgmax(nzc_.GumbelNoise(3), screen=nzc_.ThresholdScreen(2, 1)), "gumbel_threshold_screen"),
        (NoisyArgmax(nzc_.GumbelNoise(3), nzc_.Boost(2)), "gumbel_boost"),
        (GroundUpMechanism(nzc_.GaussianNoise(3)), "ground_up_mechanism"),
    ],
)
def test_an_aggregator_is_called_by_its_parts(mechanism: Any, name: str) -> None:
    assert name_of(mechanism) == name
