"""What a figure of a sweep shows: its points, their spread over seeds, and the runs that it leaves out."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean

import numpy as np

from nzc.runs.curves import read_curves
from nzc.runs.formatting import heading, some
from nzc.runs.layout import Job
from nzc.runs.sweep_spec import SweepFigure, SweepPoints
from nzc.types import AnyArray


@dataclass
class Line:
    """One line of a figure: a key y of the runs of one group.

    points  x → the values of y there; more than one where runs differ in their seed only, or in what is not shown
    names   x → the names of these runs
    paper   the paper's points
    """

    key: str
    group: str
    points: dict[float, list[float]] = field(default_factory=dict)
    names: dict[float, set[str]] = field(default_factory=dict)
    paper: list[tuple[float, float]] = field(default_factory=list)

    @property
    def finite(self) -> dict[float, list[float]]:
        """The points that lie within the axes, by rising x."""
        return {x: ys for x, ys in sorted(self.points.items()) if np.isfinite([x, *ys]).all()}


@dataclass
class FigureLines:
    """The lines of a figure with x and y, of finished jobs.

    missing   heading of a key → names of the runs without a value of it
    """

    x: str
    keys: list[str]
    lines: list[Line]
    missing: dict[str, list[str]]

    @cached_property
    def spread(self) -> str:
        """What line and band are where a point has several runs; empty where none has."""
        several = [(len(ys), line.names[x]) for line in self.lines for x, ys in line.finite.items() if len(ys) > 1]
        if not several:
            return ""
        most = max(count for count, _ in several)
        exact = all(len(ys) == most for line in self.lines for ys in line.finite.values())
        of = "seeds" if all(len(names) == 1 for _, names in several) else "runs"
        return f"mean of {'' if exact else 'up to '}{most} {of}; band: smallest to largest"

    @property
    def infinite(self) -> list[str]:
        """Names of runs that stand at the edge of the axes, as ∞."""
        names = [sorted(line.names[x]) for line in self.lines for x in line.points if x not in line.finite]
        return list(dict.fromkeys(name for each in names for name in each))

    @property
    def notes(self) -> list[str]:
        """What the figure leaves out or shows at its edge, as sentences."""
        said = [f"Without {key}, left out: {some(names)}." for key, names in self.missing.items()]
        return [*said, *([f"At the edge, as ∞: {some(self.infinite)}."] if self.infinite else [])]


def lines_of(figure: SweepFigure, jobs: Sequence[Job]) -> FigureLines:
    """Return the lines of a figure with x and y, one for each y and each value of `by`.

    Where x is measured, the runs that differ in their seed only are one point at the mean of their x.
    """
    x_key, keys = jobs[0].whole_key(str(figure.x)), [jobs[0].whole_key(key) for key in figure.y]
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        groups.setdefault(", ".join(filter(None, (_group(job, key) for key in figure.by))), []).append(job)
    lines, missing = [], dict[str, list[str]]()
    for group, members in groups.items():
        for key in keys:
            lines.append(line := Line(key, group))
            points: dict[tuple[str, float | None], list[tuple[float, float]]] = {}
            for job in members:
                x, y = _number(job, x_key), _number(job, key)
                for each, value in ((x_key, x), (key, y)):
                    if value is None:
                        missing.setdefault(heading(each), []).append(job.name)
                if x is not None and y is not None:
                    points.setdefault((job.name, x if job.is_setting(x_key) else None), []).append((x, y))
            papers = {job.name: paper for job in members if isinstance(paper := job.paper.get(key), int | float)}
            for (name, _), found in points.items():
                x = fmean(x for x, _ in found)
                line.points.setdefault(x, []).extend(y for _, y in found)
                line.names.setdefault(x, set()).add(name)
                if name in papers and np.isfinite(x):
                    line.paper.append((x, papers[name]))
    return FigureLines(x_key, keys, lines, missing)


def curves_of_jobs(figure: SweepFigure, jobs: Sequence[Job]) -> list[tuple[str, tuple[AnyArray, AnyArray]]]:
    """Return name and curve of each job that has the figure's curve."""
    found = [(job.name, read_curves(job.folder).get(str(figure.curve))) for job in jobs]
    return [(name, curve) for name, curve in found if curve is not None]


def others_of(figure: SweepFigure, jobs: Sequence[Job]) -> tuple[SweepPoints, ...]:
    """Return the figure's points of other programs; none where the runs are another experiment than the file's."""
    return () if any(job.replaced for job in jobs) else figure.points


def notes_of(figure: SweepFigure, jobs: Sequence[Job]) -> tuple[list[str], str]:
    """Return what a figure of finished jobs leaves out, as sentences; and why it is not drawn: empty where it is."""
    if figure.curve is not None:
        named = [name for name, _ in curves_of_jobs(figure, jobs)]
        lacking = [job.name for job in jobs if job.name not in named]
        return (
            [f"Without this curve, left out: {some(lacking)}."] if lacking else []
        ), "" if named else "no run has this curve"
    found = lines_of(figure, jobs)
    if not any(line.finite for line in found.lines):
        keys = " and ".join(dict.fromkeys(map(heading, (found.x, *found.keys))))
        return found.notes, f"no run has finite values of {keys}"
    hidden = some(each.name for each in figure.points) if not others_of(figure, jobs) else ""
    return [*found.notes, *([f"Other settings than the sweep file's: without {hidden}."] if hidden else [])], ""


def _number(job: Job, key: str) -> float | None:
    value = job.value(key)
    return value if isinstance(value, int | float) else None


def _group(job: Job, key: str) -> str:
    """Return the part of a line's name that says the value of `key`; empty for a run that has no such key."""
    value = job.value(whole := job.whole_key(key))
    return "" if value is None else value if isinstance(value, str) else f"{heading(whole)} {value}"
