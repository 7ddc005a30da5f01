"""What a run found: its result.json, and the table that a person reads."""

import json
import math
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from rich.table import Table
from scipy.stats import binomtest

from nzc._files import written
from nzc.privacy import Epsilon
from nzc.privacy.epsilon import PUBLIC
from nzc.report.folder import RESULT, numbers
from nzc.report.origin import now
from nzc.report.words import EPSILONS, between, number, percent


@dataclass(frozen=True)
class Round:
    """One round of asking. `reinforced`: labels that the student gave itself after it, in this round and before.

    epsilon   exact, of this round alone
    """

    asked: int
    answered: int
    reinforced: int
    label_accuracy: float | None
    epsilon: float | None


@dataclass(frozen=True)
class Report:
    """Every figure of one run. None: it does not apply or was not asked for."""

    dataset: str
    aggregator: str
    student: str
    seed: int
    rng: str
    mechanism: str
    delta: float
    queries: int
    answered: int
    refused: int
    reinforced: int
    label_accuracy: float | None
    accuracy: float | None
    teachers: dict[str, float | int | None]
    epsilon: Epsilon
    rounds: list[Round]
    data: dict[str, int | str] | None
    seconds: dict[str, float] = field(default_factory=dict)
    finished: str = field(default_factory=now)
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def public(self) -> "Report":
        """The same, less all that follows from votes or private records. Accuracies are those of public labels."""
        return replace(
            self,
            teachers={name: value if name == "count" else None for name, value in self.teachers.items()},
            epsilon=Epsilon(**{name: getattr(self.epsilon, name) for name in PUBLIC}),
            rounds=[replace(each, epsilon=None) for each in self.rounds],
            seconds={"total": self.seconds["total"]},  # how long accounting took follows the votes
            data=None if self.data is None else {**self.data, "digest": "private"},
        )

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of the accuracy, at 95 %: Wilson's, for so many test rows."""
        if self.accuracy is None or self.data is None:
            return None
        tested = int(self.data["test"])
        low, high = binomtest(round(self.accuracy * tested), tested).proportion_ci(method="wilson")
        return float(low), float(high)

    def as_dict(self) -> dict[str, Any]:
        """The contract of result.json: infinite numbers become "inf"; `order` stands beside epsilon."""
        record = asdict(self)
        record["order"] = record["epsilon"].pop("order")
        record["accuracy_interval"] = self.interval
        return {key: _plain(value) for key, value in record.items()}

    def write(self, folder: Path) -> Path:
        """result.json in `folder`, whole or not at all."""
        text = json.dumps(self.as_dict(), indent=2, allow_nan=False) + "\n"
        return written(folder / RESULT, text.encode())

    @classmethod
    def read(cls, folder: Path) -> "Report":
        """What `write` wrote there."""
        record = json.loads((folder / RESULT).read_text(), object_hook=numbers)
        record["epsilon"] = Epsilon(**record["epsilon"], order=record["order"])
        record["rounds"] = [Round(**each) for each in record["rounds"]]
        return cls(**{each.name: record[each.name] for each in fields(cls)})

    def table(self) -> Table:
        """The same, for reading."""
        table = Table(
            title=f"{self.dataset} · {self.aggregator} · {self.student}", show_header=False, title_style="bold"
        )
        table.add_column(style="bold")
        table.add_column(justify="right")
        table.add_column(style="dim")
        count = self.teachers["count"] or 0
        if count:
            table.add_row("teachers", f"{count:,}", f"right on average {percent(self.teachers['mean_accuracy'])}, "
                          f"their plurality {percent(self.teachers['ensemble_accuracy'])}")  # fmt: skip
        refused = f"; {self.refused:,} refused by the budget" if self.refused else ""
        rounds = f" in {len(self.rounds)} rounds" if len(self.rounds) > 1 else ""
        table.add_row("labels", f"{self.answered:,}", f"released of {self.queries:,} queries{rounds}{refused}")
        table.add_row("label accuracy", percent(self.label_accuracy), "of the released labels")
        if self.reinforced:
            table.add_row("reinforced", f"{self.reinforced:,}", "labels that the student gave itself, at no cost")
        sure = "" if self.interval is None else f"; {between(self.interval)}"
        table.add_row("student accuracy", percent(self.accuracy), f"on the test split{sure}")
        table.add_section()
        for name, meaning in EPSILONS.items():
            value = getattr(self.epsilon, name)
            if value is not None:
                table.add_row(f"ε {name.replace('_', '-')}", number(value), meaning)
        order = self.epsilon.order
        best = f", best Rényi order {order:.3g}" if order is not None and math.isfinite(order) else ""
        table.caption = f"δ = {self.delta:g}{best}, {self.seconds['total']:.1f} s"
        return table

    def line(self, name: str) -> str:
        """The same, in a line: for one job of a sweep, by what tells it from the others."""
        name = name or f"{self.dataset} · {self.aggregator} · {self.student}"
        accuracies = f"labels {percent(self.label_accuracy)}, student {percent(self.accuracy)}"
        return f"{name}: {self.answered:,} released, {accuracies}, ε {number(self.epsilon.headline)}"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "inf" if value > 0 else None
    return value
