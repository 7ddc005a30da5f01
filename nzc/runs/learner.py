"""The student of a run: after each round it learns from public rows and released labels."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from nzc.clock import Clock
from nzc.mechanisms import ABSTAIN
from nzc.protocols import Data, Released
from nzc.runs.layout import LEARNING_CURVES
from nzc.runs.outputs import padded
from nzc.runs.prepare import Run
from nzc.students import FittedStudent, Student, StudentData
from nzc.students.labels import clean_labels, soft_labels, spread_labels
from nzc.types import Floats, Ints
from nzc.validation import Tree


class Learner:
    """What has learned so far. It sees no vote.

    released  the last that it was told
    fitted    the last fit; None: no student is wanted, or there is no label
    labels    [pool] which that fit learned from, and `sources` the same in words
    names     of the parts that learned, as the result has them
    probs     class probabilities [public, classes] by the student, for the next round
    """

    released: Released

    def __init__(self, run: Run, data: Data, folder: Path, stage: Clock) -> None:
        self.run = run
        self.data = data
        self.folder = folder
        self.stage = stage
        self.fits = 0
        self.fitted: FittedStudent | None = None
        self.labels: Ints | None = None
        self.sources: str | None = None
        self.names: Tree = {name: run.parts.names[name] for name in ("aggregator", "student")}
        self.probs: Floats | None = None

    def learn(self, released: Released) -> None:
        """Learn from the labels, or take the model that the protocol learned."""
        self.released = released
        self.fits += 1
        student = self.run.parts.student
        given = (released.learn != ABSTAIN).any()
        with self.stage("student"):
            if student is not None and given:
                self._fit(student, released)
            elif released.model is not None:
                self._take(released, released.model)
        if self.fitted is not None:
            self.stage.done("student", f"learned from {self.sources}")

    def _take(self, released: Released, model: FittedStudent) -> None:
        """Let the protocol's own model be the student."""
        parts = self.run.parts
        if parts.student is not None:
            model = parts.student.decided(model, self.data.splits.public.x)
        self.fitted = model
        self.labels = released.labels
        self.sources = released.model_from
        self.names |= {"student": parts.names["teachers"], **released.names}

    def _fit(self, student: Student, released: Released) -> None:
        splits = self.data.splits
        rows = len(splits.pool)
        count = int((released.learn != ABSTAIN).sum())
        data = StudentData(splits.pool, padded(released.learn, rows, ABSTAIN), splits.classes)
        sources = [f"{count - released.reinforced:,} released labels"]
        if released.reinforced:
            sources.append(f"{released.reinforced:,} labels of its own")
        if released.probabilities is not None:
            probabilities = padded(released.probabilities, rows, 0)
            data = soft_labels(data, probabilities, student.spread, released.mixed)

        seed = self.run.session.policy.seed
        learn = partial(
            student.fit, seed=seed, trainer=self.data.trainer, log=partial(_record, self.folder)
        )
        if student.folds > 1:
            data = clean_labels(data, student.folds, seed, learn)
            sources.append(f"{data.labeled.sum():,} kept by cross-validation")
        places = self.data.places
        if student.spread and places is not None:
            if data.soft is None:
                data = spread_labels(data, places, student.spread)
            sources.append(f"spread to {data.labeled.sum():,} rows")

        if self.fits == len(self.run.session.promise.rounds):
            self.fitted = student.decided(learn(data, name="Student"), splits.public.x)
        else:
            self.fitted = learn(data, name=f"Student of round {self.fits}")
            self.probs = self.fitted.probabilities(splits.public.x)
        self.labels = data.labels
        self.sources = ", ".join(sources)


def _record(folder: Path, fit: str, values: Mapping[str, float], step: int) -> None:
    """Add points of the learning curves of a fit to student.csv, where a tracker reads them.

    A user's callback finds what calls this among those of the fit, so it leads to the folder alone,
    and to no vote.
    """
    path = folder / LEARNING_CURVES
    lines = [] if path.exists() else ["curve,step,value"]
    lines += [f"{fit}/{name},{step},{value:.9g}" for name, value in values.items()]
    with path.open("a", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
