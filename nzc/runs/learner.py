"""The student of a run, which learns anew after every round."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from nzc.mechanisms import ABSTAIN
from nzc.runs.curves import LearningCurves
from nzc.runs.prepare import PreparedRun
from nzc.students import FittedStudent, StudentData
from nzc.students.label_cleaning import clean_labels
from nzc.students.label_spreading import spread_labels
from nzc.types import Floats, Ints


@dataclass(repr=False)
class Learner:
    """Fits the student to the labels so far and to the unlabeled public rows. It never sees a vote.

    places   of the public rows in the public representation; None: there is none
    student  the last fit; None: no student is wanted, or there is no label
    labels   [public] which that fit learned from; `sources`: the same in words
    probs    class probabilities [public, classes] of the student of the round before; None: there was none
    """

    run: PreparedRun
    places: Floats | None
    curves: LearningCurves
    student: FittedStudent | None = None
    labels: Ints | None = None
    sources: str | None = None
    probs: Floats | None = None

    def fit(self, labels: Ints, number: int) -> None:
        """Learn from labels [pool] after round `number`, the released and the reinforced ones."""
        student, splits, session = self.run.parts.student, self.run.splits, self.run.session
        if student is None or splits is None or (labels == ABSTAIN).all():
            return
        released = int((session.released != ABSTAIN).sum())
        sources = [f"{released:,} released labels"]
        if own := int((labels != ABSTAIN).sum()) - released:
            sources.append(f"{own:,} labels of its own")
        labels = np.concatenate([labels, np.full(len(splits.public) - len(labels), ABSTAIN)])  # votes may cover a part
        data = StudentData(splits.public.x, labels, splits.classes)
        learn = partial(student.fit, seed=session.policy.seed, trainer=self.run.parts.trainer, log=self.curves)
        if student.folds > 1:
            data = clean_labels(data, student.folds, session.policy.seed, lambda part, name: learn(part, name=name))
            sources.append(f"{data.labelled.sum():,} kept by cross-validation")
        if student.spread and self.places is not None:
            data = spread_labels(data, self.places, student.spread)
            sources.append(f"spread to {data.labelled.sum():,} rows")
        last = number == len(session.promise.sizes)
        self.student = learn(data, name="Student" if last else f"Student of round {number}")
        self.labels, self.sources = data.labels, ", ".join(sources)
        if not last:
            self.probs = self.student.probabilities(splits.public.x)
