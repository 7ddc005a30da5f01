"""Shards: disjoint and seeded; a group reaches one teacher, and moves at most one vote a query."""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from conftest import parametrize
from few_labels import ENSEMBLE, QUIET
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.testing import assert_array_equal
from pytest import raises
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from nzc.data import DataSplits, Split, Units
from nzc.mechanisms import count_votes
from nzc.teachers.sharded import ShardedTeachers, partition
from nzc.teachers.sklearn import Sklearn
from nzc.types import Ints
from nzc.validation import InputError

TREES = Sklearn(count=10, estimator=DecisionTreeClassifier(), seed=0, parallel=1)
NEAREST = replace(TREES, estimator=KNeighborsClassifier(1))
# Stacked teachers would share the size of the smallest shard, so they are not stacked, although it
# is asked for.
NETWORKS = replace(ENSEMBLE, count=10, epochs=2, batch_size=4, seed=0, stacked=True)


def _visits(rows: int, patients: int, rng: np.random.Generator) -> Ints:
    """Return the patient of each visit, in random order; some have many visits."""
    first = np.sort(rng.choice(np.arange(1, rows), patients - 1, replace=False))
    return rng.permutation(np.searchsorted(first, np.arange(rows), side="right"))


def test_shards_without_groups_are_those_of_version_1() -> None:
    """A golden digest: stored predictions and published runs depend on these shards."""
    shards = [shard.astype("<i8").tobytes() for shard in partition(1203, 7, 3)]
    assert sha256(b"|".join(shards)).hexdigest()[:16] == "2c9bc3a316d6c3d4"


def _table(rng: np.random.Generator, rows: int, people: int) -> DataSplits:
    groups = _visits(rows, people, rng)
    private = Split(rng.normal(size=(rows, 3)).astype(np.float32), rng.integers(0, 3, rows))
    public = Split(rng.normal(size=(80, 3)).astype(np.float32), rng.integers(0, 3, 80))
    return DataSplits(private, public, public, 3, Units(groups))


def _changed(splits: DataSplits, person: int, records: int, rng: np.random.Generator) -> DataSplits:
    """Give a person `records` other records, at other places of the table; nobody else's change."""
    others = splits.units.groups != person
    places = np.sort(rng.integers(0, others.sum() + 1, records))
    new_x = rng.normal(size=(records, 3)) * 3
    new_y = rng.integers(0, 3, records)
    return replace(
        splits,
        private=Split(
            np.insert(splits.private.x[others], places, new_x, axis=0),
            np.insert(splits.private.y[others], places, new_y),
        ),
        units=Units(np.insert(splits.units.groups[others], places, person)),
    )


def _predictions(teachers: ShardedTeachers, splits: DataSplits) -> np.ndarray:
    with TemporaryDirectory() as work:
        return teachers.teach_all(splits, QUIET, Path(work))


@parametrize("teachers", [TREES, NEAREST, NETWORKS], ids=["trees", "nearest", "networks"])
def test_a_person_moves_one_vote_a_query(teachers: ShardedTeachers) -> None:
    """Whatever its records become, and however many: also where the smallest shard shrinks."""
    rng = default_rng(1)
    splits = _table(rng, 150, 40)
    shards = teachers.shards(splits)
    before = _predictions(teachers, splits)
    lonely = int(np.bincount(splits.units.groups[min(shards, key=len)]).argmax())
    biggest = int(np.bincount(splits.units.groups).argmax())
    most_moved = 0
    for person, records in ((lonely, 1), (biggest, 1), (biggest, 30), (0, 40), (7, 2)):
        neighbour = _changed(splits, person, records, rng)
        after = _predictions(teachers, neighbour)
        assert (before != after).any(axis=1).sum() <= 1
        change = abs(count_votes(before, 3) - count_votes(after, 3)).sum(axis=1)
        most_moved = max(most_moved, change.max())
    assert most_moved == 2


def test_teachers_without_a_record_vote_by_their_number() -> None:
    """Where records have names, a hash decides who learns from them."""
    splits = replace(_table(default_rng(0), 60, 60), units=Units(keys=np.arange(60)))
    teachers = replace(TREES, count=40)
    predictions = _predictions(teachers, splits)
    empty = [teacher for teacher, shard in enumerate(teachers.shards(splits)) if not len(shard)]
    assert 2 < len(empty) < 20
    assert all((predictions[teacher] == teacher % 3).all() for teacher in empty)


def test_a_shard_of_names_has_an_order_of_its_own() -> None:
    rng = default_rng(0)
    names = rng.permutation(200)
    order = rng.permutation(200)
    dealt = partition(200, 9, 0, names)
    again = partition(200, 9, 0, names[order])
    for shard, other in zip(dealt, again, strict=True):
        assert_array_equal(names[shard], names[order][other])


def test_the_unit_of_privacy_follows_from_groups() -> None:
    grouped = _table(default_rng(0), 150, 40)
    singly = replace(grouped, units=Units())
    of_groups = replace(TREES, count=40).check(grouped)
    of_records = replace(TREES, count=41).check(singly)
    assert (of_groups.unit, of_records.unit) == ("group", "record")
    assert of_groups.neighbours.startswith("all records of one group")
    assert of_records.neighbours == "one record differs"
    assert (of_groups.voters, of_records.voters) == (40, 41)
    with raises(InputError, match=r"^count=41: .*from 1 to 40"):
        replace(TREES, count=41).check(grouped)


@given(
    rows=st.integers(1, 300),
    classes=st.integers(1, 60),
    seed=st.integers(0, 9),
    grouped=st.booleans(),
    share=st.floats(0, 1),
)
@settings(derandomize=True, max_examples=100, deadline=None)
def test_shards_are_disjoint_and_cover(
    rows: int, classes: int, seed: int, grouped: bool, share: float
) -> None:
    labels = default_rng(seed).integers(0, classes, rows)
    groups = 7 * labels if grouped else None  # numbers with gaps
    most = rows if groups is None else len(np.unique(groups))
    count = 1 + int(share * (most - 1))
    shards = partition(rows, count, seed, groups)
    assert sorted(np.concatenate(shards)) == list(range(rows)) and len(shards) == count
    if groups is None:
        sizes = [*map(len, shards)]
        assert max(sizes) - min(sizes) <= 1
    else:
        assert sum(len(np.unique(groups[shard])) for shard in shards) == most
