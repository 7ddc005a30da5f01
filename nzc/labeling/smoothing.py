"""Released noisy counts of the asked rows become class probabilities of all public rows, at no
further cost.
"""

from typing import Any

import numpy as np
from scipy.special import softmax

from nzc.teachers.cells import nearest
from nzc.types import Floats, Ints

#: Widths of the kernel (1: the usual distance of two public rows), variances of a class's share
#: within the space and of what a cell has of its own (1: each row has one class for sure). The
#: released counts choose among them.
_WIDTHS = (0.1, 0.14, 0.2, 0.28, 0.4, 0.56, 0.8, 1.1)
_VARIANCES = np.array([0.03, 0.1, 0.2, 0.4, 0.8, 1.5, 3])[:, None]
_OWN = (0.0, 0.03, 0.2)
_USUAL_WIDTH, _USUAL_VARIANCE = 0.4, 0.8
_SIZES = 0.5  # standard deviation of a class's share of all records about the expected one, as a part of 1/classes
_CENTERS = 400  # so many public rows span the functions that the smoother knows


def expected_records(places: Floats, rows: Ints, records: float) -> Floats:
    """Return how many private records each cell should have [asked rows]: its share of the public
    rows says so.
    """
    return np.asarray(
        records * np.bincount(nearest(places, places[rows]), minlength=len(rows)) / len(places)
    )


def with_sums(counts: Floats, sums: Ints, noise_std: float) -> tuple[Floats, Floats, float]:
    """Return noisy counts, expected totals and noise where the sum of each row is public: its share
    of noise goes.
    """
    excess = (counts.sum(axis=1) - sums) / counts.shape[1]
    return (
        counts - excess[:, None],
        sums.astype(np.float64),
        noise_std * (1 - 1 / counts.shape[1]) ** 0.5,
    )


def smooth(
    places: Floats, rows: Ints, counts: Floats, expected: Floats, noise_std: float, mix: float = 0.0
) -> Floats:
    """Return class probabilities of all public rows [public rows, classes], from noisy counts of
    the asked rows.

    The share of a class is a Gaussian process over the public space. A count is the mean share in a
    cell, the public rows nearest to an asked row, times the expected total, plus noise. The kernel
    is the one under which the counts are most likely: large noise shares widely and ends at the
    shares of all records; without noise, cells keep their own.

    places     of all public rows, [public rows, dimensions]; rows: those that were asked
    expected   how many votes each asked row should have in all, from public facts; noise_std: of
               one count
    mix        how much classes mix in cells (`mixed`); 0: each row has one class, whatever the
               shares
    """
    cells, classes, prior = (
        nearest(places, places[rows]),
        counts.shape[1],
        _overall(counts, expected, noise_std),
    )
    order = np.argsort(cells, kind="stable")
    filled, first, size = np.unique(cells[order], return_index=True, return_counts=True)
    others = np.random.default_rng(0).permutation(np.setdiff1d(np.arange(len(places)), rows))
    centers = np.concatenate([np.unique(rows), others])[:_CENTERS]
    lengths = (places**2).sum(axis=1)
    squares = np.maximum(lengths[:, None] + lengths[centers] - 2 * places @ places[centers].T, 0)
    distances = squares / max(2 * places.var(axis=0).sum(), 1e-12)
    rest, means = counts - prior * expected[:, None], np.zeros((len(rows), len(centers)))
    best: tuple[Any, ...] = (-np.inf,)
    for width in _WIDTHS:
        kernel = np.exp(-distances / (2 * width**2))
        values, vectors = np.linalg.eigh(kernel[centers])
        base = vectors[:, values > 1e-5 * values[-1]] / np.sqrt(values[values > 1e-5 * values[-1]])
        means[filled] = np.add.reduceat(kernel[order], first) / size[:, None]
        signal = expected[:, None] * (means @ base)
        for own in np.array(_OWN) / classes:
            noise = noise_std**2 + expected / classes + own * expected**2 + 1e-9
            of_all = (_SIZES * expected.sum() / classes) ** 2 + own * (expected**2).sum()
            # One observation more: all records together have about the expected shares.
            seen = np.vstack([signal, signal.sum(axis=0)]), np.pad(rest, ((0, 1), (0, 0)))
            likely, *fit = _fit(*seen, np.append(noise, of_all))
            likely -= (
                4 * np.log2(width / _USUAL_WIDTH) ** 2
            )  # few records tell little about the width
            if likely > best[0]:
                best = likely, fit, width, base, signal, own, own * expected / noise
    _, (weights, spread, smooth_variance), width, base, signal, own, trust = best
    features = np.exp(-distances / (2 * width**2)) @ base
    unseen = (1 - (features**2).sum(axis=1)).clip(0)  # what the centers do not span
    features -= (trust[:, None] * signal)[cells]
    mean = prior + features @ weights + (trust[:, None] * rest)[cells]
    variance = (
        ((features @ spread) ** 2).sum(axis=1)
        + smooth_variance * unseen
        + own * (1 - trust * expected)[cells]
    )
    return _probabilities(mean, variance, prior, smooth_variance + own, mix)


