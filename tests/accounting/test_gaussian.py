"""ε of Gaussian noise, against its closed form in 60 digits."""

import mpmath as mp
from conftest import parametrize

from nzc.accounting.cost import Cost
from nzc.accounting.data_independent import (
    gaussian_cost,
)
from nzc.accounting.gaussian import gaussian


@parametrize(
    ("mu", "delta"),
    [
        (1e-9, 1e-11),
        (1e-9, 1e-100),
        (1e-3, 1e-5),
        (0.1, 1e-8),
        (0.3, 1e-80),
        (1.0, 1e-5),
        (5.0, 1e-8),
        (40.0, 1e-5),
    ],
)
def test_gaussian_noise_leaks_no_more_than_delta(mu, delta):
    """Balle and Wang's δ(ε) in 60 digits, at the ε found."""
    with mp.workdps(60):
        epsilon = mp.mpf(gaussian(mu, delta))
        m = mp.mpf(mu)

        def delta_at(eps):
            return mp.ncdf(-eps / m + m / 2) - mp.exp(eps) * mp.ncdf(-eps / m - m / 2)

        assert delta_at(epsilon) <= delta < delta_at(epsilon * (1 - mp.mpf("1e-3")))
        assert mu < 1e-3 or delta_at(epsilon) >= delta * (1 - mp.mpf("1e-6"))
        cost = Cost(10, None, (), ((1, gaussian_cost(mu / 10**0.5)),)) * 10
        assert mu < 1e-3 or 0 <= cost.delta(epsilon).data_independent / delta_at(epsilon) - 1 < 2e-4
