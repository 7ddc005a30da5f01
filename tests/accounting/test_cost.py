"""The cost of a run: every point of its curve, and costs of several releases."""

import numpy as np
import presets
from conftest import parametrize
from pytest import approx

import nzc
from nzc.accounting.cost import cost_curve
from nzc.accounting.rdp import to_epsilon
from nzc.mechanisms import ABSTAIN

DELTA = 1e-5


@parametrize("name", ["gnmax", "gumbel", "confident"])
def test_every_point_of_the_curve_is_a_shorter_run(name: str) -> None:
    rng = np.random.default_rng(0)
    mechanism = presets.build(name)
    votes = rng.multinomial(60, [0.6, 0.2, 0.1, 0.1], size=20)
    labels = mechanism.release(votes, rng)
    answered = labels != ABSTAIN
    released, curves = cost_curve([(mechanism.cost(votes, labels, None), answered)], DELTA, 2)
    assert released.tolist() == [answered[:10].sum(), answered.sum()]
    for point, end in enumerate((10, 20)):
        cost = mechanism.cost(votes[:end], labels[:end], None)
        shorter = {
            "exact": to_epsilon(cost.rdp, DELTA - cost.delta_cost)[0],
            "theorem": cost.epsilon(DELTA).theorem,
            "data_independent": cost.data_independent(DELTA, rough=True),
        }
        shorter = {key: epsilon for key, epsilon in shorter.items() if epsilon is not None}
        found = {key: values[point] for key, values in curves.items()}
        assert found == approx(shorter, rel=0.02)  # a run looks beyond the grid of orders


VOTES = np.array([[200, 30, 20], [120, 100, 30], [125, 125, 0]])


def test_lists_are_votes_and_costs_add() -> None:
    mechanism = nzc.LNMax(0.1)
    once = mechanism.cost(VOTES.tolist(), [0, 0, 1])
    of_arrays = mechanism.cost(VOTES, np.array([0, 0, 1]))
    assert once.epsilon(1e-5).exact == of_arrays.epsilon(1e-5).exact
    added = once + once
    twice = mechanism.cost([*VOTES, *VOTES], [0, 0, 1] * 2)
    # The second release may depend on the first.
    assert added.epsilon(1e-5).exact > twice.epsilon(1e-5).exact
    assert sum([once] * 3).epsilon(1e-5) == (3 * once).epsilon(1e-5) == (added + once).epsilon(1e-5)
    found = once.delta(0.5)
    for key in ("exact", "theorem", "data_independent"):
        delta = getattr(found, key)
        of_more, of_less = (getattr(once.epsilon(delta * by), key) for by in (1, 0.8))
        assert of_more <= 0.5 < of_less
