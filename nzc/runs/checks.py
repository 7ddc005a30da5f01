"""Check that the parts of a run fit together, before anything is trained or written."""

import sys
from dataclasses import dataclass, replace

import numpy as np

from nzc.data import UNKNOWN, Dataset, DataSplits
from nzc.labeling.bound import LabelingPolicy, Promise
from nzc.labeling.group_budgets import total_weight, weigh
from nzc.labeling.query_selection import REPRESENTATIVE
from nzc.labeling.release import LabelingSession
from nzc.labeling.run_ledger import RunLedger
from nzc.mechanisms import GroundTruth
from nzc.planning.expected import (
    doubts,
    expected,
    expected_in_cells,
    histograms,
    price,
    rows_to_ask,
    vote_shares,
)
from nzc.progress import lines
from nzc.representation import Representation
from nzc.runs.own_metric import OwnMetric
from nzc.storage.predictions import PredictionStore
from nzc.students import Student
from nzc.teachers import Teachers
from nzc.teachers.base import VoteShape
from nzc.training.trainer import TrainerSettings
from nzc.types import Ints
from nzc.validation import InputError, whole, within


@dataclass(frozen=True)
class RunComponents:
    """The objects that the configuration describes, and the names of their options."""

    names: dict[str, str]  # of dataset, teachers, aggregator and student, as typed
    dataset: Dataset | None
    representation: Representation | None
    teachers: Teachers
    policy: LabelingPolicy
    queries: int | None  # how many public rows are asked; None: all
    student: Student | None
    trainer: TrainerSettings
    store: PredictionStore
    data_name: (
        str | None
    )  # of the people whom the private data are about (`Ledger.name`); None: they have none
    figures: bool  # whether to draw figures
    metrics: tuple[OwnMetric, ...]  # the user's own figures of merit
    baseline: bool  # whether DP-SGD learns instead of teachers and student, at the ε that their labels would have


@dataclass(frozen=True, repr=False)
class PreparedRun:
    """A run whose input is known to be good."""

    parts: RunComponents
    splits: DataSplits | None
    truth: (
        Ints | None
    )  # [pool] true labels, UNKNOWN where a row's class is not known; None: none is known
    classes: int
    session: LabelingSession
    warnings: list[str]  # what speaks against the run beforehand, a line each

    @property
    def remedies(self) -> tuple[str, list[str]]:
        """What to try where labels are too few or too often wrong, and what else where a rare class
        is missed.
        """
        policy, in_cells = (
            self.session.policy,
            not self.session.policy.mechanism.adjacency.everywhere,
        )
        others = ["teachers=logistic", "student.balance=1"]
        if in_cells:  # teachers=logistic votes on a number of queries, which own cells do not need
            others = ["recipe=tables"] * (
                self.splits is not None and self.splits.encoder is not None
            )
        if self.parts.baseline:
            return "a larger ε", []
        if policy.budget is None:
            return "more queries or less noise", others
        if any("noise" in line for line in self.warnings):
            return "a larger ε or fewer queries", others
        return f"a larger ε or more queries with {price(in_cells)}", others


def prepare(parts: RunComponents) -> PreparedRun:
    """Load the data and check that all components fit together. An InputError leaves nothing
    behind.
    """
    teachers, policy, store, student = parts.teachers, parts.policy, parts.store, parts.student
    if not _needs_places(parts):
        parts = replace(parts, representation=None)  # it would be learned in vain
    splits = load_for(parts.dataset, teachers, parts.names["dataset"])
    names = None if splits is None else splits.names
    splits = weigh(splits, policy.shares, teachers.takes_budgets and not parts.baseline)
    with within("teachers"):
        shape, truth = teachers.check(splits), teachers.truth(splits)
    with within("aggregator"):
        policy.mechanism.check(shape.teachers)
    is_truth = isinstance(policy.mechanism, GroundTruth)
    if is_truth and (truth is None or (truth == UNKNOWN).any()):
        raise InputError(
            "aggregator",
            parts.names["aggregator"],
            "must have true labels: a dataset, or teachers.labels",
        )
    queries = parts.queries
    if queries is None and not policy.mechanism.adjacency.everywhere:
        of = int(total_weight(shape.teachers, policy.shares)), shape.classes, shape.rows
        queries = rows_to_ask(*of, policy.mechanism.noise.deviation)
    sizes = policy.selection.sizes(
        queries, shape.rows, student is not None, policy.mechanism.asks_student
    )
    digest, promise = teachers.private_digest(splits), Promise(policy, sizes)
    ledger = RunLedger(
        store.ledger,
        digest,
        parts.data_name,
        policy.rng,
        policy.seed,
        store.wait,
        teachers.neighbours(splits),
        policy.total,
        keys=names,
    )
    ledger.check(lambda: promise.bound)
    session = LabelingSession(
        promise, shape.rows, ledger, None if splits is None else splits.public.x
    )
    if teachers.labels_asked_only and len(sizes) > 1:
        raise InputError(
            "rounds", len(sizes), "must be 1 where teachers label asked rows only (teachers.label)"
        )
    if parts.baseline and (
        splits is None or not teachers.needs_dataset or not np.isfinite(promise.epsilon)
    ):
        raise InputError(
            "baseline",
            True,
            "must be false unless there are private records, and labels with a finite ε",
        )
    if splits is not None and student is not None:
        if isinstance(student.threshold, float) and splits.classes != 2:
            allowed = f"must be balanced, or null: a number is for two classes, and there are {splits.classes}"
            raise InputError("student.threshold", student.threshold, allowed)
        student.check(splits.public.x.shape[1:], splits.classes, parts.trainer)
    _check_trainer(parts)
    test_labels = np.array([], np.int64) if splits is None else splits.test.y
    for metric in parts.metrics:
        metric.check(test_labels[test_labels != UNKNOWN], shape.classes)
    if splits is not None and parts.representation is not None:
        parts.representation.check(splits.public.x)
    if splits is not None and not is_truth:
        with within("teachers"):
            teachers.check_training(splits, store, parts.trainer)
    warnings = [] if is_truth or parts.baseline else _doubts(session, shape, splits)
    return PreparedRun(parts, splits, truth, shape.classes, session, warnings)


