"""Check that the parts of a run fit together, before anything is trained or written."""

from dataclasses import dataclass, replace

import numpy as np

from nzc.data import UNKNOWN, Dataset, DataSplits
from nzc.data.cache import load
from nzc.labeling.bound import LabelingPolicy, Promise, admits_answered
from nzc.labeling.group_budgets import total_weight, weigh
from nzc.labeling.query_selection import REPRESENTATIVE
from nzc.labeling.release import LabelingSession
from nzc.labeling.run_ledger import RunLedger
from nzc.mechanisms import GroundTruth, NoisySums
from nzc.mechanisms.noise import GaussianNoise
from nzc.planning.advice import about_delta, about_sums, doubts
from nzc.planning.expected import (
    expected,
    expected_in_cells,
    histograms,
    rows_to_ask,
    vote_shares,
)
from nzc.representation import Representation
from nzc.runs.own_metric import OwnMetric
from nzc.runs.publishable import require_name, require_publishable
from nzc.storage.predictions import PredictionStore
from nzc.students import Student
from nzc.teachers import Teachers
from nzc.teachers.base import VoteShape
from nzc.teachers.sums import COUNTS_SHARE, counts_reach
from nzc.training.trainer import TrainerSettings
from nzc.types import Ints
from nzc.validation import InputError, Tree, within


@dataclass(frozen=True)
class RunComponents:
    """The objects that the configuration describes, and the names of their options.

    names      of dataset, representation, teachers, aggregator and student, as typed
    queries    how many public rows are asked; None: all
    data_name  of the people whom the private data are about (`Ledger.name`); None: they have none
    own_names  the same of a dataset of nzc; []: the dataset is the user's own
    figures    whether to draw figures
    metrics    the user's own figures of merit
    baseline   whether DP-SGD learns instead of teachers and student, at the ε that their labels
               would have
    """

    names: dict[str, str]
    dataset: Dataset | None
    representation: Representation | None
    teachers: Teachers
    policy: LabelingPolicy
    queries: int | None
    student: Student | None
    trainer: TrainerSettings
    store: PredictionStore
    data_name: str | None
    own_names: list[str]
    figures: bool
    metrics: tuple[OwnMetric, ...]
    baseline: bool

    @property
    def asks_truth(self) -> bool:
        """Whether the true labels are released, in place of votes."""
        return isinstance(self.policy.mechanism, GroundTruth)


@dataclass(frozen=True, repr=False)
class PreparedRun:
    """A run whose input is known to be good.

    truth     [pool] true labels, UNKNOWN where a row's class is not known; None: none is known
    warnings  what speaks against the run beforehand, a line each
    """

    parts: RunComponents
    splits: DataSplits
    truth: Ints | None
    classes: int
    session: LabelingSession
    warnings: list[str]

    def require_publishable(self, private: bool) -> None:
        """Raise InputError where `nzc publish` would refuse the run, whatever its labels are.

        private  whether the line may name classes of private records
        """
        parts = self.parts
        ledger = self.session.ledger
        undeclared = self.splits.undeclared_classes
        if not private:
            undeclared = undeclared and "[no,yes]"
        require_publishable(ledger.rng, self.session.promise.epsilon, undeclared, parts.baseline)
        names = ledger.ledger.names() if ledger.path.exists() else {}
        require_name("dataset.name", parts.data_name, names.get(ledger.dataset, parts.own_names))


