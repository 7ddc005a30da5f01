"""The subcommand nzc plan: say beforehand which labels a privacy budget buys."""

import sys
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

from rich.table import Table

from nzc.app.errors import Parser
from nzc.data.arrays import load_array
from nzc.mechanisms import LaplaceNoise, count_votes
from nzc.mechanisms.adjacency import expected_right, rows_to_ask
from nzc.mechanisms.plan import ENOUGH, QUERIES, Plan, PlannedRun
from nzc.runs.formatting import percent, show
from nzc.types import Ints
from nzc.validation import InputError

#: The option of each argument of Plan whose name differs.
_OPTIONS = dict.fromkeys(("measured", "votes", "labels", "predictions"), "agreement_from")
_SUFFIXES = (".png", ".svg", ".pdf")
#: δ of a run that is not told one.
_DELTA = 1e-5


def plan(arguments: list[str]) -> int:
    """Show what a budget buys, and recommend a run."""
    chosen: dict[str, Any] = vars(_parser().parse_args(arguments))
    file, measured, public = chosen.pop("plot"), chosen.pop("agreement_from"), chosen.pop("public")
    if chosen["teachers"] is None:
        return _plan_cells(chosen["records"], chosen["classes"], chosen["epsilon"], public, chosen["agreement"])
    if file is not None and (file.suffix not in _SUFFIXES or file.exists() or not file.parent.is_dir()):
        raise InputError("--plot", file, f"must be a new file in an existing folder, ending in {', '.join(_SUFFIXES)}")
    try:
        planned = Plan(**chosen, measured=measured and _measured(chosen["classes"], *measured))
        best, warnings = planned.recommended, planned.warnings
    except InputError as error:
        option = _OPTIONS.get(error.key, error.key).replace("_", "-")
        value = " ".join(measured) if option == "agreement-from" else error.value
        raise InputError(f"--{option}", value, error.allowed) from error
    rows = [best if (row.aggregator, row.queries) == (best.aggregator, best.queries) else row for row in planned.rows]
    show(_table(planned, rows, best))
    for warning in warnings:
        print(f"nzc: {warning}", file=sys.stderr)
    verdict = "Recommended" if planned.is_good(best) else "No row is good. The best"
    counts = f"{best.right:,.1f} right labels of {best.labels:,.1f}"
    show(f"{verdict}: {best.queries:,} queries of {best.aggregator} give {counts}. Add your dataset to:")
    *fixed, noise = best.settings
    settings = [*(f"aggregator.{key}={best.settings[key]}" for key in fixed), f"aggregator.{noise}=null"]
    settings += [f"budget.epsilon={planned.epsilon}", f"queries={best.queries}"]
    settings += [] if planned.delta == _DELTA else [f"delta={planned.delta}"]
    show(f"nzc recipe=papers teachers.count={planned.teachers} aggregator={best.aggregator} {' '.join(settings)}")
    if file is not None:
        _plot(planned, rows, best, file)
        show(str(file), "dim")
    return 0


def _plan_cells(records: int | None, classes: int, epsilon: float, public: int, agreement: float) -> int:
    """Show what a run of recipe=near_zero asks at this ε and at others, and how many labels will be right."""
    if records is None:
        raise InputError("--records", None, "must be the number of private records; or give --teachers")
    for least, name, number in ((1, "--records", records), (1, "--public", public), (2, "--classes", classes)):
        if number < least:
            raise InputError(name, number, f"must be {least} or more")
    if not epsilon > 0 or not 0 < agreement <= 1:
        raise InputError("--epsilon", epsilon, "must be above 0, and --agreement from 0 to 1")
    title = f"{records:,} records in own cells · {classes} classes · agreement {percent(agreement)}"
    notes = "Right labels: an estimate for single cells of equal size, if so many records of each agree."
    table = Table(title=title, title_style="bold", caption=notes, caption_justify="left")
    for name in ("", "ε, at δ = 0", "noise of a count", "rows asked", "records a row", "right labels"):
        table.add_column(name, justify="left" if name == "" else "right")
    for factor in (0.1, 0.25, 0.5, 1, 2, 4, 10):
        noise = LaplaceNoise(factor * epsilon / 2)
        rows = rows_to_ask(records, classes, public, noise.deviation)
        right = expected_right(records, classes, rows, noise, agreement)
        numbers = f"{factor * epsilon:.4g}", f"{noise.deviation:,.1f}", f"{rows:,}", f"{records // rows:,}"
        table.add_row("→" if factor == 1 else "", *numbers, percent(right), style="bold" if factor == 1 else None)
    show(table)
    show(f"Add your dataset to:\nnzc budget.epsilon={epsilon:g}")
    return 0


