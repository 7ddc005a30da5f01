"""Figures that a sweep file declares: keys of its runs as lines, or one curve of each run; their
captions.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator
from matplotlib.transforms import blended_transform_factory
from pandas import DataFrame, Series

from nzc.runs.curves import AXES, read_curves
from nzc.runs.formatting import axis_name, heading, is_share, some
from nzc.runs.plots import BARS, COSTS, LINES, SIZE, new_figure
from nzc.sweeps.jobs import SweepFigure, whole_key
from nzc.types import AnyArray

_COUNTS = ("asked", "answered", "plurality")
_PERCENT = FuncFormatter(lambda share, _: f"{100 * share:g}")
_LOG_FROM = (
    20  # an axis is logarithmic where its largest value is at least so many times its smallest
)
_INSIDE = 4  # up to so many lines the legend is inside the axes


@dataclass(repr=False)
class Drawing:
    """A figure of finished jobs.

    points   columns group, key, name, x, y and paper, also of runs without a value. A line is a key
             y of one group of `by`. Where x is measured, runs that differ in their seed only are
             one point, at the mean of their x.
    curves   name and curve (x, y) of each job that has it
    joined   a warning where a line joins points of different rows, with the `by` that mends it; or
             empty
    empty    why it is not drawn; or empty
    """

    figure: SweepFigure
    jobs: DataFrame
    joined: str = field(default="", init=False)
    points: DataFrame = field(default_factory=DataFrame)
    curves: list[tuple[str, tuple[AnyArray, AnyArray]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        rows = (
            self.jobs.groupby("row")["name"].nunique() if "row" in self.jobs else Series(dtype=int)
        )
        if (
            not (self.figure.by or self.figure.curve) and len(rows) > 1 and rows.max() > 1
        ):  # rows are sweeps themselves
            self.figure = self.figure.model_copy(update={"by": ("row",)})
        text, notes = self._read_curves() if self.figure.curve is not None else self._read_points()
        self.caption = " ".join([f"{text}.", *notes])

    def _read_curves(self) -> tuple[str, list[str]]:
        curve, jobs = str(self.figure.curve), self.jobs
        read = [
            (name, read_curves(folder))
            for name, folder in zip(jobs["name"], jobs["folder"], strict=True)
        ]
        self.curves = [(name, curves[curve]) for name, curves in read if curve in curves]
        lacking = [name for name, curves in read if curve not in curves]
        self.empty = "" if self.curves else "no run has this curve"
        notes = [f"Without this curve, left out: {some(lacking)}."] if lacking else []
        return "{1} against {0}, one line per run".format(*AXES[curve]), notes

    def _read_points(self) -> tuple[str, list[str]]:
        figure, x, y = self.figure, _names([str(self.figure.x)]), _names(self.figure.y)
        self.points = _points(figure, self.jobs)
        self.joined = _joined(figure, self.finite, self.jobs)
        known = self.points.dropna(subset=["x", "y"])
        notes = [self.joined] if self.joined else []
        if len(lacking := self.points.drop(known.index)):
            notes.append(f"Without a value, left out: {some(lacking['name'])}.")
        if len(edge := known.drop(self.finite.index)):
            notes.append(f"At the edge, as ∞: {some(edge['name'])}.")
        self.empty = "" if len(self.finite) else f"no run has finite values of {x} and {y}"
        by = f", one line per {_names(figure.by)}" if figure.by else ""
        return f"{y} against {x}{by}" + (f"; {self.seeds}" if self.seeds else ""), notes

    def plot(self, folder: Path) -> None:
        """Write the figure into figures/ below `folder`, unless it would be empty."""
        if self.empty:
            return
        with new_figure(folder, self.figure.name) as axes:
            for axis, most in ((axes.xaxis, 8), (axes.yaxis, 6)):
                axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 5, 10]))
            axes.xaxis.set_major_formatter("{x:,g}")
            (draw_lines if self.figure.curve is None else draw_curves)(axes, self)
            if self.figure.ylim is not None:
                axes.set_ylim(self.figure.ylim)

    @property
    def finite(self) -> DataFrame:
        """The points within the axes."""
        return finite(self.points)

    @property
    def seeds(self) -> str:
        """What line and band are where a point has several runs; empty where none has."""
        runs = self.finite.groupby(["group", "key", "x"])["name"].agg(["size", "nunique"])
        if not len(runs) or (most := runs["size"].max()) == 1:
            return ""
        of = "seeds" if (runs["nunique"][runs["size"] > 1] == 1).all() else "runs"
        return f"mean of {'' if (runs['size'] == most).all() else 'up to '}{most} {of}; band: smallest to largest"


def draw_lines(axes: Axes, drawing: Drawing) -> None:
    """Draw a line for each y and each value of `by`. Hollow markers: the paper's values."""
    figure, points, keys = (
        drawing.figure,
        drawing.points,
        [whole_key(key) for key in drawing.figure.y],
    )
    lines = list(points.groupby(["group", "key"], sort=False))
    for ((group, key), line), style in zip(lines, cycle(LINES), strict=False):
        hollow = style | {"markerfacecolor": "white", "linestyle": "none", "zorder": 3}
        if len(printed := finite(line.dropna(subset="paper")).drop_duplicates(["x", "paper"])):
            axes.plot(printed["x"], printed["paper"], **hollow)
        names = [group] if group and len(keys) == 1 else filter(None, [group, heading(key)])
        _line(axes, line, style, ", ".join(names))
    axes.set_xlabel(axis_name(whole_key(str(figure.x))))
    axes.set_ylabel(
        " · ".join(
            dict.fromkeys("ε" if key.startswith("epsilon") else axis_name(key) for key in keys)
        )
    )
    xs, ys = points["x"].tolist(), points["y"].tolist()
    if all(is_share(key) for key in keys):
        axes.yaxis.set_major_formatter(_PERCENT)
    elif _wide(ys):
        axes.set_yscale("log")
        _logarithmic(axes.yaxis)
    if _wide(xs):
        axes.set_xscale("log")
        _logarithmic(axes.xaxis, sorted({x for x in xs if np.isfinite(x)}))
    if drawing.seeds:
        axes.set_title(drawing.seeds, fontsize=8, color="0.35", loc="left")
    compared = drawing.finite["paper"].notna().any()
    if len(lines) > 1 or compared:
        _legend(axes, "hollow: the paper" if compared else None)


