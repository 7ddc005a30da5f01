"""What a person reads of a finished run: its table, a line, and the words at the tracker."""

import math
from collections.abc import Iterator, Sequence

from rich.table import Column, Table

from nzc.accounting.epsilon import SANITISED
from nzc.privacy.ledger_entry import LedgerEntry, total_epsilon
from nzc.privacy.randomness import SYSTEM
from nzc.runs.formatting import figure, heading, long_name, number, percent, short_mechanism
from nzc.runs.metrics import Metrics, is_far_from_even
from nzc.runs.quantities import EPSILONS, NOBODY, protects_nobody
from nzc.runs.result import RunResult

#: Name, value and meaning.
Row = tuple[str, str, str]
#: Whom ε protects, by the unit of privacy.
_PROTECTED = {
    "teacher": "the votes of one teacher",
    "label": "the label of one record, not its features",
}


def result_table(result: RunResult) -> Table:
    """Return the table that ends a run."""
    table = Table(
        Column(style="bold"),
        Column(justify="right"),
        Column(style="dim"),
        title=_title(result),
        title_style="bold",
        show_header=False,
        caption=_caption(result),
        caption_justify="left",
    )
    for rows in (_student(result), _labels(result), _costs(result)):
        for row in rows:
            table.add_row(*row)
        table.add_section()
    return table


def _title(result: RunResult) -> str:
    return f"{result.dataset} · {result.aggregator} · {result.student}"


def _caption(result: RunResult) -> str:
    """Return what holds for every ε of the table."""
    whom = _PROTECTED.get(result.unit, f"one {result.unit}")
    if result.unit == "group":
        whom = f"all records of one value of the {result.grouped_by or 'group'} together"
    delta = f"δ = {result.delta:g}"
    if result.published_delta != result.delta:
        delta += ", unless another δ is given"
    return f"Each ε is at {delta}, and protects {whom}."


def _student(result: RunResult) -> Iterator[Row]:
    """Yield the student's accuracy, and the metrics beside it."""
    metrics = result.metrics
    known = "on the test split"
    if result.interval is not None:
        known += "; 95 % interval {} to {}".format(*map(percent, result.interval))
    elif result.student == "none":
        known = "there is no student"
    elif result.accuracy is None:
        known = "not known, because there is no test split"
    yield long_name("accuracy"), percent(result.accuracy), known
    if metrics.balanced_accuracy is not None:
        yield from _by_class(metrics)
    for name, value in metrics.own.items():
        yield name, figure(value, f"metrics.{name}"), f"metrics.{name}, on the test split"


def _by_class(metrics: Metrics) -> Iterator[Row]:
    """Yield what unequal classes do not flatter, and the classes that the student misses most."""
    if is_far_from_even(metrics.majority, len(metrics.recall)):
        yield (
            heading("metrics.majority"),
            percent(metrics.majority),
            "accuracy of always answering the most frequent class",
        )
        yield (
            heading("metrics.balanced_accuracy"),
            percent(metrics.balanced_accuracy),
            f"mean recall of all classes; AUC {percent(metrics.auc)}",
        )
    lowest = [f"class {name} {percent(share)}" for name, share in metrics.lowest]
    yield "lowest recall", percent(metrics.lowest[0][1]), f"of {', '.join(lowest)}"


def _labels(result: RunResult) -> Iterator[Row]:
    """Yield the mechanism, the teachers, and the labels: how many, and how many are right."""
    yield "mechanism", "", short_mechanism(result.mechanism)
    if not result.queries:
        yield "learned from", "", result.learned_from or ""
        return
    teachers = result.teachers
    count = teachers["count"]
    if count:
        shares = ""
        if teachers["mean_accuracy"] is not None:
            shares = (
                f"{percent(teachers['mean_accuracy'])} of single votes are right, "
                f"{percent(teachers['ensemble_accuracy'])} of the most frequent ones"
            )
        yield contributors(result.voters, result.unit), f"{count:,}", shares
    yield "labels", f"{result.answered:,}", _released_for(result)
    known = "of those released"
    if result.label_accuracy is None:
        known = "not known, because these rows have no true labels"
    elif result.learned_accuracy not in (None, result.label_accuracy):
        known += f"; {percent(result.learned_accuracy)} of all that the student learned from"
    yield heading("label_accuracy"), percent(result.label_accuracy), known
    if result.reinforced:
        yield (
            "reinforced",
            f"{result.reinforced:,}",
            "labels that the student gave itself, at no cost",
        )


