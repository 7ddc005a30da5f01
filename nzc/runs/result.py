"""The result of one run: result.json, its seconds, when and with which versions it was made, and
its public part.
"""

import json
import platform
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, get_args

from nzc.accounting.epsilon import Epsilon
from nzc.data import splits
from nzc.runs.formatting import RECALL
from nzc.runs.layout import RESULT, with_infinity
from nzc.runs.metrics import Metrics
from nzc.storage.files import write_private
from nzc.teachers import base
from nzc.types import Floats, Ints, StageLog
from nzc.version import __version__

#: The keys of `seconds` in result.json: what the user waited for these numbers in all; before the
#: first stage, for imports and data; and for each stage.
Stage = Literal[
    "total", "preparation", "representation", "teachers", "votes", "labels", "accounting", "student"
]
#: The packages whose versions can change a result.
_PACKAGES = {
    "torch": "torch",
    "lightning": "pytorch-lightning",
    "mlflow": "mlflow",
    "numpy": "numpy",
    "scipy": "scipy",
}
#: The keys and sections of result.json whose numbers a tracker records (`tracked_as`).
TRACKED = (
    "answered",
    "label_accuracy",
    "accuracy",
    "order",
    "epsilon",
    "teachers",
    "metrics",
    "seconds",
)
#: What a result has beside the content of result.json.
_NOT_WRITTEN = ("folder", "labels", "predictions", "probabilities")


