"""Figures that a sweep file declares: keys of its runs as lines, or one curve of each run."""

from collections.abc import Iterable, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from matplotlib.transforms import blended_transform_factory

from nzc.runs.curves import AXES, read_curves
from nzc.runs.formatting import heading, is_share
from nzc.runs.layout import Job
from nzc.runs.plots import BARS, COSTS, LINES, SIZE, new_figure
from nzc.runs.sweep_spec import SweepFigure
from nzc.validation import InputError

_COUNTS = ("asked", "answered", "plurality")
_PERCENT = FuncFormatter(lambda share, _: f"{100 * share:g}")
_LOG_FROM = 20  # an axis is logarithmic where its largest value is at least so many times its smallest
_DECADES = 200  # above this ratio a logarithmic axis has a tick a decade
_INSIDE = 4  # up to so many lines the legend is inside the axes


def plot_sweep(folder: Path, figure: SweepFigure, jobs: Sequence[Job]) -> None:
    """Draw a figure of finished jobs; InputError: one of its keys is not a key of theirs."""
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
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        groups.setdefault(", ".join(_group(job, figure, key) for key in figure.by), []).append(job)
    x_key, keys = str(figure.x), [jobs[0].whole_key(key) for key in figure.y]
    lines = [(group, key) for group in groups for key in keys]
    xs, ys, printed = set[float](), set[float](), False
    for (group, key), (colour, marker, dashes) in zip(lines, cycle(LINES), strict=False):
        style: dict[str, Any] = {"color": colour, "marker": marker}
        points: dict[float, list[float]] = {}
        for job in groups[group]:
            x, y = _number(job, figure, "x", x_key), _number(job, figure, "y", key)
            if x is None or y is None:
                continue
            points.setdefault(x, []).append(y)
            if isinstance(paper := job.paper.get(key), int | float) and np.isfinite(x):
                axes.plot(x, paper, **style, markerfacecolor="white", linestyle="none", zorder=3)
                printed = True
        xs |= {x for x in points if np.isfinite(x)}
        ys |= {y for values in points.values() for y in values if np.isfinite(y)}
        names = [heading(key)] if not group else [group] if len(keys) == 1 else [group, heading(key)]
        _line(axes, points, style, linestyle=dashes, label=", ".join(names))
    for other, (colour, marker, dashes) in zip(figure.points, islice(cycle(LINES), len(lines), None), strict=False):
        axes.plot(
            other.x, other.y, color=colour, marker=marker, linestyle=dashes, label=other.name, markerfacecolor="white"
        )
        xs, ys = xs | set(other.x), ys | set(other.y)
    axes.set_xlabel(heading(jobs[0].whole_key(x_key)))
    axes.set_ylabel(" · ".join(dict.fromkeys(_quantity(key) for key in keys)))
    if all(is_share(key) for key in keys):
        axes.yaxis.set_major_formatter(_PERCENT)
    elif _wide(ys):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter("{x:,g}")
    if _wide(xs):
        _logarithmic_x(axes, "log", sorted(xs))
    if len(lines) > 1 or figure.points or printed:
        _legend(axes, "hollow: the paper" if printed else None)


def _line(axes: Axes, points: dict[float, list[float]], style: dict[str, Any], **line: Any) -> None:
    """Draw the mean at each x, with a bar from the smallest to the largest; infinite values as ∞ at the edge."""
    if not points:
        return
    finite = {x: ys for x, ys in sorted(points.items()) if np.isfinite([x, *ys]).all()}
    axes.plot(list(finite), [float(np.mean(ys)) for ys in finite.values()], **style, **line)
    axes.vlines(list(finite), [min(ys) for ys in finite.values()], [max(ys) for ys in finite.values()], style["color"])
    for x, y in [(x, np.mean(ys)) for x, ys in points.items() if x not in finite]:
        at = (x if np.isfinite(x) else 1.0, y if np.isfinite(y) else 1.0)
        edge = blended_transform_factory(*(axes.transData if np.isfinite(each) else axes.transAxes for each in (x, y)))
        axes.plot(*at, **style, transform=edge, clip_on=False)
        axes.annotate("∞", at, (4, 4), xycoords=edge, textcoords="offset points")


def _curve_of_each(axes: Axes, figure: SweepFigure, jobs: Sequence[Job]) -> None:
    """Draw one curve of each run that has it. Runs of one name, which differ in their seed, have one style."""
    name = str(figure.curve)
    found = [(job.name, read_curves(job.folder).get(name)) for job in jobs]
    lines = [(label, points) for label, points in found if points is not None]
    if not lines:
        raise InputError(f"sweep.figures.{figure.name}.curve", name, f"must be one of {', '.join(AXES)}")
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


def _value(job: Job, figure: SweepFigure, axis: str, key: str) -> Any:
    try:
        return job.value(job.whole_key(key))
    except KeyError:
        allowed = f"must be a key of the configuration or of result.json: {', '.join(job.result)}"
        raise InputError(f"sweep.figures.{figure.name}.{axis}", key, allowed) from None


def _number(job: Job, figure: SweepFigure, axis: str, key: str) -> float | None:
    value = _value(job, figure, axis, key)
    if value is None or isinstance(value, int | float):
        return value
    raise InputError(f"sweep.figures.{figure.name}.{axis}", key, f"must be a number; in {job.name} it is {value}")


def _group(job: Job, figure: SweepFigure, key: str) -> str:
    value = _value(job, figure, "by", key)
    return value if isinstance(value, str) else f"{heading(job.whole_key(key))} {value}"


def _quantity(key: str) -> str:
    if key.endswith("accuracy"):
        return "accuracy (%)"
    if "gap_above" in key:
        return "queries (%)"
    return "ε" if key.startswith("epsilon") else f"{heading(key)} (%)" if is_share(key) else heading(key)
