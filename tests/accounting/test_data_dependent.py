"""The papers' bounds against their own published numbers.

test_sanitised has them by mpmath and by enumeration.
"""

import numpy as np
from conftest import parametrize, published_votes
from pytest import approx

from nzc.accounting.data_dependent import (
    DataDependentBound,
    by_paper,
    gaussian_bound,
    laplace_bound,
)
from nzc.accounting.rdp import ORDERS, to_epsilon
from nzc.mechanisms import GaussianNoise, LaplaceNoise, NoisyArgmax
from nzc.mechanisms.presets import NZC, Confident, LNMax, Stable

# ε on the published votes (first rows), moments l = 1..8 of the 2017 analysis; the paper prints
# 2.04, 5.04 and 8.19. It prints 8.03 for 1,000 rows of MNIST, which were never named: 1,000 rows in
# sequence cost 5.00 to 7.95 at γ = 0.05, and 4.55 to 9.27 at γ = 0.1, its γ for SVHN.
PRINTED = [
    ("mnist", 100, 0.05, 1e-5, 2.0430),
    ("mnist", 1000, 0.05, 1e-5, 7.3993),
    ("mnist", 1000, 0.10, 1e-5, 8.2574),
    ("svhn", 500, 0.05, 1e-6, 4.3722),
    ("svhn", 500, 0.10, 1e-6, 5.0413),
    ("svhn", 1000, 0.10, 1e-6, 8.1917),
]
# The same, order by order, by the tighter CKS conversion.
RENYI = [
    ("mnist", 1000, laplace_bound(0.05), 1e-5, 6.7733),
    ("mnist", 1000, gaussian_bound(40), 1e-5, 3.6912),
    ("svhn", 500, laplace_bound(0.05), 1e-6, 3.9689),
]


@parametrize(("name", "rows", "gamma", "delta", "printed"), PRINTED)
def test_2017_moments(name: str, rows: int, gamma: float, delta: float, printed: float) -> None:
    found = _by_paper(LNMax(gamma), published_votes(name, rows), delta)
    assert f"{found:.4f}" == f"{printed:.4f}"


def test_2018_numbers() -> None:
    """Orders of the authors' scripts; a label behind the screen costs its share.

    The paper prints 5.34 for 3,464.
    """
    votes = published_votes("svhn", 10_000)
    mechanism = Confident(300, 200, 40)
    assert _by_paper(mechanism, votes, 1e-6) == approx(5.36, abs=0.005)
    assert np.exp(mechanism.screen.log_answer(votes, None)[0]).sum() == approx(3499, abs=1)


def _by_paper(mechanism: NoisyArgmax, votes: np.ndarray, delta: float) -> float:
    """Whatever was answered: two releases of half of the rows each."""
    labels = np.full(len(votes), -1 if mechanism.screen else 0)
    whole = mechanism.cost(votes[::2], labels[::2]) + mechanism.cost(votes[1::2], labels[1::2])
    return by_paper(whole.printed, delta)


@parametrize(("name", "rows", "bound", "delta", "printed"), RENYI)
def test_2018_orders(
    name: str, rows: int, bound: DataDependentBound, delta: float, printed: float
) -> None:
    cost = bound.cost(published_votes(name, rows))
    found, _ = to_epsilon(lambda orders: cost(orders).sum(axis=0), delta)
    assert found == approx(printed, rel=1e-3)


@parametrize(
    "bound",
    [
        *(laplace_bound(gamma) for gamma in (1e-10, 0.05, 0.5, 3.0, 10.0)),
        *(gaussian_bound(sigma) for sigma in (0.1, 2.0, 40.0, 1e6)),
    ],
)
def test_bounds_hold_where_their_conditions_fail(bound: DataDependentBound) -> None:
    """2017's Theorem 3 must not be applied above q = 1/(e^2γ + 1): naive code goes negative."""
    rdp = bound.rdp(np.log(np.linspace(0.01, 0.95, 50)), ORDERS)
    assert ((rdp > 0) & (rdp <= bound.worst_case(ORDERS))).all()
    votes = np.array([[5000, 0, 0], [0, 0, 5000], [2500, 2500, 0], [1667, 1667, 1666]])
    assert np.isfinite(bound.cost(votes)(ORDERS)).all()


def test_nzc_claim() -> None:
    assert LaplaceNoise(1e-10).claimed(9000, 1e-5) == approx(9.1e-8, rel=0.01)
    assert LaplaceNoise(0.5).claimed(1, np.exp(-1)) == approx(1 + np.sqrt(2))
    assert GaussianNoise(1.0).claimed(1, np.exp(-1)) == approx(3)
    votes = np.array([[5, 3]])
    epsilon = NZC(1e100, 1e-10).cost(votes, np.zeros(1, int)).epsilon(1e-5)
    assert epsilon.paper == epsilon.claimed == LaplaceNoise(1e-10).claimed(1, 1e-5)
    assert Stable(2, 1).cost(votes, np.zeros(1, int)).epsilon(1e-5).paper is None
