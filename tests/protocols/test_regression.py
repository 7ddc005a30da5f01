"""Softmax regression from noisy sums and public rows."""

import numpy as np
from conftest import parametrize
from numpy.random import default_rng
from scipy.special import softmax

from nzc.protocols.regression import (
    LinearModel,
    PublicRows,
    ReleasedCounts,
    ReleasedMoments,
    fit,
    shares_kept,
)
from nzc.protocols.vectors import PrivateSums, code_reach, contrasts, counts_reach, scale_of


def _rows(rows: int, features: int, seed: int) -> np.ndarray:
    """Return rows [rows, features] about 0, of length 1 at most."""
    x = default_rng(seed).normal(size=(rows, features)) / np.sqrt(features)
    return x / np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True))


def _labels(x: np.ndarray, weights: np.ndarray, seed: int) -> np.ndarray:
    probs = softmax(x @ weights + np.array([1.0, 0.0, -0.5])[: weights.shape[1]], axis=1)
    draws = default_rng(seed).random((len(x), 1))
    return np.asarray((draws > probs.cumsum(axis=1)[:, :-1]).sum(axis=1))


def _learned(sums: PrivateSums, public: PublicRows, noise: float, releases: int = 1) -> LinearModel:
    """Return the model of sums with Gaussian noise of this deviation, in lengths of a record."""
    rng = default_rng(0)
    scale = scale_of(sums.classes, counts_reach(public.most))
    noisy = sums.class_counts() + scale * noise * rng.normal(size=sums.classes)
    counts = ReleasedCounts.of(noisy, scale * noise, sums)
    scale = scale_of(sums.features.shape[1] * (sums.classes - 1), code_reach(counts.code, False))
    moments: list[ReleasedMoments] = []
    of_records = of_public = None
    for _ in range(releases):
        matrix = sums.matrix(counts.code, of_records)
        noisy = matrix + scale * noise * rng.normal(size=matrix.shape)
        moments.append(ReleasedMoments.of(noisy, scale * noise, counts, False, of_public))
        model = fit(public, counts, moments, seed=0)
        of_records = model.probabilities(sums.bounded)
        of_public = model.probabilities(public.features)
    return model


@parametrize("classes", [2, 3])
def test_without_noise_it_is_the_maximum_of_the_likelihood(classes: int) -> None:
    """Where public rows are the private ones, scikit-learn solves the same equation."""
    from sklearn.linear_model import LogisticRegression

    x = _rows(20_000, 5, seed=1)
    truth = default_rng(2).normal(size=(5, classes)) * 3
    y = _labels(x, truth, seed=3)
    model = _learned(PrivateSums(x, y, classes), PublicRows(x), 1e-3)
    other = LogisticRegression(C=1e6, tol=1e-8, max_iter=1000).fit(x, y)
    assert np.abs(model.probabilities(x) - other.predict_proba(x)).mean() < 5e-3


def test_few_public_rows_mislead_less_where_sums_are_released_again() -> None:
    """The second and the third time, both sides of the equation are nearly 0."""
    from sklearn.linear_model import LogisticRegression

    x = _rows(20_000, 40, seed=15)
    y = _labels(x, default_rng(16).normal(size=(40, 2)) * 4, seed=17)
    right = LogisticRegression(C=1e3, max_iter=1000).fit(x, y).predict_proba(x)
    sums = PrivateSums(x, y, 2)
    public = PublicRows(_rows(400, 40, seed=18))
    once, thrice = (
        np.abs(_learned(sums, public, 1e-3, number).probabilities(x) - right).mean()
        for number in (1, 3)
    )
    assert thrice < once / 2


@parametrize(("noise", "least", "most"), [(1.0, 0.93, 1), (30.0, 0.93, 1), (1e5, 0, 0.9)])
def test_the_more_noise_the_less_the_model_claims(noise: float, least: float, most: float) -> None:
    """Much noise leaves the shares of the classes; little noise the truth."""
    x = _rows(20_000, 20, seed=4)
    truth = default_rng(5).normal(size=(20, 2)) * 2
    y = _labels(x, truth, seed=6)
    public = _rows(3000, 20, seed=7)
    found = _learned(PrivateSums(x, y, 2), PublicRows(public), noise).probabilities(public)
    expected = (public @ truth + np.array([1.0, 0.0])).argmax(axis=1)
    assert (found.argmax(axis=1) == expected).mean() >= least
    assert np.quantile(found.max(axis=1), 0.5) <= most


def test_persons_with_many_records_do_not_bend_the_fit() -> None:
    """Cut vectors are compared with public vectors that are cut alike."""

    def people(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        sizes = default_rng(seed).integers(1, 12, count)
        return np.repeat(np.arange(count), sizes), _rows(int(sizes.sum()), 3, seed)

    truth = default_rng(8).normal(size=(3, 2)) * 2
    persons, x = people(20_000, 9)
    y = _labels(x, truth, seed=10)
    of_public, public = people(3000, 11)
    rows = PublicRows(public, of_public)
    model = _learned(PrivateSums(x, y, 2, persons, rows.most), rows, 1e-2)
    expected = softmax(public @ truth + np.array([1.0, 0.0]), axis=1)
    assert np.abs(model.probabilities(public) - expected).mean() < 0.03


def test_shares_kept_are_those_of_every_possible_label() -> None:
    """Against an enumeration of the labels of a person's other rows."""
    features = _rows(3, 2, seed=12)
    probs = np.full((3, 2), 0.5)
    code = (np.eye(2) - [0.7, 0.3]) @ contrasts(2)
    longest = np.linalg.norm(code, axis=1).max()
    expected = np.zeros((3, 2))
    for labels in np.ndindex(2, 2, 2):
        whole = sum(np.outer(features[row], code[labels[row]]) for row in range(3))
        kept = min(1, longest / max(np.linalg.norm(whole), longest))
        for row in range(3):
            expected[row, labels[row]] += kept / 4
    rng = default_rng(0)
    persons = np.zeros(3, int)
    found = np.mean([shares_kept(features, persons, probs, code, rng) for _ in range(2000)], axis=0)
    assert np.abs(found - expected).max() < 0.01


def test_few_records_and_rare_classes_give_probabilities() -> None:
    x = _rows(30, 4, seed=13)
    y = np.r_[np.zeros(29, int), 1]
    model = _learned(PrivateSums(x, y, 3), PublicRows(_rows(5, 4, seed=14)), 50.0)
    probs = model.probabilities(x)
    assert np.isfinite(probs).all() and np.allclose(probs.sum(axis=1), 1)
