"""What is published holds over all ways in which a run could have gone: δ of the joint law of
everything published.

Each search returns the largest true δ over the stated δ, over settings drawn at random.
"""

from functools import partial

import numpy as np
import pytest
from brute import excess
from scipy import stats

import nzc
from nzc.accounting.data_independent import compose
from nzc.accounting.rdp import CHOICES, adaptive_epsilon
from nzc.accounting.sanitised import log_smooth_bound, plan

TEACHERS = 1000


def _votes(rng: np.random.Generator, gap: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return histograms [1, 2] of two classes, one vote apart."""
    first = (
        int(rng.integers(1, TEACHERS))
        if gap is None
        else int(np.clip((TEACHERS + gap) / 2, 1, TEACHERS - 1))
    )
    return np.array([[first, TEACHERS - first]]), np.array([[first - 1, TEACHERS - first + 1]])


def folder(settings: int) -> float:
    """Labels of equal GNMax queries and a sanitised bound in one folder."""
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(settings):
        sigma, queries, delta = (
            float(np.exp(rng.uniform(1, 4.5))),
            int(rng.integers(1, 11)),
            10 ** rng.uniform(-7, -3),
        )
        mechanism, pair = nzc.GNMax(sigma), _votes(rng)
        (bound,) = mechanism.bounds
        chosen = plan([(queries, bound)], delta)
        laws, means = [], []
        for votes in pair:
            share = float(np.exp(mechanism.log_law(votes))[0, 0])
            laws.append(
                stats.binom.pmf(np.arange(queries + 1), queries, share)
            )  # of how many labels are class 0
            released = [(bound, np.repeat(votes, queries, axis=0))]
            means.append(
                log_smooth_bound(released, chosen.order, chosen.beta) + chosen.beta * chosen.margin
            )
        spread = chosen.beta * chosen.noise
        y = np.linspace(min(means) - 12 * spread, max(means) + 12 * spread, 1501)
        cell = y[1] - y[0]
        ceiling = queries * float(bound.worst_case(np.array([chosen.order]))[0])
        stated = np.array([chosen.convert(min(np.exp(each), ceiling), delta) for each in y])
        for here, there in ((0, 1), (1, 0)):
            p, q = (
                np.outer(laws[k], stats.norm.pdf(y, means[k], spread) * cell) for k in (here, there)
            )
            worst = max(worst, excess(p, q, stated) / delta)
    return worst


def screened(settings: int) -> float:
    """One query of the Confident aggregator, whose number of answers depends on the votes."""
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(settings):
        sigma1, sigma = np.exp(rng.uniform(-0.5, 4, 2))
        pair, delta = _votes(rng, rng.uniform(-8, 8) * sigma), 10 ** rng.uniform(-7, -2)
        threshold = float(pair[0].max() + rng.uniform(-8, 8) * sigma1)
        mechanism = nzc.Confident(max(threshold, 0.1), sigma1, sigma)
        stated = mechanism.promise(1, 1).data_independent(delta)
        here, there = (np.exp(mechanism.log_law(votes))[0] for votes in pair)
        worst = max(worst, excess(here, there, stated) / delta, excess(there, here, stated) / delta)
    return worst


def adaptive(settings: int) -> float:
    """Two rounds of one query. The label of the first decides the noise of the second."""
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(settings):
        first, *second = (nzc.LNMax(float(np.exp(rng.uniform(-5, 1.5)))) for _ in range(3))
        pair, delta = _votes(rng), 10 ** rng.uniform(-6, -1)
        costs = [[each.exact(votes).total(CHOICES) for votes in pair] for each in (first, *second)]
        laws = [[np.exp(each.log_law(votes))[0, :2] for votes in pair] for each in (first, *second)]
        for here, there in ((0, 1), (1, 0)):
            p, q, stated = [], [], []
            for label in (0, 1):
                rdp = (
                    costs[0][0] + costs[1 + label][0]
                )  # at the votes of the run: the first of the pair
                p += list(laws[0][here][label] * laws[1 + label][here])
                q += list(laws[0][there][label] * laws[1 + label][there])
                stated += [max(0.0, float(adaptive_epsilon(rdp, delta)))] * 2
            worst = max(worst, excess(np.array(p), np.array(q), np.array(stated)) / delta)
    return worst


@pytest.mark.parametrize("search", [folder, screened, adaptive], ids=lambda search: search.__name__)
def test_the_stated_delta_is_never_exceeded(search) -> None:
    assert search({folder: 20, screened: 400, adaptive: 60}[search]) <= 1


def test_answers_and_budget_are_promises() -> None:
    mechanism = nzc.Confident(100, 40, 20)
    all_answered = mechanism.promise(50, 50)
    assert all_answered.data_independent(1e-5) == compose(all_answered.worst_case, 1e-5)
    assert mechanism.promise(50, 5).data_independent(1e-5) < all_answered.data_independent(1e-5)


@pytest.mark.parametrize(
    "first", [nzc.Confident(60, 40, 5), nzc.LNMax(0.2), nzc.GNMax(15), nzc.Stable(60, 15)]
)
def test_the_price_of_queries_holds_however_many_the_first_mechanism_asks(
    first: nzc.NoisyArgmax,
) -> None:
    mechanism, queries, delta = nzc.Interactive(60, 40, 20, 0.9, first=first), 30, 1e-5
    parts = [
        (first.promise(n, n), mechanism.promise(queries - n, queries - n))
        for n in range(queries + 1)
    ]
    dearest = max((one + two).data_independent(delta, rough=True) for one, two in parts)
    assert dearest * (1 - 1e-3) <= mechanism.worst_case_epsilon(queries, delta)
    alike = nzc.Interactive(60, 40, 20, 0.9).worst_case_epsilon(queries, delta)
    assert alike == pytest.approx(
        nzc.Confident(60, 40, 20).worst_case_epsilon(queries, delta), rel=1e-9
    )


def test_calibrated_noise_pays_for_the_first_mechanism_too() -> None:
    first = nzc.Confident(300, 30, 2)
    with pytest.raises(nzc.InputError, match=r"^epsilon=3: must be above 92: sigma alone cannot"):
        nzc.calibrate(partial(nzc.Interactive, 300, 30, confidence=0.9, first=first), 3, 1e-5, 200)
    sigma = nzc.calibrate(
        partial(nzc.Interactive, 300, 30, confidence=0.9, first=first), 93, 1e-5, 200
    )
    assert nzc.Interactive(300, 30, sigma, 0.9, first).worst_case_epsilon(200, 1e-5) <= 93
