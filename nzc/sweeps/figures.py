"""Figures of a sweep: keys of its runs against a key; or a curve of each run."""

from itertools import cycle
from pathlib import Path
from typing import cast

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator
from pandas import DataFrame, Series

from nzc.runs.curves import AXES, read_curves
from nzc.runs.formatting import axis_name, heading, is_share
from nzc.runs.plots import COSTS, LINES, SIZE, new_figure
from nzc.sweeps.spec import SweepFigure
from nzc.validation import Tree

_LOG_FROM = 20  # an axis is logarithmic where its values differ by so large a factor
_DECADES = 10**4  # and has names of 2 and 5, too, up to so large a one
_BEYOND = 1.5  # infinity is drawn at so many times the largest value
_INSIDE = 4  # up to so many lines the legend is inside the axes


def caption_of(figure: SweepFigure) -> str:
    """Return what a figure shows, in a sentence."""
    if figure.curve is not None:
        x, y = AXES[figure.curve]
        return f"{y} against {x}, one line per run."
    caption = f"{' and '.join(map(heading, figure.y))} against {heading(figure.x)}"
    if figure.by:
        caption += f", one line per {' and '.join(map(heading, figure.by))}"
    return f"{caption}; of several seeds the mean, from the smallest to the largest."


def plot(figure: SweepFigure, jobs: DataFrame, folder: Path) -> None:
    """Write a figure of finished jobs into figures/ below `folder`, unless it would be empty."""
    points = points_of(figure, jobs)
    if not np.isfinite(points[["x", "y"]]).all(axis=1).any():
        return
    with new_figure(folder, figure.name) as axes:
        draw(axes, figure, points)
        if figure.ylim is not None:
            axes.set_ylim(figure.ylim)


def points_of(figure: SweepFigure, jobs: DataFrame) -> DataFrame:
    """Return the points of a figure, without those that lack a value.

    Columns: line, its name; run, of which each has a line of its own; x and y; low and high, of
    seeds. Of keys a point is the mean of the seeds of a run.
    """
    if figure.curve is not None:
        return _curve_points(figure.curve, jobs)
    rows = []
    for key in figure.y:
        for job in jobs.to_dict("records"):
            labels = [_label(name, job.get(name)) for name in figure.by]
            if len(figure.y) > 1 or not figure.by:
                labels.append(heading(key))
            rows.append(
                [", ".join(filter(None, labels)), job["name"], job.get(figure.x), job.get(key)]
            )
    points = DataFrame(rows, columns=["line", "name", "x", "y"])
    for axis in ("x", "y"):
        points[axis] = pandas.to_numeric(points[axis], errors="coerce").astype(float)
    points = points.dropna().assign(run=0, low=points["y"], high=points["y"])
    of_seeds = {"x": "mean", "y": "mean", "low": "min", "high": "max"}
    return points.groupby(["line", "run", "name"], sort=False).agg(of_seeds).reset_index()


def _curve_points(curve: str, jobs: DataFrame) -> DataFrame:
    """Return the points of a curve of each run."""
    parts = [DataFrame(columns=["line", "run", "x", "y"])]
    for job in jobs.to_dict("records"):
        x, y = read_curves(job["folder"]).get(curve, ([], []))
        parts.append(DataFrame({"line": job["name"], "run": job["job"], "x": x, "y": y}))
    points = pandas.concat(parts).astype({"x": float, "y": float})
    return points.assign(low=np.nan, high=np.nan)


def _label(key: str, value: object) -> str:
    """Return the part of a line's name that says the value of a key; empty where a run has none."""
    if value is None or value != value:
        return ""
    if isinstance(value, str):
        return value
    return f"{heading(key)} {value}"


def draw(axes: Axes, figure: SweepFigure, points: DataFrame) -> None:
    """Draw the lines, with bars over seeds.

    Lines of one name, such as curves of several seeds, have one style.
    """
    drawn: Tree = {}
    if figure.curve is not None:
        drawn = {"markevery": 0.15}
        if figure.curve not in COSTS:
            drawn["drawstyle"] = "steps-post"
    edge = _BEYOND * points[["x", "y"]].replace(np.inf, np.nan).max()
    names = points["line"].unique()
    for name, style in zip(names, cycle(LINES), strict=False):
        label = name
        for _, line in points[points["line"] == name].groupby("run", sort=False):
            inside = np.isfinite(line[["x", "y"]]).all(axis=1)
            seen = line[inside].sort_values("x", kind="stable")
            x = seen["x"]
            axes.plot(x, seen["y"], **style, **drawn, label=label)
            axes.vlines(x, seen["low"], seen["high"], style["color"], alpha=0.4)
            label = None
            if figure.curve is None:
                for place in line.loc[~inside, ["x", "y"]].clip(upper=edge, axis=1).to_numpy():
                    axes.plot(*place, **style)
    _label_axes(axes, figure, points)
    if len(names) > 1:
        legend = axes.legend(handlelength=3)
        if len(names) > _INSIDE:
            cast(Figure, axes.figure).set_figwidth(1.35 * SIZE[0])
            legend.set_loc("upper left")
            legend.set_bbox_to_anchor((1.05, 1), axes.transAxes)  # with room for marks at the edge


def _label_axes(axes: Axes, figure: SweepFigure, points: DataFrame) -> None:
    """Name the axes, and scale them."""
    if figure.curve is not None:
        axes.set(xlabel=AXES[figure.curve][0], ylabel=AXES[figure.curve][1])
    else:
        axes.set_xlabel(axis_name(figure.x))
        ylabel = " · ".join(dict.fromkeys(map(axis_name, figure.y)))
        if Series(figure.y).str.startswith("epsilon").all():
            ylabel = "ε"
        axes.set_ylabel(ylabel)
        _scale(axes, "x", points["x"])
        _scale(axes, "y", points["y"])
    if all(map(is_share, [*figure.y, *filter(None, [figure.curve])])):
        axes.set_yscale("linear")
        axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g}")


def _scale(axes: Axes, name: str, values: Series) -> None:
    """Make the axis x or y logarithmic where its values are far apart, and name infinity."""
    axis: Axis = getattr(axes, f"{name}axis")
    finite = values[np.isfinite(values)]
    if 0 < finite.min() * _LOG_FROM <= finite.max():
        axes.set(**{f"{name}scale": "log"})
        between = (1, 2, 5) if finite.max() < _DECADES * finite.min() else (1,)
        axis.set_major_locator(LogLocator(subs=between))
        axis.set_minor_locator(NullLocator())
    if len(finite) < len(values):
        axis.set_minor_locator(FixedLocator([_BEYOND * finite.max()]))
        axis.set_minor_formatter("∞")
        axis.grid(which="minor", linestyle=":", color="0.5")
    axis.set_major_formatter("{x:,g}")
