"""The subcommand nzc plan: say beforehand which labels a privacy budget buys."""

import sys
from argparse import ArgumentTypeError
from typing import Any

from rich.table import Table

from nzc.app.errors import Parser
from nzc.data.rows import load_array
from nzc.mechanisms import Counts, count_votes
from nzc.planning.budget import QUERIES, Plan, PlannedRun
from nzc.planning.expected import AGREEMENT, doubts, expected_in_cells, rows_to_ask
from nzc.runs.formatting import percent, show
from nzc.types import Ints
from nzc.validation import InputError, positive, share, whole

#: The option of each argument of Plan whose name differs.
_OPTIONS = dict.fromkeys(("measured", "votes", "labels", "predictions"), "agreement_from")
#: δ of a run that is not told one.
_DELTA = 1e-5


def plan(arguments: list[str]) -> int:
    """Show what a budget buys, and recommend a run."""
    chosen: dict[str, Any] = vars(_parser().parse_args(arguments))
    measured, public = chosen.pop("agreement_from"), chosen.pop("public")
    if chosen["teachers"] is None:
        return _plan_cells(
            chosen["records"], chosen["classes"], chosen["epsilon"], public, chosen["agreement"]
        )
    try:
        planned = Plan(**chosen, measured=measured and _measured(chosen["classes"], *measured))
        best, warnings = planned.recommended, planned.warnings
    except InputError as error:
        option = _OPTIONS.get(error.key, error.key).replace("_", "-")
        value = " ".join(measured) if option == "agreement-from" else error.value
        raise InputError(f"--{option}", value, error.allowed) from error
    _show_plan(planned, best)
    verdict = "Recommended" if planned.is_good(best) else "No row is good. The best"
    show(
        f"{verdict}: {best.queries:,} queries of {best.aggregator} give {best.right:,.1f} right labels."
    )
    *fixed, _ = best.settings  # the noise follows from the budget
    settings = [f"teachers.count={planned.teachers}", f"aggregator={best.aggregator}"]
    settings += [f"aggregator.{key}={best.settings[key]}" for key in fixed]
    settings += [f"budget.epsilon={planned.epsilon}", f"queries={best.queries}"]
    settings += [] if planned.delta == _DELTA else [f"delta={planned.delta}"]
    _show_commands(warnings, settings, ["recipe=tables", *settings])
    return 0


def _plan_cells(
    records: int | None, classes: int, epsilon: float, public: int, agreement: float
) -> int:
    """Show what a run of recipe=near_zero asks at this ε and at others, and how many labels will be
    right.
    """
    if records is None:
        raise InputError(
            "--records", None, "must be the number of private records; or give --teachers"
        )
    whole("--records", records, 1)
    whole("--public", public, 1)
    whole("--classes", classes, 2)
    positive("--epsilon", epsilon)
    positive("--agreement", agreement)
    share("--agreement", agreement)
    notes = (
        "Each record counts for the asked row that it is nearest to. → the ε that you gave.\n"
        f"Right labels: estimate for rows with equally many records, {percent(agreement)} of them of the right class."
    )
    names = "ε, at δ = 0", "noise of each count", "rows asked", "records for each", "right labels"
    table = _table(
        f"{records:,} records · {classes} classes · agreement {percent(agreement)}",
        notes,
        "",
        *names,
    )
    for factor in (0.1, 0.25, 0.5, 1, 2, 4, 10):
        counts = Counts(factor * epsilon / 2)
        rows = rows_to_ask(records, classes, public, deviation := counts.noise.deviation)
        _, right = expected_in_cells(counts, records, classes, rows, agreement)
        numbers = (
            f"{factor * epsilon:.4g}",
            f"{deviation:,.1f}",
            f"{rows:,}",
            f"{records // rows:,}",
        )
        table.add_row(
            "→" if factor == 1 else "",
            *numbers,
            percent(right),
            style="bold" if factor == 1 else None,
        )
        if factor == 1:
            warnings = doubts(rows, right, classes, None, 0, records, in_cells=True, agreement=None)
    show(table)
    settings = ["recipe=near_zero", f"budget.epsilon={epsilon}"]
    _show_commands(warnings, settings, settings)
    return 0


