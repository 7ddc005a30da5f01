"""What a person reads of a finished run: a table at its end, a line of a sweep's job, and the words at the tracker."""

import math
import re
from collections.abc import Iterator, Mapping

from rich.table import Column, Table

from nzc.labeling.randomness import SEEDED
from nzc.runs.formatting import ABOVE, EPSILONS, figure, heading, number, percent
from nzc.runs.result import RunResult

Row = tuple[str, str, str]
#: Whom ε protects, by the unit of privacy.
_PROTECTED = {"teacher": "the votes of one teacher", "label": "the label of one record, not its features"}


def result_table(result: RunResult) -> Table:
    """Return the table that ends a run."""
    columns = Column(style="bold"), Column(justify="right"), Column(style="dim")
    title = f"{result.dataset} · {result.aggregator} · {result.student}"
    table = Table(*columns, title=title, title_style="bold", show_header=False)
    for rows in (_student(result), _labels(result), _costs(result)):
        for row in rows:
            table.add_row(*row)
        table.add_section()
    table.caption, table.caption_justify = "\n".join(_notes(result)), "left"
    return table


def _notes(result: RunResult) -> Iterator[str]:
    """Yield what holds for every ε of the table, and why some seem to contradict others."""
    delta = "" if result.published_delta == result.delta else ", unless another δ is given"
    whom = _PROTECTED.get(result.unit, f"one {result.unit}")
    if result.unit == "group":
        whom = f"all records of one value of the {result.grouped_by or 'group'} together"
    yield f"Each ε is at δ = {result.delta:g}{delta}, and protects {whom}."
    for (larger, smaller), why in ABOVE.items():
        above, below = (getattr(result.epsilon, name) for name in (larger, smaller))
        if None not in (above, below) and above > below and number(above) != number(below):
            yield f"{_named(result, larger)[0]} is above {_named(result, smaller)[0]}: {why}."
    yield f"The run took {result.seconds['total']:.1f} s."


def _named(result: RunResult, name: str) -> tuple[str, str]:
    """Return the name of an ε and what it means; seeded labels are a trial, which released nothing."""
    epsilon = result.epsilon
    if name == "ledger_released" and epsilon.ledger_released == math.inf and epsilon.exact != math.inf:
        return heading(f"epsilon.{name}"), "a release before this run has no finite ε, or protects something else"
    if name == "ledger_released" and result.rng == SEEDED:
        return "ε if released", "this run and all releases before it would cost at most this; private"
    return heading(f"epsilon.{name}"), EPSILONS[name]


def _student(result: RunResult) -> Iterator[Row]:
    metrics, known = result.metrics, "on the test split"
    if result.accuracy is None:
        known = "not known, because there is no student or no test split"
    ends = "; 95 % interval {} to {}".format(*map(percent, result.interval)) if result.interval else ""
    yield "student accuracy", percent(result.accuracy), f"{known}{ends}"
    if metrics.majority is not None:
        figures = {"AUC": metrics.auc, "average precision": metrics.average_precision}
        ranks = "".join(f"; {name} {percent(value)}" for name, value in figures.items() if value is not None)
        yield "majority rate", percent(metrics.majority), "accuracy of always answering the most frequent class"
        yield "balanced accuracy", percent(metrics.balanced_accuracy), f"mean recall of all classes{ranks}"
        (worst, share), *others = metrics.lowest
        then = ", ".join(f"class {name} {percent(recall)}" for name, recall in others)
        yield "lowest recall", percent(share), f"of class {worst}" + f"; then {then}" * bool(then)
    for name, value in metrics.own.items():
        yield name, figure(value, f"metrics.{name}"), f"metrics.{name}, on the test split"
    delta = "" if result.published_delta == result.delta else f", with δ = {result.published_delta:g}"
    stated = f"{EPSILONS['published']}{delta}"
    if result.epsilon.published == math.inf:
        stated = "no finite ε holds, so publish nothing of this run"
    yield "ε published", number(result.epsilon.published), stated


