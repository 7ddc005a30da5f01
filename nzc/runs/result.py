"""The result of one run: result.json, and the table that a person reads."""

import json
import math
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from rich.table import Column, Table

from nzc.accounting.epsilon import Epsilon
from nzc.data import splits
from nzc.runs.clock import Stage
from nzc.runs.formatting import EPSILONS, interval, number, percent
from nzc.runs.layout import RESULT, with_infinity
from nzc.runs.metrics import Metrics
from nzc.runs.provenance import now
from nzc.storage.files import write_private
from nzc.teachers import base


@dataclass(frozen=True)
class RoundResult:
    """One round of queries.

    reinforced  labels that the student gave itself, in this round and before
    epsilon     exact ε of this round alone
    """

    asked: int
    answered: int
    reinforced: int
    label_accuracy: float | None
    epsilon: float | None


@dataclass(frozen=True)
class RunResult:
    """All figures of one run. None: it does not apply or was not asked for.

    refused     queries that were not asked, because the budget or the number of answers was reached
    neighbours  which private datasets ε compares
    unit        of privacy: record, group (a person's records together), or teacher (votes from a file)
    publish     which bound was chosen to be published
    metrics     of the student on the test split
    warnings    what a reader of the accuracy must know, a line each
    folder      the run's folder; it is not part of result.json
    learned_from  in words: which labels the student learned from
    grouped_by     what names the groups that are the unit of privacy
    moved_votes    in words: on which rows one teacher may vote differently at neighbours
    ledger_trials  how many trials of other runs the ledger has, which `epsilon.ledger_released` does not count
    """

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
    teachers: dict[base.SummaryKey, float | int | None]
    epsilon: Epsilon
    rounds: list[RoundResult]
    data: dict[splits.SummaryKey, Any] | None
    neighbours: str
    unit: str
    publish: str
    seconds: dict[Stage, float] = field(default_factory=dict)
    finished: str = field(default_factory=now)
    versions: dict[str, str] = field(default_factory=dict)
    metrics: Metrics = field(default_factory=Metrics)
    warnings: list[str] = field(default_factory=list)
    folder: Path | None = None
    ledger_trials: int | None = None
    learned_from: str | None = None
    grouped_by: str | None = None
    moved_votes: str | None = None

    @property
    def public(self) -> "RunResult":
        """The result without what depends on votes or private records other than through released labels.

        Accuracies are of public rows and of the test split.
        """
        return replace(
            self,
            teachers={name: value if name == "count" else None for name, value in self.teachers.items()},
            epsilon=self.epsilon.public(self.publish),
            ledger_trials=None,
            rounds=[replace(each, epsilon=None) for each in self.rounds],
            seconds={"total": self.seconds["total"]},  # the time of one stage tells more of the votes
            data=None if self.data is None else self._public_data(self.data),
        )

    def _public_data(self, data: dict[splits.SummaryKey, Any]) -> dict[splits.SummaryKey, Any]:
        """Return what is public of the data: how many records the groups have is not."""
        hidden = ["private"] if self.unit == "group" else []
        return {name: value for name, value in data.items() if name not in hidden} | {"digest": "private"}

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's 95 % confidence interval of the accuracy."""
        if self.accuracy is None or self.data is None:
            return None
        from scipy.stats import binomtest  # takes half a second to import

        tested = int(self.data["test"])
        low, high = binomtest(round(self.accuracy * tested), tested).proportion_ci(method="wilson")
        return float(low), float(high)

    def as_dict(self) -> dict[str, Any]:
        """Return the content of result.json. Infinite numbers become "inf", and `order` is a key of its own."""
        record = asdict(self)
        del record["folder"]
        record["order"] = record["epsilon"].pop("order")
        record["accuracy_interval"] = self.interval
        plain: dict[str, Any] = json.loads(json.dumps(record), parse_constant={"Infinity": "inf"}.get)  # NaN: None
        return plain

    def write(self, folder: Path) -> None:
        """Write result.json into `folder`."""
        write_private(folder / RESULT, json.dumps(self.as_dict(), indent=2, allow_nan=False) + "\n")

    @classmethod
    def read(cls, folder: Path) -> "RunResult":
        """Return the result in `folder`. Keys that an earlier version did not write have their default."""
        record = json.loads((folder / RESULT).read_text(encoding="utf-8"), object_hook=with_infinity)
        record["epsilon"] = Epsilon(**record["epsilon"], order=record["order"])
        record["rounds"] = [RoundResult(**each) for each in record["rounds"]]
        record["metrics"] = Metrics(**record.get("metrics", {}))
        record["folder"] = folder
        return cls(**{each.name: record[each.name] for each in fields(cls) if each.name in record})

    def table(self) -> Table:
        """Return the table that ends a run."""
        columns = Column(style="bold"), Column(justify="right"), Column(style="dim")
        title = f"{self.dataset} · {self.aggregator} · {self.student}"
        table = Table(*columns, title=title, title_style="bold", show_header=False)
        ends = "" if self.interval is None else f"; {interval(self.interval)}"
        table.add_row("student accuracy", percent(self.accuracy), f"on the test split{ends}")
        if self.metrics.majority is not None:
            auc = "" if self.metrics.auc is None else f", AUC {percent(self.metrics.auc)}"
            beside = f"majority rate {percent(self.metrics.majority)}{auc}"
            table.add_row("balanced accuracy", percent(self.metrics.balanced_accuracy), beside)
            (worst, share), *others = self.metrics.lowest
            then = ", ".join(f"class {name} {percent(recall)}" for name, recall in others)
            table.add_row("lowest recall", percent(share), f"of class {worst}" + f"; then {then}" * bool(then))
        table.add_row("ε published", number(self.epsilon.published), EPSILONS["published"])
        table.add_section()
        if count := self.teachers["count"]:
            mean, ensemble = percent(self.teachers["mean_accuracy"]), percent(self.teachers["ensemble_accuracy"])
            known = self.teachers["mean_accuracy"] is not None
            said = f"mean teacher accuracy {mean}, ensemble accuracy {ensemble}" if known else ""
            table.add_row("teachers", f"{count:,}", said)
        refused = f"; {self.refused:,} not asked" if self.refused else ""
        rounds = f" in {len(self.rounds)} rounds" if len(self.rounds) > 1 else ""
        table.add_row("labels", f"{self.answered:,}", f"released of {self.queries:,} queries{rounds}{refused}")
        table.add_row("label accuracy", percent(self.label_accuracy), "of the released labels")
        if self.reinforced:
            table.add_row("reinforced", f"{self.reinforced:,}", "labels that the student gave itself, at no cost")
        table.add_section()
        for name, meaning in EPSILONS.items():
            value = getattr(self.epsilon, name)
            if value is not None and name not in ("published", self.publish, "ledger_total"):  # two are `published`
                table.add_row(f"ε {name.replace('_', '-')}", number(value, name), meaning)
        if self.ledger_trials:
            when = "they count if anyone used their labels"
            text = f"on seeded noise: {when}; with all of them, ε {number(self.epsilon.ledger_total)}"
            table.add_row("trials not counted", f"{self.ledger_trials:,}", text)
        order = self.epsilon.order
        best = f", best Rényi order {order:.3g}" if order is not None and math.isfinite(order) else ""
        table.caption = f"δ = {self.delta:g}, unit of privacy: {self.unit}{best}, {self.seconds['total']:.1f} s"
        return table

    def line(self, name: str) -> str:
        """Return the result in one line, for a job of a sweep."""
        name = name or f"{self.dataset} · {self.aggregator} · {self.student}"
        accuracies = f"labels {percent(self.label_accuracy)}, student {percent(self.accuracy)}"
        return f"{name}: {self.answered:,} released, {accuracies}, ε {number(self.epsilon.published)}"


def result_types(of: Any = RunResult, prefix: str = "") -> dict[str, tuple[Any, ...]]:
    """Return the keys that result.json can hold, dotted, with the types of each value.

    A section whose keys are not known beforehand, such as `versions`, is one key that ends with a dot.
    """
    found: dict[str, tuple[Any, ...]] = {}
    for name, hint in get_type_hints(of).items():
        kinds = get_args(hint) if get_origin(hint) is UnionType else (hint,)
        if is_dataclass(kind := kinds[0]):
            found |= result_types(kind, f"{prefix}{name}.")
        elif get_origin(kind) is dict:
            key, value = get_args(kind)
            names = get_args(key) if get_origin(key) is Literal else ("",)
            found |= {f"{prefix}{name}.{each}": get_args(value) or (value,) for each in names}
        else:
            found[prefix + name] = kinds
    if of is RunResult:  # as in as_dict
        del found["folder"]
        found |= {"order": found.pop("epsilon.order"), "accuracy_interval": (list,)}
    return found
