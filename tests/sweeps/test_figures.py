"""The points and figures of a sweep, and its table of any keys, from a DataFrame of jobs."""

from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from pandas import DataFrame
from rich.console import Console

from nzc.runs.curves import write_curves
from nzc.sweeps.figures import Drawing, draw_curves, draw_lines
from nzc.sweeps.jobs import SweepFigure
from nzc.sweeps.table import SweepTable, cell

INF = float("inf")


def _jobs(*jobs: dict[str, Any]) -> DataFrame:
    common = {"folder": Path(), "error": None, "row": None, "overrides": []}
    return DataFrame(
        [{"job": at, "run": at + 1, **common, **job} for at, job in enumerate(jobs)], dtype=object
    )


#: Two aggregators at γ = 0.01 and 1, with two seeds each; what the second costs is infinite.
JOBS = _jobs(
    *(
        {"name": f"{name} {gamma}", "row": name, "aggregator.gamma": gamma, "accuracy": gamma / 2 + seed / 10,
         "epsilon.exact": INF if name == "nzc" else gamma, "paper.accuracy": 0.6, "paper.epsilon.exact": 2,
         "paper.epsilon": "> 8"}
        for name in ("lnmax", "nzc") for gamma in (0.01, 1.0) for seed in (0, 1)
    )
)  # fmt: skip


def _axes(jobs: DataFrame, **declared: object) -> Any:
    axes = Figure().subplots()
    draw_lines(axes, Drawing(SweepFigure.model_validate({"name": "a", **declared}), jobs))
    return axes


def test_columns_that_a_file_names_stand_in_the_table_whatever_they_hold() -> None:
    """Shares, counts, ε (rounded up), other numbers (to the nearest), text, and nothing; means over
    seeds.
    """
    jobs = DataFrame([
        {"name": name, "error": None, "epsilon.published": 1.0001, "epsilon.data_independent": 1.0001,
         "metrics.f1": 0.1234 + seed, "metrics.majority": 0.5, "metrics.cost": None, "seconds.total": 3.0001,
         "aggregator.sigma": sigma, "audit": False, "mechanism": f"m{seed}", "accuracy_interval": [0.25, 0.5],
         "overrides": [f"aggregator.c={seed}"]}
        for seed in (0, 1) for name, sigma in (("a", 5), ("b", 0.05))
    ], dtype=object)  # fmt: skip
    keys = [
        "seconds.total",
        "aggregator.sigma",
        "audit",
        "mechanism",
        "accuracy_interval",
        "metrics.cost",
    ]
    keys += [
        "metrics.majority",
        "data_independent",
    ]  # which no table shows where they say nothing new
    shown = SweepTable(jobs, columns=keys).columns
    assert {name: cells[1] for name, cells in shown.items()} == {
        "seconds.total": "3.000", "aggregator.sigma": "0.050", "audit": "false", "mechanism": "m0; m1",
        "accuracy_interval": "0.25, 0.5", "f1": "0.623 ± 0.707", "cost": "–", "majority rate": "50.0 %",
        "ε published": "1.001", "ε data-independent": "1.001",
    }  # fmt: skip
    assert [*shown][:5] == keys[:5] and shown["aggregator.sigma"] == ["5", "0.050"]
    assert [*SweepTable(jobs).columns] == ["f1", "ε published"]


def test_lines_are_means_over_runs_with_the_papers_points_hollow() -> None:
    axes = _axes(JOBS, x="aggregator.gamma", y="accuracy", by="row")
    assert axes.get_legend_handles_labels()[1] == ["lnmax", "nzc"]
    lines = {
        line.get_label(): line.get_xydata().tolist()
        for line in axes.lines
        if line.get_linestyle() != "None"
    }
    assert lines == {
        name: [[0.01, pytest.approx(0.055)], [1, pytest.approx(0.55)]] for name in ("lnmax", "nzc")
    }
    hollow = [line for line in axes.lines if line.get_markerfacecolor() == "white"]
    assert {tuple(point) for line in hollow for point in line.get_xydata()} == {
        (0.01, 0.6),
        (1, 0.6),
    }
    assert axes.get_xscale() == "log"
    assert (
        len({line.get_marker() for line in axes.lines})
        == len({line.get_color() for line in axes.lines})
        == 2
    )


def test_without_by_a_line_joins_the_runs_of_one_row_where_rows_are_sweeps() -> None:
    for jobs, lines in (JOBS, ["lnmax", "nzc"]), (JOBS[:4], [""]), (JOBS[:5], ["lnmax", "nzc"]):
        drawn = Drawing(SweepFigure(name="a", x="aggregator.gamma", y=("accuracy",)), jobs)
        assert list(drawn.points["group"].unique()) == lines
    single = JOBS.assign(row=JOBS["name"])  # each row is one point of the line
    drawn = Drawing(SweepFigure(name="a", x="aggregator.gamma", y=("accuracy",)), single)
    assert set(drawn.points["group"]) == {""} and "one line per" not in drawn.caption


