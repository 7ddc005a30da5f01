"""Figures that a sweep file declares: keys of its runs as lines, or one curve of each run."""

from collections.abc import Iterable, Sequence
from itertools import cycle, islice
from pathlib import Path
from statistics import fmean
from typing import Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from matplotlib.transforms import blended_transform_factory

from nzc.runs.curves import AXES
from nzc.runs.formatting import heading, is_share
from nzc.runs.layout import Job
from nzc.runs.plots import BARS, COSTS, LINES, SIZE, new_figure
from nzc.runs.sweep_lines import Line, curves_of_jobs, lines_of, notes_of, others_of
from nzc.runs.sweep_spec import SweepFigure

_COUNTS = ("asked", "answered", "plurality")
_PERCENT = FuncFormatter(lambda share, _: f"{100 * share:g}")
_LOG_FROM = 20  # an axis is logarithmic where its largest value is at least so many times its smallest
_DECADES = 200  # above this ratio a logarithmic axis has a tick a decade
_BAND = 0.18  # opacity of the band of several seeds
_INSIDE = 4  # up to so many lines the legend is inside the axes


def plot_sweep(folder: Path, figure: SweepFigure, jobs: Sequence[Job]) -> None:
    """Draw a figure of finished jobs, unless it would be empty (sweep_lines.notes_of)."""
    if notes_of(figure, jobs)[1]:
        return
    with new_figure(folder, figure.name) as axes:
        for axis, most in ((axes.xaxis, 8), (axes.yaxis, 6)):
            axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter("{x:,g}")
        if figure.curve is None:
            _by_key(axes, figure, jobs)
        else:
            _curve_of_each(axes, figure, jobs)
        if figure.ylim is not None:
            axes.set_ylim(figure.ylim)


def _by_key(axes: Axes, figure: SweepFigure, jobs: Sequence[Job]) -> None:
    """Draw a line for each y and each value of `by`. The paper's values are hollow markers."""
    found = lines_of(figure, jobs)
    xs, ys = set[float](), set[float]()
    for line, (colour, marker, dashes) in zip(found.lines, cycle(LINES), strict=False):
        style: dict[str, Any] = {"color": colour, "marker": marker}
        if line.paper:
            axes.plot(*zip(*line.paper, strict=True), **style, markerfacecolor="white", linestyle="none", zorder=3)
        names = [line.group] if line.group and len(found.keys) == 1 else filter(None, [line.group, heading(line.key)])
        _line(axes, line, style, linestyle=dashes, label=", ".join(names))
        xs |= {x for x in line.points if np.isfinite(x)}
        ys |= {y for values in line.points.values() for y in values if np.isfinite(y)}
    others = others_of(figure, jobs)
    for other, (colour, marker, dashes) in zip(others, islice(cycle(LINES), len(found.lines), None), strict=False):
        axes.plot(
            other.x, other.y, color=colour, marker=marker, linestyle=dashes, label=other.name, markerfacecolor="white"
        )
        xs, ys = xs | set(other.x), ys | set(other.y)
    axes.set_xlabel(heading(found.x))
    axes.set_ylabel(" · ".join(dict.fromkeys(_quantity(key) for key in found.keys)))
    if all(is_share(key) for key in found.keys):
        axes.yaxis.set_major_formatter(_PERCENT)
    elif _wide(ys):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter("{x:,g}")
    if _wide(xs):
        _logarithmic_x(axes, "log", sorted(xs))
    if found.spread:
        axes.set_title(found.spread, fontsize=8, color="0.35", loc="left")
    printed = any(line.paper for line in found.lines)
    if len(found.lines) > 1 or others or printed:
        _legend(axes, "hollow: the paper" if printed else None)


