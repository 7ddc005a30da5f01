"""The subcommand nzc plan: say beforehand which labels a privacy budget buys."""

import sys
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

from rich.table import Table

from nzc.app.errors import Parser
from nzc.data.arrays import load_array
from nzc.mechanisms import count_votes
from nzc.mechanisms.plan import ENOUGH, QUERIES, Plan, PlannedRun
from nzc.runs.formatting import percent, show
from nzc.types import Ints
from nzc.validation import InputError, whole

#: The option of each argument of Plan whose name differs.
_OPTIONS = dict.fromkeys(("measured", "votes", "labels", "predictions"), "agreement_from")
_SUFFIXES = (".png", ".svg", ".pdf")
_TICKS = 8  # up to so many numbers of queries are all named on the axis
#: δ of a run that is not told one.
_DELTA = 1e-5


def plan(arguments: list[str]) -> int:
    """Show what a budget buys, and recommend a run."""
    chosen: dict[str, Any] = vars(_parser().parse_args(arguments))
    file, measured = chosen.pop("plot"), chosen.pop("agreement_from")
    if file is not None and (file.suffix not in _SUFFIXES or file.exists() or not file.parent.is_dir()):
        raise InputError("--plot", file, f"must be a new file in an existing folder, ending in {', '.join(_SUFFIXES)}")
    try:
        planned = Plan(**chosen, measured=measured and _measured(chosen["classes"], *measured))
        best, warnings = planned.recommended, planned.warnings
    except InputError as error:
        option = _OPTIONS.get(error.key, error.key).replace("_", "-")
        value = " ".join(measured) if option == "agreement-from" else error.value
        raise InputError(f"--{option.removeprefix('--')}", value, error.allowed) from error
    show(_table(planned, best))
    for warning in warnings:
        print(f"nzc: {warning}", file=sys.stderr)
    verdict = "Recommended" if planned.is_good(best) else "No row is good. The best"
    counts = f"{best.right:,.1f} right labels of {best.labels:,.1f}"
    show(f"{verdict}: {best.queries:,} queries of {best.aggregator} give {counts}. Add your dataset to:")
    show(_command(planned, best))
    if file is not None:
        _plot(planned, best, file)
        show(str(file), "dim")
    return 0


def _parser() -> Parser:
    parser = Parser(
        "nzc plan",
        description="Say beforehand which labels a privacy budget buys. Use public facts only.",
        epilog="Recommended is the most right labels where noise spoils at most one label in ten and there are as "
        "many labels as classes. If there is no such row: the row with the most right labels per query.",
    )
    parser.add_argument("--teachers", type=int, required=True, metavar="N", help="how many teachers vote")
    parser.add_argument("--classes", type=int, required=True, metavar="K", help="how many classes there are")
    parser.add_argument("--epsilon", type=float, required=True, metavar="ε", help="the privacy budget of all labels")
    parser.add_argument("--delta", type=float, default=_DELTA, metavar="δ", help="δ of the budget (default 1e-5)")
    parser.add_argument(
        "--agreement", type=float, default=0.8, metavar="SHARE",
        help="expected share of teachers that vote for the right class, the same for every query (default 0.8)",
    )  # fmt: skip
    parser.add_argument(
        "--runner-up", type=float, default=0.5, metavar="SHARE",
        help="share of the other votes that one wrong class gets; the rest is spread evenly (default 0.5)",
    )  # fmt: skip
    parser.add_argument(
        "--agreement-from", nargs=2, metavar=("VOTES.npy", "LABELS.npy"),
        help="instead of both: vote histograms [rows, classes], or predictions [teachers, rows], of teachers that "
        "learned from PUBLIC data, on public rows, and the rows' classes; never the votes of private teachers",
    )  # fmt: skip
    parser.add_argument(
        "--queries", type=_numbers, default=QUERIES, metavar="N,N,…",
        help=f"numbers of queries to compare (default {','.join(map(str, QUERIES))})",
    )  # fmt: skip
    parser.add_argument("--records", type=int, metavar="N", help="how many private records there are, to check δ")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the plan into a new .png, .svg or .pdf file")
    return parser


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        raise ArgumentTypeError(f"{text}: must be whole numbers, separated by commas") from None


