"""The smoother of noisy counts: probabilities of all public rows, from counts of the asked rows."""

import numpy as np
import pytest

from nzc.labeling import smoothing
from nzc.labeling.smoothing import expected_records, mixed, smooth, with_sums
from nzc.mechanisms import Counts
from nzc.planning.expected import expected_in_cells, rows_to_ask


def _clusters(
    rng: np.random.Generator, classes: int, each: int, width: float = 0.2
) -> tuple[np.ndarray, np.ndarray]:
    """Return unit length places of rows around three middles of each class, and their classes."""
    middles = np.random.default_rng(7).standard_normal((classes, 3, 12))
    label = np.arange(classes * each) % classes
    middle = middles[label, np.arange(len(label)) // classes % 3]
    places = (
        middle / np.linalg.norm(middle, axis=1, keepdims=True)
        + width * rng.standard_normal((len(label), 12)) / 3
    )
    return places / np.linalg.norm(places, axis=1, keepdims=True), label


def _cell(places: np.ndarray, asked: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.norm(places[:, None] - asked, axis=2).argmin(axis=1))


def _counts(
    asked: np.ndarray, private: np.ndarray, label: np.ndarray, classes: int, scale: float
) -> np.ndarray:
    counts = np.zeros((len(asked), classes))
    np.add.at(counts, (_cell(private, asked), label), 1)
    return counts + np.round(
        np.random.default_rng(len(private)).laplace(scale=scale, size=counts.shape)
    )


@pytest.mark.parametrize("classes", [2, 10, 150])
def test_without_noise_rows_have_the_plurality_of_their_cell(classes: int) -> None:
    rng = np.random.default_rng(0)
    places, _ = _clusters(rng, classes, 1500 // classes, 0.05)
    private, label = _clusters(rng, classes, 6000 // classes, 0.05)
    label = np.where(rng.random(len(label)) < 0.2, rng.integers(classes, size=len(label)), label)
    rows = np.arange(3 * classes)  # one of each cluster
    counts = _counts(places[rows], private, label, classes, 0)
    probs = smooth(places, rows, counts, expected_records(places, rows, len(private)), 1e-6)
    assert (
        np.mean(probs.argmax(axis=1) == counts.argmax(axis=1)[_cell(places, places[rows])]) > 0.99
    )


@pytest.mark.parametrize("asked", [1, 2, 30])
@pytest.mark.parametrize("classes", [2, 150])
@pytest.mark.parametrize("size", [0.0, 1.0, 1e9])
def test_any_counts_give_probabilities(asked: int, classes: int, size: float) -> None:
    rng = np.random.default_rng(1)
    places = rng.standard_normal((60, 4)).repeat(
        2, axis=0
    )  # each place twice, so cells may be empty
    rows, counts = np.arange(asked), np.round(size * rng.laplace(size=(asked, classes)))
    for noise_std in (1e-3, 1.0, 1e9):
        probs = smooth(places, rows, counts, expected_records(places, rows, 1000), noise_std)
        assert (
            probs.shape == (120, classes)
            and (probs >= 0).all()
            and np.allclose(probs.sum(axis=1), 1)
        )


def test_large_noise_leaves_the_shares_of_all_records() -> None:
    rng = np.random.default_rng(2)
    places, _ = _clusters(rng, 4, 100)
    rows, shares, noise_std = np.arange(200), np.array([0.7, 0.2, 0.1, 0.0]), 1_500.0
    counts = 2_000 * shares + noise_std * rng.standard_normal((200, 4))
    released = counts, np.full(200, 2_000.0), noise_std
    probs = smooth(places, rows, *released, mixed(*released))
    assert (
        np.abs(probs.mean(axis=0) - shares).max() < 0.1 and np.mean(probs.argmax(axis=1) == 0) > 0.9
    )
    assert np.allclose(
        smooth(places, rows, 0 * counts, np.full(200, 2_000.0), 1e9), 0.25, atol=1e-3
    )


def test_names_of_classes_and_sizes_of_places_do_not_matter() -> None:
    rng = np.random.default_rng(3)
    places, _ = _clusters(rng, 5, 60)
    rows, order = rng.permutation(len(places))[:25], rng.permutation(5)
    counts, expected = (
        rng.poisson(30, (25, 5)) + np.round(rng.laplace(scale=9, size=(25, 5))),
        np.full(25, 160.0),
    )
    probs = smooth(places, rows, counts, expected, 12.0)
    assert np.allclose(smooth(places, rows, counts[:, order], expected, 12.0), probs[:, order])
    assert np.allclose(smooth(3 * places, rows, counts, expected, 12.0), probs)


def test_smoothing_labels_more_rows_right_than_each_cell_alone_and_surer_rows_more_often() -> None:
    alone, smoothed, surer = [], [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        places, truth = _clusters(rng, 5, 80, 0.3)
        private, label = _clusters(rng, 5, 300, 0.3)
        rows = rng.permutation(len(places))[:60]
        counts = _counts(places[rows], private, label, 5, 14)
        probs = smooth(places, rows, counts, expected_records(places, rows, len(private)), 20)
        right = (probs.argmax(axis=1) == truth)[np.argsort(-probs.max(axis=1))]
        alone.append(np.mean(counts[_cell(places, places[rows])].argmax(axis=1) == truth))
        smoothed.append(right.mean())
        surer.append(right[:200].mean())
    assert np.mean(smoothed) > np.mean(alone) + 0.1 and np.mean(surer) > np.mean(smoothed) + 0.02


@pytest.mark.parametrize(("own", "sizes"), [(0.03, 1e6), (0.0, 0.5), (0.0, 0.01)])
def test_the_mean_is_the_gaussian_process_of_cell_averages(
    own: float, sizes: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All records together are observed too: each class has its expected share, give or take
    `sizes`/classes.
    """
    rng, width, variance, noise_std = np.random.default_rng(5), 0.4, 0.8, 6.0
    parts = (
        ("_WIDTHS", (width,)),
        ("_VARIANCES", np.array([[variance]])),
        ("_OWN", (own,)),
        ("_SIZES", sizes),
    )
    for name, value in parts:
        monkeypatch.setattr(smoothing, name, value)
    places, label = _clusters(rng, 3, 40)
    rows = np.arange(9)
    expected = expected_records(places, rows, 900)
    counts = _counts(places[rows], places, label, 3, 0) * 900 / len(
        places
    ) + noise_std * rng.standard_normal((9, 3))
    square, cell = ((places[:, None] - places) ** 2).sum(axis=2), _cell(places, places[rows])
    kernel = variance / 3 * np.exp(-square / square.mean() / (2 * width**2))
    total = (
        expected * (cell[:, None] == np.arange(9)) / np.bincount(cell)
    )  # sums over cells, of so many records
    joint = kernel + own / 3 * (cell[:, None] == cell)
    total = np.column_stack([total, total.sum(axis=1)])
    noise = np.diag([*noise_std**2 + expected / 3, (sizes * 900 / 3) ** 2])
    prior = smoothing._overall(counts, expected, noise_std)
    gain = joint @ total @ np.linalg.inv(total.T @ joint @ total + noise)
    mean = prior + gain @ np.pad(counts - prior * expected[:, None], ((0, 1), (0, 0)))
    got: list[np.ndarray] = []
    monkeypatch.setattr(
        smoothing, "_probabilities", lambda mean, variance, *_: got.extend((mean, variance)) or mean
    )
    smooth(places, rows, counts, expected, noise_std)
    assert np.allclose(got[0], mean, atol=1e-3)
    assert np.allclose(got[1], np.diag(joint - gain @ total.T @ joint), atol=1e-3)


@pytest.mark.parametrize(
    ("shares", "twice_different"), [([1, 0, 0], 0), ([0.8, 0.2, 0], 0.64), ([0.4, 0.3, 0.3], 1)]
)
def test_how_classes_mix_is_read_through_the_noise(
    shares: list[float], twice_different: float
) -> None:
    rng, expected = np.random.default_rng(0), np.full(300, 1_000.0)
    counts = 1_000 * rng.permuted(np.tile(shares, (300, 1)), axis=1) + rng.laplace(
        scale=100, size=(300, 3)
    )
    assert mixed(counts, expected, 100 * 2**0.5) == pytest.approx(0.99 * twice_different, abs=0.05)
    assert (
        mixed(counts[:3], expected[:3], 100 * 2**0.5) == 0
    )  # three cells cannot follow three classes


@pytest.mark.parametrize("noise_std", [1e-3, 10.0, 1e9])
def test_rows_are_between_one_and_a_quarter_of_the_public_rows(noise_std: float) -> None:
    for public in (1, 40, 4_000):
        assert 1 <= rows_to_ask(60_000, 10, public, noise_std) <= max(public / 4, 1)
    assert rows_to_ask(60_000, 10, 40_000, 1e9) == 10


def test_right_labels_are_expected_by_the_law_of_the_noise() -> None:
    rng, mechanism = np.random.default_rng(0), Counts(gamma=0.05)
    counts = np.array([60.0, 20, 20, 20]) + rng.laplace(scale=20, size=(200_000, 4))
    simulated = pytest.approx(np.mean(counts.argmax(axis=1) == 0), abs=0.005)
    assert expected_in_cells(mechanism, 1_200, 4, 10, 0.5) == (1, simulated)
    assert expected_in_cells(mechanism, 10**6, 10, 10) == (1, pytest.approx(1))
    assert expected_in_cells(mechanism, 1, 10, 1_000) == (1, pytest.approx(0.1, abs=0.01))


@pytest.mark.parametrize("classes", [2, 10])
def test_public_sums_take_their_share_of_noise_away(classes: int) -> None:
    """Second route: the noise of a difference to the mean of independent noise has 1 − 1/classes of
    its variance.
    """
    rng = np.random.default_rng(0)
    votes = rng.integers(0, 100, (20_000, classes))
    counts, sums, noise_std = with_sums(
        votes + rng.laplace(scale=3, size=votes.shape), votes.sum(axis=1), 3 * 2**0.5
    )
    assert np.allclose(counts.sum(axis=1), sums) and (sums == votes.sum(axis=1)).all()
    assert (counts - votes).std() == pytest.approx(noise_std, rel=0.02)
    assert noise_std**2 == pytest.approx(18 * (1 - 1 / classes))
