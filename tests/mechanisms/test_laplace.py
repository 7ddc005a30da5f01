"""Laplace noise: what is proved for it alone."""

from own_noise import UNIT, Own
from scipy import stats

from nzc.accounting.data_independent import pure_cost
from nzc.mechanisms import NoisyArgmax
from nzc.mechanisms.noise import LaplaceNoise


def test_a_bound_of_laplace_noise_is_not_lent_to_another():
    """One label costs a pure 2γ with either. Laplace noise composes better, as ties are rare."""
    lent = NoisyArgmax(Own(stats.laplace(), LaplaceNoise(1 / UNIT).worst_case))
    plain = NoisyArgmax(
        Own(stats.laplace(), lambda shift: pure_cost(2 * shift / UNIT, pure_parts=2))
    )
    assert lent.worst_case_epsilon(20, 1e-5) == plain.worst_case_epsilon(20, 1e-5)
