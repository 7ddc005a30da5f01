"""Figures that a sweep file declares: keys of its runs as lines, or one curve of each run."""

from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from matplotlib.transforms import blended_transform_factory
from pandas import DataFrame

from nzc.runs.curves import AXES
from nzc.runs.formatting import heading, is_share
from nzc.runs.plots import BARS, COSTS, LINES, SIZE, new_figure
from nzc.sweeps.frame import whole_key
from nzc.sweeps.points import curves_of_jobs, finite, notes_of, points_of, spread
from nzc.sweeps.spec import SweepFigure

_COUNTS = ("asked", "answered", "plurality")
_PERCENT = FuncFormatter(lambda share, _: f"{100 * share:g}")
_LOG_FROM = 20  # an axis is logarithmic where its largest value is at least so many times its smallest
_DECADES = 200  # above this ratio a logarithmic axis has a tick a decade
_BAND = 0.18  # opacity of the band of several seeds
_INSIDE = 4  # up to so many lines the legend is inside the axes


def plot_sweep(folder: Path, figure: SweepFigure, jobs: DataFrame) -> None:
    """Draw a figure of finished jobs, unless it would be empty (points.notes_of)."""
    if notes_of(figure, jobs)[1]:
        return
    with new_figure(folder, figure.name) as axes:
        for axis, most in ((axes.xaxis, 8), (axes.yaxis, 6)):
            axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter("{x:,g}")
        (draw_lines if figure.curve is None else draw_curves)(axes, figure, jobs)
        if figure.ylim is not None:
            axes.set_ylim(figure.ylim)


def draw_lines(axes: Axes, figure: SweepFigure, jobs: DataFrame) -> None:
    """Draw a line for each y and each value of `by`. Hollow markers: the paper's values, and other programs."""
    points, keys = points_of(figure, jobs), [whole_key(key) for key in figure.y]
    lines = list(points.groupby(["group", "key"], sort=False))
    for ((group, key), line), (colour, marker, dashes) in zip(lines, cycle(LINES), strict=False):
        style: dict[str, Any] = {"color": colour, "marker": marker}
        if len(printed := finite(line.dropna(subset="paper")).drop_duplicates(["x", "paper"])):
            axes.plot(printed["x"], printed["paper"], **style, markerfacecolor="white", linestyle="none", zorder=3)
        names = [group] if group and len(keys) == 1 else filter(None, [group, heading(key)])
        _line(axes, line, style, linestyle=dashes, label=", ".join(names))
    for other, (colour, marker, dashes) in zip(figure.points, islice(cycle(LINES), len(lines), None), strict=False):
        style = {"color": colour, "marker": marker, "linestyle": dashes, "label": other.name}
        axes.plot(other.x, other.y, **style, markerfacecolor="white")
    axes.set_xlabel(heading(whole_key(str(figure.x))))
    axes.set_ylabel(" · ".join(dict.fromkeys(_quantity(key) for key in keys)))
    xs, ys = ([*points[axis], *(value for other in figure.points for value in getattr(other, axis))] for axis in "xy")
    if all(is_share(key) for key in keys):
        axes.yaxis.set_major_formatter(_PERCENT)
    elif _wide(ys):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter("{x:,g}")
    if _wide(xs):
        _logarithmic_x(axes, "log", sorted({x for x in xs if np.isfinite(x)}))
    if seeds := spread(points):
        axes.set_title(seeds, fontsize=8, color="0.35", loc="left")
    compared = finite(points)["paper"].notna().any()
    if len(lines) > 1 or figure.points or compared:
        _legend(axes, "hollow: the paper" if compared else None)


def _line(axes: Axes, line: DataFrame, style: dict[str, Any], **drawn: Any) -> None:
    """Draw the mean at each x, with a band from the smallest to the largest (for a single x: a bar); ∞ at the edge."""
    seeds = finite(line).groupby("x")["y"].agg(["mean", "min", "max"])
    axes.plot(seeds.index, seeds["mean"], **style, **drawn)
    if len(seeds) == 1:
        axes.vlines(seeds.index, seeds["min"], seeds["max"], style["color"])
    elif (seeds["min"] < seeds["max"]).any():
        axes.fill_between(seeds.index, seeds["min"], seeds["max"], color=style["color"], alpha=_BAND, linewidth=0)
    for x, y in line.drop(finite(line).index).groupby("x")["y"].mean().items():
        at = (x if np.isfinite(x) else 1.0, y if np.isfinite(y) else 1.0)
        edge = blended_transform_factory(*(axes.transData if np.isfinite(v) else axes.transAxes for v in (x, y)))
        axes.plot(*at, **style, transform=edge, clip_on=False)
        axes.annotate("∞", at, (4, 4), xycoords=edge, textcoords="offset points")


def draw_curves(axes: Axes, figure: SweepFigure, jobs: DataFrame) -> None:
    """Draw one curve of each run that has it. Runs of one name, which differ in their seed, have one style."""
    curve = str(figure.curve)
    lines = curves_of_jobs(curve, jobs)
    names = list(dict.fromkeys(name for name, _ in lines))
    for at, (name, (x, y)) in enumerate(lines):
        colour, marker, dashes = LINES[names.index(name) % len(LINES)]
        style: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": dashes}
        if name not in [before for before, _ in lines[:at]]:
            style["label"] = name
        if curve in _COUNTS:
            starts = np.arange(0, len(x), -(-2 * len(x) // BARS))
            x, y = x[starts], np.add.reduceat(y, starts)
        steps = "default" if curve in COSTS else "steps-post"
        axes.plot(x, y, **style, drawstyle=steps, markevery=(0.02 * at, 0.15))
    axes.set(xlabel=AXES[curve][0], ylabel=AXES[curve][1])
    if is_share(curve):
        axes.yaxis.set_major_formatter(_PERCENT)
    if _wide(ends := [float(x[-1]) for _, (x, _) in lines]):  # the lengths differ too much for a linear scale
        _logarithmic_x(axes, "symlog", [0, *sorted({*ends})], linthresh=1)
    if len(names) > 1:
        _legend(axes, beside=curve in _COUNTS)


def _wide(values: Sequence[float]) -> bool:
    known = [value for value in values if np.isfinite(value)]
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