def _show_plan(planned: Plan, best: PlannedRun) -> None:
    agreement = "as measured" if planned.measured else percent(planned.agreement)
    budget = f"ε = {planned.epsilon:g} at δ = {planned.delta:g}"
    notes = (
        "→ the best row. ✓ good: noise spoils at most one label in ten, and there are as many labels as classes.\n"
        f"Without noise, {percent(planned.plurality)} of the labels would be right.\n"
        "A run of gnmax needs up to a fifth less noise than shown, except in the best row."
    )
    notes += (
        ""
        if planned.measured
        else "\nReal queries are not equally easy: expect fewer right labels than shown."
    )
    names = "", "aggregator", "noise", "queries", "labels", "right labels", "label accuracy"
    title = f"{planned.teachers:,} teachers · {planned.classes} classes · {budget} · agreement {agreement}"
    table = _table(title, notes, *names)
    for row in planned.rows:
        is_best = (row.aggregator, row.queries) == (best.aggregator, best.queries)
        row = best if is_best else row
        settings = " ".join(f"{key}={value:.4g}" for key, value in row.settings.items())
        counts = (
            f"{row.queries:,}",
            f"{row.labels:,.1f}",
            f"{row.right:,.1f}",
            percent(row.accuracy),
        )
        mark, last = (
            "→" if is_best else "✓" if planned.is_good(row) else "",
            row.queries == planned.queries[-1],
        )
        table.add_row(
            mark,
            row.aggregator,
            settings,
            *counts,
            style="bold" if is_best else None,
            end_section=last,
        )
    show(table)


def _table(title: str, notes: str, *columns: str) -> Table:
    table = Table(title=title, title_style="bold", caption=notes, caption_justify="left")
    for name in columns:
        table.add_column(name, justify="left" if name in ("", "aggregator", "noise") else "right")
    return table


def _show_commands(warnings: list[str], of_arrays: list[str], of_tables: list[str]) -> None:
    """Show what speaks against the plan, and the commands that run it, by their settings."""
    for warning in warnings:
        print(f"nzc: {warning}", file=sys.stderr)
    show(
        "To run it, put your own names in place of the words in capitals. For arrays (images: dataset=folder):"
    )
    show(f"nzc dataset=npz dataset.path=FILE {' '.join(of_arrays)}")
    show("For tables (add dataset.group=COLUMN if one person may have several rows):")
    files = "dataset.private=FILE dataset.public=FILE dataset.label=COLUMN"
    show(f"nzc dataset=table {files} {' '.join(of_tables)}")


def _parser() -> Parser:
    parser = Parser(
        "nzc plan",
        description="Estimate beforehand how many right labels a privacy budget buys. Use public facts only.",
        epilog="A row is good if noise spoils at most one label in ten, and there are at least as many labels as "
        "classes. nzc recommends the good row with the most right labels; if no row is good, the row with the most "
        "right labels per query.",
    )

    def option(name: str, metavar: Any, text: str, kind: Any = float, **more: Any) -> None:
        parser.add_argument(f"--{name}", metavar=metavar, help=text, type=kind, **more)

    option(
        "teachers",
        "N",
        "how many teachers vote; without it, records vote: recipe=near_zero, with --records",
        int,
    )
    option("classes", "K", "how many classes there are", int, required=True)
    option("epsilon", "ε", "the privacy budget of all labels", required=True)
    option("delta", "δ", "δ of the budget (default 1e-5)", default=_DELTA)
    shares = "expected share of votes for the right class, the same for every query (default 0.8)"
    option("agreement", "SHARE", shares, default=AGREEMENT)
    others = "share of the other votes that one wrong class gets; the rest is spread evenly (default 0.5)"
    option("runner-up", "SHARE", others, default=0.5)
    files = "instead of both: vote histograms [rows, classes], or predictions [teachers, rows], of teachers that "
    files += "learned from PUBLIC data, on public rows, and the rows' classes; never the votes of private teachers"
    option("agreement-from", ("VOTES.npy", "LABELS.npy"), files, str, nargs=2)
    compared = f"numbers of queries to compare (default {','.join(map(str, QUERIES))})"
    option("queries", "N,N,…", compared, _numbers, default=QUERIES)
    option(
        "records",
        "N",
        "how many private records there are (with dataset.group: how many groups)",
        int,
    )
    option(
        "public",
        "N",
        "without --teachers: how many public rows there are (default 4,000)",
        int,
        default=4_000,
    )
    return parser


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        raise ArgumentTypeError(f"{text}: must be whole numbers, separated by commas") from None


def _measured(classes: int, votes_file: str, labels_file: str) -> tuple[Ints, Ints]:
    """Return vote histograms [rows, classes] and classes [rows] of two files."""
    votes, labels = (load_array(file, "agreement_from") for file in (votes_file, labels_file))
    predictions = (
        votes.ndim == 2
        and votes.shape != (*labels.shape, classes)
        and votes.shape[1:] == labels.shape
    )
    return (count_votes(votes, classes) if predictions else votes), labels
