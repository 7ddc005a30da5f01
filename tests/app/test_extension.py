"""What a user adds beside their data, without touching the package."""

from pathlib import Path

from conftest import TEACHERS, Nzc

from nzc.app.config import options

AGGREGATOR = """
_target_: nzc.NoisyArgmax
screen:
  _target_: nzc.ThresholdScreen
  threshold: 5
  sigma1: 2
noise:
  _target_: nzc.GumbelNoise
  gamma: 0.5
"""


def test_an_aggregator_of_known_parts_is_one_file(nzc: Nzc) -> None:
    Path("conf/aggregator").mkdir(parents=True)
    Path("conf/aggregator/confident_gumbel.yaml").write_text(AGGREGATOR)
    ran = nzc(*TEACHERS, "aggregator=confident_gumbel", "aggregator.noise.gamma=0.2", "student=none")
    assert ran.code == 0, ran.err
    assert ran.result["aggregator"] == "gumbel_threshold_screen"
    assert 0 < ran.result["answered"] < ran.result["queries"]
    assert ran.result["epsilon"]["exact"] < ran.result["epsilon"]["data_independent"]
    assert "confident_gumbel" in options("conf/aggregator")
    assert "gama" in nzc(*TEACHERS, "aggregator=confident_gumbel", "aggregator.noise.gama=0.2", "student=none").err
