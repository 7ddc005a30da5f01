"""Smoothing: noisy counts of the asked rows become class probabilities of all public rows.

This is post-processing of released counts, so it costs nothing further.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from nzc.types import Floats, Ints

#: Widths of the kernel (1: the usual distance of two public rows), variances of a class's share
#: within the space and of what a cell has of its own (1: each row has one class for sure). The
#: released counts choose among them.
_WIDTHS = (0.1, 0.14, 0.2, 0.28, 0.4, 0.56, 0.8, 1.1)
_VARIANCES = np.array([0.03, 0.1, 0.2, 0.4, 0.8, 1.5, 3])[:, None]
_OWN = (0.0, 0.03, 0.2)
_USUAL_WIDTH = 0.4
_USUAL_VARIANCE = 0.8
#: Standard deviation of a class's share of all records about the expected one, times the classes.
_SIZES = 0.5
_CENTERS = 400  # so many public rows span the functions that the smoother knows


@dataclass(frozen=True, repr=False)
class NoisyTotals:
    """Released noisy counts, with what public facts say of them."""

    counts: Floats  # [asked rows, classes]
    expected: Floats  # [asked rows] how many votes each should have in all
    noise_std: float  # of one count

    def with_sums(self, sums: Ints) -> "NoisyTotals":
        """Return these where the sum of each row is public: its share of the noise goes."""
        classes = self.counts.shape[1]
        excess = (self.counts.sum(axis=1) - sums) / classes
        noise_std = self.noise_std * (1 - 1 / classes) ** 0.5
        return NoisyTotals(self.counts - excess[:, None], sums.astype(np.float64), noise_std)

    @property
    def mixed(self) -> float:
        """How much classes mix in cells: 0 if a cell's records have one class, 1 if every second
        pair differs.
        """
        cells, classes = self.counts.shape
        squares = (self.counts**2).sum() - self.counts.size * self.noise_std**2
        same = squares / max((self.expected**2).sum(), 1e-12)
        trust = max(0.0, 1 - classes / cells)  # few cells tell little
        return float(np.clip(2 - 2 * same, 0, 1) * trust)

    @property
    def shares(self) -> Floats:
        """The shares of all classes, [classes].

        They are equal, but for as much of the released totals as noise cannot explain.
        """
        cells, classes = self.counts.shape
        total = max(self.expected.sum(), 1e-12)
        apart = self.counts.sum(axis=0) / total - 1 / classes
        by_noise = cells * (self.noise_std / total) ** 2
        trust = max(0.0, 1 - 2 * classes * by_noise / max((apart**2).sum(), 1e-300))
        return _to_simplex((1 / classes + trust * apart)[None])[0]


@dataclass(frozen=True, repr=False)
class _Regression:
    """A Bayesian linear regression, with one prior variance for all weights."""

    log_likelihood: float
    weights: Floats  # [functions, classes]
    spread: Floats  # [functions, functions] a root of the covariance of the weights
    variance: float  # of the prior


@dataclass(frozen=True, repr=False)
class _Kernel:
    """The functions of a kernel, the share that cells have of their own, and how well both fit."""

    score: float
    regression: _Regression
    width: float
    base: Floats  # [centers, functions]
    signal: Floats  # [asked rows, functions] expected counts by the functions
    own: float  # variance of what a cell has of its own
    trust: Floats  # [asked rows] in the cell's own count


def nearest(places: Floats, to: Floats) -> Ints:
    """Return the number of the nearest of `to` for each of `places`, in chunks of little memory."""
    lengths = (to**2).sum(axis=1)
    chunk = max(1, 20_000_000 // len(to))  # so that 20 million distances are held
    parts = np.array_split(places, range(chunk, len(places), chunk))
    return np.concatenate([(lengths - 2 * part @ to.T).argmin(axis=1) for part in parts])


def expected_records(places: Floats, rows: Ints, records: float) -> Floats:
    """Return how many private records each cell should have [asked rows]: its share of the public
    rows says so.
    """
    sizes = np.bincount(nearest(places, places[rows]), minlength=len(rows))
    return records * sizes / len(places)


def smooth(places: Floats, rows: Ints, totals: NoisyTotals, mix: float = 0.0) -> Floats:
    """Return class probabilities of all public rows, [public rows, classes].

    The share of a class is a Gaussian process over the public space. A count is the mean share in a
    cell, the public rows nearest to an asked row, times the expected total, plus noise. The kernel
    is the one under which the counts are most likely: large noise shares widely and ends at the
    shares of all records; without noise, cells keep their own.

    places  of all public rows, [public rows, dimensions]; rows: those that were asked
    mix     how much classes mix in cells (`NoisyTotals.mixed`); 0: each row has one class
    """
    cells = nearest(places, places[rows])
    centers = _centers(len(places), rows)
    distances = _distances(places, centers)
    prior = totals.shares
    rest = totals.counts - prior * totals.expected[:, None]
    best = max(_kernels(distances, centers, cells, totals, rest), key=lambda kernel: kernel.score)
    fit = best.regression
    features = np.exp(-distances / (2 * best.width**2)) @ best.base
    unseen = (1 - (features**2).sum(axis=1)).clip(0)  # what the centers do not span
    features -= (best.trust[:, None] * best.signal)[cells]
    mean = prior + features @ fit.weights + (best.trust[:, None] * rest)[cells]
    variance = ((features @ fit.spread) ** 2).sum(axis=1) + fit.variance * unseen
    variance = variance + best.own * (1 - best.trust * totals.expected)[cells]
    return _probabilities(mean, variance, prior, fit.variance + best.own, mix)


def _centers(public: int, rows: Ints) -> Ints:
    """Return the public rows that span the functions: the asked ones, then others at random."""
    others = np.setdiff1d(np.arange(public), rows)
    others = np.random.default_rng(0).permutation(others)
    return np.concatenate([np.unique(rows), others])[:_CENTERS]


def _distances(places: Floats, centers: Ints) -> Floats:
    """Return squared distances to the centers, [public rows, centers]; 1 is a usual one."""
    lengths = (places**2).sum(axis=1)
    squares = lengths[:, None] + lengths[centers] - 2 * places @ places[centers].T
    return np.maximum(squares, 0) / max(2 * places.var(axis=0).sum(), 1e-12)


def _kernels(
    distances: Floats, centers: Ints, cells: Ints, totals: NoisyTotals, rest: Floats
) -> Iterator[_Kernel]:
    """Fit every kernel to `rest`, the counts less those of equal cells, [asked rows, classes]."""
    expected = totals.expected
    classes = rest.shape[1]
    order = np.argsort(cells, kind="stable")
    filled, first, size = np.unique(cells[order], return_index=True, return_counts=True)
    means = np.zeros((len(rest), len(centers)))
    for width in _WIDTHS:
        kernel = np.exp(-distances / (2 * width**2))
        values, vectors = np.linalg.eigh(kernel[centers])
        large = values > 1e-5 * values[-1]
        base = vectors[:, large] / np.sqrt(values[large])
        means[filled] = np.add.reduceat(kernel[order], first) / size[:, None]
        signal = expected[:, None] * (means @ base)
        unusual = 4 * np.log2(width / _USUAL_WIDTH) ** 2  # few records tell little about the width
        for own in np.array(_OWN) / classes:
            noise = totals.noise_std**2 + expected / classes + own * expected**2 + 1e-9
            of_all = (_SIZES * expected.sum() / classes) ** 2 + own * (expected**2).sum()
            # One observation more: all records together have about the expected shares.
            regression = _fit(
                np.vstack([signal, signal.sum(axis=0)]),
                np.pad(rest, ((0, 1), (0, 0))),
                np.append(noise, of_all),
            )
            score = regression.log_likelihood - unusual
            yield _Kernel(score, regression, width, base, signal, own, own * expected / noise)


def _fit(signal: Floats, rest: Floats, noise: Floats) -> _Regression:
    """Return the regression of `rest` [observations, classes] on `signal`, at the likeliest prior
    variance; `noise`: the variance of each observation.
    """
    classes = rest.shape[1]
    level, axes = np.linalg.eigh(signal.T @ (signal / noise[:, None]))
    along = axes.T @ (signal.T @ (rest / noise[:, None]))
    variances = _VARIANCES / classes
    gain = variances / (1 + variances * np.maximum(level, 0))
    likely = gain @ (along**2).sum(axis=1) + classes * np.log(gain / variances).sum(axis=1)
    likely -= ((rest**2).sum(axis=1) / noise + classes * np.log(noise)).sum()
    # Few records tell little about the variance.
    likely -= np.log2(_VARIANCES[:, 0] / _USUAL_VARIANCE) ** 2
    top = likely.argmax()
    weights = axes @ (gain[top][:, None] * along)
    spread = axes * np.sqrt(gain[top])
    return _Regression(float(likely[top]) / 2, weights, spread, float(variances[top, 0]))


def _probabilities(
    mean: Floats, variance: Floats, prior: Floats, total: float, mix: float
) -> Floats:
    """Return class probabilities by the mean and variance of each row's shares: pure cells have one
    class.
    """
    variance = np.maximum(variance, 1e-6)[:, None]
    one = softmax(np.log(np.maximum(prior, 1e-6)) + mean / variance - prior / total, axis=1)
    return (1 - mix) * one + mix * _to_simplex(mean)


def _to_simplex(scores: Floats) -> Floats:
    """Return the nearest probabilities of each row."""
    falling = -np.sort(-scores, axis=1)
    excess = (np.cumsum(falling, axis=1) - 1) / np.arange(1, scores.shape[1] + 1)
    last = (falling > excess).sum(axis=1, keepdims=True) - 1
    shares = np.maximum(scores - np.take_along_axis(excess, last, axis=1), 0)
    return shares / shares.sum(axis=1, keepdims=True)
