"""Load the data of a run, and check all of it before anything is trained or written."""

from dataclasses import dataclass

from nzc.data import UNKNOWN, Dataset, DataSplits
from nzc.data.cache import load_data
from nzc.privacy.promise import Policy
from nzc.privacy.run_ledger import RunLedger
from nzc.privacy.session import Session
from nzc.protocols import Data, Protocol
from nzc.protocols.query_selection import REPRESENTATIVE, QuerySelection
from nzc.representation import Representation
from nzc.runs.own_metric import OwnMetric
from nzc.runs.publishable import require_name, require_publishable
from nzc.storage.predictions import PredictionStore
from nzc.students import Student
from nzc.training.trainer import TrainerSettings
from nzc.types import Ints
from nzc.validation import InputError, Tree, within


@dataclass(frozen=True)
class Parts:
    """The objects that the configuration describes, and the names of their options.

    names      of dataset, representation, teachers, aggregator and student, as typed
    selection  which public rows are asked, and how many
    data_name  of the people whom the private data are about (`Ledger.name`); None: they have none
    own_names  the same of a dataset of nzc; []: the dataset is the user's own
    figures    whether to draw figures
    metrics    the user's own figures of merit
    """

    names: dict[str, str]
    dataset: Dataset | None
    representation: Representation | None
    protocol: Protocol
    policy: Policy
    selection: QuerySelection
    student: Student | None
    trainer: TrainerSettings
    store: PredictionStore
    data_name: str | None
    own_names: list[str]
    figures: bool
    metrics: tuple[OwnMetric, ...]


@dataclass(frozen=True, repr=False)
class Run:
    """A run whose input is known to be good.

    warnings  what speaks against the run beforehand, a line each
    """

    parts: Parts
    data: Data
    session: Session
    warnings: list[str]

    @property
    def splits(self) -> DataSplits:
        """The dataset."""
        return self.data.splits

    @property
    def truth(self) -> Ints | None:
        """True labels [pool], UNKNOWN where a row's class is not known; None: none is known."""
        return self.data.task.truth

    @property
    def classes(self) -> int:
        """How many classes the rows that can be asked have."""
        return self.data.task.classes

    def require_publishable(self, private: bool) -> None:
        """Raise InputError where `nzc publish` would refuse the run, whatever its labels are.

        private  whether the line may name classes of private records
        """
        parts = self.parts
        ledger = self.session.ledger
        undeclared = self.splits.undeclared_classes
        if not private:
            undeclared = undeclared and "[no,yes]"
        require_publishable(
            ledger.rng, self.session.promise.epsilon, undeclared, parts.protocol.only_compares
        )
        names = ledger.ledger.names() if ledger.path.exists() else {}
        require_name("dataset.name", parts.data_name, names.get(ledger.dataset, parts.own_names))


def prepare(parts: Parts) -> Run:
    """Load the data and check that all components fit together.

    An InputError leaves nothing behind.
    """
    protocol = parts.protocol
    policy = parts.policy
    student = parts.student
    _require_defaults(parts)
    representation = parts.representation if _needs_places(parts) else None
    splits = load_for(parts.dataset, protocol, parts.names["dataset"])
    with within("teachers"):
        task = protocol.check(splits)
    with within("aggregator"):
        policy.mechanism.check(task.voters)
    data = Data(splits, task, parts.selection, representation, parts.trainer, parts.store)
    promise = protocol.promise(policy, data, student is not None)
    ledger = RunLedger(
        parts.store.ledger,
        task.digest,
        parts.data_name,
        policy.rng,
        policy.seed,
        parts.store.wait,
        task.neighbours,
        policy.total,
    )
    ledger.check(lambda: promise.guarantee)
    if parts.trainer.own:
        parts.trainer.check()
    _check_learners(student, data)
    with within("teachers"):
        protocol.check_training(data)
    labels = splits.test.y
    for metric in parts.metrics:
        metric.check(labels[labels != UNKNOWN], task.classes)
    public = None if splits.is_empty else splits.public.x
    session = Session(promise, task.rows, ledger, public)
    return Run(parts, data, session, protocol.doubts(promise, data))


def load_for(dataset: Dataset | None, protocol: Protocol, name: str) -> DataSplits:
    """Load the dataset `name`, or none. InputError: the protocol needs another one."""
    splits = DataSplits.empty() if dataset is None else load_data(dataset)
    protocol.require(splits, name)
    return splits


def _require_defaults(parts: Parts) -> None:
    """Raise InputError where an option was chosen that the protocol does not use."""
    choice = parts.selection.choice
    student = parts.student
    chosen: Tree = {
        "query_choice": choice if choice == REPRESENTATIVE else None,
        "representation": parts.representation and parts.names["representation"],
        "student.spread": student and student.spread,
        "audit": parts.policy.audit_trials,
    }
    for key in parts.protocol.unused:
        if chosen.get(key):
            name = parts.names["teachers"]
            raise InputError(
                key,
                chosen[key],
                f"must have its default, because teachers={name} do not use it",
            )


def _needs_places(parts: Parts) -> bool:
    """Return whether anything uses the public representation.

    InputError: it is missing, or the dataset is.
    """
    student = parts.student
    if parts.dataset is None and student is not None:
        raise InputError(
            "student", parts.names["student"], "must be none where there is no dataset"
        )
    user = None
    if parts.protocol.needs_places:
        user = "these teachers"
    elif parts.selection.choice == REPRESENTATIVE:
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
    return user is not None


def _check_learners(student: Student | None, data: Data) -> None:
    """Check that student and representation can learn from the data."""
    splits = data.splits
    if student is not None:
        if isinstance(student.threshold, float) and splits.classes != 2:
            raise InputError(
                "student.threshold",
                student.threshold,
                f"must be balanced, or null: a number is for two classes, not {splits.classes}",
            )
        student.check(splits.public.x.shape[1:], splits.classes, data.trainer)
    if data.representation is not None:
        data.representation.check(splits.public.x)
