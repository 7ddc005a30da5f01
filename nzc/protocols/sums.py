"""Sums: records add up as vectors, and the sums with noise determine a linear model.

records (private)  →  features  →  sums  →  Session.add_noise  →  weights, labels (public)
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nzc.clock import Clock
from nzc.data import DataSplits
from nzc.mechanisms.adjacency import Vectors
from nzc.mechanisms.noise import GaussianNoise
from nzc.mechanisms.noisy_sums import UNIT
from nzc.planning.advice import about_delta, about_sums
from nzc.privacy.promise import Policy, Promise
from nzc.privacy.session import Session
from nzc.protocols.base import Data, Protocol, Released
from nzc.protocols.regression import LinearModel, PublicRows, ReleasedCounts, ReleasedMoments, fit
from nzc.protocols.task import Task
from nzc.protocols.vectors import PrivateSums, counts_reach
from nzc.representation import Placement
from nzc.students import FittedStudent
from nzc.types import Floats

if TYPE_CHECKING:
    from torch import nn

#: Of the cost (μ²), the share of the class counts; the matrix of features has the rest.
COUNTS_SHARE = 0.05


@dataclass(frozen=True)
class _Features:
    """What is known of the records: their sums, and the public rows as these see rows."""

    network: "nn.Module"  # rows as networks take them → features
    public: PublicRows
    sums: PrivateSums


@dataclass(frozen=True)
class RecordSums(Protocol):
    """All records together tell a linear model what it needs to know: no vote is counted."""

    voters = "sums"
    unused = ("query_choice", "representation", "student.spread", "audit")

    def adjacency(self, labels_only: bool = False) -> Vectors:
        return Vectors()

    def check(self, splits: DataSplits) -> Task:
        return Task.of(splits, splits.unit_count)

    def promise(self, policy: Policy, data: Data, learns: bool) -> Promise:
        """Return the promise: all rows get labels, at one price."""
        every = replace(data, selection=replace(data.selection, queries=None))
        return super().promise(policy, every, learns)

    def doubts(self, promise: Promise, data: Data) -> list[str]:
        splits = data.splits
        lines = about_delta(promise.guarantee[1], splits.unit_count)
        noise_std = _sigma(promise) * counts_reach(None) / COUNTS_SHARE**0.5
        lines += about_sums(noise_std, splits.unit_count, splits.classes, len(splits.pool))
        if splits.units.groups is not None and splits.persons is None:
            lines.append(
                f"public rows have no {splits.units.grouped_by or 'groups'}: the records of a "
                "private group are averaged, which costs accuracy"
            )
        return lines

    def teach(self, data: Data, session: Session, stage: Clock) -> _Features:
        from torch import nn  # takes seconds to import

        from nzc.representation.bounded import Bounded

        splits = data.splits
        units = splits.units
        with stage("representation"):
            noise_std = _sigma(session.promise) / splits.unit_count
            bounded = Bounded(nn.Flatten(), splits.pool, noise_std)
            place = Placement(bounded)
            public = PublicRows(place(splits.pool), splits.persons)
            features = place.all(splits.private.x)
        sums = PrivateSums(
            features=features,
            labels=splits.private.y,
            classes=splits.classes,
            labels_only=splits.labels_only,
        )
        if units.groups is not None:
            sums = sums.of_persons(units.groups, public.most)
        return _Features(bounded, public, sums)

    def release(
        self, taught: _Features, data: Data, session: Session, probs: Floats | None
    ) -> Released:
        """Release the class counts, which decide how the matrix is centred, and then the matrix.

        Where public rows err more than noise does, the matrix is released again, centred by the
        model so far.
        """
        from torch import nn

        from nzc.students.linear import LinearNetwork

        public = taught.public
        sums = taught.sums
        noise_std = _sigma(session.promise) * UNIT
        noisy = session.add_noise(sums.class_counts(), COUNTS_SHARE)
        counts = ReleasedCounts.of(noisy, noise_std / COUNTS_SHARE**0.5, sums)
        number = counts.releases(public, _sigma(session.promise))
        share = (1 - COUNTS_SHARE) / number
        moments: list[ReleasedMoments] = []
        model: LinearModel | None = None
        of_records = of_public = None
        for _ in range(number):
            if model is not None:
                of_records = model.probabilities(sums.bounded)
                of_public = model.probabilities(public.features)
            noisy = session.add_noise(sums.matrix(counts.code, of_records), share)
            moments.append(
                ReleasedMoments.of(
                    noisy, noise_std / share**0.5, counts, sums.labels_only, of_public
                )
            )
            model = fit(public, counts, moments, session.policy.seed, model)
        assert model is not None

        rows = data.choose(session)
        probabilities = model.probabilities(public.features[: len(session.labels)])
        labels = probabilities[rows].argmax(axis=1)
        session.label(rows, labels, counts.least, sums.classes)
        linear = LinearNetwork(model.weights.T.copy(), model.bias)
        return Released(
            labels=session.labels,
            probabilities=probabilities,
            model=FittedStudent(nn.Sequential(taught.network, linear)),
            model_from=f"noisy sums of {counts.least:,} private {data.task.unit}s",
        )


def _sigma(promise: Promise) -> float:
    noise = promise.policy.mechanism.noise
    assert isinstance(noise, GaussianNoise)
    return noise.sigma
