"""Public representations: public only, useful, and what teachers, choice of rows and students make
of them.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import Nzc, newest_folder
from sklearn.datasets import make_blobs, make_circles
from torch import Generator, Tensor, cat, from_numpy, randn

from nzc.data import DataSplits, Embedding, Split
from nzc.data.augment import Affine, Strong
from nzc.labeling.query_selection import QuerySelection
from nzc.mechanisms import ABSTAIN
from nzc.representation.contrastive import Contrastive
from nzc.representation.spectral import CLEAR, Spectral, clarity
from nzc.storage.predictions import PredictionStore
from nzc.students import StudentData
from nzc.students.labels import spread_labels
from nzc.teachers.neighbours import Neighbours
from nzc.training.trainer import TrainerSettings
from nzc.validation import InputError

QUIET = TrainerSettings(progress=False, accelerator="cpu")
SPECTRAL = Spectral(encoder=None, neighbours=5, dimensions=6, power=8)
REPRESENTATIVE = QuerySelection("representative", None).choose
LEARNED = Contrastive(
    network="mlp", width=16, steps=20, batch_size=64, lr=0.005, temperature=0.2, seed=0,
    augment=Strong(None, 1, 0, 0, 0, 0.3, 0.1),
)  # fmt: skip


def _rings(private: int = 300, public: int = 400) -> DataSplits:
    """A ring around another one: a row's class is that of its neighbours' neighbours, not of what
    lies near.
    """
    x, y = make_circles(private + public, noise=0.03, factor=0.4, random_state=0)
    x = x.astype(np.float32)
    empty = Split(x[:0], y[:0])
    return DataSplits(Split(x[:private], y[:private]), Split(x[private:], y[private:]), empty, 2)


def _shaken(x: Tensor, rng: Generator) -> Tensor:
    return x + 0.05 * randn(x.shape, generator=rng)


@pytest.mark.parametrize(
    "spectral",
    [SPECTRAL, replace(SPECTRAL, encoder=LEARNED), replace(SPECTRAL, copies=3, augment=_shaken)],
    ids=["rows themselves", "contrastive", "copies"],
)
def test_no_private_record_moves_any_other_row(spectral: Spectral, tmp_path: Path) -> None:
    splits = _rings()
    before = spectral.embed(splits, PredictionStore(tmp_path / "one"), QUIET)
    x, y = splits.private.x.copy(), splits.private.y.copy()
    x[7], y[7] = [50, -50], 1 - y[7]
    after = spectral.embed(
        replace(splits, private=Split(x, y)), PredictionStore(tmp_path / "two"), QUIET
    )
    assert np.array_equal(before.public, after.public)
    assert np.flatnonzero((before.private != after.private).any(axis=1)).tolist() == [7]


def test_rows_along_a_path_are_close_and_rows_across_a_gap_are_not(tmp_path: Path) -> None:
    splits, two = _rings(), replace(SPECTRAL, neighbours=10, dimensions=2)
    placed = two.embed(splits, PredictionStore(tmp_path), QUIET)
    assert np.allclose(np.linalg.norm(placed.public, axis=1), 1, atol=1e-5)
    first = [int(np.flatnonzero(splits.public.y == label)[0]) for label in (0, 1)]

    def right(places: np.ndarray, rows: np.ndarray, y: np.ndarray) -> float:
        near = ((rows[:, None] - places[first]) ** 2).sum(axis=2).argmin(axis=1)
        return float((near == y).mean())

    assert right(placed.public, placed.public, splits.public.y) > 0.98  # by one row of each class
    assert right(placed.public, placed.private, splits.private.y) > 0.98
    assert right(splits.public.x, splits.public.x, splits.public.y) < 0.95


@pytest.mark.parametrize(
    ("shape", "alike"), [((1, 16, 16), "encoder"), ((1, 8, 8), "copies"), ((8,), "plain")]
)
def test_the_kind_of_space_follows_from_the_shape_of_a_row(
    shape: tuple[int, ...], alike: str
) -> None:
    x = np.random.default_rng(0).random((60, *shape), np.float32)
    plain = replace(SPECTRAL, augment=Affine(rotate=20))
    kinds = {
        "plain": plain,
        "copies": replace(plain, copies=3),
        "encoder": replace(plain, encoder=LEARNED),
    }
    auto = replace(plain, copies=3, encoder=replace(LEARNED, side=16))
    places = {name: kind.fit(x, QUIET)(x) for name, kind in kinds.items()}
    same = {name for name in kinds if np.array_equal(auto.fit(x, QUIET)(x), places[name])}
    assert same == (
        {"plain", "copies"} if alike == "plain" else {alike}
    )  # copies of features are equal rows


@pytest.mark.parametrize(("shape", "dimensions"), [((2,), 8), ((1, 8, 8), 6)])
def test_vectors_beside_the_map_have_their_share_of_the_variance(
    shape: tuple[int, ...], dimensions: int
) -> None:
    """Of features, or an encoder's; pixels have none. Without a share, the map or the vectors are
    all.
    """
    x = np.random.default_rng(0).random((60, *shape), np.float32)
    both, alone = (replace(SPECTRAL, share=share).fit(x, QUIET)(x) for share in (0.3, 1.0))
    assert both.shape[1] == dimensions and alone.shape[1] == 6
    if dimensions > 6:
        assert both[:, :6].var(axis=0).sum() == pytest.approx(0.3, rel=1e-3)
        assert both[:, 6:].var(axis=0).sum() == pytest.approx(0.7, rel=1e-3)
        assert np.ptp(both[:, 6:] / x) < 1e-4 and np.ptp(both[:, :6] / alone) < 1e-3
        assert np.array_equal(replace(SPECTRAL, share=0.0).fit(x, QUIET)(x), x)


def _blobs(classes: int) -> np.ndarray:
    return np.asarray(
        make_blobs(300 * classes, 10, centers=classes, cluster_std=1, random_state=0)[0], np.float32
    )


@pytest.mark.parametrize(
    ("rows", "classes", "clear"),
    [(_blobs(20), 10, True), (_rings().public.x, 2, True), (_blobs(1), 10, False)],
    ids=["two blobs a class", "rings", "one cloud"],
)
def test_a_space_without_clusters_is_known_beforehand(
    rows: np.ndarray, classes: int, clear: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    public, private = (
        Split(rows, np.zeros(len(rows), np.int64)),
        Split(rows[:1], np.zeros(1, np.int64)),
    )
    splits = replace(_rings(), public=public, private=private, classes=classes)
    places = replace(SPECTRAL, dimensions=15).embed(splits, PredictionStore(tmp_path), QUIET).public
    line = capsys.readouterr().err
    assert (clarity(places, classes) >= CLEAR) == clear == (not line) and line.count("\n") <= 1
    assert clarity(np.eye(4)[np.arange(40) % 4], 4) == pytest.approx(1)  # nothing but middles


def test_settings_that_do_not_suit_the_rows_are_refused() -> None:
    places = np.random.default_rng(0).normal(size=(130, 3)).astype(np.float32)
    splits = replace(_rings(90, 40), embedding=Embedding(places[:90], places[90:]))
    with pytest.raises(
        InputError,
        match=r"^_target_=Neighbours: must be other teachers where the dataset has groups",
    ):
        Neighbours(count=30, sampling=0.5).check(replace(splits, groups=np.arange(90) // 2))
    for count, sampling in ((46, 0.5), (1, 0.0)):
        with pytest.raises(InputError):
            Neighbours(count=count, sampling=sampling).check(splits)
    with pytest.raises(InputError, match=r"^representation\.dimensions=400: "):
        replace(SPECTRAL, dimensions=400).check(_rings().public.x)


def test_representative_rows_are_the_middles_of_clusters() -> None:
    rng, sizes = np.random.default_rng(0), [50, 40, 30, 20, 10, 5]
    cluster = np.repeat(np.arange(6), sizes)
    places = 10 * np.eye(6)[cluster] + 0.1 * rng.normal(size=(155, 6))
    rows = REPRESENTATIVE(rng.permutation(155), 6, None, rng, places)
    assert cluster[rows].tolist() == list(range(6))  # one of each, the largest cluster first
    for row in rows:
        mine = places[cluster == cluster[row]]
        assert np.array_equal(
            mine[np.linalg.norm(mine - mine.mean(axis=0), axis=1).argmin()], places[row]
        )
    equal = REPRESENTATIVE(np.arange(155), 5, None, rng, np.ones_like(places))
    assert len(set(equal.tolist())) == 5  # equal rows are asked once each


def test_later_rounds_ask_in_clusters_that_the_student_doubts() -> None:
    rng, cluster = np.random.default_rng(0), np.repeat(np.arange(4), 50)
    places = 10 * np.eye(4)[cluster] + 0.1 * rng.normal(size=(200, 4))
    doubted = (cluster == 2) & (np.arange(200) % 2 == 0)
    probs = np.where(doubted[:, None], [0.5, 0.5], [1.0, 0.0])
    first, later = (
        REPRESENTATIVE(np.arange(200), 4, known, rng, places) for known in (None, probs)
    )
    assert sorted(cluster[first].tolist()) == [0, 1, 2, 3]
    assert (cluster[later] == 2).sum() >= 3


def test_the_nearest_copy_counts() -> None:
    """Without the copies, a far copy of row 0 would lie elsewhere."""
    x, far = _rings().public.x, np.array([[8.0, 0.0]], np.float32)
    moved = replace(SPECTRAL, copies=1, augment=lambda rows, _: cat([from_numpy(far), rows[1:]]))
    places = [each.fit(x, QUIET)(np.concatenate([far, x[:1]])) for each in (SPECTRAL, moved)]
    distances = [float(np.linalg.norm(place[0] - place[1])) for place in places]
    assert distances[1] < 0.1 * distances[0]


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_labels_spread_to_the_surest_rows(share: float) -> None:
    """By a loop: nearest released row of each class, margin to the next class, the surest of each
    class.
    """
    rng = np.random.default_rng(0)
    places = rng.normal(size=(60, 4))
    places /= np.linalg.norm(places, axis=1, keepdims=True)
    labels = np.full(60, ABSTAIN)
    labels[[3, 8, 20, 41, 50]] = [0, 2, 2, 0, 3]
    found = spread_labels(StudentData(places, labels, 4), places, share).labels
    by_class: dict[int, list[tuple[float, int]]] = {}
    for row in range(60):
        close = {
            c: max(places[row] @ places[asked] for asked in np.flatnonzero(labels == c))
            for c in (0, 2, 3)
        }
        (best, first), (second, _) = sorted(
            ((value, c) for c, value in close.items()), reverse=True
        )[:2]
        by_class.setdefault(first, []).append((best - second, row))
    expected = labels.copy()
    for c, rows in by_class.items():
        for _, row in sorted(rows, reverse=True)[: int(np.ceil(share * len(rows)))]:
            expected[row] = c if labels[row] == ABSTAIN else labels[row]
    assert np.array_equal(found, expected)
    moved = spread_labels(StudentData(places, labels, 4), places + 3, share).labels
    assert np.array_equal(moved, expected)  # only distances count
    alone = StudentData(
        places, np.where(labels == 3, 3, ABSTAIN), 4
    )  # a single class is spread to all
    assert set(spread_labels(alone, places, 1.0).labels) == {3}


def test_a_run_from_representation_to_student(nzc: Nzc) -> None:
    """The default run: a pure ε, as many rows as its noise allows, probabilities for all public
    rows.
    """
    ran = nzc(
        "recipe=near_zero", "student=supervised", "student.steps=60", "trainer.progress=false"
    )
    assert (
        ran.code == 0 and ran.result["answered"] == 15 and ran.result["teachers"]["count"] == 1200
    )
    epsilon = ran.result["epsilon"]
    assert (epsilon["published"], epsilon["published_delta"]) == (0.25, 0) and epsilon[
        "exact"
    ] <= 0.25
    assert epsilon["ledger_total"] <= 0.25 * (1 + 1e-9)
    assert (
        ran.result["label_accuracy"] > 0.7
        and ran.result["learned_accuracy"] > 0.8
        and ran.result["accuracy"] > 0.6
    )
    counts, labels = (
        pd.read_csv(newest_folder(ran) / name) for name in ("counts.csv", "labels.csv")
    )
    assert counts.shape == (15, 11) and sorted(counts["row"]) == list(labels["row"])
    probabilities = labels.filter(like="p(")
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-3)
    assert (probabilities.to_numpy().argmax(axis=1) == labels["label"]).all()


@pytest.mark.parametrize(
    "overrides", [["teachers=neighbours"], ["query_choice=representative"], ["student.spread=0.5"]]
)
def test_who_needs_a_representation_says_so(nzc: Nzc, overrides: list[str]) -> None:
    ran = nzc(*overrides, "trainer.progress=false")
    assert (
        ran.code == 2
        and ran.err.startswith("nzc: representation=none: must be")
        and ran.err.count("\n") == 1
    )
