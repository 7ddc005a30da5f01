"""Figures of a sweep: keys of its runs against a key; or a curve of each run."""

from itertools import cycle
from pathlib import Path

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator
from pandas import DataFrame, Series

from nzc.runs.curves import AXES, HISTOGRAMS, read_curves
from nzc.runs.formatting import axis_name, heading, is_share, short_range, some
from nzc.runs.plots import COSTS, LINES, bin_width, new_figure
from nzc.sweeps.spec import SweepFigure
from nzc.validation import Tree

_LOG_FROM = 20  # an axis is logarithmic where its values differ by so large a factor
_DECADES = 10**4  # and has names of 2 and 5, too, up to so large a one
_BEYOND = 1.5  # infinity is drawn at so many times the largest value


def caption_of(figure: SweepFigure, jobs: DataFrame, points: DataFrame) -> str:
    """Return what a figure of these points, as of `points_of`, shows, and of which of the jobs."""
    x, names = _axis_names(figure)
    jobs = jobs[jobs["name"].isin(points["name"])]
    runs = jobs.groupby("name", sort=False)["seed"]
    data = some(jobs["dataset"].replace("none", "votes of a file"))
    seeds = " or ".join(runs.agg(short_range).unique())
    many = "runs" if len(jobs) > 1 else "run"
    caption = f"{len(jobs)} {many} on {data}, seed {seeds}: {' and '.join(names)} against {x}"
    if figure.curve or figure.by:
        caption += f", of {some(points['line'])}"
    if runs.size().max() > 1 and not figure.curve:
        caption += "; of several seeds the mean, from the smallest to the largest"
    return f"{caption}."


def _axis_names(figure: SweepFigure) -> tuple[str, list[str]]:
    """Return the name of the x-axis, and the different names of what the y-axis shows."""
    if figure.curve is not None:
        x, y = AXES[figure.curve]
        return x, [y]
    return axis_name(figure.x), list(dict.fromkeys(map(axis_name, figure.y)))


def plot(figure: SweepFigure, jobs: DataFrame, folder: Path) -> None:
    """Write a figure of finished jobs into figures/ below `folder`, unless it would be empty."""
    points = points_of(figure, jobs)
    if not np.isfinite(points[["x", "y"]]).all(axis=1).any():
        return
    with new_figure(folder, figure.name) as axes:
        draw_figure(axes, figure, points)
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
    parts = [DataFrame(columns=["line", "name", "run", "x", "y"])]
    for job in jobs.to_dict("records"):
        x, y = read_curves(job["folder"]).get(curve, ([], []))
        name = job["name"]
        parts.append(DataFrame({"line": name, "name": name, "run": job["job"], "x": x, "y": y}))
    points = pandas.concat(parts).astype({"x": float, "y": float})
    points = points[np.isfinite(points["y"])]
    if curve in HISTOGRAMS:
        width = bin_width(points["x"].max() + 1)
        points["x"] = points["x"] // width * width + width / 2
        points = points.groupby(["line", "name", "run", "x"], sort=False)["y"].sum().reset_index()
    return points.assign(low=np.nan, high=np.nan)


def _label(key: str, value: object) -> str:
    """Return the part of a line's name that says the value of a key; empty where a run has none."""
    if value is None or value != value:
        return ""
    if isinstance(value, str):
        return value
    return f"{heading(key)} {value}"


def draw_figure(axes: Axes, figure: SweepFigure, points: DataFrame) -> None:
    """Draw the lines, with bars over seeds.

    Lines of one name, such as curves of several seeds, have one style.
    """
    drawn: Tree = {}
    if figure.curve in HISTOGRAMS:
        drawn = {"drawstyle": "steps-mid"}
    elif figure.curve is not None:
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
            for place in line.loc[~inside, ["x", "y"]].clip(upper=edge, axis=1).to_numpy():
                axes.plot(*place, **style)
    _label_axes(axes, figure, points)
    if len(names) > 1:
        axes.figure.legend(loc="outside right upper", handlelength=3)


def _label_axes(axes: Axes, figure: SweepFigure, points: DataFrame) -> None:
    """Name the axes, and scale them."""
    x, names = _axis_names(figure)
    y = "\n".join(names)
    axes.locator_params("x", nbins=7)  # numbers of five digits stand apart
    axes.xaxis.set_major_formatter("{x:,g}")
    if figure.curve in HISTOGRAMS:
        y += f" in bins of {2 * points['x'].min():g}"
    elif figure.curve is None:
        if Series(figure.y).str.startswith("epsilon").all():
            y = "ε"
        if figure.x != "run":
            _scale(axes, "x", points["x"])
        _scale(axes, "y", points["y"])
    axes.set(xlabel=x, ylabel=y)
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
        ticks = axis.get_majorticklocs()
        axis.set_major_locator(FixedLocator(ticks[ticks < 1.2 * finite.max()]))
        axis.set_minor_locator(FixedLocator([_BEYOND * finite.max()]))
        axis.set_minor_formatter("∞")
        axis.grid(which="minor", linestyle=":", color="0.5")
    axis.set_major_formatter("{x:,g}")
