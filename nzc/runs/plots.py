"""Figures of a run, and the style of all figures: SVG and PNG, readable in grey."""

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nzc.data import UNKNOWN
from nzc.mechanisms import ABSTAIN
from nzc.runs.curves import AXES, Curves
from nzc.runs.layout import FIGURES
from nzc.storage.files import write_private
from nzc.types import AnyArray, Ints
from nzc.validation import Tree

#: Width and height in inches: one column of a paper.
SIZE = (4.2, 2.9)
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.3,
    "lines.markersize": 5,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 200,
    "path.simplify_threshold": 0.4,  # points: smaller files without a visible difference
    "svg.hashsalt": "nzc",  # the same figure gives the same file
}
#: Colour (Okabe and Ito 2008), marker and dashes of each line: any one of the three is enough.
#: From the ninth line on they return, with hollow markers.
_FILLED: list[Tree] = list(
    cycler(
        color=[
            "black",
            "#0072B2",
            "#D55E00",
            "#009E73",
            "#CC79A7",
            "#56B4E9",
            "#E69F00",
            "#7F7F7F",
        ],
        marker=list("os^DvPXp"),
        linestyle=[
            "-",
            (0, (5, 2)),
            (0, (1, 1.2)),
            (0, (5, 1.5, 1, 1.5)),
            (0, (3, 1, 1, 1, 1, 1)),
            (0, (9, 2)),
            (0, (2, 3)),
            (0, (7, 2, 1, 2)),
        ],
    )
)
LINES = _FILLED + [style | {"markerfacecolor": "white"} for style in _FILLED]
#: Curves of ε, and their names in a legend.
COSTS = {
    "epsilon_exact": "exact",
    "epsilon_theorem": "by theorem",
    "epsilon_data_independent": "data-independent",
}
_BINS = 20  # at most
_CELLS = 12  # up to so many classes a confusion matrix shows numbers


def plot_run(folder: Path, curves: Curves, released: Ints, truth: Ints | None) -> None:
    """Draw vote gaps, ε from label to label, and the confusion matrix of released labels."""
    if curves:
        with new_figure(folder, "gaps") as axes:
            _gaps(axes, curves)
    costs = {name: curves[name] for name in COSTS if name in curves and _says_cost(curves[name][1])}
    if costs:
        with new_figure(folder, "cost") as axes:
            _cost(axes, costs)
    if truth is not None:
        known = (released != ABSTAIN) & (truth != UNKNOWN)
        if known.any():
            with new_figure(folder, "confusion", (3.3, 3.1)) as axes:
                _confusion(axes, truth[known], released[known])


@contextmanager
def new_figure(folder: Path, name: str, size: tuple[float, float] = SIZE) -> Iterator[Axes]:
    """Yield axes; afterwards write figures/NAME.svg and figures/NAME.png below `folder`.

    A legend of the figure, not of the axes, stands beside the axes and widens the figure.
    """
    with matplotlib.rc_context(_STYLE):
        figure = Figure(size)
        yield figure.subplots()
        if figure.legends:
            figure.set_figwidth(5.7)
        (folder / FIGURES).mkdir(mode=0o700, exist_ok=True)
        for kind in ("svg", "png"):
            drawn = BytesIO()
            figure.savefig(drawn, format=kind, metadata={"Date": None})
            write_private(folder / FIGURES / f"{name}.{kind}", drawn.getvalue())
            figure.set_layout_engine("none")  # the layout is computed already


def bin_width(largest: float) -> int:
    """Return a round width of bins for the whole numbers from 0 to `largest`."""
    return int(MaxNLocator(_BINS, steps=[1, 2, 5, 10]).tick_values(0, max(largest, _BINS))[1])


def _gaps(axes: Axes, curves: Curves) -> None:
    width = bin_width(len(curves["asked"][0]))
    for label, grey in (("asked", "0.82"), ("answered", "0.35")):
        gap, counts = curves[label]
        edges = range(0, len(gap) + width, width)
        axes.hist(gap, edges, weights=counts, color=grey, edgecolor="white", label=label)
    x, y = AXES["asked"]
    axes.set(xlabel=x, ylabel=f"{y} in bins of {width}")
    axes.set_yscale("symlog", subs=[2, 5])  # cheap queries are frequent, expensive ones rare
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.yaxis.set_minor_formatter("{x:,g}")
    axes.figure.legend(loc="outside right upper")


def _says_cost(epsilon: AnyArray) -> bool:
    """Return whether a curve of ε changes where it is finite; one that does not is one number."""
    return np.unique(epsilon[np.isfinite(epsilon)]).size > 1


def _cost(axes: Axes, costs: Curves) -> None:
    for (name, (labels, epsilon)), style in zip(costs.items(), LINES, strict=False):
        axes.plot(labels, epsilon, **style, markevery=0.15, label=COSTS[name])
    axes.set(xlabel=AXES["epsilon_exact"][0], ylabel="ε, at most", xlim=(0, None), ylim=(0, None))
    axes.legend()


def _confusion(axes: Axes, truth: Ints, labels: Ints) -> None:
    from sklearn.metrics import ConfusionMatrixDisplay  # takes a second to import

    numbers = max(truth.max(), labels.max()) < _CELLS
    ConfusionMatrixDisplay.from_predictions(
        truth,
        labels,
        normalize="true",
        ax=axes,
        cmap="Greys",
        colorbar=not numbers,
        include_values=numbers,
        values_format=".0%",
        text_kw={"fontsize": 5.5},
    )
    axes.set(xlabel="released label", ylabel="true class (shares of a row)")
    axes.grid(False)
