"""The subcommand nzc plan: say beforehand which labels a privacy budget buys."""

import sys
from argparse import ArgumentTypeError
from typing import Any

from rich.table import Table

from nzc.app.errors import Parser
from nzc.data.rows import load_array
from nzc.mechanisms import Counts, count_votes
from nzc.mechanisms.plan import QUERIES, Plan, PlannedRun
from nzc.mechanisms.rows import AGREEMENT, doubts, expected_in_cells, rows_to_ask
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
        return _plan_cells(chosen["records"], chosen["classes"], chosen["epsilon"], public, chosen["agreement"])
    try:
        planned = Plan(**chosen, measured=measured and _measured(chosen["classes"], *measured))
        best, warnings = planned.recommended, planned.warnings
    except InputError as error:
        option = _OPTIONS.get(error.key, error.key).replace("_", "-")
        value = " ".join(measured) if option == "agreement-from" else error.value
        raise InputError(f"--{option}", value, error.allowed) from error
    rows = [best if (row.aggregator, row.queries) == (best.aggregator, best.queries) else row for row in planned.rows]
    show(_table(planned, rows, best))
    verdict = "Recommended" if planned.is_good(best) else "No row is good. The best"
    show(f"{verdict}: {best.queries:,} queries of {best.aggregator} give {best.right:,.1f} right labels.")
    *fixed, noise = best.settings
    settings = [f"teachers.count={planned.teachers}", f"aggregator={best.aggregator}"]
    settings += [*(f"aggregator.{key}={best.settings[key]}" for key in fixed), f"aggregator.{noise}=null"]
    settings += [f"budget.epsilon={planned.epsilon}", f"queries={best.queries}"]
    settings += [] if planned.delta == _DELTA else [f"delta={planned.delta}"]
    _show_commands(warnings, "papers", "tables", settings)
    return 0


def _plan_cells(records: int | None, classes: int, epsilon: float, public: int, agreement: float) -> int:
    """Show what a run of recipe=near_zero asks at this ε and at others, and how many labels will be right."""
    if records is None:
        raise InputError("--records", None, "must be the number of private records; or give --teachers")
    whole(1, None, "", **{"--records": records, "--public": public})
    whole(2, None, "", **{"--classes": classes})
    positive(**{"--epsilon": epsilon, "--agreement": agreement})
    share(**{"--agreement": agreement})
    title = f"{records:,} records · {classes} classes · agreement {percent(agreement)}"
    notes = (
        "Each record counts for the asked row that it is nearest to. → the ε that you gave.\n"
        f"Right labels: estimate for rows with equally many records, {percent(agreement)} of them of the right class."
    )
    table = Table(title=title, title_style="bold", caption=notes, caption_justify="left")
    for name in ("", "ε, at δ = 0", "noise of each count", "rows asked", "records for each", "right labels"):
        table.add_column(name, justify="left" if name == "" else "right")
    for factor in (0.1, 0.25, 0.5, 1, 2, 4, 10):
        counts = Counts(factor * epsilon / 2)
        deviation = counts.noise.deviation
        rows = rows_to_ask(records, classes, public, deviation)
        _, right = expected_in_cells(counts, records, classes, rows, agreement)
        numbers = f"{factor * epsilon:.4g}", f"{deviation:,.1f}", f"{rows:,}", f"{records // rows:,}"
        table.add_row("→" if factor == 1 else "", *numbers, percent(right), style="bold" if factor == 1 else None)
        if factor == 1:
            warnings = doubts(rows, right, classes, None, 0, records, in_cells=True, agreement=None)
    show(table)
    _show_commands(warnings, "near_zero", "near_zero", [f"budget.epsilon={epsilon}"])
    return 0


def _show_commands(warnings: list[str], recipe: str, of_tables: str, settings: list[str]) -> None:
    """Show what speaks against the plan, and the commands that run it on arrays and on tables, with these recipes."""
    for warning in warnings:
        print(f"nzc: {warning}", file=sys.stderr)
    show("To run it, put your own names in place of the words in capitals. For arrays (images: dataset=folder):")
    show(f"nzc dataset=npz dataset.path=FILE recipe={recipe} {' '.join(settings)}")
    show("For tables (add dataset.group=COLUMN if one person may have several rows):")
    files = "dataset.private=FILE dataset.public=FILE dataset.label=COLUMN"
    show(f"nzc dataset=table {files} recipe={of_tables} {' '.join(settings)}")


