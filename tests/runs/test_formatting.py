"""Numbers as shown: a bound that was rounded still holds."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from nzc.runs.formatting import number


@given(st.floats(1e-300, 1e300))
def test_an_upper_bound_is_rounded_up_and_a_lower_bound_down(value: float) -> None:
    upper = Decimal(number(value, "epsilon.exact"))
    lower = Decimal(number(value, "epsilon.exact_lower"))
    assert lower <= Decimal(str(value)) <= upper
    assert upper - lower <= max(Decimal("0.001") if value >= 1e-3 else 0, upper / 10)
