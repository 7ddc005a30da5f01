"""Diffusion maps: of public rows only, useful, and how a run uses them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from conftest import RunNzc, newest_folder, parametrize
from few_labels import LEARNED, QUIET, SPECTRAL
from numpy.random import default_rng
from pytest import CaptureFixture, approx, raises
from sklearn.datasets import make_circles
from sklearn.neighbors import KNeighborsClassifier

from nzc.data import DataSplits, Split
from nzc.data.augment import Affine
from nzc.representation.spectral import CLEAR, Spectral, clarity
from nzc.storage.predictions import PredictionStore
from nzc.validation import InputError


def _rings(private: int = 100, public: int = 400) -> DataSplits:
    """A ring around another one: a row's class is that of its neighbours' neighbours."""
    x, y = make_circles(private + public, noise=0.03, factor=0.4, random_state=0)
    x = x.astype(np.float32)
    empty = Split(x[:0], y[:0])
    return DataSplits(Split(x[:private], y[:private]), Split(x[private:], y[private:]), empty, 2)


def _placed(spectral: Spectral, rows: np.ndarray) -> np.ndarray:
    return np.asarray(spectral.fit(rows, QUIET)(rows))


def _shaken(x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    return x + 0.05 * torch.randn(x.shape, generator=rng)


@parametrize(
    "spectral",
    [SPECTRAL, replace(SPECTRAL, encoder=LEARNED), replace(SPECTRAL, copies=3, augment=_shaken)],
    ids=["rows themselves", "contrastive", "copies"],
)
def test_no_private_record_moves_any_other_row(spectral: Spectral, tmp_path: Path) -> None:
    splits = _rings()
    x = splits.private.x.copy()
    x[7] = [50, -50]
    changed = replace(splits, private=Split(x, 1 - splits.private.y))
    before = spectral.embed(splits, PredictionStore(tmp_path / "one"), QUIET)
    after = spectral.embed(changed, PredictionStore(tmp_path / "two"), QUIET)
    assert np.array_equal(before.public, after.public)
    assert np.flatnonzero((before.private != after.private).any(axis=1)).tolist() == [7]


def test_rows_along_a_path_are_close_and_across_a_gap_are_not(tmp_path: Path) -> None:
    """One row of each class tells the classes of all others in the map, and not in the plane."""
    splits = _rings()
    two = replace(SPECTRAL, neighbours=10, dimensions=2)
    placed = two.embed(splits, PredictionStore(tmp_path), QUIET)
    assert np.allclose(np.linalg.norm(placed.public, axis=1), 1, atol=1e-5)
    first = [np.argmax(splits.public.y == label) for label in (0, 1)]
    in_map = KNeighborsClassifier(1).fit(placed.public[first], [0, 1])
    assert in_map.score(placed.public, splits.public.y) > 0.98
    assert in_map.score(placed.private, splits.private.y) > 0.98
    in_plane = KNeighborsClassifier(1).fit(splits.public.x[first], [0, 1])
    assert in_plane.score(splits.public.x, splits.public.y) < 0.95


@parametrize(
    ("shape", "alike"),
    [((1, 16, 16), {"encoder"}), ((1, 8, 8), {"copies"}), ((8,), {"plain", "copies"})],
)
def test_the_kind_of_space_follows_from_the_shape_of_a_row(
    shape: tuple[int, ...], alike: set[str]
) -> None:
    """Copies of features are equal rows."""
    x = default_rng(0).random((60, *shape), np.float32)
    plain = replace(SPECTRAL, augment=Affine(rotate=20))
    kinds = {
        "plain": plain,
        "copies": replace(plain, copies=3),
        "encoder": replace(plain, encoder=LEARNED),
    }
    auto = _placed(replace(plain, copies=3, encoder=replace(LEARNED, side=16)), x)
    assert {name for name in kinds if np.array_equal(_placed(kinds[name], x), auto)} == alike


def test_vectors_beside_the_map_have_their_share_of_the_variance() -> None:
    """Of features, or an encoder's; pixels have none."""
    x = default_rng(0).random((60, 2), np.float32)
    both = _placed(replace(SPECTRAL, share=0.3), x)
    places, vectors = np.split(both, [6], axis=1)
    assert places.var(axis=0).sum() == approx(0.3, rel=1e-3)
    assert vectors.var(axis=0).sum() == approx(0.7, rel=1e-3)
    assert np.ptp(vectors / x) < 1e-4
    assert np.ptp(places / _placed(SPECTRAL, x)) < 1e-3
    assert np.array_equal(_placed(replace(SPECTRAL, share=0.0), x), x)
    images = default_rng(0).random((60, 1, 8, 8), np.float32)
    assert _placed(replace(SPECTRAL, share=0.3), images).shape == (60, 6)


CLOUD = default_rng(0).normal(size=(300, 10)).astype(np.float32)


@parametrize(
    ("rows", "classes", "clear"),
    [(_rings().public.x, 2, True), (CLOUD, 10, False)],
    ids=["rings", "one cloud"],
)
def test_a_space_without_clusters_is_known_beforehand(
    rows: np.ndarray, classes: int, clear: bool, tmp_path: Path, capsys: CaptureFixture[str]
) -> None:
    public = Split(rows, np.zeros(len(rows), np.int64))
    private = Split(rows[:1], public.y[:1])
    splits = replace(_rings(), public=public, private=private, classes=classes)
    places = replace(SPECTRAL, dimensions=15).embed(splits, PredictionStore(tmp_path), QUIET).public
    assert (clarity(places, classes) >= CLEAR) == clear
    assert capsys.readouterr().err.count("\n") == (not clear)


def test_settings_that_do_not_suit_the_rows_are_refused() -> None:
    with raises(InputError, match=r"^representation\.dimensions=400: "):
        replace(SPECTRAL, dimensions=400).check(_rings().public.x)


def test_a_run_from_representation_to_student(run_nzc: RunNzc) -> None:
    """Near zero: a pure ε, as many rows as its noise allows, probabilities for all public rows."""
    ran = run_nzc("recipe=near_zero", "student=supervised", "student.steps=60")
    epsilon = ran.result["epsilon"]
    assert (epsilon["published"], epsilon["published_delta"]) == (0.25, 0)
    assert epsilon["exact"] <= 0.25
    assert ran.result["learned_accuracy"] > 0.8
    counts = pd.read_csv(newest_folder(ran) / "counts.csv")
    labels = pd.read_csv(newest_folder(ran) / "labels.csv")
    assert counts.shape == (15, 11)
    assert sorted(counts["row"]) == list(labels["row"])
    probabilities = labels.filter(like="p(").to_numpy()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-3)
    assert (probabilities.argmax(axis=1) == labels["label"]).all()
