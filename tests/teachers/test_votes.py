"""Votes from a file."""

from pathlib import Path

import numpy as np
from pytest import raises

from nzc.data import DataSplits
from nzc.mechanisms import Abstentions, Adjacency, count_votes
from nzc.teachers import VoteHistograms
from nzc.teachers.votes import VoteFile
from nzc.validation import InputError

NONE = DataSplits.empty()


def test_votes_may_be_missing_where_teachers_are_counted(
    tmp_path: Path,
) -> None:
    predictions = np.array([[0, 1, -1], [0, -1, -1], [2, 1, -1]])
    votes = count_votes(predictions, 3)
    path = str(tmp_path / "votes.npy")
    np.save(path, votes)
    unstated = VoteFile(path)
    stated = VoteFile(path, count=5)
    assert unstated.adjacency() == Adjacency()
    assert stated.adjacency() == Abstentions(5)
    task = stated.check(NONE)
    assert (task.rows, task.classes, task.voters, task.unit) == (3, 3, 5, "teacher")
    assert "abstains" in task.neighbours
    assert VoteHistograms(0 * votes, 5).summary["gap_above_2"] is None
    for wrong in (unstated, VoteFile(path, count=2)):
        with raises(InputError, match=r"^path="):
            wrong.check(NONE)
    np.save(path, predictions)
    with raises(InputError, match=r"nzc\.count_votes"):
        VoteFile(path, count=3).check(NONE)
