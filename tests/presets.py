"""Every aggregator that conf/aggregator offers, built as a run builds it."""

from pathlib import Path

from hydra.utils import instantiate
from omegaconf import OmegaConf

FOLDER = Path(__file__).parent.parent / "conf" / "aggregator"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


def build(name, **knobs):
    """The preset's mechanism, with knobs overridden."""
    config = OmegaConf.create({"aggregator": OmegaConf.load(FOLDER / f"{name}.yaml")})
    config.aggregator.update(knobs)
    OmegaConf.resolve(config)
    return instantiate(config.aggregator.mechanism)


#: Those with a law: all but the truth itself.
MECHANISMS = [name for name in NAMES if hasattr(build(name), "log_law")]
