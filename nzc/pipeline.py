"""The whole job on one page: data → votes → labels → student → report."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from nzc._types import Ints
from nzc.aggregators import Aggregator, GroundTruth
from nzc.aggregators.aggregator import ABSTAIN
from nzc.datasets import Dataset, Roles, Split
from nzc.errors import InputError, whole, within
from nzc.privacy import Epsilon
from nzc.privacy.conversion import ORDERS
from nzc.privacy.filter import Filter
from nzc.privacy.release import Plan
from nzc.report import Report
from nzc.store import Ledger, Release, Store
from nzc.students import Learner, Material
from nzc.teachers import Ballots, Teachers
from nzc.training import Training

if TYPE_CHECKING:
    from nzc.students.student import Student


@dataclass(frozen=True)
class Parts:
    """What the configuration put together, and the names of its choices."""

    dataset: Dataset | None
    teachers: Teachers
    aggregator: Aggregator
    learner: Learner | None
    training: Training
    store: Store
    seed: int
    delta: float
    queries: int | None
    budget: float | None
    plan: Callable[..., Plan]
    audit_trials: int | None
    names: dict[str, str]


@dataclass(frozen=True)
class Outcome:
    """The report, and what may be kept beside it: the released labels and the student. Public, both."""

    report: Report
    labels: Ints
    student: "Student | None"
    example: Split | None  # public rows, for the model's signature


@dataclass
class _Clock:
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[what] = round(time.perf_counter() - start, 3)


def run(parts: Parts, ready: Callable[[], None] = lambda: None) -> Outcome:
    """Run the job. `ready` is called once the input is known to be good and the work begins."""
    clock = _Clock()
    with clock("total"):
        with within("dataset"):
            roles = None if parts.dataset is None else parts.dataset.load()
        if roles is None and parts.learner is not None:
            raise InputError("student", parts.names["student"], "must be none where there is no dataset")
        with within("teachers"):
            size = parts.teachers.check(roles)
            truth = parts.teachers.truth(roles)
        with within("aggregator"):
            parts.aggregator.check(size.teachers)
        queries = size.rows if parts.queries is None else parts.queries
        whole(1, size.rows, "(the public rows)", queries=queries)
        if isinstance(parts.aggregator, GroundTruth) and truth is None:
            raise InputError("aggregator", "ground_truth", "must have true labels: a dataset, or teachers.labels")
        budget = _budget(parts, queries)
        parts.store.open()
        if parts.learner is not None:
            parts.training.check()
        ready()

        if isinstance(parts.aggregator, GroundTruth) and truth is not None:
            ballots = Ballots.of_truth(truth, size.classes)
        else:
            with clock("teachers"):
                trained = parts.teachers.train(roles, parts.store, parts.training)
            with clock("votes"):
                ballots = parts.teachers.vote(roles, trained)
        with clock("labels"):  # here private becomes public: nothing below reads votes but the accountant
            votes = ballots.votes[:queries]
            labels = parts.aggregator.label(votes, np.random.default_rng([parts.seed, 2]))
            if budget is not None:  # what it admits are the first so many
                asked = int(budget.admit(labels != ABSTAIN).sum())
                votes, labels = votes[:asked], labels[:asked]
        with clock("accounting"):
            epsilon = _account(parts, roles, ballots, votes, labels)

        with clock("student"):
            student, accuracy = None, None
            if parts.learner is not None and roles is not None:
                student = _learn(parts.learner, roles, labels, parts)
                accuracy = _accuracy(student.predict(roles.test.x), roles.test.y)

    kept = labels != ABSTAIN
    report = Report(
        **parts.names,
        seed=parts.seed,
        delta=parts.delta,
        queries=queries,
        answered=int(kept.sum()),
        refused=queries - len(labels),
        label_accuracy=None if truth is None or not kept.any() else _accuracy(labels[kept], truth[: len(labels)][kept]),
        accuracy=accuracy,
        teachers=ballots.summary,
        epsilon=epsilon,
        data=None if roles is None else roles.summary,
        seconds=clock.seconds,
    )
    return Outcome(report, labels, student, None if roles is None else roles.public)


def _budget(parts: Parts, queries: int) -> Filter | None:
    """What says which queries may be asked; None without a budget."""
    if parts.budget is None:
        return None
    budget = parts.aggregator.filter(parts.budget, parts.delta, queries)
    if not budget.admit(np.ones(1, dtype=bool)).all():
        allowed = f"is too little for a single label of {parts.names['aggregator']}"
        raise InputError("budget.epsilon", parts.budget, f"{allowed} at delta={parts.delta:g}")
    return budget


def _account(parts: Parts, roles: Roles | None, ballots: Ballots, votes: Ints, labels: Ints) -> Epsilon:
    """Every ε of these labels. The ledger hears of them before anybody else does."""
    aggregator, delta, noise = parts.aggregator, parts.delta, partial(np.random.default_rng, [parts.seed, 3])
    epsilon = aggregator.epsilon(votes, labels, delta)
    total = None
    if epsilon.rdp is not None:
        dataset = sha256(ballots.votes.tobytes()).hexdigest() if roles is None else roles.private_digest
        spent = repr((aggregator, parts.seed)).encode() + votes.tobytes()
        ledger = Ledger(parts.store.root / "ledger.db")
        facts = {"aggregator": repr(aggregator), "asked": len(labels), "answered": int((labels != ABSTAIN).sum())}
        ledger.record(Release(
            dataset, sha256(spent).hexdigest(), ORDERS, epsilon.rdp, labels.astype("<i8").tobytes(),
            parts.names["aggregator"], facts, leak=epsilon.leak,
        ))  # fmt: skip
        total = ledger.total(dataset, delta)
    audited = None
    if parts.audit_trials is not None:
        audited = aggregator.audit(ballots.count, votes.shape[1], len(votes), parts.audit_trials, delta, noise())
    sanitised = aggregator.sanitised(votes, labels, delta, noise(), parts.plan)
    return replace(epsilon, sanitised=sanitised, audited=audited, ledger_total=total)


def _learn(learner: Learner, roles: Roles, labels: Ints, parts: Parts) -> "Student":
    """The student gets public rows and released labels, and nothing else."""
    released = np.full(len(roles.public), ABSTAIN)
    released[: len(labels)] = labels
    if (released == ABSTAIN).all():
        raise RuntimeError("no query was answered: there is nothing for a student to learn from")
    material = Material(roles.public.x, released, roles.classes)
    student = learner.student(material, parts.seed)
    parts.training.fit(student, "Student", max_epochs=1)
    return student


def _accuracy(labels: Ints, truth: Ints) -> float:
    return float((labels == truth).mean())
