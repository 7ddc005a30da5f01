"""The table of a sweep from a DataFrame of jobs: any keys, seeds, warnings, and width."""

from typing import Any

from conftest import parametrize
from pandas import DataFrame

from nzc.sweeps.spec import SweepSpec
from nzc.sweeps.table import SweepTable, cell

INF = float("inf")


def _jobs(*jobs: dict[str, Any]) -> DataFrame:
    common = {"error": None, "overrides": []}
    return DataFrame(
        [{"job": number, **common, **job} for number, job in enumerate(jobs)], dtype=object
    )


def test_columns_that_a_file_names_stand_in_the_table() -> None:
    """Shares, ε (rounded up), other numbers (to the nearest), text, and nothing; of two seeds."""
    same = {
        "epsilon.published": 1.0001,
        "epsilon.data_independent": 1.0001,
        "metrics.majority": 0.5,
        "metrics.cost": None,
        "seconds.total": 3.0001,
        "audit": False,
        "accuracy_interval": [0.25, 0.5],
    }
    jobs = _jobs(
        *(
            {"name": "a", "metrics.f1": 0.1234 + seed, "mechanism": f"m{seed}", **same}
            for seed in (0, 1)
        )
    )
    columns = ["seconds.total", "audit", "mechanism", "accuracy_interval", "metrics.cost"]
    columns += ["metrics.majority", "data_independent"]  # which no table shows by itself
    cells = SweepTable(jobs, columns=SweepSpec(columns=columns).columns).cells
    assert cells.loc["a"].to_dict() == {
        "seconds.total": "3.000",
        "audit": "false",
        "mechanism": "m0; m1",
        "accuracy_interval": "0.25, 0.5",
        "f1": "0.623 ± 0.707",
        "cost": "–",
        "majority rate": "50.0 %",
        "ε published": "1.001",
        "ε data-independent": "1.001",
    }
    assert [*SweepTable(jobs).cells] == ["f1", "ε published"]


def test_a_table_shows_the_papers_value_before_the_measured() -> None:
    paper = {"paper.accuracy": 0.6, "paper.epsilon.exact": 2, "paper.epsilon": "> 8"}
    jobs = _jobs(
        {"name": "a", "accuracy": 0.005, "epsilon.exact": 0.01, **paper},
        {"name": "b", "accuracy": 0.5, "epsilon.exact": 1.0, **paper},
    )
    table = SweepTable(jobs, ["answered"])
    heads = ["student: paper", "student: measured", "ε: paper"]
    assert table.headings == ["run", *heads, "ε exact: paper", "ε exact: measured"]
    assert table.lines == [
        ["a", "60.0 %", "0.5 %", "> 8", "2", "0.010"],
        ["b", "60.0 %", "50.0 %", "> 8", "2", "1.000"],
    ]
    assert not table.notes


def test_warnings_of_seeds_are_one_line() -> None:
    said = [["90.1 % are right"], ["90.2 % are right", "few labels"], [], None]
    names = ["a", "a", "b", "b"]
    jobs = _jobs(
        *(
            {"name": name, "accuracy": 0.5, "warnings": warnings}
            for name, warnings in zip(names, said, strict=True)
        )
    )
    table = SweepTable(jobs)
    assert [line.split()[:3] for line in table.warnings] == [["2", "of", "4"], ["1", "of", "4"]]
    for line in table.warnings:
        assert line in table.markdown()
    assert not SweepTable(jobs[2:]).warnings


@parametrize(
    ("key", "values", "shown"),
    [
        ("accuracy", [0.9, 0.92, 0.94], "92.0 ± 2.0 %"),
        ("epsilon.exact", [1.0, 2.0], "1.500 ± 0.707"),
        ("epsilon.exact", [1.0, INF], "∞"),
        ("epsilon.published", [0.1, 0.1, 0.1], "0.100"),  # their float64 sum is above 0.3
        ("answered", [1000, 3000], "2,000 ± 1,414"),
        ("accuracy", [0.9, None], "–"),
    ],
)
def test_a_cell_of_several_seeds_is_mean_and_deviation(
    key: str, values: list[float], shown: str
) -> None:
    assert cell(key, values) == shown
