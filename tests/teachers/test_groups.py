"""The group as the unit of privacy: one group reaches one teacher, and so moves at most one vote a
query.
"""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from nzc.data import DataSplits, Split
from nzc.mechanisms import Abstentions, Adjacency, count_votes
from nzc.storage.predictions import PredictionStore
from nzc.teachers.ensemble import Ensemble
from nzc.teachers.sharded import ShardedTeachers, partition
from nzc.teachers.sklearn import Sklearn
from nzc.teachers.votes import VoteFile
from nzc.training.trainer import TrainerSettings
from nzc.types import Ints
from nzc.validation import InputError

QUIET = TrainerSettings(progress=False, accelerator="cpu", devices=1)
TREES = Sklearn(count=10, estimator=DecisionTreeClassifier(), seed=0, parallel=1)
NEAREST = replace(TREES, estimator=KNeighborsClassifier(1))
# Stacked teachers would share the size of the smallest shard, so they are not stacked, although it
# is asked for.
NETWORKS = Ensemble(
    count=10,
    network="mlp",
    epochs=3,
    batch_size=4,
    lr=0.01,
    weight_decay=0.01,
    seed=0,
    stacked=True,
)


def _visits(rows: int, patients: int, rng: np.random.Generator) -> Ints:
    """Return the patient of each visit in random order; numbers of visits are geometric, given
    their sum.
    """
    first = np.sort(rng.choice(np.arange(1, rows), patients - 1, replace=False))
    return rng.permutation(np.searchsorted(first, np.arange(rows), side="right"))


def _spread(groups: Ints, shards: list[Ints]) -> np.ndarray:
    """Return how many shards each group touches."""
    pairs = {(group, i) for i, shard in enumerate(shards) for group in groups[shard].tolist()}
    return np.bincount([group for group, _ in pairs])


def test_a_patient_belongs_to_one_teacher() -> None:
    groups = _visits(60_000, 20_000, np.random.default_rng(0))
    assert len(np.unique(groups)) == 20_000
    shards = partition(np.zeros(60_000, np.int64), 250, 0, False, groups)
    assert (_spread(groups, shards) == 1).all()
    counts = np.array([len(np.unique(groups[shard])) for shard in shards])
    assert counts.sum() == 20_000
    assert counts.std() == pytest.approx(
        80**0.5, rel=0.2
    )  # groups are dealt one by one, by the hash of their name
    assert (
        _spread(groups, partition(np.zeros(60_000, np.int64), 250, 0, False)).mean() > 2.5
    )  # by record


def test_shards_without_groups_are_those_of_version_1() -> None:
    """Golden digests: stored predictions and published runs depend on these shards."""
    labels = np.random.default_rng(5).integers(0, 10, 1203)
    dealt = [
        b"|".join(shard.astype("<i8").tobytes() for shard in partition(labels, 7, 3, by))
        for by in (False, True)
    ]
    digests = [sha256(shards).hexdigest()[:16] for shards in dealt]
    assert digests == ["2c9bc3a316d6c3d4", "622b65efd1a990c9"]


def _table(rng: np.random.Generator, rows: int, people: int) -> DataSplits:
    groups = _visits(rows, people, rng)
    x, u = (rng.normal(size=(n, 3)).astype(np.float32) for n in (rows, 80))
    y, v = (rng.integers(0, 3, n) for n in (rows, 80))
    return DataSplits(Split(x, y), Split(u, v), Split(u, v), 3, groups=groups)


def _without(splits: DataSplits, keep: np.ndarray) -> DataSplits:
    private = Split(splits.private.x[keep], splits.private.y[keep])
    return replace(splits, private=private, groups=splits.groups[keep])


def _changed(splits: DataSplits, person: int, records: int, rng: np.random.Generator) -> DataSplits:
    """Give a person `records` other records, at other places of the table; nobody else's change."""
    others = _without(splits, splits.groups != person)
    at = np.sort(rng.integers(0, len(others.private) + 1, records))
    x = np.insert(others.private.x, at, rng.normal(size=(records, 3)) * 3, axis=0)
    y = np.insert(others.private.y, at, rng.integers(0, 3, records))
    return replace(others, private=Split(x, y), groups=np.insert(others.groups, at, person))


def _predictions(teachers: ShardedTeachers, splits: DataSplits) -> np.ndarray:
    with TemporaryDirectory() as work:
        return teachers.teach(splits, QUIET, Path(work))


def _moved(one: np.ndarray, other: np.ndarray) -> int:
    """Return the largest L1 distance of two histograms of a query."""
    return int(abs(count_votes(one, 3) - count_votes(other, 3)).sum(axis=1).max())