class Clock:
    """Measures the seconds of each stage of a run, whose preparation began at `begun` and ends now."""

    def __init__(self, begun: float, say: StageLog | None = None) -> None:
        self.say, self._last = say, dict[Stage, float]()
        self.seconds: dict[Stage, float] = {"preparation": round(time.time() - begun, 3)}

    @contextmanager
    def __call__(self, stage: Stage) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self._last[stage] = time.perf_counter() - start
        self.seconds[stage] = round(self.seconds.get(stage, 0.0) + self._last[stage], 3)

    def done(self, stage: Stage, what: str, name: str = "") -> None:
        """Report `what` a stage did, and how long it took the last time; `name`: another name of
        the stage.
        """
        if self.say is not None:
            self.say(name or stage, what, self._last[stage])


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@cache
def versions() -> dict[str, str]:
    """Return name → version, as of the first call. In a checkout, `commit` is marked where files
    differ from it.
    """
    home, known = Path(__file__).parents[2], {"nzc": __version__}
    describe = [
        "git",
        "-C",
        str(home),
        "describe",
        "--always",
        "--abbrev=12",
        "--exclude=*",
        "--dirty=, with changes",
    ]
    if (home / ".git").exists():  # above an installed package may be another project
        with suppress(OSError, subprocess.CalledProcessError):  # git is not installed
            known["commit"] = subprocess.check_output(
                describe, text=True, stderr=subprocess.DEVNULL
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


@dataclass(frozen=True)
class RunResult:
    """All figures of one run, as in result.json. None: it does not apply or was not asked for."""

    dataset: str
    aggregator: str
    student: str
    seed: int
    rng: str
    mechanism: str
    delta: float
    queries: int
    answered: int
    refused: (
        int  # queries that were not asked, because the budget or the number of answers was reached
    )
    reinforced: int
    label_accuracy: float | None
    accuracy: float | None
    teachers: dict[base.SummaryKey, float | int | None]
    epsilon: Epsilon
    rounds: list[RoundResult]
    data: dict[splits.SummaryKey, Any] | None
    neighbours: str  # which private datasets ε compares
    unit: str  # of privacy: record, label, group (a person's records together), or teacher (votes from a file)
    bound: str  # which bound was chosen to be published
    seconds: dict[Stage, float] = field(default_factory=dict)
    finished: str = field(default_factory=now)
    versions: dict[str, str] = field(default_factory=dict)
    metrics: Metrics = field(default_factory=Metrics)  # of the student on the test split
    warnings: list[str] = field(
        default_factory=list
    )  # what a reader of the accuracy must know, a line each
    folder: Path | None = None  # the run's folder, which also has the student
    ledger_trials: int | None = (
        None  # trials of other runs, which `epsilon.ledger_released` does not count
    )
    ledger_releases: int | None = None  # releases of other runs, which it counts
    learned_from: str | None = None  # in words: which labels the student learned from
    grouped_by: str | None = None  # what names the groups that are the unit of privacy
    moved_votes: str | None = None  # in words: on which rows the votes may differ at neighbours
    voters: str = "teachers"  # or records in their own cells
    learned_accuracy: float | None = (
        None  # share of right labels among all that the student learned from
    )
    labels: Ints | None = field(
        default=None, repr=False, compare=False
    )  # [public rows] released; -1: none
    predictions: Ints | None = field(
        default=None, repr=False, compare=False
    )  # [public rows] labels by the student
    #: [public rows, classes] by the student; without one, those that follow from released counts
    probabilities: Floats | None = field(default=None, repr=False, compare=False)
    individual: dict[str, float] = field(
        default_factory=dict
    )  # ε by budget group, at the δ of `epsilon.published`

    @property
    def public(self) -> "RunResult":
        """The result without what depends on votes or private records other than through released
        labels.

        Accuracies are of public rows and of the test split. How many records the groups have is
        private.
        """
        data: dict[splits.SummaryKey, Any] | None = self.data and {**self.data, "digest": "private"}
        if data is not None and self.unit == "group":
            del data["private"]
        return replace(
            self,
            teachers={
                name: value if name == "count" else None for name, value in self.teachers.items()
            },
            epsilon=self.epsilon.public(self.bound),
            ledger_trials=None,
            ledger_releases=None,
            rounds=[replace(part, epsilon=None) for part in self.rounds],
            seconds={
                "total": self.seconds["total"]
            },  # the time of one stage tells more of the votes
            # The error of a user's own metric may quote labels of the test split.
            warnings=[line for line in self.warnings if not line.startswith("metrics.")],
            data=data,
        )

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

    def as_dict(self) -> dict[str, Any]:
        """Return the content of result.json. Infinite numbers become "inf", and `order` is a key of
        its own.
        """
        record = {key: value for key, value in vars(self).items() if key not in _NOT_WRITTEN}
        record["epsilon"] = asdict(self.epsilon)
        record["metrics"] = self.metrics.as_dict()
        record["order"] = record["epsilon"].pop("order")
        record["accuracy_interval"] = self.interval
        text = json.dumps(record, default=asdict)
        plain: dict[str, Any] = json.loads(
            text, parse_constant={"Infinity": "inf"}.get
        )  # NaN: None
        return plain

    def write(self, folder: Path) -> None:
        """Write result.json into `folder`."""
        write_private(folder / RESULT, json.dumps(self.as_dict(), indent=2, allow_nan=False) + "\n")

    @classmethod
    def read(cls, folder: Path) -> "RunResult":
        """Return the result in `folder`. Keys that an earlier version did not write have their
        default.
        """
        record = json.loads(
            (folder / RESULT).read_text(encoding="utf-8"), object_hook=with_infinity
        )
        record["epsilon"] = Epsilon(**record["epsilon"], order=record["order"])
        record["rounds"] = [RoundResult(**part) for part in record["rounds"]]
        record["metrics"] = Metrics.read(record.get("metrics", {}))
        record["folder"] = folder
        record.setdefault("bound", record.get("publish"))  # its name in older versions
        return cls(**{part.name: record[part.name] for part in fields(cls) if part.name in record})


@cache
def result_keys() -> list[str]:
    """Return the keys that result.json can hold, dotted; a section whose own keys are not known
    ends with a dot.
    """
    inside = {
        "teachers": get_args(base.SummaryKey),
        "data": get_args(splits.SummaryKey),
        "seconds": get_args(Stage),
    }
    inside["epsilon"] = tuple(part.name for part in fields(Epsilon))
    inside["metrics"] = tuple(Metrics().as_dict())
    written = [
        *(part.name for part in fields(RunResult) if part.name not in _NOT_WRITTEN),
        "accuracy_interval",
    ]
    keys = [f"{name}.{key}".removesuffix(".") for name in written for key in inside.get(name, [""])]
    other = {
        "epsilon.order": "order",
        "metrics.recall": RECALL,
        "versions": "versions.",
        "individual": "individual.",
    }
    return [other.get(key, key) for key in keys]


def tracked_as(key: str) -> str:
    """Return the name at a tracker of a key of result.json: seconds.total → seconds_total,
    metrics.f1 → f1.
    """
    return key.removeprefix("metrics.").replace(".", "_")


def is_taken(name: str) -> bool:
    """Return whether a figure of nzc has this name in `metrics`, at a tracker or at the top of
    result.json.
    """
    names = [tracked_as(key) for key in result_keys()]
    sections = [*(name for name in names if name.endswith("_")), "epsilon"]
    return name in ("own", "recall", *names) or name.startswith(tuple(sections))