def test_a_line_that_joins_different_rows_names_the_by_that_parts_them() -> None:
    def jobs(*settings: list[str], **same: object) -> DataFrame:
        made = [
            {"name": str(own), "row": str(own), "overrides": own, "accuracy": 0.5, **same}
            for own in settings
        ]
        return _jobs(
            *(
                {**job, "epsilon.exact": at + 1.0, "queries": 9, "aggregator": at}
                for at, job in enumerate(made)
            )
        )

    def warned(jobs: DataFrame, **declared: object) -> str:
        return Drawing(
            SweepFigure.model_validate({"name": "f", "y": "accuracy", **declared}), jobs
        ).joined

    unlike, alike = (
        jobs(["aggregator=lnmax"], ["aggregator=gnmax", "aggregator.sigma=9"]),
        jobs(["delta=1"], ["delta=2"]),
    )
    assert "differ in aggregator: `by: [aggregator]`" in warned(unlike, x="epsilon.exact")
    assert (
        warned(unlike, x="epsilon.exact", by="aggregator") == warned(alike, x="epsilon.exact") == ""
    )  # a frontier
    assert "differ in delta: `by: [row]`" in warned(alike, x="queries")  # a mean of two settings
    assert (
        warned(alike, x="delta")
        == warned(jobs(["seed=1"], ["seed=2"], name="one"), x="queries")
        == ""
    )
    assert "`by: [row, delta]`" in warned(
        jobs(["delta=1"], ["delta=2"], row="one"), x="queries", by="row"
    )


def test_warnings_of_seeds_are_one_line_without_regard_to_their_numbers() -> None:
    said = [["90.1 % are right"], ["90.2 % are right", "few labels"], [], None]
    jobs = _jobs(
        *({"name": f"job {at // 2}", "accuracy": 0.5, "warnings": of} for at, of in enumerate(said))
    )
    table = SweepTable(jobs)
    assert [line[-1] for line in table.lines] == ["2 of 2", "0 of 2"]
    assert [line.split()[:3] for line in table.warnings] == [["2", "of", "4"], ["1", "of", "4"]]
    assert (
        all(line in table.markdown() for line in table.warnings)
        and not SweepTable(jobs[2:]).warnings
    )


def test_curves_of_one_run_by_several_seeds_are_one_entry(tmp_path: Path) -> None:
    for at in range(3):
        (tmp_path / str(at)).mkdir()
        write_curves(tmp_path / str(at), {"epsilon_exact": (np.arange(5), np.arange(5.0) + at)})
    jobs = _jobs(
        *({"name": name, "folder": tmp_path / str(at)} for at, name in enumerate(["a", "a", "b"]))
    )
    axes = Figure().subplots()
    draw_curves(axes, Drawing(SweepFigure(name="c", curve="epsilon_exact"), jobs))
    assert axes.get_legend_handles_labels()[1] == ["a", "b"]
    colors = [line.get_color() for line in axes.lines]
    assert colors[0] == colors[1] != colors[2]
    Drawing(SweepFigure(name="c", curve="epsilon_exact"), jobs).plot(tmp_path)
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {"c.svg", "c.png"}
    assert Drawing(SweepFigure(name="c", curve="asked"), jobs).empty == "no run has this curve"


def test_what_is_infinite_stands_at_the_top() -> None:
    axes = _axes(JOBS, x="aggregator.gamma", y=["epsilon.exact"], by="row")
    assert [(note.get_text(), note.xy) for note in axes.texts] == [("∞", (0.01, 1)), ("∞", (1, 1))]
    lines = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
    assert lines["lnmax"] == [[0.01, 0.01], [1, 1]] and lines["nzc"] == []


def test_seeds_are_a_mean_and_a_band_also_where_x_is_measured() -> None:
    few = [
        {"name": "few", "queries": 10, "accuracy": 0.5 + n / 10, "epsilon.exact": 1 + n}
        for n in range(3)
    ]
    many = [{"name": "many", "queries": 100, "accuracy": 0.8, "epsilon.exact": 10}] * 3
    for x, places in (("queries", (10, 100)), ("epsilon.exact", (2, 10))):
        axes = _axes(_jobs(*few, *many), x=x, y="accuracy")
        (line,) = axes.lines
        assert line.get_xydata().tolist() == [
            [places[0], pytest.approx(0.6)],
            [places[1], pytest.approx(0.8)],
        ]
        corners = {(x, round(y, 9)) for x, y in axes.collections[0].get_paths()[0].vertices}
        assert corners == {(places[0], 0.5), (places[0], 0.7), (places[1], 0.8)}
        assert axes.get_title(loc="left") == "mean of 3 seeds; band: smallest to largest"
    assert _axes(_jobs(few[2], many[0]), x="queries", y="accuracy").get_title(loc="left") == ""


