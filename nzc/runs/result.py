"""The result of one run: result.json, its keys, and its public part."""

import json
import platform
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import Field, asdict, dataclass, field, fields, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, get_args

from nzc.accounting.epsilon import Epsilon
from nzc.clock import Stage
from nzc.data import splits
from nzc.privacy.ledger import now
from nzc.protocols import task
from nzc.runs.layout import RESULT, flatten, with_infinity
from nzc.runs.metrics import RECALL, Metrics, Shares
from nzc.runs.quantities import EPSILONS, Quantity, protects_nobody, said, share, tracked_as
from nzc.storage.files import write_private
from nzc.types import Floats, Ints
from nzc.validation import Tree
from nzc.version import __version__

#: The packages whose versions can change a result.
_PACKAGES = {
    "torch": "torch",
    "lightning": "pytorch-lightning",
    "mlflow": "mlflow",
    "numpy": "numpy",
    "scipy": "scipy",
}
#: What a result has beside the content of result.json.
_NOT_WRITTEN = ("folder", "labels", "predictions", "probabilities")


@cache
def versions() -> dict[str, str]:
    """Return name → version, as of the first call.

    In a checkout, `commit` is marked where files differ from it.
    """
    known = {"nzc": __version__}
    home = Path(__file__).parents[2]
    if (home / ".git").exists():  # above an installed package may be another project
        describe = ["describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=, with changes"]
        with suppress(OSError, subprocess.CalledProcessError):  # git is not installed
            known["commit"] = subprocess.check_output(
                ["git", *describe], cwd=home, text=True, stderr=subprocess.DEVNULL
            ).strip()
    known["python"] = platform.python_version()
    for name, package in _PACKAGES.items():
        with suppress(PackageNotFoundError):  # a run without a tracker needs no MLflow
            known[name] = version(package)
    return known


@dataclass(frozen=True)
class RoundResult:
    """One round of queries."""

    asked: int
    answered: int
    reinforced: int  # labels that the student gave itself, in this round and before
    label_accuracy: float | None
    epsilon: float | None  # exact ε of this round alone


#: What is said of the keys of each section. `_ANY` has any keys.
_TEACHERS = {
    "count": Quantity("teachers", tracked=True),
    "mean_accuracy": share("one teacher", "teacher accuracy"),
    "ensemble_accuracy": share("ensemble", "ensemble accuracy"),
    "gap_above_2": share("gap > 2", "queries"),
    "gap_above_3": share("gap > 3", "queries"),
}
_DATA = dict.fromkeys(get_args(splits.SummaryKey), Quantity())
#: Those keys of `data` that are public.
_FACTS = ("private", "public", "test", "classes", "undeclared_classes", "public_files", "features")
_SECONDS = dict.fromkeys(get_args(Stage), Quantity(tracked=True))
_ANY = {"": Quantity()}
_METRICS = {part.name: part.metadata["quantity"] for part in fields(Metrics) if part.metadata} | {
    "recall.": Quantity()
}


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """All quantities of one run, as in result.json. None: it does not apply or was not asked for.

    refused           queries that were not asked: the budget or the number of answers was reached
    neighbours        which private datasets ε compares
    unit              of privacy: record, label, group (a person's records together), or teacher
                      (votes from a file)
    bound             which bound was chosen to be published
    warnings          what a reader of the accuracy must know, a line each
    folder            of the run, which also has the student
    ledger_trials     trials of other runs, which `epsilon.ledger_released` does not count
    ledger_releases   releases of other runs, which it counts
    ledger_unbounded  why `epsilon.ledger_total` is infinite, if it is
    learned_from      in words: which labels the student learned from
    grouped_by        what names the groups that are the unit of privacy
    moved_votes       in words: on which rows the votes may differ at neighbours
    voters            teachers, or records in their own cells, or sums of records, or own: a
                      protocol of the user's own
    learned_accuracy  share of right labels among all that the student learned from
    labels            [public rows] released; -1: none
    predictions       [public rows] labels by the student
    probabilities     [public rows, classes] by the student; without one, by released counts
    """

    dataset: str = said(stated=True)
    aggregator: str = said(public=True)
    student: str = said(stated=True)
    seed: int = said(public=True)
    rng: str = said(stated=True)
    mechanism: str = said(stated=True)
    delta: float = said(stated=True)
    queries: int = said(public=True)
    answered: int = said(tracked=True, public=True)
    refused: int = said(public=True)
    reinforced: int = said(public=True)
    label_accuracy: float | None = said("label accuracy", share=True, tracked=True, public=True)
    accuracy: float | None = said(
        "student", axis="student accuracy", share=True, tracked=True, public=True
    )
    teachers: dict[task.SummaryKey, float | int | None] = said(of=_TEACHERS)
    epsilon: Epsilon = said(of=EPSILONS | {"published_delta": Quantity()})
    rounds: list[RoundResult]
    data: dict[splits.SummaryKey, Any] | None = said(of=_DATA, default=None)
    neighbours: str = said(stated=True)
    unit: str = said(stated=True)
    bound: str = said(stated=True)
    seconds: dict[Stage, float] = said(make=dict, of=_SECONDS)
    finished: str = said(make=now, stated=True)
    versions: dict[str, str] = said(make=dict, of=_ANY, public=True)
    metrics: Metrics = said(make=Metrics, of=_METRICS, public=True)
    warnings: list[str] = field(default_factory=list)
    folder: Path | None = None
    ledger_trials: int | None = None
    ledger_releases: int | None = None
    ledger_unbounded: str | None = None
    learned_from: str | None = said(stated=True, default=None)
    grouped_by: str | None = said(stated=True, default=None)
    moved_votes: str | None = said(stated=True, default=None)
    voters: str = said(stated=True, default="teachers")
    learned_accuracy: float | None = said(
        "accuracy of learned labels", share=True, public=True, default=None
    )
    labels: Ints | None = field(default=None, repr=False, compare=False)
    predictions: Ints | None = field(default=None, repr=False, compare=False)
    probabilities: Floats | None = field(default=None, repr=False, compare=False)

    @property
    def public(self) -> "RunResult":
        """The result without what depends on votes or private records, but for released labels.

        It has what is said to be public, and of the sections what is named here. Accuracies are of
        public rows and of the test split. How many records the groups have is private.
        """
        public: Tree = {part.name: None for part in fields(self) if not _is_public(part)}
        public["epsilon"] = self.epsilon.public(self.bound)
        public["teachers"] = dict.fromkeys(self.teachers) | {"count": self.teachers["count"]}
        if self.data is not None:
            facts = {key: value for key, value in self.data.items() if key in _FACTS}
            if self.unit == "group":
                del facts["private"]
            public["data"] = facts | {"digest": "private"}
        # The error of a user's own metric may quote labels of the test split.
        public["warnings"] = [line for line in self.warnings if not line.startswith("metrics.")]
        public["seconds"] = {"total": self.seconds["total"]}  # a stage tells more of the votes
        public["rounds"] = [
            RoundResult(past.asked, past.answered, past.reinforced, past.label_accuracy, None)
            for past in self.rounds
        ]
        return replace(self, **public)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's 95 % confidence interval of the accuracy."""
        if self.accuracy is None or self.data is None:
            return None
        from scipy.stats import binomtest  # takes half a second to import

        tested = int(self.data["test"])
        low, high = binomtest(round(self.accuracy * tested), tested).proportion_ci(method="wilson")
        return float(low), float(high)

    @property
    def published_delta(self) -> float:
        """The δ of the published ε."""
        delta = self.epsilon.published_delta
        return self.delta if delta is None else delta

    def as_dict(self) -> Tree:
        """Return the content of result.json: infinite numbers are "inf", `order` is at the top."""
        record = {key: value for key, value in vars(self).items() if key not in _NOT_WRITTEN}
        epsilon = asdict(self.epsilon)
        record["order"] = epsilon.pop("order")
        record["epsilon"] = epsilon
        record["metrics"] = self.metrics.as_dict()
        record["accuracy_interval"] = self.interval
        text = json.dumps(record, default=asdict)
        return dict(json.loads(text, parse_constant={"Infinity": "inf"}.get))  # NaN is None

    def write(self, folder: Path) -> None:
        """Write result.json into `folder`."""
        write_private(folder / RESULT, json.dumps(self.as_dict(), indent=2, allow_nan=False) + "\n")

    @classmethod
    def read(cls, folder: Path) -> "RunResult":
        """Return the result in `folder`. Keys that are missing have their default."""
        record = json.loads((folder / RESULT).read_bytes(), object_hook=with_infinity)
        record["epsilon"] = Epsilon(**record["epsilon"], order=record["order"])
        record["rounds"] = [RoundResult(**past) for past in record["rounds"]]
        record["metrics"] = Metrics.read(record.get("metrics", {}))
        record["folder"] = folder
        return cls(**{part.name: record[part.name] for part in fields(cls) if part.name in record})


