"""Figures of a run and of a sweep, as SVG and PNG; readable in grey. The only drawing with matplotlib there is."""

from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any, cast

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from nzc import curves
from nzc._types import Ints
from nzc.aggregators.aggregator import ABSTAIN
from nzc.datasets import UNKNOWN
from nzc.errors import InputError
from nzc.pipeline import Outcome
from nzc.question import SweepFigure
from nzc.report import heading, is_share
from nzc.report.folder import Job

_SIZE = (4.2, 2.9)  # inches: a column of a paper
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.3,
    "lines.markersize": 5,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 200,
    "path.simplify_threshold": 0.4,  # points: smaller files, and nobody sees it
    "svg.hashsalt": "nzc",  # the same figure is the same file
}
#: A line's colour (Okabe and Ito 2008), marker and dashes: any one of the three tells lines apart.
_LINES = [
    ("black", "o", "-"),
    ("#0072B2", "s", (0, (5, 2))),
    ("#D55E00", "^", (0, (1, 1.2))),
    ("#009E73", "D", (0, (5, 1.5, 1, 1.5))),
    ("#CC79A7", "v", (0, (3, 1, 1, 1, 1, 1))),
    ("#56B4E9", "P", (0, (9, 2))),
    ("#E69F00", "X", (0, (2, 3))),
]
_COUNTS = ("asked", "answered", "plurality")
_COSTS = {"epsilon_exact": "exact", "epsilon_theorem": "by theorem", "epsilon_data_independent": "data-independent"}
_PER_CENT = FuncFormatter(lambda share, _: f"{100 * share:g}")
_LOG_FROM = 20  # an axis is logarithmic where its largest value is so many times its smallest
_BARS = 50
_INSIDE = 4  # so many lines have their legend inside the axes
_TICKS = 10  # so many values of x are its ticks
_CELLS = 12  # a confusion matrix of up to so many classes has its numbers in it


def of_run(outcome: Outcome, folder: Path) -> None:
    """What every run shows of itself.

    gaps        how far first and second count are apart, and what was answered
    cost        ε from label to label
    confusion   truth against released labels
    """
    if outcome.curves:
        with _drawn(folder, "gaps") as axes:
            _gaps(axes, outcome.curves)
    grown = {name: curve for name, curve in outcome.curves.items() if name in _COSTS and np.isfinite(curve[1]).any()}
    if grown:
        with _drawn(folder, "cost") as axes:
            _costs(axes, grown)
    truth = np.full_like(outcome.released, UNKNOWN) if outcome.truth is None else outcome.truth
    known = (outcome.released != ABSTAIN) & (truth != UNKNOWN)
    if known.any():
        with _drawn(folder, "confusion", (3.3, 3.1)) as axes:
            _confusion(axes, truth[known], outcome.released[known])


def of_sweep(figure: SweepFigure, jobs: Sequence[Job], folder: Path) -> None:
    """What an entry of `sweep.figures` declares, of jobs that finished; InputError where a key is none of theirs."""
    with _drawn(folder, figure.name) as axes:
        for axis, most in ((axes.xaxis, 8), (axes.yaxis, 6)):
            axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter("{x:,g}")
        if figure.curve is None:
            _by_key(axes, figure, jobs)
        else:
            _overlaid(axes, figure, jobs)
        if figure.ylim is not None:
            axes.set_ylim(figure.ylim)


@contextmanager
def _drawn(folder: Path, name: str, size: tuple[float, float] = _SIZE) -> Iterator[Axes]:
    """Axes to draw into; afterwards NAME.svg and NAME.png stand in `folder`."""
    with matplotlib.rc_context(_STYLE):
        figure = Figure(size)
        yield figure.subplots()
        folder.mkdir(mode=0o700, exist_ok=True)
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
        figure.set_layout_engine("none")  # laid out already
        figure.savefig(folder / f"{name}.png")