def test_a_figure_names_what_it_leaves_out(tmp_path: Path) -> None:
    jobs = _jobs(
        {"name": "a", "accuracy": 0.5, "epsilon.exact": 1.0, "aggregator.sigma": 5},
        {"name": "b", "accuracy": 0.6, "epsilon.exact": INF},
        {"name": "c", "accuracy": None, "epsilon.exact": None, "aggregator.sigma": 7},
    )
    figure = SweepFigure(name="f", x="epsilon.exact", y=("accuracy",), by=("aggregator.sigma",))
    drawing = Drawing(figure, jobs)
    assert (
        drawing.caption.endswith("Without a value, left out: c. At the edge, as ∞: b.")
        and not drawing.empty
    )
    assert drawing.points["group"].tolist() == ["aggregator.sigma 5", "", "aggregator.sigma 7"]
    empty = Drawing(figure, jobs[1:])
    assert empty.empty == "no run has finite values of ε exact and student"
    empty.plot(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_table_shows_any_key_and_only_what_is_there() -> None:
    table = SweepTable(JOBS[:4:2], ["answered"])
    heads = [
        "run",
        "student: paper",
        "student: measured",
        "ε: paper",
        "ε exact: paper",
        "ε exact: measured",
    ]
    assert table.headings == heads
    assert table.lines == [
        ["lnmax 0.01", "60.0 %", "0.5 %", "> 8", "2", "0.010"],
        ["lnmax 1.0", "60.0 %", "50.0 %", "> 8", "2", "1.000"],
    ]
    assert not table.notes


def test_a_table_shows_mechanisms_that_change_with_what_was_not_typed() -> None:
    def shown(*jobs: tuple[list[str], str]) -> list[str]:
        rows = [
            {"name": str(at), "overrides": texts, "mechanism": text}
            for at, (texts, text) in enumerate(jobs)
        ]
        table = SweepTable(_jobs(*rows))
        return [line[1] for line in table.lines] if "mechanism" in table.headings else []

    digits, mnist = (
        "Confident(threshold=50, sigma1=30, sigma=15)",
        "Confident(threshold=200, sigma1=150, sigma=40)",
    )
    same = ["aggregator=confident", "seed=1"]
    assert shown(([*same, "dataset=digits"], digits), ([*same, "dataset=mnist"], mnist)) == [
        digits,
        mnist,
    ]
    assert not shown(([*same, "dataset=digits"], digits), ([*same, "dataset=mnist"], digits))
    # What was typed says it: the aggregator, its noise, a budget, a recipe, the baseline, or who
    # votes.
    assert not shown(
        (["aggregator=gnmax"], "GNMax(sigma=40)"), (["aggregator=lnmax"], "LNMax(gamma=0.05)")
    )
    assert not shown(
        (["aggregator.sigma=1"], "GNMax(sigma=1)"), (["aggregator.sigma=2"], "GNMax(sigma=2)")
    )
    assert not shown(
        (["budget.epsilon=1"], "GNMax(sigma=2)"), (["budget.epsilon=2"], "GNMax(sigma=1)")
    )
    assert not shown(([], "GNMax(sigma=2)"), (["baseline=true"], "DPSGD(mu=1, units=9)"))
    assert not shown(
        ([], "GNMax(sigma=2)"),
        (["teachers=cells"], "GNMax(sigma=2, adjacency=OwnCells(records=1))"),
    )
    # Noise of one budget that depends on the number of queries; five digits are enough.
    queries = (
        (["budget.epsilon=1", "queries=9"], "GNMax(sigma=1.23456789)"),
        (["budget.epsilon=1"], "GNMax(sigma=2)"),
    )
    assert shown(*queries) == ["GNMax(sigma=1.2346)", "GNMax(sigma=2)"]


@pytest.mark.parametrize(
    ("key", "values", "shown"),
    [
        ("accuracy", [0.9, 0.92, 0.94], "92.0 ± 2.0 %"),
        ("epsilon.exact", [1.0, 2.0], "1.500 ± 0.707"),
        ("epsilon.exact", [1.0, INF], "∞"),
        ("answered", [1000, 3000], "2,000 ± 1,414"),
        ("answered", [1000, 1000], "1,000"),
        ("accuracy", [0.9, None], "–"),
        ("accuracy", [], "–"),
    ],
)
def test_a_cell_of_several_seeds_is_mean_and_deviation(
    key: str, values: list[float], shown: str
) -> None:
    assert cell(key, values) == shown


@pytest.mark.parametrize("width", [60, 90, 160])
def test_no_number_of_a_table_is_broken_on_a_terminal(width: int) -> None:
    costs = {f"epsilon_{n}": 10**6 + n / 1000 for n in range(12)}
    name = "Confident, aggregator.sigma=12345.678, queries=1,000"
    jobs = _jobs(
        *(
            {"name": name, "accuracy": 0.5 + seed / 100, "answered": 123456, **costs}
            for seed in range(2)
        )
    )
    table = SweepTable(jobs, list(costs))
    Console(width=width, file=(out := StringIO())).print(table)
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    words = {word for line in lines for word in line.split()}
    assert {text.split()[0] for text in table.lines[0][1:]} | {
        "aggregator.sigma=12345.678,",
        "queries=1,000",
    } <= words