def mixed(counts: Floats, expected: Floats, noise_std: float) -> float:
    """Return how much classes mix in cells: 0 if a cell's records have one class, 1 if every second
    pair differs.
    """
    same = ((counts**2).sum() - counts.size * noise_std**2) / max((expected**2).sum(), 1e-12)
    return float(
        np.clip(2 - 2 * same, 0, 1) * max(0.0, 1 - counts.shape[1] / len(counts))
    )  # few cells tell little


def _fit(signal: Floats, rest: Floats, noise: Floats) -> tuple[float, Floats, Floats, float]:
    """Return log likelihood, mean, root of the covariance and prior variance of the weights of a
    linear regression.
    """
    level, axes = np.linalg.eigh(signal.T @ (signal / noise[:, None]))
    along = axes.T @ (signal.T @ (rest / noise[:, None]))
    variances = _VARIANCES / rest.shape[1]
    gain = variances / (1 + variances * np.maximum(level, 0))
    likely = gain @ (along**2).sum(axis=1) + rest.shape[1] * np.log(gain / variances).sum(axis=1)
    likely -= ((rest**2).sum(axis=1) / noise + rest.shape[1] * np.log(noise)).sum()
    likely -= (
        np.log2(_VARIANCES[:, 0] / _USUAL_VARIANCE) ** 2
    )  # few records tell little about the variance
    top = likely.argmax()
    weights, spread = axes @ (gain[top][:, None] * along), axes * np.sqrt(gain[top])
    return float(likely[top]) / 2, weights, spread, float(variances[top, 0])


def _probabilities(
    mean: Floats, variance: Floats, prior: Floats, total: float, mix: float
) -> Floats:
    """Return class probabilities by the mean and variance of each row's shares: pure cells have one
    class.
    """
    variance = np.maximum(variance, 1e-6)[:, None]
    one = softmax(np.log(np.maximum(prior, 1e-6)) + mean / variance - prior / total, axis=1)
    return np.asarray((1 - mix) * one + mix * _to_simplex(mean))


def _overall(counts: Floats, expected: Floats, noise_std: float) -> Floats:
    """Return the shares of all classes: equal ones, and as much of the released totals as noise
    cannot explain.
    """
    classes = counts.shape[1]
    apart = counts.sum(axis=0) / max(expected.sum(), 1e-12) - 1 / classes
    by_noise = len(counts) * (noise_std / max(expected.sum(), 1e-12)) ** 2
    trust = max(0.0, 1 - 2 * classes * by_noise / max((apart**2).sum(), 1e-300))
    return np.asarray(_to_simplex((1 / classes + trust * apart)[None])[0])


def _to_simplex(scores: Floats) -> Floats:
    """Return the nearest probabilities of each row."""
    falling = -np.sort(-scores, axis=1)
    excess = (np.cumsum(falling, axis=1) - 1) / np.arange(1, scores.shape[1] + 1)
    last = (falling > excess).sum(axis=1, keepdims=True) - 1
    shares = np.maximum(scores - np.take_along_axis(excess, last, axis=1), 0)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))