@pytest.mark.parametrize(
    "teachers", [TREES, NEAREST, NETWORKS], ids=["trees", "nearest", "networks"]
)
def test_a_person_moves_one_vote_a_query(teachers: ShardedTeachers) -> None:
    """Whatever the records of the person become, and however many: also where the smallest shard
    shrinks.
    """
    rng = np.random.default_rng(1)
    splits = _table(rng, 150, 40)
    shards, before = teachers.shards(splits), _predictions(teachers, splits)
    smallest = splits.groups[min(shards, key=len)]
    biggest = int(np.bincount(splits.groups).argmax())
    some_vote_moved = False
    for person, records in (
        (int(np.bincount(smallest).argmax()), 1),
        (biggest, 1),
        (biggest, 30),
        (0, 40),
        (7, 2),
    ):
        neighbour = _changed(splits, person, records, rng)
        for shard, other in zip(shards, teachers.shards(neighbour), strict=True):
            if person not in splits.groups[shard]:
                np.testing.assert_array_equal(splits.private.x[shard], neighbour.private.x[other])
        after = _predictions(teachers, neighbour)
        assert (before != after).any(axis=1).sum() <= 1
        assert _moved(before, after) <= 2
        some_vote_moved |= _moved(before, after) == 2
    assert some_vote_moved


def test_where_records_have_names_one_that_goes_changes_one_teacher() -> None:
    """Also where many teachers have no record: these vote for the class of their own number."""
    splits = replace(_table(np.random.default_rng(0), 60, 60), groups=None, keys=np.arange(60))
    fewer = _without(replace(splits, groups=splits.keys), np.arange(60) != 7)
    fewer, teachers = replace(fewer, groups=None, keys=fewer.groups), replace(TREES, count=40)
    before, after = (_predictions(teachers, of) for of in (splits, fewer))
    empty = [teacher for teacher, shard in enumerate(teachers.shards(splits)) if not len(shard)]
    assert 2 < len(empty) < 20
    assert all((before[teacher] == teacher % 3).all() for teacher in empty)
    assert (before != after).any(axis=1).sum() == 1


def test_where_records_have_names_a_shard_has_the_same_order_whatever_that_of_the_file() -> None:
    rng = np.random.default_rng(0)
    names, weights = rng.permutation(200), rng.integers(1, 4, 200)
    order = rng.permutation(200)
    for several in (None, weights):
        dealt = partition(np.zeros(200, np.int64), 9, 0, False, names, several)
        moved = None if several is None else several[order]
        again = partition(np.zeros(200, np.int64), 9, 0, False, names[order], moved)
        for shard, other in zip(dealt, again, strict=True):
            np.testing.assert_array_equal(names[shard], names[order][other])


def test_what_groups_do_not_allow_and_what_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The warning: as many as expected from the number of groups and teachers, which are public."""
    splits = _table(np.random.default_rng(0), 150, 40)
    replace(TREES, count=40).train(splits, PredictionStore(tmp_path), QUIET)
    assert capsys.readouterr().err.startswith("nzc: about 37 % of 40 teachers have no group: ")
    singly = replace(splits, groups=None)
    assert [TREES.unit(of) for of in (splits, singly, None)] == ["group", "record", "record"]
    assert TREES.neighbours(splits).startswith("all records of one group")
    assert TREES.neighbours(singly) == "one record differs"
    assert VoteFile("votes.npy").unit(splits) == "teacher"
    assert replace(TREES, count=40).check(splits).teachers == 40
    assert replace(TREES, count=41).check(singly).teachers == 41
    for wrong, allowed in (
        ({"count": 41}, "from 1 to 40"),
        ({"stratify": True}, "must be false where"),
    ):
        with pytest.raises(InputError, match=f"{next(iter(wrong))}=.*{allowed}"):
            replace(TREES, **wrong).check(splits)


def test_a_file_of_votes_may_lack_some_where_the_number_of_teachers_is_stated(
    tmp_path: Path,
) -> None:
    predictions = np.array([[0, 1, -1], [0, -1, -1], [2, 1, -1]])
    votes, path = count_votes(predictions, 3), str(tmp_path / "votes.npy")
    np.save(path, votes)
    with pytest.raises(InputError, match=r"^path=.*teachers\.count=NUMBER"):
        VoteFile(path).check(None)
    stated = VoteFile(path, count=5)
    assert stated.check(None) == (3, 3, 5) and stated.adjacency() == Abstentions(5)
    assert "abstains" in stated.neighbours(None) and VoteFile(path).adjacency() == Adjacency()
    assert stated.vote(None, votes).summary["gap_above_2"] == 0
    with pytest.raises(InputError, match=r"^path=.*at most 2 votes"):
        VoteFile(path, count=2).check(None)
    with pytest.raises(InputError, match=r"^count=0"):
        VoteFile(path, count=0)
    np.save(path, predictions)
    with pytest.raises(InputError, match=r"nzc\.count_votes"):
        VoteFile(path, count=3).check(None)
    np.save(path, 0 * votes)
    assert VoteFile(path, count=3).vote(None, 0 * votes).summary["gap_above_2"] is None
