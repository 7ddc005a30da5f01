"""Figures of a sweep: keys of its runs against a key; or a curve of each run."""

from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import LogLocator, NullLocator, PercentFormatter
from matplotlib.transforms import blended_transform_factory
from pandas import DataFrame, Series

from nzc.runs.curves import AXES, read_curves
from nzc.runs.formatting import axis_name, heading, is_share
from nzc.runs.plots import COSTS, LINES, SIZE, new_figure
from nzc.sweeps.spec import SweepFigure, whole_key

_LOG_FROM = 20  # an axis is logarithmic where its values differ by so large a factor
_INSIDE = 4  # up to so many lines the legend is inside the axes


def caption_of(figure: SweepFigure) -> str:
    """Return what a figure shows, in a sentence."""
    if figure.curve is not None:
        x, y = AXES[figure.curve]
        return f"{y} against {x}, one line per run."
    y = " and ".join(heading(whole_key(key)) for key in figure.y)
    caption = f"{y} against {heading(whole_key(figure.x))}"
    if figure.by:
        caption += f", one line per {' and '.join(heading(whole_key(key)) for key in figure.by)}"
    return f"{caption}; of several seeds the mean, from the smallest to the largest."


def plot(figure: SweepFigure, jobs: DataFrame, folder: Path) -> None:
    """Write a figure of finished jobs into figures/ below `folder`, unless it would be empty."""
    points = curve_points(figure.curve, jobs) if figure.curve else points_of(figure, jobs)
    if not np.isfinite(points[["x", "y"]].to_numpy()).all(axis=1).any():
        return
    with new_figure(folder, figure.name) as axes:
        if figure.curve is not None:
            draw_curves(axes, figure.curve, points)
        else:
            draw_lines(axes, figure, points)
        if figure.ylim is not None:
            axes.set_ylim(figure.ylim)


def points_of(figure: SweepFigure, jobs: DataFrame) -> DataFrame:
    """Return a point for each run and each y, means over seeds; without runs that lack a value.

    Columns: line, x, y, low and high (of the seeds), and paper (the printed y).
    """
    hue = Series("", index=jobs.index)
    for key in map(whole_key, figure.by):
        values = jobs[key].map(lambda value, key=key: _label(key, value))
        hue = (hue + ", " + values).str.strip(", ")
    points = []
    for key in map(whole_key, figure.y):
        line = hue if hue.any() else Series(heading(key), index=jobs.index)
        if hue.any() and len(figure.y) > 1:
            line = hue + f", {heading(key)}"
        run = DataFrame({"line": line, "name": jobs["name"]})
        for column, source in (("x", whole_key(figure.x)), ("y", key), ("paper", f"paper.{key}")):
            values = jobs.get(source, Series(np.nan, index=jobs.index))
            run[column] = pandas.to_numeric(values, errors="coerce")
        points.append(run.dropna(subset=["x", "y"]))
    runs = pandas.concat(points).groupby(["line", "name"], sort=False)
    return runs.agg(
        x=("x", "mean"),
        y=("y", "mean"),
        low=("y", "min"),
        high=("y", "max"),
        paper=("paper", "max"),
    ).reset_index()


def _label(key: str, value: object) -> str:
    """Return the part of a line's name that says the value of a key; empty where a run has none."""
    if value is None or value != value:
        return ""
    return value if isinstance(value, str) else f"{heading(key)} {value}"


