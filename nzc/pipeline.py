"""The whole job on one page: data → votes → labels → student → report."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from nzc import curves, networks
from nzc._types import Draw, Ints
from nzc.aggregators import GroundTruth
from nzc.aggregators.aggregator import ABSTAIN
from nzc.curves import Curves
from nzc.datasets import UNKNOWN, Dataset, Roles, Split, Standard
from nzc.errors import InputError, within
from nzc.inquiry import Inquiry, Terms
from nzc.report import Report, Round
from nzc.report.origin import versions
from nzc.store import Store
from nzc.students import Learner, Material
from nzc.students.doubt import believed
from nzc.teachers import Ballots, Teachers
from nzc.training import Training

if TYPE_CHECKING:
    from nzc.students.student import Student


@dataclass(frozen=True)
class Parts:
    """What the configuration put together, and the names of its choices."""

    dataset: Dataset | None
    teachers: Teachers
    terms: Terms
    queries: int | None
    learner: Learner | None
    training: Training
    store: Store
    names: dict[str, str]


@dataclass(frozen=True)
class Outcome:
    """The report, and what may be kept beside it: all but truth and curves public.

    released   [pool] the labels of the public rows; ABSTAIN where none was released
    student    the last one; None where none was wanted, or no label was there to learn from
    example    public rows, for the signature of the student as a model; with the next two all that is kept of Roles,
               which hold private records too
    origin     [public] where the public rows stood in the file, as in Roles
    standard   what was done to their features, as in Roles
    truth      [pool] the true labels, UNKNOWN where nobody knows; None without any
    close      to be called once all of it is kept (Inquiry.close)
    """

    report: Report
    released: Ints
    student: "Student | None"
    example: Split | None
    origin: Ints | None
    standard: Standard | None
    truth: Ints | None
    curves: Curves
    close: Callable[[], None]


@dataclass
class _Clock:
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[what] = round(self.seconds.get(what, 0.0) + time.perf_counter() - start, 3)


def run(parts: Parts, ready: Callable[[], None] = lambda: None, draw: Draw | None = None) -> Outcome:
    """Run the job.

    `ready` is called once the input is known to be good and the work begins; `draw` gets points of curves on the way.
    """
    clock, terms, made_by = _Clock(), parts.terms, versions()  # before files can change
    with clock("total"):
        roles, truth, classes, inquiry = _checked(parts)
        ready()
        ballots = _vote(parts, roles, truth, classes, clock)
        student, known, rounds = None, None, []
        for number in range(1, len(inquiry.sizes) + 1):
            with clock("labels"):  # here private becomes public: nothing below reads votes but the accountant
                asked = inquiry.ask(ballots, known)
            with clock("accounting"):
                inquiry.record()
            taught = inquiry.taught(known)
            reinforced = int((taught != ABSTAIN).sum() - (inquiry.released != ABSTAIN).sum())
            right = None if truth is None else _share(asked.labels, truth[asked.rows])
            rounds.append(Round(len(asked.rows), asked.answered, reinforced, right, asked.cost.exactly(terms.delta)[0]))
            with clock("student"):
                last = number == len(inquiry.sizes)
                student = _learn(parts, roles, taught, "Student" if last else f"Student of round {number}", draw)
                known = None if last or student is None or roles is None else student.probabilities(roles.public.x)
        with clock("accounting"):
            epsilon, grown = inquiry.epsilon(ballots), inquiry.growth(curves.POINTS)
        with clock("student"):
            labels = None if student is None or roles is None or not len(roles.test) else student.predict(roles.test.x)

    queries = sum(inquiry.sizes)
    report = Report(
        **parts.names,
        seed=terms.seed,
        rng=terms.rng,
        mechanism=repr(terms.aggregator),
        delta=terms.delta,
        queries=queries,
        answered=sum(each.answered for each in rounds),
        refused=queries - len(inquiry.rows),
        reinforced=rounds[-1].reinforced,
        label_accuracy=None if truth is None else _share(inquiry.released, truth),
        accuracy=None if labels is None or roles is None else _share(labels, roles.test.y),
        teachers=ballots.summary,
        epsilon=epsilon,
        rounds=rounds,
        data=None if roles is None else roles.summary,
        seconds=clock.seconds,
        versions=made_by,
    )
    drawn = curves.of_run(ballots.votes, inquiry.rows, inquiry.released, grown) if ballots.count else {}
    public, origin, standard = (None, None, None) if roles is None else (roles.public, roles.origin, roles.standard)
    return Outcome(report, inquiry.released, student, public, origin, standard, truth, drawn, inquiry.close)


def _checked(parts: Parts) -> tuple[Roles | None, Ints | None, int, Inquiry]:
    """The roles, the truth [pool], how many classes there are, and the inquiry; InputError where parts do not fit."""
    terms, learner = parts.terms, parts.learner
    with within("dataset"):
        roles = None if parts.dataset is None else load(parts.dataset)
    if roles is None and learner is not None:
        raise InputError("student", parts.names["student"], "must be none where there is no dataset")
    with within("teachers"):
        size = parts.teachers.check(roles)
        truth = parts.teachers.truth(roles)
    with within("aggregator"):
        terms.aggregator.check(size.teachers)
    if isinstance(terms.aggregator, GroundTruth) and (truth is None or (truth == UNKNOWN).any()):
        raise InputError("aggregator", "ground_truth", "must have true labels: a dataset, or teachers.labels")
    sizes = terms.rounds.sizes(parts.queries, size.rows, learner is not None, terms.aggregator.asks_student)
    inquiry = Inquiry(terms, sizes, size.rows, parts.store.root / "ledger.db", parts.teachers.learnt_from(roles))
    parts.store.open()
    if learner is not None and roles is not None:
        parts.training.check()
        with within("student"):
            networks.suits(learner.network, roles.public.x.shape[1:], roles.classes)
    return roles, truth, size.classes, inquiry


def _vote(parts: Parts, roles: Roles | None, truth: Ints | None, classes: int, clock: _Clock) -> Ballots:
    """The votes of trained teachers; the truth itself where the aggregator answers with it."""
    if isinstance(parts.terms.aggregator, GroundTruth) and truth is not None:
        return Ballots.of_truth(truth, classes)
    with clock("teachers"):
        trained = parts.teachers.train(roles, parts.store, parts.training)
    with clock("votes"):
        return parts.teachers.vote(roles, trained)


def help(parts: Parts) -> None:
    """What another node than the first does for a run: its share of the teachers, and nothing else."""
    with within("dataset"):
        roles = None if parts.dataset is None else load(parts.dataset)
    with within("teachers"):
        parts.teachers.check(roles)
    parts.store.open()
    parts.teachers.help(roles, parts.store, parts.training)


@lru_cache(maxsize=1)
def load(dataset: Dataset) -> Roles:
    """The roles. The jobs of a sweep mostly share one dataset: it is read once a command."""
    return dataset.load()


def _learn(parts: Parts, roles: Roles | None, labels: Ints, what: str, draw: Draw | None) -> "Student | None":
    """A student gets public rows and released labels, and nothing else. None where there is no label."""
    if parts.learner is None or roles is None or (labels == ABSTAIN).all():
        return None
    labels = np.concatenate([labels, np.full(len(roles.public) - len(labels), ABSTAIN)])  # votes may be for a part
    material = Material(roles.public.x, labels, roles.classes)

    def fit(student: "Student", what: str) -> None:
        parts.training.fit(student, what, draw, max_epochs=1)

    if parts.learner.folds > 1:
        material = believed(parts.learner, material, parts.terms.seed, fit)
    student = parts.learner.student(material, parts.terms.seed)
    fit(student, what)
    return student


def _share(labels: Ints, truth: Ints) -> float | None:
    """How often labels are right where there are any, and the truth is known; None where there is none."""
    there = (labels != ABSTAIN) & (truth != UNKNOWN)
    return float((labels == truth)[there].mean()) if there.any() else None
