"""What a person reads at the end of a run: a table; of a job of a sweep, a line."""

import math
from collections.abc import Iterator

from rich.table import Column, Table

from nzc.runs.formatting import EPSILONS, interval, number, percent
from nzc.runs.result import RunResult

Row = tuple[str, str, str]


def result_table(result: RunResult) -> Table:
    """Return the table that ends a run."""
    columns = Column(style="bold"), Column(justify="right"), Column(style="dim")
    title = f"{result.dataset} · {result.aggregator} · {result.student}"
    table = Table(*columns, title=title, title_style="bold", show_header=False)
    for rows in (_student(result), _labels(result), _costs(result)):
        for row in rows:
            table.add_row(*row)
        table.add_section()
    order = result.epsilon.order
    best = f", best Rényi order {order:.3g}" if order is not None and math.isfinite(order) else ""
    table.caption = f"δ = {result.delta:g}, unit of privacy: {result.unit}{best}, {result.seconds['total']:.1f} s"
    return table


def result_line(result: RunResult, name: str) -> str:
    """Return the result in one line, for the job `name` of a sweep."""
    name = name or f"{result.dataset} · {result.aggregator} · {result.student}"
    accuracies = f"labels {percent(result.label_accuracy)}, student {percent(result.accuracy)}"
    return f"{name}: {result.answered:,} released, {accuracies}, ε {number(result.epsilon.published)}"


def _student(result: RunResult) -> Iterator[Row]:
    metrics = result.metrics
    ends = "" if result.interval is None else f"; {interval(result.interval)}"
    yield "student accuracy", percent(result.accuracy), f"on the test split{ends}"
    if metrics.majority is not None:
        auc = "" if metrics.auc is None else f", AUC {percent(metrics.auc)}"
        yield "balanced accuracy", percent(metrics.balanced_accuracy), f"majority rate {percent(metrics.majority)}{auc}"
        (worst, share), *others = metrics.lowest
        then = ", ".join(f"class {name} {percent(recall)}" for name, recall in others)
        yield "lowest recall", percent(share), f"of class {worst}" + f"; then {then}" * bool(then)
    yield "ε published", number(result.epsilon.published), EPSILONS["published"]


def _labels(result: RunResult) -> Iterator[Row]:
    teachers = result.teachers
    if count := teachers["count"]:
        mean, ensemble = percent(teachers["mean_accuracy"]), percent(teachers["ensemble_accuracy"])
        known = teachers["mean_accuracy"] is not None
        yield "teachers", f"{count:,}", f"mean teacher accuracy {mean}, ensemble accuracy {ensemble}" if known else ""
    refused = f"; {result.refused:,} not asked" if result.refused else ""
    rounds = f" in {len(result.rounds)} rounds" if len(result.rounds) > 1 else ""
    yield "labels", f"{result.answered:,}", f"released of {result.queries:,} queries{rounds}{refused}"
    yield "label accuracy", percent(result.label_accuracy), "of the released labels"
    if result.reinforced:
        yield "reinforced", f"{result.reinforced:,}", "labels that the student gave itself, at no cost"


def _costs(result: RunResult) -> Iterator[Row]:
    for name, meaning in EPSILONS.items():
        value = getattr(result.epsilon, name)
        if value is not None and name not in ("published", result.publish, "ledger_total"):  # two are `published`
            yield f"ε {name.replace('_', '-')}", number(value, name), meaning
    if result.ledger_trials:
        when = "they count if anyone used their labels"
        text = f"on seeded noise: {when}; with all of them, ε {number(result.epsilon.ledger_total)}"
        yield "trials not counted", f"{result.ledger_trials:,}", text
