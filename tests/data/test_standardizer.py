"""Features are standardised at every scale."""

import numpy as np
from conftest import parametrize
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from nzc.data.standardizer import Standardizer


@parametrize(
    ("dtype", "scale"),
    [("float16", 1), ("float32", 1), ("float64", 1e-100), ("float64", 1e100)],
)
def test_features_do_not_depend_on_type_and_scale(dtype: str, scale: float) -> None:
    """The sums of these rows are beyond float16, and beyond float32 at their largest."""
    x = default_rng(0).integers(0, 17, (1000, 4)) * 16
    expected = (x - x.mean(axis=0)) / x.std(axis=0)
    coded = (scale * np.append(x, np.full((300, 4), -9999), axis=0)).astype(dtype)
    standardizer = Standardizer.fit(coded)
    assert_allclose(standardizer(coded)[:1000], expected, atol=1e-6)
    assert_array_equal(standardizer(coded)[1000:], -10)
    absurd = standardizer(np.array([[-np.inf, -1e300, 0, np.inf]]))
    assert np.isfinite(absurd**2).all()
    assert np.sign(absurd).tolist() == [[-1, -1, -1, 1]]
    constant = np.full((7, 1), 0.1 * scale, dtype)
    assert_array_equal(Standardizer.fit(constant)(constant), 0)
    largest = min(float(np.finfo(dtype).max), 1e100)
    most = np.where(x > 128, largest, -largest).astype(dtype)
    features = Standardizer.fit(most)(most)
    assert np.isfinite(features).all() and len(np.unique(features[:, 0])) == 2
