"""The whole job on one page: data → teachers → votes → labels → student → result."""

import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from nzc.data import UNKNOWN, Dataset, DataSplits
from nzc.labeling.policy import LabelingPolicy
from nzc.labeling.query_selection import REPRESENTATIVE
from nzc.labeling.run_record import RunRecord
from nzc.labeling.session import LabelingSession
from nzc.mechanisms import ABSTAIN, GroundTruth
from nzc.representation import Representation
from nzc.runs.clock import Clock
from nzc.runs.curves import POINTS, LearningCurves, curves_of, write_curves
from nzc.runs.formatting import optional
from nzc.runs.layout import RUN_FIGURES, RUN_FILES, clear, digests
from nzc.runs.metrics import class_names, evaluate, share_right, undeclared, warnings_of
from nzc.runs.names import name_of
from nzc.runs.outputs import write_labels, write_student
from nzc.runs.provenance import versions
from nzc.runs.result import RoundResult, RunResult
from nzc.storage.claim import make_own
from nzc.storage.predictions import PredictionStore
from nzc.students import FittedStudent, Student, StudentData
from nzc.students.label_cleaning import clean_labels
from nzc.students.label_spreading import spread_labels
from nzc.teachers import Teachers, VoteHistograms
from nzc.training.trainer import TrainerSettings
from nzc.types import CurveLog, Floats, Ints, StageLog
from nzc.validation import InputError, within


@dataclass(frozen=True)
class RunComponents:
    """The objects that the configuration describes.

    queries  how many public rows are asked; None: all
    data_name  the user's own name of the private data (`Ledger.name`); None: it has none
    figures  whether to draw figures
    """

    dataset: Dataset | None
    representation: Representation | None
    teachers: Teachers
    policy: LabelingPolicy
    queries: int | None
    student: Student | None
    trainer: TrainerSettings
    store: PredictionStore
    data_name: str | None
    figures: bool

    @property
    def names(self) -> dict[str, str]:
        """The names of dataset, aggregator and student."""
        return {"dataset": name_of(self.dataset), "aggregator": self.policy.name, "student": name_of(self.student)}


def prepare(parts: RunComponents) -> "PreparedRun":
    """Load the data and check that all components fit together. An InputError leaves nothing behind."""
    mechanism, student = parts.policy.mechanism, parts.student
    if parts.dataset is None and student is not None:
        raise InputError("student", parts.names["student"], "must be none where there is no dataset")
    if parts.dataset is None and parts.teachers.needs_dataset:
        raise InputError("dataset", "none", "must be a dataset where teachers are to be trained; or teachers=votes")
    needs = {
        "these teachers": parts.teachers.needs_embedding,
        f"query_choice={REPRESENTATIVE}": parts.policy.selection.choice == REPRESENTATIVE,
        "student.spread": student is not None and student.spread > 0,
    }
    if who := [key for key, needed in needs.items() if needed]:
        if parts.dataset is None:
            raise InputError("dataset", "none", f"must be a dataset for {who[0]}; recipe=papers asks the first rows")
        if parts.representation is None:
            raise InputError("representation", "none", f"must be contrastive, spectral or your own for {who[0]}")
    else:  # it would be learned in vain
        parts = replace(parts, representation=None)
    with within("dataset"):
        splits = None if parts.dataset is None else load(parts.dataset)
    if splits is not None and parts.teachers.needs_dataset and len(np.unique(splits.private.y)) < 2:
        found = "all of them are of one class" if len(splits.private) else "it has none (teachers=votes needs none)"
        raise InputError("dataset", parts.names["dataset"], f"must have private rows of two or more classes; {found}")
    with within("teachers"):
        shape = parts.teachers.check(splits)
        truth = parts.teachers.truth(splits)
    with within("aggregator"):
        mechanism.check(shape.teachers)
    if isinstance(mechanism, GroundTruth) and (truth is None or (truth == UNKNOWN).any()):
        raise InputError("aggregator", "ground_truth", "must have true labels: a dataset, or teachers.labels")
    sizes = parts.policy.selection.sizes(parts.queries, shape.rows, student is not None, mechanism.asks_student)
    policy, digest = parts.policy, parts.teachers.private_digest(splits)
    ledger = RunRecord(parts.store.ledger, digest, parts.data_name, policy.rng, policy.seed, parts.store.wait)
    ledger.check()
    session = LabelingSession(policy, sizes, shape.rows, ledger, None if splits is None else splits.public.x)
    if parts.teachers.labels_asked_only and len(sizes) > 1:
        allowed = "must be 1 where teachers label asked rows only; or set teachers.label=all, without teachers.cells"
        raise InputError("rounds", len(sizes), allowed)
    if splits is not None and student is not None:
        student.check(splits.public.x.shape[1:], splits.classes, parts.trainer)
    if splits is not None and parts.representation is not None:
        parts.representation.check(splits.public.x)
    if splits is not None and not isinstance(mechanism, GroundTruth):
        with within("teachers"):
            parts.teachers.check_training(splits, parts.store, parts.trainer)
    return PreparedRun(parts, splits, truth, shape.classes, session)