def _line(axes: Axes, line: Line, style: dict[str, Any], **drawn: Any) -> None:
    """Draw the mean at each x, with a band from the smallest to the largest (for a single x: a bar); ∞ at the edge."""
    if not line.points:
        return
    finite = line.finite
    axes.plot(list(finite), [fmean(ys) for ys in finite.values()], **style, **drawn)
    low, high = [min(ys) for ys in finite.values()], [max(ys) for ys in finite.values()]
    if len(finite) == 1:
        axes.vlines(list(finite), low, high, style["color"])
    elif low != high:
        axes.fill_between(list(finite), low, high, color=style["color"], alpha=_BAND, linewidth=0)
    for x, y in [(x, np.mean(ys)) for x, ys in line.points.items() if x not in finite]:
        at = (x if np.isfinite(x) else 1.0, y if np.isfinite(y) else 1.0)
        edge = blended_transform_factory(*(axes.transData if np.isfinite(each) else axes.transAxes for each in (x, y)))
        axes.plot(*at, **style, transform=edge, clip_on=False)
        axes.annotate("∞", at, (4, 4), xycoords=edge, textcoords="offset points")


def _curve_of_each(axes: Axes, figure: SweepFigure, jobs: Sequence[Job]) -> None:
    """Draw one curve of each run that has it. Runs of one name, which differ in their seed, have one style."""
    name = str(figure.curve)
    lines = curves_of_jobs(figure, jobs)
    named = list(dict.fromkeys(label for label, _ in lines))
    for at, (label, (x, y)) in enumerate(lines):
        colour, marker, dashes = LINES[named.index(label) % len(LINES)]
        style: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": dashes}
        if label not in [before for before, _ in lines[:at]]:
            style["label"] = label
        if name in _COUNTS:
            starts = np.arange(0, len(x), -(-2 * len(x) // BARS))
            x, y = x[starts], np.add.reduceat(y, starts)
        steps = "default" if name in COSTS else "steps-post"
        axes.plot(x, y, **style, drawstyle=steps, markevery=(0.02 * at, 0.15))
    axes.set(xlabel=AXES[name][0], ylabel=AXES[name][1])
    if is_share(name):
        axes.yaxis.set_major_formatter(_PERCENT)
    if _wide(ends := {float(x[-1]) for _, (x, _) in lines}):  # the lengths differ too much for a linear scale
        _logarithmic_x(axes, "symlog", [0, *sorted(ends)], linthresh=1)
    if len(named) > 1:
        _legend(axes, beside=name in _COUNTS)


def _wide(values: Iterable[float]) -> bool:
    known = list(values)
    return bool(known) and min(known) > 0 and max(known) >= _LOG_FROM * min(known)


def _logarithmic_x(axes: Axes, scale: str, ticks: Sequence[float], **settings: float) -> None:
    axes.set_xscale(scale, **settings)
    if len(ticks) <= 10 and all(float(f"{tick:.3g}") == tick for tick in ticks):
        axes.set_xticks(ticks)
    elif scale == "log":
        decades = len(ticks) > 1 and ticks[-1] > _DECADES * ticks[0]
        axes.xaxis.set_major_locator(LogLocator(subs=(1,) if decades else (1, 2, 5)))
    else:
        return
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:,g}")


def _legend(axes: Axes, title: str | None = None, beside: bool = False) -> None:
    """Draw the legend inside the axes, or beside them where there are many lines."""
    where: dict[str, Any] = {}
    if beside or len(axes.get_legend_handles_labels()[1]) > _INSIDE:
        where = {"loc": "upper left", "bbox_to_anchor": (1.05, 1)}  # leaves room for marks at the edge
        cast(Figure, axes.figure).set_figwidth(1.35 * SIZE[0])
    axes.legend(title=title, title_fontsize=8, handlelength=3, **where)


def _quantity(key: str) -> str:
    if key.endswith("accuracy"):
        return "accuracy (%)"
    if "gap_above" in key:
        return "queries (%)"
    return "ε" if key.startswith("epsilon") else f"{heading(key)} (%)" if is_share(key) else heading(key)
