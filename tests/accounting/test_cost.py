"""How ε grows from query to query: at each point it is the ε of a run that ended there."""

from dataclasses import replace

import numpy as np
import presets
import pytest

from nzc.accounting.cost import cost_curve
from nzc.accounting.rdp import ORDERS, cks, to_epsilon
from nzc.mechanisms import ABSTAIN, GroundTruth, NoisyArgmax, NoNoise

DELTA = 1e-5


def _asked(name: str, queries: int) -> tuple[NoisyArgmax, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    mechanism = presets.build(name)
    votes = rng.multinomial(60, [0.6, 0.2, 0.1, 0.1], size=queries)
    return mechanism, votes, mechanism.release(votes, rng)


@pytest.mark.parametrize("name", presets.MECHANISMS)
def test_every_point_is_a_shorter_run(name: str) -> None:
    mechanism, votes, labels = _asked(name, 40)
    released, grown = cost_curve([(mechanism.cost(votes, labels), labels != ABSTAIN)], DELTA, 8)
    assert released.tolist() == [(labels[:end] != ABSTAIN).sum() for end in range(5, 45, 5)]
    for at, end in enumerate(range(5, 45, 5)):
        cost = mechanism.cost(votes[:end], labels[:end])
        shorter = replace(
            cost.epsilon(DELTA),
            exact=to_epsilon(cost.rdp, DELTA - cost.delta_cost)[0],
            data_independent=cost.data_independent(DELTA, rough=True),
        )
        assert grown.keys() == {
            key for key in ("exact", "theorem", "data_independent") if getattr(shorter, key) is not None
        }
        for key, values in grown.items():
            assert values[at] == pytest.approx(getattr(shorter, key), rel=0.02)  # a run looks beyond the grid of orders


def test_rounds_follow_each_other() -> None:
    (one, votes, labels), (other, _, again) = _asked("confident", 30), _asked("gnmax", 10)
    rounds = [(one.cost(votes, labels), labels != ABSTAIN), (other.cost(votes[:10], again), again != ABSTAIN)]
    released, grown = cost_curve(rounds, DELTA, 40)
    assert released[-1] == (labels != ABSTAIN).sum() + 10 and (np.diff(released)[30:] == 1).all()
    both = rounds[0][0] + rounds[1][0]
    whole = replace(both.epsilon(DELTA), exact=cks(both.rdp(ORDERS), ORDERS, DELTA).min())
    for key, values in grown.items():
        assert (np.diff(values) >= 0).all()
        assert values[-1] == pytest.approx(getattr(whole, key), rel=1e-9)


def test_what_has_no_bound_is_infinite_from_where_it_has_none() -> None:
    votes = np.array([[9, 2, 1], [9, 2, 1], [5, 5, 2], [9, 2, 1]])
    mechanism = NoisyArgmax(NoNoise())
    _, grown = cost_curve([(mechanism.cost(votes, votes.argmax(1)), np.ones(4, bool))], DELTA, 4)
    assert grown["exact"].tolist() == [0, 0, np.inf, np.inf]


def test_nothing_asked_and_no_law() -> None:
    mechanism, votes, labels = _asked("gnmax", 4)
    released, grown = cost_curve([(mechanism.cost(votes[:0], labels[:0]), labels[:0] != ABSTAIN)], DELTA, 5)
    assert len(released) == 0 and all(len(values) == 0 for values in grown.values())
    _, grown = cost_curve([(GroundTruth().cost(votes, labels), labels != ABSTAIN)], DELTA, 2)
    assert grown.keys() == {"data_independent"} and np.isinf(grown["data_independent"]).all()
