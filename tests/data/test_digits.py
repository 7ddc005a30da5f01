"""scikit-learn's digits."""

import numpy as np
from pytest import raises

from nzc.data.digits import Digits
from nzc.validation import InputError


def test_digits_are_divided_by_their_seed() -> None:
    first, again, other = (Digits(seed, 1200, 400).load() for seed in (0, 0, 1))
    assert first.digest == again.digest != other.digest
    assert [len(split) for split in (first.private, first.public, first.test)] == [1200, 400, 197]
    assert (first.private.x.dtype, first.private.x[:].max()) == (np.uint8, 255)
    with raises(InputError, match=r"^private=1397: .*at most 1396"):
        Digits(0, 1397, 400).load()
