"""Sums as teachers: from private records to a linear model, and its labels of all public rows.

    records (private)  →  features  →  LabelingSession.ask_sums  →  weights (public)
"""

import numpy as np
from torch import nn

from nzc.data import DataSplits
from nzc.data.rows import blocks
from nzc.labeling.sums import PublicRows
from nzc.representation import Placement
from nzc.representation.bounded import Bounded
from nzc.runs.checks import PreparedRun
from nzc.students import FittedStudent
from nzc.students.linear import LinearNetwork
from nzc.teachers.sums import PrivateSums


def release(run: PreparedRun) -> FittedStudent:
    """Release the sums of the private records; return the model that follows from them."""
    splits = run.splits
    parts = run.parts
    assert splits is not None
    network: nn.Module = nn.Flatten()
    if parts.representation is not None:
        network = parts.representation.fit(splits.pool, parts.trainer).network
    bounded = Bounded(network, splits.pool)
    place = Placement(bounded)

    public = PublicRows(place(splits.pool), _persons(splits))
    sums = _private_sums(splits, place, public)
    model = run.session.ask_sums(sums, public)
    return FittedStudent(nn.Sequential(bounded, LinearNetwork(model.weights.T.copy(), model.bias)))


def _persons(splits: DataSplits) -> AnyArray | None:
    ...
