"""What a person reads of a finished run: a table at its end, a line of a sweep's job, and the words
at the tracker.
"""

import math
import re
from collections.abc import Iterator, Mapping

from rich.table import Column, Table

from nzc.accounting.epsilon import SANITISED
from nzc.labeling.randomness import SYSTEM
from nzc.runs.formatting import EPSILONS, figure, heading, number, percent, short_mechanism, some
from nzc.runs.metrics import Metrics, is_far_from_even
from nzc.runs.result import RunResult

Row = tuple[str, str, str]
#: Whom ε protects, by the unit of privacy.
_PROTECTED = {
    "teacher": "the votes of one teacher",
    "label": "the label of one record, not its features",
}
#: What stands in the description of a mechanism that has a screen.
_SCREENED = re.compile(r"screen=|threshold=")


def result_table(result: RunResult) -> Table:
    """Return the table that ends a run."""
    columns = Column(style="bold"), Column(justify="right"), Column(style="dim")
    title = f"{result.dataset} · {result.aggregator} · {result.student}"
    table = Table(*columns, title=title, title_style="bold", show_header=False)
    for rows in (_student(result), _labels(result), _costs(result)):
        for row in rows:
            table.add_row(*row)
        table.add_section()
    table.caption = _caption(result)
    table.caption_justify = "left"
    return table


def _caption(result: RunResult) -> str:
    """Return what holds for every ε of the table, and how long the run took."""
    whom = _PROTECTED.get(result.unit, f"one {result.unit}")
    if result.unit == "group":
        whom = f"all records of one value of the {result.grouped_by or 'group'} together"
    delta = f"δ = {result.delta:g}"
    if result.published_delta != result.delta:
        delta += ", unless another δ is given"
    return (
        f"Each ε is at {delta}, and protects {whom}. The run took {result.seconds['total']:.1f} s."
    )


def _student(result: RunResult) -> Iterator[Row]:
    metrics, known = result.metrics, "on the test split"
    if result.accuracy is None:
        known = "not known, because there is no test split"
        if result.student == "none":
            known = "there is no student"
    ends = (
        "; 95 % interval {} to {}".format(*map(percent, result.interval)) if result.interval else ""
    )
    yield "student accuracy", percent(result.accuracy), f"{known}{ends}"
    if metrics.majority is not None and metrics.balanced_accuracy is not None:
        yield from _classes(metrics)
    for name, value in metrics.own.items():
        yield name, figure(value, f"metrics.{name}"), f"metrics.{name}, on the test split"


def _classes(metrics: Metrics) -> Iterator[Row]:
    if is_far_from_even(metrics.majority, len(metrics.recall)):
        figures = {"AUC": metrics.auc, "average precision": metrics.average_precision}
        ranks = "".join(
            f"; {name} {percent(value)}" for name, value in figures.items() if value is not None
        )
        yield (
            "majority rate",
            percent(metrics.majority),
            "accuracy of always answering the most frequent class",
        )
        yield (
            "balanced accuracy",
            percent(metrics.balanced_accuracy),
            f"mean recall of all classes{ranks}",
        )
    (worst, share), *others = metrics.lowest
    meaning = f"of class {worst}"
    if others:
        meaning += "; then " + ", ".join(
            f"class {name} {percent(recall)}" for name, recall in others
        )
    yield "lowest recall", percent(share), meaning


def _labels(result: RunResult) -> Iterator[Row]:
    teachers = result.teachers
    yield "mechanism", "", short_mechanism(result.mechanism)
    if not result.queries:
        yield "learned from", "", result.learned_from or ""
        return
    if count := teachers["count"]:
        mean, plurality = percent(teachers["mean_accuracy"]), percent(teachers["ensemble_accuracy"])
        shares = f"{mean} of their votes are right, and {plurality} of their pluralities"
        yield result.voters, f"{count:,}", "" if teachers["mean_accuracy"] is None else shares
    asked, refused = result.queries - result.refused, ""
    if result.refused:
        why = ": the budget or the answers were used up"
        if _SCREENED.search(result.mechanism):
            why = ", but are paid for: noise decided where asking ended"
        refused = f"; {result.refused:,} more were not asked{why}"
    rounds = f" in {len(result.rounds)} rounds" if len(result.rounds) > 1 else ""
    yield "labels", f"{result.answered:,}", f"released for {asked:,} queries{rounds}{refused}"
    learned = f"; {percent(result.learned_accuracy)} of all that the student learned from"
    known = "of those released" + (
        "" if result.learned_accuracy in (None, result.label_accuracy) else learned
    )
    if result.label_accuracy is None:
        known = "not known, because these rows have no true labels"
    yield "label accuracy", percent(result.label_accuracy), known
    if result.reinforced:
        yield (
            "reinforced",
            f"{result.reinforced:,}",
            "labels that the student gave itself, at no cost",
        )


