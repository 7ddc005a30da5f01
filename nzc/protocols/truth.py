"""Truth: the true labels of the rows that others would label, the papers' upper baseline."""

from dataclasses import dataclass

from nzc.clock import Clock
from nzc.data import UNKNOWN, DataSplits
from nzc.privacy.promise import Policy, Promise
from nzc.privacy.session import Session
from nzc.protocols.base import Data, InPlace
from nzc.protocols.task import VoteHistograms
from nzc.protocols.votes import Voting
from nzc.validation import InputError


@dataclass(frozen=True)
class Truth(InPlace, Voting):
    """The true labels in place of the votes of `instead_of`, whose rows are asked."""

    aggregator: str  # its option, which an error names

    @property
    def needs_places(self) -> bool:  # type: ignore[override]
        return self.instead_of.needs_places

    def require(self, splits: DataSplits, name: str) -> None:
        self.instead_of.require(splits, name)

    def promise(self, policy: Policy, data: Data, learns: bool) -> Promise:
        truth = data.task.truth
        if truth is None or (truth == UNKNOWN).any():
            raise InputError(
                "aggregator",
                self.aggregator,
                "must have true labels: a dataset, or teachers.labels",
            )
        return super().promise(policy, data, learns)

    def doubts(self, promise: Promise, data: Data) -> list[str]:
        return []

    def teach(self, data: Data, session: Session, stage: Clock) -> VoteHistograms:
        assert data.task.truth is not None
        return VoteHistograms.of_truth(data.task.truth, data.task.classes)