def draw_lines(axes: Axes, figure: SweepFigure, points: DataFrame) -> None:
    """Draw each line with a band over its seeds; hollow markers are the paper's values."""
    for (name, line), style in zip(points.groupby("line", sort=False), cycle(LINES), strict=False):
        inside = np.isfinite(line["x"]) & np.isfinite(line["y"])
        seen = line[inside].sort_values("x")
        axes.plot(seen["x"], seen["y"], **style, label=name)
        axes.vlines(seen["x"], seen["low"], seen["high"], style["color"], alpha=0.4)
        hollow = {"markerfacecolor": "white", "linestyle": "none", "zorder": 3}
        axes.plot(seen["x"], seen["paper"], **style | hollow)
        for _, point in line[~inside].iterrows():
            _infinite(axes, point["x"], point["y"], style)
    keys = [whole_key(key) for key in figure.y]
    axes.set_xlabel(axis_name(whole_key(figure.x)))
    names = ["ε" if key.startswith("epsilon") else axis_name(key) for key in keys]
    axes.set_ylabel(" · ".join(dict.fromkeys(names)))
    _scale(axes, "x", points["x"])
    if all(is_share(key) for key in keys):
        axes.yaxis.set_major_formatter(PercentFormatter(1, symbol=""))
    else:
        _scale(axes, "y", points["y"])
    title = "hollow: the paper" if points["paper"].notna().any() else None
    _legend(axes, points["line"].nunique(), title)


def _infinite(axes: Axes, x: float, y: float, style: dict[str, Any]) -> None:
    """Mark a point that is infinite in x or y at the edge of the axes."""
    place = (x if np.isfinite(x) else 1.0, y if np.isfinite(y) else 1.0)
    edge = blended_transform_factory(
        axes.transData if np.isfinite(x) else axes.transAxes,
        axes.transData if np.isfinite(y) else axes.transAxes,
    )
    axes.plot(*place, **style, transform=edge, clip_on=False)
    axes.annotate("∞", place, (4, 4), xycoords=edge, textcoords="offset points")


def curve_points(curve: str, jobs: DataFrame) -> DataFrame:
    """Return the points of a curve of each run that has it: name, job, x and y."""
    parts = [DataFrame(columns=["name", "job", "x", "y"])]
    for job in jobs.to_dict("records"):
        curves = read_curves(job["folder"])
        if curve in curves:
            x, y = curves[curve]
            parts.append(DataFrame({"name": job["name"], "job": job["job"], "x": x, "y": y}))
    return pandas.concat(parts).astype({"x": float, "y": float})


def draw_curves(axes: Axes, curve: str, points: DataFrame) -> None:
    """Draw a curve of each run. Runs of one name, which differ in their seed, have one style."""
    names = points["name"].unique().tolist()
    shape = "default" if curve in COSTS else "steps-post"
    for (name, job), run in points.groupby(["name", "job"], sort=False):
        style = LINES[names.index(name) % len(LINES)]
        first = job == points["job"][points["name"] == name].iloc[0]
        label = name if first else None
        axes.plot(run["x"], run["y"], **style, label=label, drawstyle=shape, markevery=0.15)
    axes.set(xlabel=AXES[curve][0], ylabel=AXES[curve][1])
    if is_share(curve):
        axes.yaxis.set_major_formatter(PercentFormatter(1, symbol=""))
    ends = points.groupby("job")["x"].max()
    if ends.max() >= _LOG_FROM * ends.min():  # lengths differ too much for a linear scale
        axes.set_xscale("symlog", linthresh=1)
        axes.xaxis.set_major_formatter("{x:,g}")
    _legend(axes, len(names))


def _scale(axes: Axes, name: str, values: Series) -> None:
    """Make the axis x or y logarithmic where its values are far apart."""
    axis: Axis = getattr(axes, f"{name}axis")
    finite = values[np.isfinite(values)]
    if 0 < finite.min() * _LOG_FROM <= finite.max():
        axes.set(**{f"{name}scale": "log"})
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:,g}")


def _legend(axes: Axes, lines: int, title: str | None = None) -> None:
    """Draw the legend inside the axes, or beside them where there are many lines."""
    if lines > _INSIDE:
        axes.figure.set_figwidth(1.35 * SIZE[0])
        place = {
            "loc": "upper left",
            "bbox_to_anchor": (1.05, 1),
        }  # with room for marks at the edge
        axes.legend(title=title, title_fontsize=8, handlelength=3, **place)
    elif lines > 1 or title:
        axes.legend(title=title, title_fontsize=8, handlelength=3)
