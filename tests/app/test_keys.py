"""Refused keys: which options have them, and who chose one that has not."""

from pathlib import Path

from conftest import parametrize, write
from pytest import raises

from nzc.app.build import build
from nzc.app.config import compose_run
from nzc.app.errors import input_error
from nzc.app.keys import refuse_unknown_keys

#: Overrides, the last of which is refused, and what the line says of its key.
REFUSED = """
recipe=near_zero teachers.count=50 | teachers=cells, which recipe=near_zero chose | ensemble
teachers=cells teachers.count=5 | teachers=cells, which you chose | sklearn or votes has it
recipe=near_zero dataset=adult student.steps=5 | student=none, which recipe=near_zero_sums chose
aggregator.sigma1=3 | aggregator=gnmax, the default | confident, interactive or stable has it
student=none student.alpha=5 | student=none, which you chose | student=heir or vat has it
+sweeps=published_mnist student.alpha=5 | student=softmatch, which sweeps=published_mnist chose
aggregator=lnmax aggregator.gama=5 | gamma
+aggregator.threshold=3 | sigma | confident, interactive or stable has threshold
epsilon=1 | budget.epsilon
sigma=3 | aggregator.sigma
recipe=near_zero count=50 | teachers.count (with teachers=ensemble, forest,
kind=KMNIST | dataset.kind (with dataset= | torchvision)
threshold=3 | aggregator.threshold (with aggregator=confident | student.threshold
"""


@parametrize("line", REFUSED.strip().splitlines())
def test_a_refused_key_names_its_cause(line: str, here: Path) -> None:
    """Who chose the option that lacks it, and which have it, also in the working directory."""
    write("conf/student/heir.yaml", "defaults: [vat, _self_]")
    words, *says = line.split(" | ")
    overrides = words.split()
    with raises(Exception) as caught:
        cfg = compose_run(overrides)
        refuse_unknown_keys(cfg)
        build(cfg, "aggregator")
    wrong = input_error(caught.value, overrides)
    assert wrong is not None and f"{wrong.key}={wrong.value}" == overrides[-1].lstrip("+")
    assert all(text in wrong.allowed for text in says) and len(str(wrong)) < 500
