"""What vote histograms say of themselves."""

import numpy as np

from nzc.mechanisms import count_votes
from nzc.protocols.task import VoteHistograms


def test_one_teacher_never_leads_by_two() -> None:
    votes = VoteHistograms(count_votes([[0, 1, 1]], 2), 1, np.array([0, 1, 0]))
    assert votes.summary["gap_above_2"] == 0