def _parser() -> Parser:
    parser = Parser(
        "nzc plan",
        description="Estimate beforehand how many right labels a privacy budget buys. Use public facts only.",
        epilog="A row is good if noise spoils at most one label in ten, and there are at least as many labels as "
        "classes. nzc recommends the good row with the most right labels; if no row is good, the row with the most "
        "right labels per query.",
    )
    teachers = "how many teachers vote; without it, nzc plans recipe=near_zero, where records vote: give --records"
    parser.add_argument("--teachers", type=int, metavar="N", help=teachers)
    parser.add_argument("--classes", type=int, required=True, metavar="K", help="how many classes there are")
    parser.add_argument("--epsilon", type=float, required=True, metavar="ε", help="the privacy budget of all labels")
    parser.add_argument("--delta", type=float, default=_DELTA, metavar="δ", help="δ of the budget (default 1e-5)")
    agreement = "expected share of votes for the right class, the same for every query (default 0.8)"
    parser.add_argument("--agreement", type=float, default=AGREEMENT, metavar="SHARE", help=agreement)
    runner_up = "share of the other votes that one wrong class gets; the rest is spread evenly (default 0.5)"
    parser.add_argument("--runner-up", type=float, default=0.5, metavar="SHARE", help=runner_up)
    parser.add_argument(
        "--agreement-from", nargs=2, metavar=("VOTES.npy", "LABELS.npy"),
        help="instead of both: vote histograms [rows, classes], or predictions [teachers, rows], of teachers that "
        "learned from PUBLIC data, on public rows, and the rows' classes; never the votes of private teachers",
    )  # fmt: skip
    compared = f"numbers of queries to compare (default {','.join(map(str, QUERIES))})"
    parser.add_argument("--queries", type=_numbers, default=QUERIES, metavar="N,N,…", help=compared)
    records = "how many private records there are (with dataset.group: how many groups)"
    parser.add_argument("--records", type=int, metavar="N", help=records)
    public = "without --teachers: how many public rows there are (default 4,000)"
    parser.add_argument("--public", type=int, default=4_000, metavar="N", help=public)
    return parser


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        raise ArgumentTypeError(f"{text}: must be whole numbers, separated by commas") from None


def _measured(classes: int, votes_file: str, labels_file: str) -> tuple[Ints, Ints]:
    """Return vote histograms [rows, classes] and classes [rows] of two files."""
    votes, labels = (load_array(file, "agreement_from") for file in (votes_file, labels_file))
    predictions = votes.ndim == 2 and votes.shape != (*labels.shape, classes) and votes.shape[1:] == labels.shape
    return (count_votes(votes, classes) if predictions else votes), labels


def _table(planned: Plan, rows: list[PlannedRun], best: PlannedRun) -> Table:
    agreement = "as measured" if planned.measured else percent(planned.agreement)
    budget = f"ε = {planned.epsilon:g} at δ = {planned.delta:g}"
    title = f"{planned.teachers:,} teachers · {planned.classes} classes · {budget} · agreement {agreement}"
    notes = (
        "→ the best row. ✓ good: noise spoils at most one label in ten, and there are as many labels as classes.",
        f"Without noise, {percent(planned.plurality)} of the labels would be right.",
        "A run of gnmax needs up to a fifth less noise than shown, except in the best row.",
        "" if planned.measured else "Real queries are not equally easy: expect fewer right labels than shown.",
    )
    table = Table(title=title, title_style="bold", caption="\n".join(filter(None, notes)), caption_justify="left")
    for name in ("", "aggregator", "noise", "queries", "labels", "right labels", "label accuracy"):
        table.add_column(name, justify="left" if name in ("", "aggregator", "noise") else "right")
    for row in rows:
        settings = " ".join(f"{key}={value:.4g}" for key, value in row.settings.items())
        counts = (f"{row.queries:,}", f"{row.labels:,.1f}", f"{row.right:,.1f}", percent(row.accuracy))
        mark = "→" if row is best else "✓" if planned.is_good(row) else ""
        last = row.queries == planned.queries[-1]
        table.add_row(mark, row.aggregator, settings, *counts, style="bold" if row is best else None, end_section=last)
    return table