def prepare(parts: RunComponents) -> PreparedRun:
    """Load the data and check that all components fit together.

    An InputError leaves nothing behind.
    """
    if isinstance(parts.policy.mechanism, NoisySums) and not parts.baseline:
        _check_sums(parts)
    if not _needs_places(parts):
        parts = replace(parts, representation=None)  # it would be learned in vain
    teachers = parts.teachers
    splits = load_for(parts.dataset, teachers, parts.names["dataset"])
    splits = weigh(splits, parts.policy.shares, teachers.takes_budgets and not parts.baseline)
    with within("teachers"):
        shape = teachers.check(splits)
        truth = teachers.truth(splits)
    _check_mechanism(parts, shape, truth)
    session = _session(parts, splits, shape)
    if parts.baseline:
        _check_baseline(parts, session)
    if parts.trainer.own:
        parts.trainer.check()
    _check_learners(parts, splits)
    labels = splits.test.y
    for metric in parts.metrics:
        metric.check(labels[labels != UNKNOWN], shape.classes)
    warnings: list[str] = []
    if isinstance(parts.policy.mechanism, NoisySums):
        warnings = _doubts_of_sums(session, splits)
    elif not parts.asks_truth and not parts.baseline:
        warnings = _doubts(session, shape, splits)
    return PreparedRun(parts, splits, truth, shape.classes, session, warnings)


def load_for(dataset: Dataset | None, teachers: Teachers, name: str) -> DataSplits:
    """Load the dataset `name`, or none. InputError: the teachers need another one."""
    if dataset is None:
        if teachers.needs_dataset:
            raise InputError(
                "dataset",
                "none",
                "must be a dataset where teachers are to be trained; or teachers=votes",
            )
        return DataSplits.empty()
    splits = load(dataset)
    least = 1 if splits.declared else 2  # else one record would decide whether there is a run
    if teachers.needs_dataset and len(np.unique(splits.private.y)) < least:
        why = "all of them are of one class; dataset.classes states others"
        if not len(splits.private):
            why = "it has none (teachers=votes needs none)"
        raise InputError("dataset", name, f"must have private rows of two or more classes; {why}")
    return splits


def _needs_places(parts: RunComponents) -> bool:
    """Return whether anything uses the public representation.

    InputError: it is missing, or the dataset is.
    """
    student = parts.student
    if parts.dataset is None and student is not None:
        raise InputError(
            "student", parts.names["student"], "must be none where there is no dataset"
        )
    user = None
    if parts.teachers.needs_embedding:
        user = "these teachers"
    elif parts.policy.selection.choice == REPRESENTATIVE:
        user = f"query_choice={REPRESENTATIVE}"
    elif student is not None and student.spread > 0:
        user = "student.spread"
    if user and parts.dataset is None:
        raise InputError(
            "dataset", "none", f"must be a dataset for {user}; query_choice=first needs none"
        )
    if user and parts.representation is None:
        raise InputError(
            "representation", "none", f"must be auto, spectral or another one for {user}"
        )
    return user is not None or parts.baseline


def _check_sums(parts: RunComponents) -> None:
    """Raise InputError where an option was chosen that noisy sums do not use."""
    choice = parts.policy.selection.choice
    student = parts.student
    chosen: Tree = {
        "query_choice": choice if choice == REPRESENTATIVE else None,
        "representation": parts.representation and parts.names["representation"],
        "student.spread": student and student.spread,
        "audit": parts.policy.audit_trials,
    }
    for key, value in chosen.items():
        if value:
            raise InputError(
                key, value, "must have its default, because teachers=sums do not use it"
            )


def _check_mechanism(parts: RunComponents, shape: VoteShape, truth: Ints | None) -> None:
    """Check the mechanism against the votes; true labels must be known to be released."""
    with within("aggregator"):
        parts.policy.mechanism.check(shape.teachers)
    if parts.asks_truth and (truth is None or (truth == UNKNOWN).any()):
        raise InputError(
            "aggregator",
            parts.names["aggregator"],
            "must have true labels: a dataset, or teachers.labels",
        )