@dataclass(frozen=True, repr=False)
class PreparedRun:
    """A run whose input is known to be good.

    truth  [pool] true labels, UNKNOWN where a row's class is not known; None: none is known
    """

    parts: RunComponents
    splits: DataSplits | None
    truth: Ints | None
    classes: int
    session: LabelingSession

    def train_worker(self) -> None:
        """On a worker node: train its share of the teachers."""
        splits, teachers = self.splits, self.parts.teachers
        if splits is not None and teachers.labels_asked_only:
            splits = self._represented(Clock())
            splits = self._asking(splits, self.session.choose(embedding=_places(splits)))
        teachers.train_worker(splits, self.parts.store, self.parts.trainer)

    def execute(self, folder: Path, log: CurveLog | None = None, say: StageLog | None = None) -> RunResult:
        """Run the job and write everything into `folder`.

        log  receives the student's learning curves as they grow
        say  receives every stage when it ends
        """
        clock, policy, session, truth = Clock(say), self.parts.policy, self.session, self.truth
        made_by, learning_curves = versions(), LearningCurves(log)
        last = len(session.sizes)
        clear(folder, RUN_FILES, RUN_FIGURES)
        make_own(self.parts.store.root)
        with clock("total"):
            splits = self._represented(clock)
            places = _places(splits)
            rows = session.choose(embedding=places)
            votes = self._vote(self._asking(splits, rows), clock)
            student, learned, learned_from, probs, rounds = None, None, None, None, []
            for number in range(1, last + 1):
                with clock("labels"):  # privacy boundary: private votes become public labels
                    asked = session.ask(votes, rows, probs)
                with clock("accounting"):
                    session.record()
                    epsilon = asked.cost.exact_epsilon(policy.delta)[0]
                clock.done("labels", f"{asked.answered:,} of {len(asked.rows):,} queries answered")
                labels = session.training_labels(probs)
                reinforced = int((labels != ABSTAIN).sum() - (session.released != ABSTAIN).sum())
                right = None if truth is None else share_right(asked.labels, truth[asked.rows])
                rounds.append(RoundResult(len(asked.rows), asked.answered, reinforced, right, epsilon))
                with clock("student"):
                    name = "Student" if number == last else f"Student of round {number}"
                    student, learned, learned_from = self._learn(labels, places, name, learning_curves)
                    if student is not None and self.splits is not None and number < last:
                        probs = student.probabilities(self.splits.public.x)
                if student is not None:
                    clock.done("student", f"learned from {learned_from}")
                if number < last:
                    rows = session.choose(probs, places)
            with clock("accounting"):
                epsilons, cost_curve = session.epsilon(votes), session.cost_curve(POINTS)
            with clock("student"):
                accuracy, metrics = evaluate(student, self.splits)
        names = class_names(self.splits, self.classes)
        warnings = [*undeclared(self.splits), *warnings_of(session.released, learned, names, accuracy, metrics)]
        for line in warnings:
            print(f"nzc: {line}", file=sys.stderr)
        result = RunResult(
            **self.parts.names,
            seed=policy.seed,
            rng=policy.rng,
            mechanism=repr(policy.mechanism),
            delta=policy.delta,
            queries=sum(session.sizes),
            answered=sum(each.answered for each in rounds),
            refused=sum(session.sizes) - len(session.rows),
            reinforced=rounds[-1].reinforced,
            label_accuracy=None if truth is None else share_right(session.released, truth),
            accuracy=accuracy,
            teachers=votes.summary,
            epsilon=epsilons,
            ledger_trials=len(session.ledger.split()[1]) if session.ledger.entries else None,
            rounds=rounds,
            data=None if self.splits is None else self.splits.summary,
            neighbours=self.parts.teachers.neighbours(self.splits),
            unit=self.parts.teachers.unit(self.splits),
            publish=policy.publish,
            seconds=clock.seconds,
            versions=made_by,
            metrics=metrics,
            warnings=warnings,
            folder=folder,
            learned_from=learned_from,
            grouped_by=None if self.splits is None else self.splits.grouped_by,
            moved_votes="any number of rows"
            if (most := policy.mechanism.moved) is None
            else f"at most {most} asked rows",
        )
        write_labels(folder, session.released, self.splits)
        if student is not None and self.splits is not None:
            write_student(folder, student, session.released, self.splits)
        learning_curves.write(folder)
        curves = curves_of(votes.votes, session.rows, session.released, cost_curve) if votes.teachers else {}
        write_curves(folder, curves)
        result.write(folder)
        session.close(digests(folder))
        if self.parts.figures:
            with optional("figures"):
                from nzc.runs.plots import plot_run  # matplotlib takes half a second to import

                plot_run(folder, curves, session.released, truth)
        return result

    def _represented(self, clock: Clock) -> DataSplits | None:
        """Return the splits with the places of their rows in the public representation, if there is one."""
        parts, splits = self.parts, self.splits
        if parts.representation is None or splits is None:
            return splits
        with clock("representation"), within("representation"):
            found = replace(splits, embedding=parts.representation.embed(splits, parts.store, parts.trainer))
        clock.done("representation", f"{len(splits.public):,} public rows placed")
        return found

    def _asking(self, splits: DataSplits | None, rows: Ints) -> DataSplits | None:
        """Return the splits of which the teachers label the rows that are asked, where they want no others."""
        return replace(splits, asked=rows) if splits is not None and self.parts.teachers.labels_asked_only else splits

    def _vote(self, splits: DataSplits | None, clock: Clock) -> VoteHistograms:
        """Return the votes of the trained teachers; for GroundTruth the true labels as votes."""
        parts = self.parts
        if isinstance(parts.policy.mechanism, GroundTruth) and self.truth is not None:
            return VoteHistograms.of_truth(self.truth, self.classes)
        with clock("teachers"):
            trained = parts.teachers.train(splits, parts.store, parts.trainer)
        clock.done("teachers", f"{parts.teachers.check(splits).teachers:,} ready")
        with clock("votes"):
            votes = parts.teachers.vote(splits, trained)
        clock.done("votes", f"{len(votes.votes):,} rows counted")
        return votes

    def _learn(
        self, labels: Ints, places: Floats | None, name: str, log: CurveLog
    ) -> tuple[FittedStudent | None, Ints | None, str | None]:
        """Fit a student to labels [pool] and the unlabelled rows; return it, and what it learned from: labels, words.

        None: no student is wanted, or there is no label.
        """
        parts, splits = self.parts, self.splits
        if parts.student is None or splits is None or (labels == ABSTAIN).all():
            return None, None, None
        words = [f"{(self.session.released != ABSTAIN).sum():,} released labels"]
        if own := int((labels != ABSTAIN).sum() - (self.session.released != ABSTAIN).sum()):
            words.append(f"{own:,} labels of its own")
        labels = np.concatenate([labels, np.full(len(splits.public) - len(labels), ABSTAIN)])  # votes may cover a part
        data = StudentData(splits.public.x, labels, splits.classes)
        learn = partial(parts.student.fit, seed=parts.policy.seed, trainer=parts.trainer, log=log)
        if parts.student.folds > 1:
            data = clean_labels(data, parts.student.folds, parts.policy.seed, lambda part, name: learn(part, name=name))
            words.append(f"{data.labelled.sum():,} kept by cross-validation")
        if parts.student.spread and places is not None:
            data = spread_labels(data, places, parts.student.spread)
            words.append(f"spread to {data.labelled.sum():,} rows")
        return learn(data, name=name), data.labels, ", ".join(words)


def load(dataset: Dataset) -> DataSplits:
    """Load a dataset. The jobs of a sweep mostly share one, so the last one is kept until `forget_data`."""
    if not (_loaded and _loaded[0][0] == dataset):
        _loaded[:] = [(dataset, dataset.load())]
    return _loaded[0][1]


_loaded: list[tuple[Dataset, DataSplits]] = []


def forget_data() -> None:
    """Let the next run read its dataset again: its files may have changed."""
    _loaded.clear()


def _places(splits: DataSplits | None) -> Floats | None:
    """Return the places of the public rows in the public representation, if there is one."""
    return None if splits is None or splits.embedding is None else splits.embedding.public