def _costs(result: RunResult) -> Iterator[Row]:
    """Yield at most four ε: where an audit and earlier releases both have a line, the paper's
    number has none.
    """
    epsilon = result.epsilon
    rows = {"published": _published(result), "exact": _exact(result)}
    asked = {"audited": EPSILONS["audited"]} if epsilon.audited is not None else {}
    if result.rng == SYSTEM and result.ledger_releases:
        asked["ledger_released"] = _released(result)
    if len(asked) < 2:
        own = "paper" if epsilon.claimed is None else "claimed"
        rows[own] = EPSILONS[own]
    for name, meaning in (rows | asked).items():
        value = getattr(epsilon, name)
        if value is not None:
            yield heading(f"epsilon.{name}"), number(value, name), meaning


def _published(result: RunResult) -> str:
    """Return what the published ε means, and the ε of all budget groups."""
    if result.epsilon.published == math.inf:
        return "no finite ε holds, so publish nothing of this run"
    meaning = EPSILONS["published"]
    if result.published_delta != result.delta:
        meaning += f", with δ = {result.published_delta:g}"
    if result.bound == SANITISED:
        meaning += "; sanitised: it depends on the votes, and has noise"
    if result.individual:
        groups = some(f"{group} {number(epsilon)}" for group, epsilon in result.individual.items())
        meaning += f"; of budget groups: {groups}"
    return meaning


def _exact(result: RunResult) -> str:
    """Return what the exact ε means, with its lower bound."""
    epsilon = result.epsilon
    meaning = "what these labels cost at these votes"
    if epsilon.published == math.inf != epsilon.exact:
        meaning += " only, as other votes may cost any ε"
    upper, lower = number(epsilon.exact), number(epsilon.exact_lower, "exact_lower")
    if epsilon.exact_lower is not None and lower != upper:
        meaning += f": between {lower} and {upper}"
    return f"{meaning}; private"


def _released(result: RunResult) -> str:
    """Return what ε of this run and all releases before it means."""
    if result.epsilon.ledger_released == math.inf != result.epsilon.exact:
        return "a release before this run has no finite ε, or protects something else; private"
    return EPSILONS["ledger_released"]


def result_line(result: RunResult, name: str) -> str:
    """Return the result in one line, for the job `name` of a sweep."""
    name = name or f"{result.dataset} · {result.aggregator} · {result.student}"
    labels = (
        f"{result.answered:,} released, labels {percent(result.label_accuracy)}, "
        if result.queries
        else ""
    )
    return (
        f"{name}: {labels}student {percent(result.accuracy)}, ε {number(result.epsilon.published)}"
    )


def describe(result: RunResult) -> str:
    """Return one line that describes a finished run: its accuracies, and what its labels cost."""
    shares = {"student accuracy": result.accuracy, "label accuracy": result.label_accuracy}
    accuracies = [f"{of} {percent(share)}" for of, share in shares.items() if share is not None]
    epsilon, delta = number(result.epsilon.published), f"{result.published_delta:g}"
    cost = f"ε published {epsilon} at δ = {delta}, unit of privacy: {result.unit}"
    return "; ".join([*accuracies, f"{result.answered:,} labels released", cost])


def describe_student(result: RunResult) -> tuple[str, dict[str, str]]:
    """Return description and tags of a student as a model: what it learned from, and what may be
    said of its cost.
    """
    epsilon, delta = number(result.epsilon.published), f"{result.published_delta:g}"
    facts = {"dataset": result.dataset, "unit": result.unit, "epsilon": epsilon, "delta": delta}
    text = f"Learned from {result.learned_from}, and from public rows of {result.dataset}. "
    text += f"The mechanism was {result.mechanism}. "
    text += f"It is (ε, δ)-differentially private with ε = {epsilon} and δ = {delta}, "
    text += f"where one private {result.unit} changes."
    if result.unit == "label":
        text += " It learned from features of private records too: nothing protects these."
    return text, facts | {"aggregator": result.aggregator, "mechanism": result.mechanism}


def by_class(metric: str, values: Mapping[str, float | None]) -> dict[str, float | None]:
    """Return values by METRIC_CLASS; by the classes' numbers where MLflow takes two names for one,
    or for none.
    """
    names = [re.sub(r"[^\w. -]", "_", name) for name in values]  # MLflow refuses other characters
    if (
        len({name.casefold() for name in names}) < len(names)
        or max(map(len, names), default=0) > 200
    ):
        names = [str(number) for number in range(len(values))]
    return {f"{metric}_{name}": value for name, value in zip(names, values.values(), strict=True)}
