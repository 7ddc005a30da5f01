"""Every aggregator of conf/aggregator, built as a run builds it."""

from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from nzc.app import build as building
from nzc.mechanisms import GroundTruth, NoisyArgmax

FOLDER = Path(__file__).parent.parent / "conf" / "aggregator"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


def build(name: str, **knobs: Any) -> NoisyArgmax:
    """Return the preset's mechanism, with other values for some of its keys."""
    config = OmegaConf.create(
        {"delta": 1e-5, "aggregator": OmegaConf.load(FOLDER / f"{name}.yaml")}
    )
    config.aggregator.update(knobs)
    return building.build(config, "aggregator")


#: Those with a law of labels: all but the truth itself, and those that release counts or sums.
MECHANISMS = [name for name in NAMES if build(name).releases == "labels"]
#: The noise of every preset that has one.
NOISES = [build(name).noise for name in NAMES if not isinstance(build(name), GroundTruth)]