def _parser() -> Parser:
    parser = Parser(
        "nzc plan",
        description="Say beforehand which labels a privacy budget buys. Use public facts only.",
        epilog="Recommended is the most right labels where noise spoils at most one label in ten and there are as "
        "many labels as classes. If there is no such row: the row with the most right labels per query.",
    )
    teachers = "how many teachers vote; without it: own cells (recipe=near_zero), which need --records alone"
    parser.add_argument("--teachers", type=int, metavar="N", help=teachers)
    parser.add_argument("--classes", type=int, required=True, metavar="K", help="how many classes there are")
    parser.add_argument("--epsilon", type=float, required=True, metavar="ε", help="the privacy budget of all labels")
    parser.add_argument("--delta", type=float, default=_DELTA, metavar="δ", help="δ of the budget (default 1e-5)")
    agreement = "expected share of teachers that vote for the right class, the same for every query (default 0.8)"
    parser.add_argument("--agreement", type=float, default=0.8, metavar="SHARE", help=agreement)
    runner_up = "share of the other votes that one wrong class gets; the rest is spread evenly (default 0.5)"
    parser.add_argument("--runner-up", type=float, default=0.5, metavar="SHARE", help=runner_up)
    parser.add_argument(
        "--agreement-from", nargs=2, metavar=("VOTES.npy", "LABELS.npy"),
        help="instead of both: vote histograms [rows, classes], or predictions [teachers, rows], of teachers that "
        "learned from PUBLIC data, on public rows, and the rows' classes; never the votes of private teachers",
    )  # fmt: skip
    compared = f"numbers of queries to compare (default {','.join(map(str, QUERIES))})"
    parser.add_argument("--queries", type=_numbers, default=QUERIES, metavar="N,N,…", help=compared)
    records = "how many private records there are, for own cells, or to check δ"
    parser.add_argument("--records", type=int, metavar="N", help=records)
    public = "own cells: how many public rows there are (default 4,000)"
    parser.add_argument("--public", type=int, default=4_000, metavar="N", help=public)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the plan into a new .png, .svg or .pdf file")
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
        f"Without noise {percent(planned.plurality)} of the labels are right. → recommended.",
        f"✓ at least {percent(ENOUGH)} of that share is right, and there are as many labels as classes.",
        "The other gnmax rows are cautious: a run needs up to a fifth less noise.",
        ""
        if planned.measured
        else "One number of agreement takes every query as equally easy: expect fewer right labels.",
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


def _plot(planned: Plan, rows: list[PlannedRun], best: PlannedRun, file: Path) -> None:
    """Draw the share of queries that get a right label against their number, a line for each aggregator."""
    from matplotlib.ticker import NullLocator, PercentFormatter  # matplotlib is only imported to draw

    from nzc.runs.plots import LINES, styled_figure

    with styled_figure() as figure:
        axes = figure.subplots()
        for name, style in zip(dict.fromkeys(row.aggregator for row in rows), LINES, strict=False):
            points = [(row.queries, row.right / row.queries) for row in rows if row.aggregator == name]
            axes.plot(*zip(*points, strict=True), **style, label=name)
        axes.axhline(planned.plurality, color="0.4", linewidth=0.9, linestyle=(0, (4, 2)), label="without noise")
        at = best.queries, best.right / best.queries
        axes.scatter(*at, s=120, facecolors="none", edgecolors="black", zorder=3, label="recommended")
        axes.set(xscale="log", xlabel="queries", ylabel="queries with a right label (%)", ylim=(0, 1.02))
        axes.set_xticks(planned.queries, labels=[f"{queries:,}" for queries in planned.queries])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(PercentFormatter(1, symbol=""))
        figure.legend(loc="outside upper center", ncols=3)
        figure.savefig(file)
