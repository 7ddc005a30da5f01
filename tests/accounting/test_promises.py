"""What is published holds over all ways in which a run could have gone.

Each search returns the largest true δ over the stated δ of the joint law of everything published,
over settings drawn at random.
"""

import numpy as np
from brute import excess, leak
from conftest import parametrize
from scipy import stats

import nzc
from nzc.accounting.rdp import CHOICES, adaptive_epsilon
from nzc.accounting.sanitised import log_smooth_bound, plan_bound

TEACHERS = 1000


def _votes(first: int) -> np.ndarray:
    """Return histograms [2, 2] of two classes, one vote apart."""
    return np.array([[first, TEACHERS - first], [first - 1, TEACHERS - first + 1]])


def folder() -> float:
    """Labels of equal GNMax queries and a sanitised bound in one folder."""
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(4):
        mechanism = nzc.GNMax(float(np.exp(rng.uniform(1, 4.5))))
        queries = int(rng.integers(1, 11))
        delta = 10 ** rng.uniform(-7, -3)
        votes = _votes(int(rng.integers(1, TEACHERS)))
        (bound,) = mechanism.bounds
        chosen = plan_bound([(queries, bound)], delta)
        means = []
        for row in votes:
            released = [(bound, np.tile(row, (queries, 1)))]
            log_bound = log_smooth_bound(released, chosen.order, chosen.beta)
            means.append(log_bound + chosen.beta * chosen.margin)
        spread = chosen.beta * chosen.noise
        y = np.linspace(min(means) - 12 * spread, max(means) + 12 * spread, 1501)
        ceiling = queries * float(bound.worst_case(np.array([chosen.order]))[0])
        stated = np.array([chosen.convert(min(np.exp(value), ceiling), delta) for value in y])
        shares = np.exp(mechanism.log_law(votes))[:, :1]
        counts = stats.binom.pmf(np.arange(queries + 1), queries, shares)  # labels of class 0
        values = stats.norm.pdf(y, np.array(means)[:, None], spread) * (y[1] - y[0])
        laws = counts[:, :, None] * values[:, None]
        worst = max(worst, leak(laws[0], [laws[1]], stated) / delta)
    return worst


def adaptive() -> float:
    """Two rounds of one query. The label of the first decides the noise of the second."""
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(12):
        first, *second = [nzc.LNMax(float(np.exp(rng.uniform(-5, 1.5)))) for _ in range(3)]
        votes = _votes(int(rng.integers(1, TEACHERS)))
        delta = 10 ** rng.uniform(-6, -1)
        law = np.exp(first.log_law(votes))[:, :2]
        joint = np.array([law[:, [i]] * np.exp(second[i].log_law(votes))[:, :2] for i in (0, 1)])
        for here in (0, 1):  # costs are those at the votes of the run
            rdp = [
                sum(part.exact(votes[[here]]).total(CHOICES) for part in (first, second[label]))
                for label in (0, 1)
            ]
            stated = np.array([[adaptive_epsilon(cost, delta)] for cost in rdp])
            worst = max(worst, excess(joint[:, here], joint[:, 1 - here], stated) / delta)
    return worst


@parametrize("search", [folder, adaptive], ids=["folder", "adaptive"])
def test_the_stated_delta_is_never_exceeded(search) -> None:
    assert search() <= 1
