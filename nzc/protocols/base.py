"""The interface of protocols: what each way to learn from private records says of itself."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from nzc.clock import Clock
from nzc.data import DataSplits, Embedding
from nzc.mechanisms import ABSTAIN, Adjacency
from nzc.privacy.promise import Policy, Promise
from nzc.privacy.session import Session
from nzc.protocols.query_selection import QuerySelection
from nzc.protocols.task import Task, VoteHistograms
from nzc.representation import Representation
from nzc.storage.predictions import PredictionStore
from nzc.streams import Stream
from nzc.students import FittedStudent
from nzc.training.trainer import TrainerSettings
from nzc.types import Floats, Ints
from nzc.validation import InputError, within


@dataclass(frozen=True, repr=False)
class Data:
    """What a protocol works on.

    representation  None: nobody needs it
    embedding       places of the rows in the representation; None: there is none, or not yet
    """

    splits: DataSplits
    task: Task
    selection: QuerySelection
    representation: Representation | None
    trainer: TrainerSettings
    store: PredictionStore
    embedding: Embedding | None = None

    @cached_property
    def places(self) -> Floats | None:
        """The places of the pool in the representation, [pool, dimensions]; or None."""
        if self.embedding is None:
            return None
        return np.concatenate([self.embedding.public, self.embedding.private[self.splits.joined]])

    def choose(self, session: Session, student_probs: Floats | None = None) -> Ints:
        """Return the rows of the pool to ask next, by public facts: once a round.

        student_probs  class probabilities of the pool, [pool, classes]; None: there is no student
        """
        number = len(session.rounds)
        if number not in session.chosen:
            left = np.setdiff1d(np.arange(len(session.labels)), session.rows)
            rng = np.random.default_rng([session.policy.seed, Stream.ROWS, number])
            size = session.planned.size
            rows = self.selection.choose(left, size, student_probs, rng, self.places)
            session.chosen[number] = rows
        return session.chosen[number]


@dataclass(frozen=True, repr=False)
class Released:
    """What is public after a round. Nothing here costs more than the session charges.

    labels         [pool] that were released, or follow from what was released; ABSTAIN: none
    with_own       [pool] these, and those that a sure student gave itself; None: there are none
    probabilities  [pool, classes]; None: labels alone are known
    mixed          how much classes mix among rows that are alike (`StudentData.mixed`)
    model          which the protocol itself learned: the student where no other learns
    model_from     in words: what that model learned from
    names          of the parts that the model stands for, in place of those that were chosen
    mechanism      what released it, with its parameters; "": that of the policy
    """

    labels: Ints
    with_own: Ints | None = None
    probabilities: Floats | None = None
    mixed: float = 0.0
    model: FittedStudent | None = None
    model_from: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    mechanism: str = ""

    @property
    def learn(self) -> Ints:
        """The labels [pool] to learn from."""
        return self.labels if self.with_own is None else self.with_own

    @property
    def reinforced(self) -> int:
        """How many labels a student gave itself."""
        return int((self.learn != ABSTAIN).sum() - (self.labels != ABSTAIN).sum())


class Protocol(ABC):
    """One way to learn from private records. A run calls its methods in the order of this class.

    needs_places   whether it compares rows in the public representation
    unused         keys of options that it does not use: they must have their defaults
    only_compares  whether it is there to compare with others, and is not published
    voters         who tells what is released, as the statement has it: sums, or own where nzc knows
                   no words for it; "": what the adjacency says (teachers, records)
    """

    needs_places: ClassVar[bool] = False
    only_compares: ClassVar[bool] = False
    voters: ClassVar[str] = "own"
    unused: ClassVar[tuple[str, ...]] = ()

    def adjacency(self, labels_only: bool = False) -> Adjacency:
        """Return which votes, or sums, are neighbours.

        labels_only  whether a record may change in its label only
        """
        return Adjacency()

    def require(self, splits: DataSplits, name: str) -> None:
        """Raise InputError where the dataset `name` has no private records of two classes."""
        if splits.is_empty:
            raise InputError(
                "dataset",
                "none",
                "must be a dataset where teachers are to be trained; or teachers=votes",
            )
        least = 1 if splits.declared else 2  # else one record would decide whether there is a run
        if len(np.unique(splits.private.y)) < least:
            why = "all of them are of one class; dataset.classes states others"
            if not len(splits.private):
                why = "it has none (teachers=votes needs none)"
            allowed = f"must have private rows of two or more classes; {why}"
            raise InputError("dataset", name, allowed)

    @abstractmethod
    def check(self, splits: DataSplits) -> Task:
        """Return what there is to ask. InputError: it cannot learn from these splits."""

    def promise(self, policy: Policy, data: Data, learns: bool) -> Promise:
        """Return what is promised before a record is seen.

        learns  whether a student learns, also between rounds
        """
        asks = policy.mechanism.asks_student
        return Promise.of(policy, data.selection.sizes(data.task.rows, learns, asks))

    def check_training(self, data: Data) -> None:  # noqa: B027
        """Raise InputError where learning would fail, as far as this is known before."""

    def doubts(self, promise: Promise, data: Data) -> list[str]:
        """Return what speaks against a run, from public facts, a line each."""
        return []

    def counted(self, splits: DataSplits) -> DataSplits:
        """Return the splits with those private records that count: by default all."""
        return splits

    def placed(self, data: Data, stage: Clock) -> Data:
        """Return the data with places in the public representation, if there is one."""
        if data.representation is None:
            return data
        splits = self.counted(data.splits)
        with stage("representation"), within("representation"):
            embedding = data.representation.embed(splits, data.store, data.trainer)
        stage.done("representation", f"{len(splits.pool):,} public rows placed")
        return replace(data, splits=splits, embedding=embedding)

    @abstractmethod
    def teach(self, data: Data, session: Session, stage: Clock) -> Any:
        """Return what the private records make known, which stays in memory."""

    def train_worker(self, data: Data, session: Session, stage: Clock) -> None:  # noqa: B027
        """On a worker node, do its share of `teach`; by default there is none."""

    @abstractmethod
    def release(self, taught: Any, data: Data, session: Session, probs: Floats | None) -> Released:
        """Make public what one round may release, by the session: it draws, prices and charges.

        taught  what `teach` returned
        probs   class probabilities of the student [pool, classes]; None: there is none yet
        """

    def votes(self, taught: Any, session: Session) -> VoteHistograms:
        """Return the votes, for figures that stay private; by default there are none."""
        return VoteHistograms(np.zeros((0, 0), np.int64), session.voters)


@dataclass(frozen=True)
class InPlace(Protocol):
    """What protocols share that take the place of another: they ask what it would ask."""

    instead_of: Protocol

    def adjacency(self, labels_only: bool = False) -> Adjacency:
        return self.instead_of.adjacency(labels_only)

    def check(self, splits: DataSplits) -> Task:
        return self.instead_of.check(splits)
