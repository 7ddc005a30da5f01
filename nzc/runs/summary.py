"""Words and names for the record of a run and its student at the tracker."""

import re
from collections.abc import Mapping

from nzc.runs.formatting import number, percent
from nzc.runs.result import RunResult


def describe(result: RunResult) -> str:
    """Return one line that describes a finished run: its accuracies, and what its labels cost."""
    shares = {"student accuracy": result.accuracy, "label accuracy": result.label_accuracy}
    accuracies = [f"{of} {percent(share)}" for of, share in shares.items() if share is not None]
    cost = f"ε published {number(result.epsilon.published)} at δ = {result.delta:g}, unit of privacy: {result.unit}"
    return "; ".join([*accuracies, f"{result.answered:,} labels released", cost])


def describe_student(result: RunResult) -> tuple[str, dict[str, str]]:
    """Return description and tags of a student as a model: what it learned from, and what may be said of its cost."""
    facts = {"dataset": result.dataset, "unit": result.unit, "epsilon": number(result.epsilon.published)}
    text = (
        f"Learned from {result.answered:,} labels that {result.teachers['count']:,} teachers released by "
        f"{result.aggregator}, and from public rows of {result.dataset}. The labels are (ε, δ)-differentially private "
        f"with ε = {facts['epsilon']}, δ = {result.delta:g}, where one private {result.unit} changes."
    )
    return text, facts | {"delta": f"{result.delta:g}", "aggregator": result.aggregator}


def by_class(metric: str, values: Mapping[str, float | None]) -> dict[str, float | None]:
    """Return values by METRIC_CLASS; by the classes' numbers where MLflow takes two names for one, or for none."""
    names = [re.sub(r"[^\w. -]", "_", name) for name in values]  # MLflow refuses other characters
    if len({name.casefold() for name in names}) < len(names) or max(map(len, names), default=0) > 200:
        names = [str(number) for number in range(len(values))]
    return {f"{metric}_{name}": value for name, value in zip(names, values.values(), strict=True)}