def _gaps(axes: Axes, found: curves.Curves) -> None:
    gap, asked = found["asked"]
    answered = found["answered"][1]
    width = -(-len(gap) // _BARS)
    edges = np.arange(0, len(gap) + width, width)
    for counts, grey, label in ((asked, "0.82", "asked"), (answered, "0.35", "answered")):
        if label == "answered" or (answered != asked).any():
            look: dict[str, Any] = {"facecolor": grey, "edgecolor": "black", "linewidth": 0.6, "label": label}
            axes.stairs(np.add.reduceat(counts, edges[:-1]), edges - 0.5, fill=True, **look)
    axes.set_xlabel(curves.AXES["asked"][0])
    axes.set_ylabel(curves.AXES["asked"][1])
    axes.set_xlim(-0.5, edges[-1] - 0.5)
    axes.set_yscale("log", nonpositive="clip")  # what is cheap is frequent, and what costs is rare
    axes.set_ylim(0.7)
    axes.yaxis.set_major_formatter("{x:,g}")
    if (answered != asked).any():
        axes.legend(loc="upper left")


def _costs(axes: Axes, grown: curves.Curves) -> None:
    for (name, (labels, epsilon)), (colour, marker, dashes) in zip(grown.items(), _LINES, strict=False):
        look: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": dashes, "markevery": 0.15}
        axes.plot(labels, epsilon, **look, label=_COSTS[name])
    axes.set_xlabel(curves.AXES["epsilon_exact"][0])
    axes.set_ylabel("ε")
    axes.set_xlim(0)
    axes.set_ylim(0)
    axes.legend(loc="upper left")


def _confusion(axes: Axes, truth: Ints, labels: Ints) -> None:
    classes = int(max(truth.max(), labels.max())) + 1
    counts = np.bincount(truth * classes + labels, minlength=classes**2).reshape(classes, classes)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    image = axes.imshow(np.sqrt(share), cmap="Greys", vmin=0, vmax=1)  # by the root, so that what is rare is seen
    axes.set_xlabel("released label")
    axes.set_ylabel("true class" if classes > _CELLS else "true class (rows: %)")
    axes.grid(False)
    axes.spines[:].set_visible(True)
    if classes > _CELLS:
        bar = axes.figure.colorbar(image, ax=axes, shrink=0.8, label="of the true class (%)")
        bar.set_ticks(
            [share**0.5 for share in (0, 0.01, 0.1, 0.25, 0.5, 1)], labels=["0", "1", "10", "25", "50", "100"]
        )
        return
    axes.set_xticks(range(classes))
    axes.set_yticks(range(classes))
    for row, column in np.argwhere(counts):
        value = 100 * share[row, column]
        colour = "white" if share[row, column] > 0.3 else "black"
        text = f"{value:.1f}" if value < 99.95 else "100"
        axes.text(column, row, text, ha="center", va="center", fontsize=5.5, color=colour)


def _by_key(axes: Axes, figure: SweepFigure, jobs: Sequence[Job]) -> None:
    """A line for each y and each value of `by`; the paper's values are hollow markers."""
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        groups.setdefault(", ".join(_group(job, figure, key) for key in figure.by), []).append(job)
    keys = [jobs[0].whole(key) for key in figure.y]
    lines = [(group, key) for group in groups for key in keys]
    xs, ys, printed = set[float](), set[float](), False
    for (group, key), (colour, marker, dashes) in zip(lines, cycle(_LINES), strict=False):
        look: dict[str, Any] = {"color": colour, "marker": marker}
        points: dict[float, list[float]] = {}
        for job in groups[group]:
            x, y = _number(job, figure, "x", str(figure.x)), _number(job, figure, "y", key)
            if x is None or y is None:
                continue
            points.setdefault(x, []).append(y)
            if isinstance(paper := job.paper.get(key), int | float) and np.isfinite(x):
                axes.plot(x, paper, **look, markerfacecolor="white", linestyle="none", zorder=3)
                printed = True
        if not points:
            continue
        xs |= {x for x in points if np.isfinite(x)}
        ys |= {y for values in points.values() for y in values if np.isfinite(y)}
        names = [heading(key)] if not group else [group] if len(keys) == 1 else [group, heading(key)]
        _line(axes, points, look, linestyle=dashes, label=", ".join(names))
    axes.set_xlabel(heading(jobs[0].whole(str(figure.x))))
    axes.set_ylabel(" · ".join(dict.fromkeys(_quantity(key) for key in keys)))
    if all(is_share(key) for key in keys):
        axes.yaxis.set_major_formatter(_PER_CENT)
    elif _wide(ys):
        axes.set_yscale("log")
        _one_two_five(axes.yaxis)
    if _wide(xs):
        _logarithmic(axes, "log", sorted(xs))
    if len(lines) > 1 or printed:
        _legend(axes, "hollow: the paper" if printed else None)


def _line(axes: Axes, points: dict[float, list[float]], look: dict[str, Any], **line: Any) -> None:
    """The mean at every x, with a bar from the least to the most; what is infinite stands as ∞ at the edge."""
    finite = {x: ys for x, ys in sorted(points.items()) if np.isfinite([x, *ys]).all()}
    axes.plot(list(finite), [float(np.mean(ys)) for ys in finite.values()], **look, **line)
    axes.vlines(list(finite), [min(ys) for ys in finite.values()], [max(ys) for ys in finite.values()], look["color"])
    for x, ys in points.items():
        if not np.isfinite([x, *ys]).all():
            at: tuple[float, float] = (x, 1.0) if np.isfinite(x) else (1.0, float(np.mean(ys)))
            edge = axes.get_xaxis_transform() if np.isfinite(x) else axes.get_yaxis_transform()
            if np.isinf(x) and np.isinf(ys).any():
                at, edge = (1.0, 1.0), axes.transAxes
            axes.plot(*at, **look, transform=edge, clip_on=False)
            axes.annotate("∞", at, (4, 4), xycoords=edge, textcoords="offset points")


def _overlaid(axes: Axes, figure: SweepFigure, jobs: Sequence[Job]) -> None:
    """One curve of every run that has it; runs of one name, which differ in their seed, look alike."""
    name = str(figure.curve)
    found = [(job.name, curves.read(job.folder).get(name)) for job in jobs]
    lines = [(label, points) for label, points in found if points is not None]
    if not lines:
        raise InputError(f"sweep.figures.{figure.name}.curve", name, f"must be one of {', '.join(curves.AXES)}")
    named = list(dict.fromkeys(label for label, _ in lines))
    for at, (label, (x, y)) in enumerate(lines):
        colour, marker, dashes = _LINES[named.index(label) % len(_LINES)]
        look: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": dashes}
        if label not in [before for before, _ in lines[:at]]:
            look["label"] = label
        if name in _COUNTS:
            starts = np.arange(0, len(x), -(-2 * len(x) // _BARS))
            x, y = x[starts], np.add.reduceat(y, starts)
        steps = "default" if name in _COSTS else "steps-post"
        axes.plot(x, y, **look, drawstyle=steps, markevery=(0.02 * at, 0.15))
    axes.set_xlabel(curves.AXES[name][0])
    axes.set_ylabel(curves.AXES[name][1])
    if is_share(name):
        axes.yaxis.set_major_formatter(_PER_CENT)
    if _wide(ends := {float(x[-1]) for _, (x, _) in lines}):  # too different lengths for one linear scale
        _logarithmic(axes, "symlog", [0, *sorted(ends)], linthresh=1)
    if len(named) > 1:
        _legend(axes, beside=name in _COUNTS)


def _wide(values: Set[float]) -> bool:
    return bool(values) and min(values) > 0 and max(values) >= _LOG_FROM * min(values)


def _logarithmic(axes: Axes, scale: str, ticks: Sequence[float], **settings: float) -> None:
    axes.set_xscale(scale, **settings)
    if len(ticks) <= _TICKS and all(float(f"{tick:.3g}") == tick for tick in ticks):
        axes.set_xticks(ticks)
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter("{x:,g}")
    elif scale == "log":
        _one_two_five(axes.xaxis)


def _one_two_five(axis: Axis) -> None:
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:,g}")


def _legend(axes: Axes, title: str | None = None, beside: bool = False) -> None:
    """Inside where there is room, beside the axes for many lines."""
    where: dict[str, Any] = {}
    if beside or len(axes.get_legend_handles_labels()[1]) > _INSIDE:
        where = {"loc": "upper left", "bbox_to_anchor": (1.05, 1)}  # beyond what stands at the edge
        cast(Figure, axes.figure).set_figwidth(1.35 * _SIZE[0])
    axes.legend(title=title, title_fontsize=8, handlelength=3, **where)


def _value(job: Job, figure: SweepFigure, what: str, key: str) -> Any:
    try:
        return job.value(job.whole(key))
    except KeyError:
        keys = ", ".join(job.result or {})
        allowed = f"must be a key of the configuration or of result.json: {keys}"
        raise InputError(f"sweep.figures.{figure.name}.{what}", key, allowed) from None


def _number(job: Job, figure: SweepFigure, what: str, key: str) -> float | None:
    value = _value(job, figure, what, key)
    if value is None or isinstance(value, int | float):
        return value
    raise InputError(f"sweep.figures.{figure.name}.{what}", key, f"must be a number; in {job.name} it is {value}")


def _group(job: Job, figure: SweepFigure, key: str) -> str:
    value = _value(job, figure, "by", key)
    return value if isinstance(value, str) else f"{heading(job.whole(key))} {value}"


def _quantity(key: str) -> str:
    if key.endswith("accuracy"):
        return "accuracy (%)"
    if key.startswith("epsilon"):
        return "ε"
    return "queries (%)" if is_share(key) else heading(key)