def contributors(voters: str, unit: str) -> str:
    """Return what the number `teachers.count` counts."""
    if voters not in ("sums", "own"):
        return voters
    return "groups" if unit == "group" else "records"


def _released_for(result: RunResult) -> str:
    """Return for how many queries labels were released, and why no more were asked."""
    text = f"released for {result.queries - result.refused:,} queries"
    if len(result.rounds) > 1:
        text += f" in {len(result.rounds)} rounds"
    if result.refused:
        text += f"; {result.refused:,} more were not asked, as budget or answers were used up"
    return text


def _costs(result: RunResult) -> Iterator[Row]:
    """Yield at most four ε: beside two that were asked for, the paper's number has no line."""
    epsilon = result.epsilon
    asked = {}
    if epsilon.audited is not None:
        asked["audited"] = EPSILONS["audited"].meaning
    if result.rng == SYSTEM and result.ledger_releases:
        asked["ledger_released"] = EPSILONS["ledger_released"].meaning
        if epsilon.ledger_released == math.inf:
            asked["ledger_released"] = f"{result.ledger_unbounded}; private"
    rows = {"published": _published(result), "exact": _exact(result)}
    if len(asked) < 2:
        papers = "paper" if epsilon.claimed is None else "claimed"
        rows[papers] = EPSILONS[papers].meaning
    for name, meaning in (rows | asked).items():
        value = getattr(epsilon, name)
        if protects_nobody(name, value, epsilon.published):
            meaning = "by chance, no label would change with one vote; other votes have no finite ε"
            yield heading(f"epsilon.{name}"), NOBODY, meaning
        elif value is not None:
            yield heading(f"epsilon.{name}"), number(value, name), meaning


def _published(result: RunResult) -> str:
    """Return what the published ε means."""
    if result.epsilon.published == math.inf:
        return "no finite ε holds, so publish nothing of this run"
    meaning = EPSILONS["published"].meaning
    if result.rng != SYSTEM:
        meaning = "holds for any votes; this run is a trial: its noise has a seed"
    if result.published_delta != result.delta:
        meaning += f", with δ = {result.published_delta:g}"
    if result.bound == SANITISED:
        meaning += "; sanitised: it depends on the votes, and has noise"
    return meaning


def _exact(result: RunResult) -> str:
    """Return what the exact ε means, with its lower bound."""
    epsilon = result.epsilon
    meaning = "what these labels cost at these votes"
    upper = number(epsilon.exact)
    lower = number(epsilon.exact_lower, "exact_lower")
    if epsilon.exact_lower is not None and lower != upper:
        meaning += f": between {lower} and {upper}"
    return f"{meaning}; private"


def unbounded(entries: Sequence[LedgerEntry], delta: float) -> str:
    """Return why entries of the ledger, of which the first is a run's own, have no finite ε."""
    for entry in entries:
        which = f"{short_mechanism(entry.description)} of {entry.recorded}"
        if entry.neighbours != entries[0].neighbours:
            return f"{which} protects something else ({entry.neighbours}), and such ε have no sum"
        if total_epsilon([entry], delta) == math.inf:
            return f"{which} has no finite ε"
    return "what they use of δ exceeds it"


def result_line(result: RunResult, name: str) -> str:
    """Return the result in one line, for the job `name` of a sweep."""
    return f"{name or _title(result)}: {in_words(result)}"


def in_words(result: RunResult) -> str:
    """Return one line that describes a finished run: its accuracies, and what its labels cost."""
    text = ""
    for key in ("accuracy", "label_accuracy"):
        share = getattr(result, key)
        if share is not None:
            text += f"{long_name(key)} {percent(share)}; "
    epsilon = f"{number(result.epsilon.published)} at δ = {result.published_delta:g}"
    if result.epsilon.published == math.inf:
        epsilon = f"∞, which {NOBODY}"
    text += f"{result.answered:,} labels released; ε published {epsilon}, "
    return f"{text}unit of privacy: {result.unit}"


def describe_student(result: RunResult) -> tuple[str, dict[str, str]]:
    """Return description and tags of a student as a model: whence it learned, and at what cost."""
    text = f"Mechanism {result.mechanism}; learned from {result.learned_from}; {in_words(result)}."
    if result.unit == "label":
        text += " It learned from features of private records too: nothing protects these."
    return text, {
        "dataset": result.dataset,
        "unit": result.unit,
        "epsilon": number(result.epsilon.published),
        "delta": f"{result.published_delta:g}",
        "aggregator": result.aggregator,
        "mechanism": result.mechanism,
    }