def _of_field(part: Field[Any]) -> Quantity:
    quantity: Quantity = part.metadata.get("quantity", Quantity())
    return quantity


def _is_public(part: Field[Any]) -> bool:
    """Return whether a field is public as it is, or none of result.json."""
    quantity = _of_field(part)
    return quantity.stated or quantity.public or part.name in _NOT_WRITTEN


def _quantities() -> Iterator[tuple[str, Quantity]]:
    """Yield every quantity by its dotted key in result.json; one that ends with a dot begins
    others.
    """
    for part in fields(RunResult):
        if part.name not in _NOT_WRITTEN:
            section = part.metadata.get("of") or {}
            if not section:
                yield part.name, _of_field(part)
            for key, quantity in section.items():
                yield f"{part.name}.{key}", quantity
    yield "accuracy_interval", Quantity()
    yield "order", Quantity(tracked=True)


QUANTITIES = dict(_quantities())
#: The keys that a published statement has as they are.
STATED = [part.name for part in fields(RunResult) if _of_field(part).stated]


def quantity_of(key: str) -> Quantity:
    """Return what is declared of a key of result.json, or of the configuration."""
    if key in QUANTITIES:
        return QUANTITIES[key]
    if key.startswith(RECALL):
        return Quantity(f"recall of {key.removeprefix(RECALL)}", share=True)
    if key.startswith("metrics."):
        return Quantity(key.removeprefix("metrics."), tracked=True)  # of the user's own
    # A paper's value, and a curve of a run, are no keys of result.json.
    return {"epsilon": Quantity("ε"), "gap_above": Quantity(share=True)}.get(key, Quantity())


def is_taken(name: str) -> bool:
    """Return whether a quantity of nzc has this name, at a tracker or in result.json."""
    names = list(map(tracked_as, QUANTITIES))
    sections = ["epsilon", *(taken for taken in names if taken.endswith("_"))]
    return name in ("own", "recall", *names) or name.startswith(tuple(sections))


def tracked_figures(result: RunResult) -> Shares:
    """Return the numbers that a tracker records, by their names there."""
    published = result.epsilon.published
    values = {"epsilon": published}
    for key, value in with_infinity(flatten(result.as_dict())).items():
        if quantity_of(key).tracked and not protects_nobody(key, value, published):
            values[tracked_as(key)] = value
    for name, recall in result.metrics.recall.items():
        accepted = re.sub(r"[^\w. -]", "_", name)[:200]  # as MLflow takes names
        values[f"recall_{accepted}"] = recall
    return values
