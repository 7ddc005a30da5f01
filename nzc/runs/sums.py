"""Sums as teachers: from private records to a linear model, and its labels of all public rows.

records (private)  →  features  →  LabelingSession.ask_sums  →  weights (public)
"""

from torch import nn

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
    bounded = Bounded(nn.Flatten(), splits.pool)
    place = Placement(bounded)

    public = PublicRows(place(splits.pool), splits.persons)
    units = splits.units
    sums = PrivateSums(
        features=place.all(splits.private.x),
        labels=splits.private.y,
        classes=splits.classes,
        weights=units.weights,
        labels_only=splits.labels_only,
    )
    if units.groups is not None:
        sums = sums.of_persons(units.groups, public.most)
    model = run.session.ask_sums(sums, public)
    return FittedStudent(nn.Sequential(bounded, LinearNetwork(model.weights.T.copy(), model.bias)))
