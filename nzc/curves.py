"""What a run leaves for figures beside result.json: curves, y by x, in one small file."""

import csv
from pathlib import Path

import numpy as np

from nzc._files import written
from nzc._types import AnyArray, Floats, Ints
from nzc.aggregators.aggregator import ABSTAIN
from nzc.privacy.theorem import gaps

#: In the run's folder, in the long format curve,x,y.
FILE = "curves.csv"
#: name → (x [points], y [points]). All of them follow from votes, and are private.
Curves = dict[str, tuple[AnyArray, AnyArray]]
#: name → what its axes are called. The gap of a query: its largest count less the second.
#:     gap_above   the share of all rows whose gap exceeds n, n = 0, 1, … up to the largest gap (NZC, Figure 2b)
#:     asked       how many queries that were asked have this gap
#:     answered    how many queries that were answered have it
#:     plurality   how many queries that were answered have this largest count (Scalable PATE 2018, Figure 6)
#:     epsilon_…   ε so far, exact, by theorem and data-independent (Scalable PATE 2018, Figure 4)
AXES = {
    "gap_above": ("n (votes)", "queries whose gap exceeds n (%)"),
    "asked": ("gap between first and second count (votes)", "queries"),
    "answered": ("gap between first and second count (votes)", "queries"),
    "plurality": ("largest count (votes)", "queries answered"),
    "epsilon_exact": ("labels released", "ε exact"),
    "epsilon_theorem": ("labels released", "ε theorem"),
    "epsilon_data_independent": ("labels released", "ε data-independent"),
}
#: At how many queries ε is looked at.
POINTS = 60


def of_run(votes: Ints, rows: Ints, released: Ints, grown: tuple[Ints, dict[str, Floats]]) -> Curves:
    """The curves of a pool with these votes [pool, classes], of which `rows` [asked] were asked, and `released` [pool].

    grown   labels and ε so far, as of privacy.cost.growth at POINTS points
    """
    gap = gaps(votes)[:, 0].astype(np.int64)
    sizes = np.arange(gap.max() + 1)
    above = 1 - np.cumsum(np.bincount(gap)) / len(gap)
    answered = released != ABSTAIN
    counts = {"asked": gap[rows], "answered": gap[answered], "plurality": votes[answered].max(axis=1)}
    labels, cost = grown
    return (
        {"gap_above": (sizes, above)}
        | {name: _histogram(of, len(sizes)) for name, of in counts.items()}
        | {f"epsilon_{name}": (labels, epsilon) for name, epsilon in cost.items()}
    )


def _histogram(values: Ints, least: int) -> tuple[Ints, Ints]:
    counts = np.bincount(values, minlength=least)
    return np.arange(len(counts)), counts


def write(folder: Path, curves: Curves) -> None:
    """FILE in `folder`, whole or not at all; only its owner may read it."""
    lines = ["curve,x,y", *(f"{name},{x},{y}" for name, points in curves.items() for x, y in zip(*points, strict=True))]
    written(folder / FILE, ("\n".join(lines) + "\n").encode())


def read(folder: Path) -> Curves:
    """What `write` left in `folder`."""
    with (folder / FILE).open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    names = dict.fromkeys(row[0] for row in rows)
    points = {name: np.array([row[1:] for row in rows if row[0] == name], dtype=float) for name in names}
    return {name: (points[name][:, 0], points[name][:, 1]) for name in names}
