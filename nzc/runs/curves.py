"""Curve data of a run: distributions of vote gaps, and ε from query to query."""

from pathlib import Path

import numpy as np

from nzc.accounting.data_dependent import gaps
from nzc.accounting.epsilon import Epsilon
from nzc.mechanisms import ABSTAIN
from nzc.runs.layout import CURVES
from nzc.storage.files import write_private
from nzc.types import AnyArray, Floats, Ints

#: name → (x [points], y [points]). All of them depend on votes and are private.
Curves = dict[str, tuple[AnyArray, AnyArray]]
#: name → labels of x and y; all are of one run. The gap of a query is its largest count minus the
#: second. Figures in papers: gap_above is NZC's 2b, plurality and epsilon_… are Scalable PATE's 6
#: and 4 (2018).
AXES = {
    "gap_above": ("n (votes)", "queries whose gap exceeds n (%)"),
    "asked": ("gap between first and second count (votes)", "queries"),
    "answered": ("gap between first and second count (votes)", "queries"),
    "plurality": ("largest count (votes)", "queries answered"),
    "epsilon_exact": ("labels released", "ε exact"),
    "epsilon_theorem": ("labels released", "ε theorem"),
    "epsilon_data_independent": ("labels released", "ε data-independent"),
}
#: Curves that count the queries with so many votes.
HISTOGRAMS = ("asked", "answered", "plurality")
#: At how many queries ε is evaluated.
POINTS = 60


def curves_of(
    votes: Ints,
    rows: Ints,
    released: Ints,
    cost: tuple[Ints, dict[str, Floats]],
    epsilon: Epsilon,
) -> Curves:
    """Return the curves of votes [pool, classes], of which `rows` were asked.

    released  labels [pool]
    cost      labels and rough bounds on ε so far (accounting.cost.cost_curve)
    epsilon   of all labels, which the first ones do not exceed
    """
    gap = gaps(votes)[:, 0].astype(np.int64)
    answered = released != ABSTAIN
    sizes = np.arange(gap.max() + 1)
    below = np.searchsorted(np.sort(gap), sizes, side="right")
    curves: Curves = {"gap_above": (sizes, 1 - below / len(gap))}
    counted = {
        "asked": gap[rows],
        "answered": gap[answered],
        "plurality": votes[answered].max(axis=1),
    }
    for name, values in counted.items():
        counts = np.bincount(values, minlength=len(sizes))
        curves[name] = (np.arange(len(counts)), counts)
    labels, costs = cost
    for name, bounds in costs.items():
        total = getattr(epsilon, name)
        ends = np.append(labels[:-1], answered.sum())
        curves[f"epsilon_{name}"] = (ends, np.append(bounds[:-1].clip(max=total), total))
    return curves


def write_curves(folder: Path, curves: Curves) -> None:
    """Write curves.csv in the long format curve,x,y."""
    lines = ["curve,x,y\n"]
    for name, points in curves.items():
        lines += [f"{name},{x},{y}\n" for x, y in zip(*points, strict=True)]
    write_private(folder / CURVES, "".join(lines))


def read_curves(folder: Path) -> Curves:
    """Return what `write_curves` wrote in `folder`."""
    from pandas import read_csv  # takes half a second to import

    return {
        str(name): (points["x"].to_numpy(float), points["y"].to_numpy(float))
        for name, points in read_csv(folder / CURVES, dtype=str).groupby("curve", sort=False)
    }
