"""Votes: teachers label public rows, and a noisy argmax of their votes is released (PATE, NZC).

records (private)  →  teachers  →  votes  →  Session.ask  →  labels (public), round by round
"""

from abc import abstractmethod
from dataclasses import replace
from typing import cast

import numpy as np

from nzc.clock import Clock
from nzc.data import DataSplits
from nzc.mechanisms.noisy_argmax import NoisyArgmax
from nzc.planning.advice import about_votes
from nzc.planning.expected import expected, histograms, vote_shares
from nzc.privacy.promise import Policy, Promise, admits_answered
from nzc.privacy.session import Session
from nzc.protocols.base import Data, Protocol, Released
from nzc.protocols.smoothing import NoisyTotals, smooth
from nzc.protocols.task import Task, VoteHistograms
from nzc.storage.predictions import PredictionStore
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray, Floats, Ints
from nzc.validation import InputError


class Voting(Protocol):
    """What protocols share whose private knowledge are votes on the rows of the pool."""

    voters = ""

    @abstractmethod
    def teach(self, data: Data, session: Session, stage: Clock) -> VoteHistograms: ...

    def release(
        self,
        taught: VoteHistograms,
        data: Data,
        session: Session,
        probs: Floats | None,
    ) -> Released:
        rows = data.choose(session, probs)
        session.ask(taught.votes, taught.teachers, rows, probs)
        released = self._released(taught, data, session)
        if probs is None:
            return released
        asked = session.rows
        reinforce = session.mechanism.reinforce
        with_own = released.labels.copy()
        with_own[asked] = reinforce(with_own[asked], probs[asked])
        return replace(released, with_own=with_own)

    def _released(self, taught: VoteHistograms, data: Data, session: Session) -> Released:
        """Return the labels; and class probabilities, where noisy counts are released."""
        labels = session.labels.copy()
        counts = session.counts
        if counts is None:
            return Released(labels)
        rows = session.rows
        places = data.places
        mixed = 0.0
        if places is None:  # how likely each class has the largest count
            noise = session.mechanism.noise
            probabilities = np.zeros((len(labels), counts.shape[1]))
            probabilities[rows] = np.exp(noise.log_law(counts.astype(np.float64)))
        else:
            totals = self.totals(taught, data, session)
            mixed = self.mixed(totals)
            probabilities = smooth(places, rows, totals, mixed)
        labels[rows] = probabilities[rows].argmax(axis=1)
        return Released(labels, probabilities=probabilities, mixed=mixed)

    def totals(self, taught: VoteHistograms, data: Data, session: Session) -> NoisyTotals:
        """Return the released counts, and what is known of their sums."""
        counts = session.counts
        assert counts is not None
        deviation = session.mechanism.noise.deviation
        expected = np.full(len(counts), float(session.voters))
        return NoisyTotals(counts.astype(np.float64), expected, deviation)

    def mixed(self, totals: NoisyTotals) -> float:
        """Return how much classes mix among rows alike: teachers differ about a row of one."""
        return 0.0

    def expected(
        self, mechanism: NoisyArgmax, policy: Policy, task: Task, asked: int
    ) -> tuple[float, float]:
        """Return the expected shares of queries with a label, and with the right one."""
        return expected(mechanism, *histograms(vote_shares(task.classes), task.voters))

    def doubts(self, promise: Promise, data: Data) -> list[str]:
        """Return the same as `nzc plan` says."""
        policy = promise.policy
        asked = sum(promise.sizes)
        first = promise.rounds[0]
        mechanism = cast(NoisyArgmax, first.mechanism)  # as its neighbours are votes
        answered, right = self.expected(mechanism, policy, data.task, asked)
        labels = answered * asked
        limit = None
        if mechanism.screen is None:  # else noise decides their number
            labels = float(admits_answered(first.filter, asked))
            if labels < asked:
                limit = policy.budget
        return about_votes(
            labels,
            right / (answered or 1),
            data.task.classes,
            limit,
            promise.guarantee[1],
            data.splits.unit_count or None,
            in_cells=not mechanism.adjacency.everywhere,
        )

    def votes(self, taught: VoteHistograms, session: Session) -> VoteHistograms:
        return taught


class Teachers(Voting):
    """What every kind of teachers implements. Without a dataset, `splits` are empty.

    labels_asked_only  whether the asked rows must be known before training: no others get labels
    """

    labels_asked_only: bool = False

    def promise(self, policy: Policy, data: Data, learns: bool) -> Promise:
        promise = super().promise(policy, data, learns)
        if self.labels_asked_only and len(promise.rounds) > 1:
            raise InputError(
                "rounds",
                len(promise.rounds),
                "must be 1 where teachers label asked rows only (teachers.label)",
            )
        return promise

    def teach(self, data: Data, session: Session, stage: Clock) -> VoteHistograms:
        splits = self.asked(data, session)
        with stage("teachers"):
            trained = self.train(splits, data.store, data.trainer)
        voters = session.mechanism.adjacency.voters
        stage.done("teachers", f"{data.task.voters:,} ready", voters)
        with stage("votes"):
            votes = self.vote(splits, trained)
        stage.done("votes", f"{len(votes):,} rows counted")
        return VoteHistograms(votes, data.task.voters, data.task.truth)

    def asked(self, data: Data, session: Session) -> DataSplits:
        """Return the splits with the rows to label, for teachers that label no others."""
        if not self.labels_asked_only:
            return data.splits
        return replace(data.splits, asked=data.choose(session))

    @abstractmethod
    def train(
        self, splits: DataSplits, store: PredictionStore, trainer: TrainerSettings
    ) -> AnyArray:
        """Return what `vote` counts, once computed: predictions [teachers, rows], or votes."""

    def vote(self, splits: DataSplits, trained: AnyArray) -> Ints:
        """Return the votes [rows, classes] on every row that can be asked; by default `trained`."""
        return trained
