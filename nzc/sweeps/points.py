"""What a figure of a sweep shows: its points, and the runs that it leaves out. Nothing here draws."""

import numpy as np
import pandas
from pandas import DataFrame, Series

from nzc.runs.curves import AXES, read_curves
from nzc.runs.formatting import heading, some
from nzc.sweeps.frame import whole_key
from nzc.sweeps.spec import SweepFigure
from nzc.types import AnyArray


def points_of(figure: SweepFigure, jobs: DataFrame) -> DataFrame:
    """Return the points of a figure of finished jobs, also those without a value: group, key, name, x, y and paper.

    A line is a key y of one group of `by`. Where x is measured, runs that differ in their seed only are one point, at
    the mean of their x.
    """
    x = whole_key(str(figure.x))
    group = Series("", index=jobs.index)
    for key in map(whole_key, figure.by):
        part = jobs[key].map(lambda value, key=key: _label(key, value)) if key in jobs else ""
        group = (group + ", " + part).str.strip(", ")
    lines = []
    for _, members in jobs.assign(group=group).groupby("group", sort=False):
        for key in map(whole_key, figure.y):
            line = members[["group", "name"]].assign(key=key, x=_numbers(members, x), y=_numbers(members, key))
            line["paper"] = _numbers(members, f"paper.{key}")
            if x not in ("seed", "run"):  # else the same for all runs of a name, or measured
                line["x"] = line["x"].groupby(line["name"]).transform("mean")
            lines.append(line)
    return pandas.concat(lines, ignore_index=True)


def finite(points: DataFrame) -> DataFrame:
    """Return the points within the axes."""
    return points[np.isfinite(points[["x", "y"]]).all(axis=1)]


def spread(points: DataFrame) -> str:
    """Return what line and band are where a point has several runs; empty where none has."""
    runs = finite(points).groupby(["group", "key", "x"])["name"].agg(["size", "nunique"])
    if not len(runs) or (most := runs["size"].max()) == 1:
        return ""
    of = "seeds" if (runs["nunique"][runs["size"] > 1] == 1).all() else "runs"
    return f"mean of {'' if (runs['size'] == most).all() else 'up to '}{most} {of}; band: smallest to largest"


def curves_of_jobs(curve: str, jobs: DataFrame) -> list[tuple[str, tuple[AnyArray, AnyArray]]]:
    """Return name and curve of each job that has it."""
    curves = [(name, read_curves(folder).get(curve)) for name, folder in zip(jobs["name"], jobs["folder"], strict=True)]
    return [(name, points) for name, points in curves if points is not None]


def notes_of(figure: SweepFigure, jobs: DataFrame) -> tuple[list[str], str]:
    """Return what a figure of finished jobs leaves out, as sentences; and why it is not drawn: empty where it is."""
    if figure.curve is not None:
        names = [name for name, _ in curves_of_jobs(figure.curve, jobs)]
        lacking = [name for name in jobs["name"] if name not in names]
        notes = [f"Without this curve, left out: {some(lacking)}."] if lacking else []
        return notes, "" if names else "no run has this curve"
    points, x = points_of(figure, jobs), whole_key(str(figure.x))
    missing = {heading(x): points[points["x"].isna()]["name"]}
    for key, line in points.groupby("key", sort=False):
        missing[heading(key)] = line[line["y"].isna()]["name"]
    notes = [f"Without {key}, left out: {some(names)}." for key, names in missing.items() if len(names)]
    if len(edge := points.dropna(subset=["x", "y"]).drop(finite(points).index)):
        notes.append(f"At the edge, as ∞: {some(edge['name'])}.")
    keys = " and ".join(dict.fromkeys(map(heading, [x, *map(whole_key, figure.y)])))
    return notes, "" if len(finite(points)) else f"no run has finite values of {keys}"


def caption_of(figure: SweepFigure, jobs: DataFrame) -> str:
    """Return what a figure shows of the finished jobs, how it shows several seeds, and what it leaves out."""

    def names(keys: tuple[str, ...]) -> str:
        return " and ".join(heading(whole_key(key)) for key in keys)

    if figure.curve is not None:
        x, y = AXES.get(figure.curve, ("", figure.curve))
        caption = f"{y} against {x}, one line per run"
    else:
        caption = f"{names(figure.y)} against {names((str(figure.x),))}"
        caption += f", one line per {names(figure.by)}" if figure.by else ""
        caption += f"; {seeds}" if (seeds := spread(points_of(figure, jobs))) else ""
    notes, _ = notes_of(figure, jobs)
    return f"{caption}. {' '.join(notes)}" if notes else caption


def _numbers(jobs: DataFrame, key: str) -> Series:
    """Return the values of a key as float; NaN where a job has no number."""
    return pandas.to_numeric(jobs[key], errors="coerce") if key in jobs else Series(np.nan, index=jobs.index)


def _label(key: str, value: object) -> str:
    """Return the part of a line's name that says the value of a key; empty where a run has none."""
    if value is None or value != value:
        return ""
    return value if isinstance(value, str) else f"{heading(key)} {value}"