def _session(parts: RunComponents, splits: DataSplits, shape: VoteShape) -> LabelingSession:
    """Return the session of this run, with what it promises. InputError: it may not be run."""
    policy = parts.policy
    teachers = parts.teachers
    queries = parts.queries
    if isinstance(policy.mechanism, NoisySums):
        queries = None  # all rows, at one price
    elif queries is None and not policy.mechanism.adjacency.everywhere:
        counts = int(total_weight(shape.teachers, policy.shares))
        queries = rows_to_ask(counts, shape.classes, shape.rows, policy.mechanism.noise.deviation)
    student = parts.student is not None
    sizes = policy.selection.sizes(queries, shape.rows, student, policy.mechanism.asks_student)
    if teachers.labels_asked_only and len(sizes) > 1:
        raise InputError(
            "rounds", len(sizes), "must be 1 where teachers label asked rows only (teachers.label)"
        )
    promise = Promise.of(policy, sizes)
    ledger = RunLedger(
        parts.store.ledger,
        teachers.private_digest(splits),
        parts.data_name,
        policy.rng,
        policy.seed,
        parts.store.wait,
        teachers.neighbours(splits),
        policy.total,
    )
    ledger.check(lambda: promise.bound)
    public = None if splits.is_empty else splits.public.x
    return LabelingSession(promise, shape.rows, ledger, public)


def _check_baseline(parts: RunComponents, session: LabelingSession) -> None:
    """Check that DP-SGD has records to learn from, and an ε."""
    if not parts.teachers.needs_dataset or not np.isfinite(session.promise.epsilon):
        raise InputError(
            "baseline",
            True,
            "must be false unless there are private records, and labels with a finite ε",
        )


def _check_learners(parts: RunComponents, splits: DataSplits) -> None:
    """Check that student, representation and teachers can learn from the data."""
    student = parts.student
    if student is not None:
        if isinstance(student.threshold, float) and splits.classes != 2:
            raise InputError(
                "student.threshold",
                student.threshold,
                f"must be balanced, or null: a number is for two classes, not {splits.classes}",
            )
        student.check(splits.public.x.shape[1:], splits.classes, parts.trainer)
    if parts.representation is not None:
        parts.representation.check(splits.public.x)
    if not parts.asks_truth:
        with within("teachers"):
            parts.teachers.check_training(splits, parts.store, parts.trainer)


def _doubts_of_sums(session: LabelingSession, splits: DataSplits) -> list[str]:
    """Return what speaks against sums, from public facts."""
    noise = session.promise.rounds[0].mechanism.noise
    assert isinstance(noise, GaussianNoise)
    lines = about_delta(session.promise.bound[1], splits.unit_count)
    noise_std = noise.sigma * counts_reach(None) / COUNTS_SHARE**0.5
    lines += about_sums(noise_std, splits.unit_count, splits.classes, len(splits.pool))
    if splits.units.groups is not None and splits.persons is None:
        lines.append(
            f"public rows have no {splits.units.grouped_by or 'groups'}: the records of a private "
            "group are averaged, which costs accuracy"
        )
    return lines


def _doubts(session: LabelingSession, shape: VoteShape, splits: DataSplits) -> list[str]:
    """Return what speaks against a run before its first vote, from public facts.

    `nzc plan` says the same.
    """
    promise = session.promise
    policy = session.policy
    asked = sum(promise.sizes)
    mechanism = promise.rounds[0].mechanism
    in_cells = not mechanism.adjacency.everywhere
    if in_cells:
        counts = int(total_weight(shape.teachers, policy.shares))
        answered, right = expected_in_cells(mechanism, counts, shape.classes, asked)
    else:
        votes, frequency = histograms(vote_shares(shape.classes), shape.teachers)
        answered, right = expected(mechanism, votes, frequency)

    labels = answered * asked
    limit = None
    if mechanism.screen is None:  # else noise decides their number
        labels = float(admits_answered(promise.rounds[0].filter, asked))
        if labels < asked:
            limit = policy.budget
    records = splits.unit_count or None
    share = right / (answered or 1)
    return doubts(labels, share, shape.classes, limit, promise.bound[1], records, in_cells=in_cells)