def _measured(classes: int, votes_file: str, labels_file: str) -> tuple[Ints, Ints]:
    """Return vote histograms [rows, classes] and classes [rows] of two files."""
    whole(2, classes=classes)
    votes, labels = (load_array(file, "agreement_from") for file in (votes_file, labels_file))
    predictions = votes.ndim == 2 and votes.shape != (*labels.shape, classes) and votes.shape[1:] == labels.shape
    return (count_votes(votes, classes) if predictions else votes), labels


def _table(planned: Plan, best: PlannedRun) -> Table:
    facts = (
        f"{planned.teachers:,} teachers", f"{planned.classes} classes",
        f"ε = {planned.epsilon:g} at δ = {planned.delta:g}",
        f"agreement {'as measured' if planned.measured else percent(planned.agreement)}",
    )  # fmt: skip
    optimistic = "One number of agreement takes every query as equally easy: expect fewer right labels."
    notes = (
        f"Without noise {percent(planned.plurality)} of the labels are right. → recommended.",
        f"✓ at least {percent(ENOUGH)} of that share is right, and there are as many labels as classes.",
        "The other gnmax rows are cautious: a run needs up to a fifth less noise.",
        *([] if planned.measured else [optimistic]),
    )
    caption = "\n".join(notes)
    table = Table(title=" · ".join(facts), title_style="bold", caption=caption, caption_justify="left")
    for name in ("", "aggregator", "noise", "queries", "labels", "right labels", "label accuracy"):
        table.add_column(name, justify="left" if name in ("", "aggregator", "noise") else "right")
    for row in _rows(planned, best):
        settings = " ".join(f"{key}={value:.4g}" for key, value in row.settings.items())
        counts = (f"{row.queries:,}", f"{row.labels:,.1f}", f"{row.right:,.1f}", percent(row.accuracy))
        mark = "→" if row is best else "✓" if planned.is_good(row) else ""
        last = row.queries == planned.queries[-1]
        table.add_row(mark, row.aggregator, settings, *counts, style="bold" if row is best else None, end_section=last)
    return table


def _rows(planned: Plan, best: PlannedRun) -> list[PlannedRun]:
    """Return all rows, with the recommended one in its place."""
    place = best.aggregator, best.queries
    return [best if (row.aggregator, row.queries) == place else row for row in planned.rows]


def _command(planned: Plan, best: PlannedRun) -> str:
    *fixed, noise = best.settings
    words = ["recipe=papers", f"teachers.count={planned.teachers}", f"aggregator={best.aggregator}"]
    words += [*(f"aggregator.{key}={best.settings[key]}" for key in fixed), f"aggregator.{noise}=null"]
    words += [f"budget.epsilon={planned.epsilon}", f"queries={best.queries}"]
    words += [] if planned.delta == _DELTA else [f"delta={planned.delta}"]
    return f"nzc {' '.join(words)}"


def _plot(planned: Plan, best: PlannedRun, file: Path) -> None:
    """Draw the share of queries that get a right label against their number, a line for each aggregator."""
    from matplotlib.ticker import NullLocator, PercentFormatter  # matplotlib is only imported to draw

    from nzc.runs.plots import LINES, styled_figure

    with styled_figure() as figure:
        axes = figure.subplots()
        rows = _rows(planned, best)
        for name, (colour, marker, dashes) in zip(dict.fromkeys(row.aggregator for row in rows), LINES, strict=False):
            points = [(row.queries, row.right / row.queries) for row in rows if row.aggregator == name]
            style: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": dashes, "clip_on": False}
            axes.plot(*zip(*points, strict=True), **style, label=name)
        axes.axhline(planned.plurality, color="0.4", linewidth=0.9, linestyle=(0, (4, 2)), label="without noise")
        ring: dict[str, Any] = {"marker": "o", "markersize": 11, "markerfacecolor": "none", "color": "black"}
        at = best.queries, best.right / best.queries
        axes.plot(*at, **ring, linestyle="none", clip_on=False, label="recommended")
        axes.set(xscale="log", xlabel="queries", ylabel="queries with a right label (%)", ylim=(0, 1))
        if len(planned.queries) <= _TICKS:
            axes.set_xticks(planned.queries, labels=[f"{queries:,}" for queries in planned.queries])
            axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(PercentFormatter(1, symbol=""))
        figure.legend(loc="outside upper center", ncols=3)
        figure.savefig(file)
