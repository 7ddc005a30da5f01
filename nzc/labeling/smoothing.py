"""Noisy counts of the asked rows become class probabilities of all public rows."""

import warnings

import numpy as np

from nzc.types import Floats, Ints


def expected_records(places: Floats, rows: Ints, records: int) -> Floats:
    """Return how many private records each cell should have [asked rows]: its share of the public rows says so."""
    home = ((places[rows] ** 2).sum(axis=1) - 2 * places @ places[rows].T).argmin(axis=1)
    return np.asarray(records * np.bincount(home, minlength=len(rows)) / len(places))


def smooth(places: Floats, rows: Ints, counts: Floats, expected: Floats, noise_std: float) -> Floats:
    """Return class probabilities of all public rows [public rows, classes], from noisy counts of the asked rows."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    classes = counts.shape[1]
    kernel = ConstantKernel(0.1, (0.001, 1)) * RBF(0.5, (0.05, 5))
    alpha = (noise_std / expected) ** 2 + 1e-6
    with warnings.catch_warnings(action="ignore"):
        process = GaussianProcessRegressor(kernel, alpha=alpha).fit(
            places[rows], counts / expected[:, None] - 1 / classes
        )
    shares = np.maximum(process.predict(places) + 1 / classes, 1e-6)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def rows_to_ask(records: int, classes: int, public: int, noise_std: float) -> int:
    """Return how many rows to ask."""
    return int(np.clip(records / (8 * max(noise_std, 1e-9)), 1.5 * classes, max(public // 4, 1)))
