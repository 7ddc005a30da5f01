"""The figures of a sweep from a DataFrame of jobs: lines, seeds, what is infinite, and curves."""

from pathlib import Path
from typing import Any

import numpy as np
from conftest import parametrize
from matplotlib.figure import Figure
from pandas import DataFrame
from pytest import approx

from nzc.runs.curves import write_curves
from nzc.sweeps.figures import draw_figure, plot, points_of
from nzc.sweeps.spec import SweepFigure

INF = float("inf")


def _jobs(*jobs: dict[str, Any]) -> DataFrame:
    return DataFrame([{"job": number, **job} for number, job in enumerate(jobs)], dtype=object)


#: Two aggregators at γ = 0.01 and 1; what the second costs is infinite.
JOBS = _jobs(
    *(
        {
            "name": f"{name} {gamma}",
            "row": name,
            "aggregator.gamma": gamma,
            "epsilon.exact": INF if name == "nzc" else gamma,
        }
        for name in ("lnmax", "nzc")
        for gamma in (0.01, 1.0)
    )
)


def _axes(jobs: DataFrame, **declared: Any) -> Any:
    figure = SweepFigure(name="a", **declared)
    axes = Figure().subplots()
    draw_figure(axes, figure, points_of(figure, jobs))
    return axes


def _solid(axes: Any) -> dict[str, list[list[float]]]:
    """The points of each line by its name."""
    lines = [line for line in axes.lines if not line.get_label().startswith("_")]
    return {line.get_label(): line.get_xydata().tolist() for line in lines}


def test_what_is_infinite_stands_at_a_tick_of_its_own() -> None:
    axes = _axes(JOBS, x="aggregator.gamma", y=["epsilon.exact"], by="row")
    assert axes.get_xscale() == "log"
    assert axes.yaxis.get_minorticklocs().tolist() == [1.5]
    assert [tick.get_text() for tick in axes.get_yminorticklabels()] == ["∞"]
    hidden = [line.get_xydata().tolist() for line in axes.lines if line.get_label()[0] == "_"]
    assert [[0.01, 1.5]] in hidden and [[1, 1.5]] in hidden
    assert _solid(axes) == {"lnmax": [[0.01, 0.01], [1, 1]], "nzc": []}
    assert max(axes.yaxis.get_majorticklocs()) == 1


def test_queries_by_votes_are_in_round_bins(tmp_path: Path) -> None:
    counts = np.arange(101)
    write_curves(tmp_path, {"plurality": (counts, counts)})
    line = _solid(_axes(_jobs({"name": "a", "folder": tmp_path}), curve="plurality"))["a"]
    assert len(line) == 11 and line[:2] == [[5, 45], [15, 145]] and line[-1] == [105, 100]


@parametrize(("x", "places"), [("queries", (10, 100)), ("epsilon.exact", (2, 10))])
def test_seeds_are_a_mean_and_a_bar_also_where_x_is_measured(
    x: str, places: tuple[int, int]
) -> None:
    few = [
        {"name": "few", "queries": 10, "accuracy": 0.5 + seed / 10, "epsilon.exact": 1 + seed}
        for seed in range(3)
    ]
    many = [{"name": "many", "queries": 100, "accuracy": 0.8, "epsilon.exact": 10}] * 3
    axes = _axes(_jobs(*few, *many), x=x, y="accuracy")
    points = [[places[0], approx(0.6)], [places[1], approx(0.8)]]
    assert _solid(axes) == {"student": points}
    bar = axes.collections[0].get_segments()[0].tolist()
    assert bar == [[places[0], 0.5], [places[0], 0.7]]


def test_a_figure_leaves_out_what_has_no_value(tmp_path: Path) -> None:
    jobs = _jobs(
        {"name": "a", "accuracy": 0.5, "epsilon.exact": 1.0},
        {"name": "b", "accuracy": 0.6, "epsilon.exact": INF},
        {"name": "c", "accuracy": None, "epsilon.exact": None},
    )
    figure = SweepFigure(name="f", x="epsilon.exact", y=("accuracy",))
    assert points_of(figure, jobs)["y"].tolist() == [0.5, 0.6]
    plot(figure, jobs[1:], tmp_path)
    plot(SweepFigure(name="c", curve="asked"), jobs[:0], tmp_path)
    assert not list(tmp_path.iterdir())
    plot(figure, jobs, tmp_path)
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {"f.svg", "f.png"}
