"""The smoother of noisy counts: probabilities of all public rows, from counts of the asked rows."""

import numpy as np
from conftest import parametrize
from numpy.random import default_rng
from pytest import approx

from nzc.protocols.smoothing import NoisyTotals, expected_records, smooth


def _clusters(
    rng: np.random.Generator, classes: int, rows: int, width: float = 0.2
) -> tuple[np.ndarray, np.ndarray]:
    """Return unit length places of rows around three middles of each class, and their classes."""
    middles = default_rng(7).standard_normal((classes, 3, 12))
    middles /= np.linalg.norm(middles, axis=2, keepdims=True)
    number = np.arange(classes * rows)
    label = number % classes
    noise = width * rng.standard_normal((len(label), 12)) / 3
    places = middles[label, number // classes % 3] + noise
    return places / np.linalg.norm(places, axis=1, keepdims=True), label


def _cell(places: np.ndarray, asked: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.norm(places[:, None] - asked, axis=2).argmin(axis=1))


def _counts(asked: np.ndarray, private: np.ndarray, label: np.ndarray, scale: float) -> np.ndarray:
    counts = np.zeros((len(asked), label.max() + 1))
    np.add.at(counts, (_cell(private, asked), label), 1)
    rng = default_rng(len(private))
    return counts + np.round(rng.laplace(scale=scale, size=counts.shape))


@parametrize("classes", [2, 10])
def test_without_noise_rows_have_the_plurality_of_their_cell(classes: int) -> None:
    rng = default_rng(0)
    places, _ = _clusters(rng, classes, 500 // classes, 0.05)
    private, label = _clusters(rng, classes, 2000 // classes, 0.05)
    label = np.where(rng.random(len(label)) < 0.2, rng.integers(classes, size=len(label)), label)
    rows = np.arange(3 * classes)  # one of each cluster
    counts = _counts(places[rows], private, label, 0)
    totals = NoisyTotals(counts, expected_records(places, rows, len(private)), 1e-6)
    smoothed = smooth(places, rows, totals).argmax(axis=1)
    assert np.mean(smoothed == counts.argmax(axis=1)[_cell(places, places[rows])]) > 0.99


def test_large_noise_leaves_the_shares_of_all_records() -> None:
    rng = default_rng(2)
    places, _ = _clusters(rng, 4, 100)
    rows = np.arange(200)
    shares = np.array([0.7, 0.2, 0.1, 0.0])
    expected = np.full(200, 2_000.0)
    counts = 2_000 * shares + 1_500 * rng.standard_normal((200, 4))
    totals = NoisyTotals(counts, expected, 1_500)
    probs = smooth(places, rows, totals, totals.mixed)
    assert np.abs(probs.mean(axis=0) - shares).max() < 0.1
    assert np.mean(probs.argmax(axis=1) == 0) > 0.9
    nothing = smooth(places, rows, NoisyTotals(0 * counts, expected, 1e9))
    assert np.allclose(nothing, 0.25, atol=1e-3)


def test_smoothing_labels_better_than_each_cell_alone() -> None:
    shares = []
    for seed in range(2):
        rng = default_rng(seed)
        places, truth = _clusters(rng, 5, 80, 0.3)
        private, label = _clusters(rng, 5, 300, 0.3)
        rows = rng.permutation(len(places))[:60]
        counts = _counts(places[rows], private, label, 14)
        totals = NoisyTotals(counts, expected_records(places, rows, len(private)), 20)
        probs = smooth(places, rows, totals)
        alone = counts[_cell(places, places[rows])].argmax(axis=1) == truth
        right = (probs.argmax(axis=1) == truth)[np.argsort(-probs.max(axis=1))]
        shares.append((alone.mean(), right.mean(), right[:200].mean()))
    alone, smoothed, surer = np.mean(shares, axis=0)
    assert smoothed > alone + 0.1 and surer > smoothed + 0.02


@parametrize("classes", [2, 10])
def test_public_sums_take_their_share_of_noise_away(classes: int) -> None:
    """Second route: the noise of a difference to the mean of independent noise has 1 − 1/classes of
    its variance.
    """
    rng = default_rng(0)
    votes = rng.integers(0, 100, (20_000, classes))
    sums = votes.sum(axis=1)
    noisy = votes + rng.laplace(scale=3, size=votes.shape)
    totals = NoisyTotals(noisy, np.zeros(20_000), 3 * 2**0.5).with_sums(sums)
    assert np.allclose(totals.counts.sum(axis=1), sums) and (totals.expected == sums).all()
    assert (totals.counts - votes).std() == approx(totals.noise_std, rel=0.02)
    assert totals.noise_std**2 == approx(18 * (1 - 1 / classes))
