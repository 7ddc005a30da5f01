"""The subcommand nzc plan: say beforehand which labels a privacy budget buys."""

from argparse import ArgumentTypeError, Namespace
from collections.abc import Sequence
from functools import partial

from rich.table import Table

from nzc.app.errors import Parser
from nzc.mechanisms import Counts
from nzc.planning.budget import QUERIES, Plan, PlannedRun
from nzc.planning.expected import AGREEMENT, expected_in_cells, rows_to_ask
from nzc.runs.formatting import heading, percent, show
from nzc.saying import say
from nzc.types import Shape
from nzc.validation import InputError, positive, share, whole

#: δ of a run that is not told one.
_DELTA = 1e-5
#: The budgets that a plan without teachers compares, in units of the one that was given.
_FACTORS = (0.1, 0.25, 0.5, 1, 2, 4, 10)


def plan(arguments: list[str]) -> int:
    """Show what a budget buys, and recommend a run."""
    chosen = _parser().parse_args(arguments)
    if chosen.teachers is None:
        _plan_cells(chosen)
    else:
        _plan_teachers(chosen)
    return 0


def _plan_teachers(chosen: Namespace) -> None:
    """Show what teachers would answer at this ε, for several mechanisms and numbers of queries."""
    settings = vars(chosen).copy()
    del settings["public"]
    try:
        planned = Plan(**settings)
        best = planned.recommended
    except InputError as error:
        raise InputError(f"--{error.key.replace('_', '-')}", error.value, error.allowed) from error
    _show_plan(planned, best)
    verdict = "Recommended"
    if not planned.is_good(best):
        verdict = "No row is good. The best"
    show(
        f"{verdict}: {best.queries:,} queries of {best.aggregator} give {best.right:,.1f} right "
        "labels."
    )

    words = [f"teachers.count={planned.teachers}", f"aggregator={best.aggregator}"]
    words += [f"budget.epsilon={planned.epsilon}", f"queries={best.queries}"]
    words += _delta(planned.delta)
    linear = ["teachers=logistic", "student=linear", "query_choice=random", *words]
    _show_commands(planned.warnings, words, linear)


def _delta(delta: float) -> list[str]:
    return [] if delta == _DELTA else [f"delta={delta}"]


def _show_plan(planned: Plan, best: PlannedRun) -> None:
    notes = [
        "→ the best row. ✓ good: noise spoils at most one label in ten, and there are as many",
        "labels as classes.",
        "A run of gnmax needs up to a fifth less noise than shown, except in the best row.",
        "Real queries are not equally easy: expect fewer right labels than shown.",
    ]
    table = _table(
        f"{planned.teachers:,} teachers · {planned.classes} classes · ε = {planned.epsilon:g} "
        f"at δ = {planned.delta:g} · agreement {percent(planned.agreement)}",
        notes,
        ("", "aggregator", "noise", "queries", "right labels", heading("label_accuracy")),
    )
    for row in planned.rows:
        mark = ""
        style = None
        if (row.aggregator, row.queries) == (best.aggregator, best.queries):
            row = best
            mark = "→"
            style = "bold"
        elif planned.is_good(row):
            mark = "✓"
        table.add_row(
            mark,
            row.aggregator,
            " ".join(f"{key}={value:.4g}" for key, value in row.settings.items()),
            f"{row.queries:,}",
            f"{row.right:,.1f}",
            percent(row.accuracy),
            style=style,
            end_section=row.queries == planned.queries[-1],
        )
    show(table)