def _labels(result: RunResult) -> Iterator[Row]:
    teachers = result.teachers
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
        if "screen=" in result.mechanism:
            why = ", but are paid for: noise decided where asking ended"
        refused = f"; {result.refused:,} more were not asked{why}"
    rounds = f" in {len(result.rounds)} rounds" if len(result.rounds) > 1 else ""
    yield "labels", f"{result.answered:,}", f"released for {asked:,} queries{rounds}{refused}"
    learned = f"; {percent(result.learned_accuracy)} of all that the student learned from"
    known = "of those released" + ("" if result.learned_accuracy in (None, result.label_accuracy) else learned)
    if result.label_accuracy is None:
        known = "not known, because these rows have no true labels"
    yield "label accuracy", percent(result.label_accuracy), known
    if result.reinforced:
        yield "reinforced", f"{result.reinforced:,}", "labels that the student gave itself, at no cost"


def _costs(result: RunResult) -> Iterator[Row]:
    for group, epsilon in result.individual.items():
        yield f"ε of {group}", number(epsilon), f"for a {result.unit} of this budget group; may be published"
    for name in EPSILONS:
        value = getattr(result.epsilon, name)
        if value is not None and name not in ("published", result.publish, "ledger_total"):  # two are `published`
            title, meaning = _named(result, name)
            yield title, number(value, name), meaning
    if result.ledger_trials:
        total = number(result.epsilon.ledger_total)
        text = f"runs with rng=seeded; if others saw their labels, ε is {total} in all"
        if result.epsilon.ledger_total == math.inf != result.epsilon.ledger_released:
            text = "runs with rng=seeded, of which some have no finite ε, or protect something else"
        yield "trials not counted", f"{result.ledger_trials:,}", text


def result_line(result: RunResult, name: str) -> str:
    """Return the result in one line, for the job `name` of a sweep."""
    name = name or f"{result.dataset} · {result.aggregator} · {result.student}"
    labels = f"{result.answered:,} released, labels {percent(result.label_accuracy)}, " if result.queries else ""
    return f"{name}: {labels}student {percent(result.accuracy)}, ε {number(result.epsilon.published)}"


def describe(result: RunResult) -> str:
    """Return one line that describes a finished run: its accuracies, and what its labels cost."""
    shares = {"student accuracy": result.accuracy, "label accuracy": result.label_accuracy}
    accuracies = [f"{of} {percent(share)}" for of, share in shares.items() if share is not None]
    epsilon, delta = number(result.epsilon.published), f"{result.published_delta:g}"
    cost = f"ε published {epsilon} at δ = {delta}, unit of privacy: {result.unit}"
    return "; ".join([*accuracies, f"{result.answered:,} labels released", cost])


def describe_student(result: RunResult) -> tuple[str, dict[str, str]]:
    """Return description and tags of a student as a model: what it learned from, and what may be said of its cost."""
    epsilon, delta = number(result.epsilon.published), f"{result.published_delta:g}"
    facts = {"dataset": result.dataset, "unit": result.unit, "epsilon": epsilon, "delta": delta}
    text = f"Learned by {result.aggregator} from {result.learned_from}, and from public rows of {result.dataset}. "
    text += f"It is (ε, δ)-differentially private with ε = {epsilon} and δ = {delta}, "
    text += f"where one private {result.unit} changes."
    if result.unit == "label":
        text += " It learned from features of private records too: nothing protects these."
    return text, facts | {"aggregator": result.aggregator}


def by_class(metric: str, values: Mapping[str, float | None]) -> dict[str, float | None]:
    """Return values by METRIC_CLASS; by the classes' numbers where MLflow takes two names for one, or for none."""
    names = [re.sub(r"[^\w. -]", "_", name) for name in values]  # MLflow refuses other characters
    if len({name.casefold() for name in names}) < len(names) or max(map(len, names), default=0) > 200:
        names = [str(number) for number in range(len(values))]
    return {f"{metric}_{name}": value for name, value in zip(names, values.values(), strict=True)}
