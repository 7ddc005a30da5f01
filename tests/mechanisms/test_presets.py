"""The aggregators of the papers describe themselves."""

import numpy as np
import presets
from conftest import (
    parametrize,
    published,
    published_votes,
)

import nzc


@parametrize("name", presets.MECHANISMS)
def test_a_mechanism_describes_itself_with_all_its_parameters(name):
    """Second route: Python builds the same mechanism of the description, with nzc's names alone."""
    mechanism = presets.build(name)
    names = {key: getattr(nzc, key) for key in nzc.__all__}
    assert eval(repr(mechanism), names) == mechanism
    target = presets.OmegaConf.load(presets.FOLDER / f"{name}.yaml")["_target_"]
    assert repr(mechanism).startswith(f"{target.removeprefix('nzc.')}(")


@parametrize(
    ("name", "queries", "mechanism", "expected", "within"),
    [
        ("svhn", 10000, nzc.NZC(1e100, 1e-10), 0.8806, 0.0015),
        ("mnist", 9000, nzc.LNMax(0.05), 0.930, 0.004),
    ],
)
def test_nzc_table_2(name, queries, mechanism, expected, within):
    """At least the paper's accuracy."""
    truth = np.load(published(f"{name}_true_labels.npy"))[:queries]
    labels = mechanism.release(published_votes(name, queries), np.random.default_rng(0))
    assert (labels == truth).mean() >= expected - within