def _plan_cells(chosen: Namespace) -> None:
    """Show what recipe=near_zero asks of arrays at this ε and at others, and what will be right."""
    if chosen.records is None:
        raise InputError(
            "--records", None, "must be the number of private records; or give --teachers"
        )
    whole("--records", chosen.records, 1)
    whole("--public", chosen.public, 1)
    whole("--classes", chosen.classes, 2)
    positive("--epsilon", chosen.epsilon)
    share("--agreement", chosen.agreement)
    agreement = percent(chosen.agreement)
    notes = [
        "Each record counts for the asked row that it is nearest to.",
        f"Right labels: estimate for rows with equally many records, {agreement} of them right.",
        "Of tables, noisy sums are released instead, at the same ε, and all rows get labels.",
    ]
    table = _table(
        f"{chosen.records:,} records · {chosen.classes} classes · agreement {agreement}",
        notes,
        ("ε, at δ = 0", "noise of each count", "rows asked", "records for each", "right labels"),
    )
    for factor in _FACTORS:
        epsilon = factor * chosen.epsilon
        counts = Counts(epsilon / 2)
        noise_std = counts.noise.deviation
        size = chosen.records, chosen.classes
        rows = rows_to_ask(*size, chosen.public, noise_std)
        _, right = expected_in_cells(counts, *size, rows, chosen.agreement)
        table.add_row(
            f"{epsilon:.4g}",
            f"{noise_std:,.1f}",
            f"{rows:,}",
            f"{chosen.records // rows:,}",
            percent(right),
        )
    show(table)
    words = ["recipe=near_zero", f"budget.epsilon={chosen.epsilon}"]
    _show_commands([], words, [*words, *_delta(chosen.delta)])


def _table(title: str, notes: Sequence[str], columns: Sequence[str]) -> Table:
    table = Table(title=title, title_style="bold", caption="\n".join(notes), caption_justify="left")
    for name in columns:
        is_text = name in ("", "aggregator", "noise")
        table.add_column(name, justify="left" if is_text else "right")
    return table


def _show_commands(warnings: list[str], arrays: list[str], tables: list[str]) -> None:
    """Show what speaks against the plan, and the commands that run it, for arrays and tables."""
    say(*warnings)
    show("To run it, put your own names in place of the words in capitals.")
    show("For arrays (images: dataset=folder):")
    show(f"nzc dataset=npz dataset.path=FILE {' '.join(arrays)}")
    show("For tables (add dataset.group=COLUMN if one person may have several rows):")
    show(
        "nzc dataset=table dataset.private=FILE dataset.public=FILE dataset.label=COLUMN "
        f"{' '.join(tables)}"
    )


def _parser() -> Parser:
    parser = Parser(
        "nzc plan",
        description="Estimate beforehand how many right labels a privacy budget buys. Use public "
        "facts only.",
        epilog="A row is good if noise spoils at most one label in ten, and there are at least as "
        "many labels as classes. nzc recommends the good row with the most right labels; if no row "
        "is good, the row with the most right labels per query.",
    )
    whole_number = partial(parser.add_argument, type=int, metavar="N")
    number = partial(parser.add_argument, type=float)
    whole_number(
        "--teachers",
        help="how many teachers vote; without it, records vote: recipe=near_zero, with --records",
    )
    whole_number("--classes", help="how many classes there are", required=True)
    number("--epsilon", metavar="ε", help="the privacy budget of all labels", required=True)
    number("--delta", metavar="δ", help="δ of the budget (default 1e-5)", default=_DELTA)
    number(
        "--agreement",
        metavar="SHARE",
        help="expected share of votes for the right class, the same for every query (default 0.8)",
        default=AGREEMENT,
    )
    parser.add_argument(
        "--queries",
        metavar="N,N,…",
        help=f"numbers of queries to compare (default {','.join(map(str, QUERIES))})",
        type=_numbers,
        default=QUERIES,
    )
    whole_number(
        "--records",
        help="how many private records there are (with dataset.group: how many groups)",
    )
    whole_number(
        "--public",
        help="without --teachers: how many public rows there are (default 4,000)",
        default=4_000,
    )
    return parser


def _numbers(text: str) -> Shape:
    try:
        return tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        raise ArgumentTypeError(f"{text}: must be whole numbers, separated by commas") from None