def _check_trainer(parts: RunComponents) -> None:
    """Check the options of student and representation; a line says where neither is trained by
    them.
    """
    options = parts.trainer.own
    if not options:
        return
    parts.trainer.check()
    if parts.representation is None and (parts.student is None or not parts.student.by_lightning):
        unused = ", ".join(f"trainer.{name}" for name in options)
        print(
            f"nzc: {unused}: does nothing where Lightning trains neither student nor representation",
            file=sys.stderr,
        )


def _doubts(session: LabelingSession, shape: VoteShape, splits: DataSplits | None) -> list[str]:
    """Return what speaks against a run before its first vote, from public facts: `nzc plan` says
    the same.
    """
    promise, policy, asked = session.promise, session.policy, sum(session.promise.sizes)
    mechanism, admits = promise.mechanisms[0], promise.filters[0]
    if in_cells := not mechanism.adjacency.everywhere:
        counts = int(total_weight(shape.teachers, policy.shares))
        answered, right = expected_in_cells(mechanism, counts, shape.classes, asked)
    else:
        answered, right = expected(
            mechanism, *histograms(vote_shares(shape.classes), shape.teachers)
        )
    labels, limit, records = (
        answered * asked,
        None,
        None if splits is None else splits.units or None,
    )
    if (
        admits is not None and mechanism.screen is None
    ):  # behind a screen, noise decides how many the budget admits
        admitted = int(admits.admit(np.ones(asked, dtype=bool)).sum())
        labels, limit = float(admitted), policy.budget if admitted < asked else None
    return doubts(
        labels,
        right / (answered or 1),
        shape.classes,
        limit,
        promise.bound[1],
        records,
        in_cells=in_cells,
    )


def _needs_places(parts: RunComponents) -> bool:
    """Return whether anything uses the public representation. InputError: it is missing, or the
    dataset is.
    """
    if parts.dataset is None and parts.student is not None:
        raise InputError(
            "student", parts.names["student"], "must be none where there is no dataset"
        )
    users = {
        "these teachers": parts.teachers.needs_embedding,
        f"query_choice={REPRESENTATIVE}": parts.policy.selection.choice == REPRESENTATIVE,
        "student.spread": parts.student is not None and parts.student.spread > 0,
    }
    for user in (name for name, uses in users.items() if uses):
        if parts.dataset is None:
            raise InputError(
                "dataset", "none", f"must be a dataset for {user}; query_choice=first needs none"
            )
        if parts.representation is None:
            raise InputError(
                "representation", "none", f"must be auto, spectral or another one for {user}"
            )
    return any(users.values())


_loaded: list[tuple[Dataset, DataSplits]] = []


def check_data(dataset: Dataset, queries: int | None) -> None:
    """Check the user's files, before teachers and students are imported, which takes seconds."""
    if not (_loaded and _loaded[0][0] == dataset):
        with within("dataset"):
            rows = dataset.check()
        if rows is not None and queries is not None:
            whole("queries", queries, 1, rows, "(the public rows)")
        with within("dataset"):
            dataset.describe()


def load_for(dataset: Dataset | None, teachers: Teachers, name: str) -> DataSplits | None:
    """Load the dataset `name` for these teachers; None: there is none. InputError: they need
    another one.
    """
    if dataset is None:
        if teachers.needs_dataset:
            raise InputError(
                "dataset",
                "none",
                "must be a dataset where teachers are to be trained; or teachers=votes",
            )
        return None
    with within("dataset"):
        splits = load(dataset)
    if teachers.needs_dataset and len(np.unique(splits.private.y)) < 2:
        why = (
            "all of them are of one class"
            if len(splits.private)
            else "it has none (teachers=votes needs none)"
        )
        raise InputError("dataset", name, f"must have private rows of two or more classes; {why}")
    return splits


def load(dataset: Dataset) -> DataSplits:
    """Load a dataset. The jobs of a sweep mostly share one, so the last one is kept until
    `forget_data`.
    """
    if not (_loaded and _loaded[0][0] == dataset):
        with lines(lambda: "the data are still being read"):
            _loaded[:] = [(dataset, dataset.read())]
    return _loaded[0][1]


def forget_data() -> None:
    """Let the next run read its dataset again: its files may have changed."""
    _loaded.clear()
