"""What a user adds beside their data, without touching the package."""

import re
from pathlib import Path

from conftest import TEACHERS, Nzc

from nzc.app import config

AGGREGATOR = """
threshold: 5
sigma1: 2
gamma: 0.5
mechanism:
  _target_: nzc.mechanisms.NoisyArgmax
  screen:
    _target_: nzc.mechanisms.screen.Threshold
    threshold: ${aggregator.threshold}
    sigma1: ${aggregator.sigma1}
  noise:
    _target_: nzc.mechanisms.noise.Gumbel
    gamma: ${aggregator.gamma}
"""


def test_an_aggregator_of_known_parts_is_one_file(nzc: Nzc) -> None:
    Path("conf/aggregator").mkdir(parents=True)
    Path("conf/aggregator/confident_gumbel.yaml").write_text(AGGREGATOR)
    ran = nzc(*TEACHERS, "aggregator=confident_gumbel", "aggregator.gamma=0.2", "student=none")
    assert ran.code == 0, ran.err
    assert ran.result["aggregator"] == "confident_gumbel"
    assert 0 < ran.result["answered"] < ran.result["queries"]
    assert ran.result["epsilon"]["exact"] < ran.result["epsilon"]["data_independent"]
    assert re.search(r"aggregator= .* confident, confident_gumbel, ", config.groups())
    assert "gama" in nzc(*TEACHERS, "aggregator=confident_gumbel", "aggregator.gama=0.2", "student=none").err