def _line(axes: Axes, line: DataFrame, style: dict[str, Any], label: str) -> None:
    """Draw the mean at each x, with a band from the smallest to the largest (for a single x: a
    bar); ∞ at the edge.
    """
    seeds = finite(line).groupby("x")["y"].agg(["mean", "min", "max"])
    axes.plot(seeds.index, seeds["mean"], **style, label=label)
    if len(seeds) == 1:
        axes.vlines(seeds.index, seeds["min"], seeds["max"], style["color"])
    elif (seeds["min"] < seeds["max"]).any():
        axes.fill_between(
            seeds.index, seeds["min"], seeds["max"], color=style["color"], alpha=0.18, linewidth=0
        )
    for x, y in line.drop(finite(line).index).groupby("x")["y"].mean().items():
        at = (x if np.isfinite(x) else 1.0, y if np.isfinite(y) else 1.0)
        edge = blended_transform_factory(
            *(axes.transData if np.isfinite(v) else axes.transAxes for v in (x, y))
        )
        axes.plot(*at, **style | {"linestyle": "-"}, transform=edge, clip_on=False)
        axes.annotate("∞", at, (4, 4), xycoords=edge, textcoords="offset points")


def draw_curves(axes: Axes, drawing: Drawing) -> None:
    """Draw one curve of each run that has it. Runs of one name, which differ in their seed, have
    one style.
    """
    curve, styles = str(drawing.figure.curve), dict[str, dict[str, Any]]()
    for at, (name, (x, y)) in enumerate(drawing.curves):
        label = None if name in styles else name
        style = styles.setdefault(name, LINES[len(styles) % len(LINES)])
        if curve in _COUNTS:
            starts = np.arange(0, len(x), -(-2 * len(x) // BARS))
            x, y = x[starts], np.add.reduceat(y, starts)
        steps = "default" if curve in COSTS else "steps-post"
        axes.plot(x, y, **style, label=label, drawstyle=steps, markevery=(0.02 * at, 0.15))
    axes.set(xlabel=AXES[curve][0], ylabel=AXES[curve][1])
    if is_share(curve):
        axes.yaxis.set_major_formatter(_PERCENT)
    if _wide(
        ends := [float(x[-1]) for _, (x, _) in drawing.curves]
    ):  # lengths differ too much for a linear scale
        axes.set_xscale("symlog", linthresh=1)
        _logarithmic(axes.xaxis, [0, *sorted({*ends})])
    if len(styles) > 1:
        _legend(axes, beside=curve in _COUNTS)


def _wide(values: Sequence[float]) -> bool:
    known = [value for value in values if np.isfinite(value)]
    return bool(known) and min(known) > 0 and max(known) >= _LOG_FROM * min(known)


def _logarithmic(axis: Axis, ticks: Sequence[float] = ()) -> None:
    """Label a logarithmic axis at `ticks`, if they are few and round; else at 1, 2 and 5 of each
    decade.
    """
    few = 0 < len(ticks) <= 10 and all(float(f"{tick:.3g}") == tick for tick in ticks)
    axis.set_major_locator(FixedLocator(ticks) if few else LogLocator(subs=(1, 2, 5)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:,g}")


def _legend(axes: Axes, title: str | None = None, beside: bool = False) -> None:
    """Draw the legend inside the axes, or beside them where there are many lines."""
    where: dict[str, Any] = {}
    if beside or len(axes.get_legend_handles_labels()[1]) > _INSIDE:
        where = {
            "loc": "upper left",
            "bbox_to_anchor": (1.05, 1),
        }  # leaves room for marks at the edge
        cast(Figure, axes.figure).set_figwidth(1.35 * SIZE[0])
    axes.legend(title=title, title_fontsize=8, handlelength=3, **where)


def finite(points: DataFrame) -> DataFrame:
    """Return the points that are finite in x and y."""
    return points[np.isfinite(points[["x", "y"]]).all(axis=1)]


def _points(figure: SweepFigure, jobs: DataFrame) -> DataFrame:
    x, group = whole_key(str(figure.x)), Series("", index=jobs.index)
    for key in map(whole_key, figure.by):
        part = jobs[key].map(lambda value, key=key: _label(key, value)) if key in jobs else ""
        group = (group + ", " + part).str.strip(", ")
    lines = []
    for _, members in jobs.assign(group=group).groupby("group", sort=False):
        for key in map(whole_key, figure.y):
            line = members[["group", "name"]].assign(
                key=key, x=_numbers(members, x), y=_numbers(members, key)
            )
            line["paper"] = _numbers(members, f"paper.{key}")
            if x not in ("seed", "run"):  # else the same for all runs of a name, or measured
                line["x"] = line["x"].groupby(line["name"]).transform("mean")
            lines.append(line)
    return pandas.concat(lines, ignore_index=True)


def _joined(figure: SweepFigure, points: DataFrame, jobs: DataFrame) -> str:
    """Return the warning of a `Drawing`: a line has runs of different words (aggregators), or
    several at one x.
    """
    changes = [
        [text for text in texts if not text.lstrip("+").startswith("metrics.")]
        for texts in jobs["overrides"]
    ]
    typed = [dict(text.partition("=")[::2] for text in texts) for texts in changes]
    settings = (
        DataFrame(typed, index=jobs["name"])
        .drop(columns=["seed", *figure.keys], errors="ignore")
        .fillna("null")
    )
    mends: list[str] = []
    for _, line in points.groupby("group"):
        of = settings.loc[settings.index.isin(line["name"])]
        differ = [key for key in of if of[key].nunique() > 1]
        words = [key for key in differ if not of[key].str.fullmatch(r"[-+.\de]+|null").all()]
        several = (line.groupby(["key", "x"])["name"].nunique() > 1).any()
        mends += words or (differ if several else [])
    if not mends:
        return ""
    mends = list(dict.fromkeys(mends))
    rows = "row" not in figure.by and jobs["row"].nunique() > 1
    by = [*figure.by, *([key for key in mends if key in jobs] or (["row"] if rows else mends))]
    joins = f"Figure {figure.name} joins points that differ in {' and '.join(mends)}"
    return f"{joins}: `by: [{', '.join(by)}]` parts them."


def _names(keys: Iterable[str]) -> str:
    return " and ".join(heading(whole_key(key)) for key in keys)


def _numbers(jobs: DataFrame, key: str) -> Series:
    """Return the values of a key as float; NaN where a job has no number."""
    return (
        pandas.to_numeric(jobs[key], errors="coerce")
        if key in jobs
        else Series(np.nan, index=jobs.index)
    )


def _label(key: str, value: object) -> str:
    """Return the part of a line's name that says the value of a key; empty where a run has none."""
    if value is None or value != value:
        return ""
    return value if isinstance(value, str) else f"{heading(key)} {value}"
