"""Curves and figures, of runs and of sweeps; and a sweep's table of any keys."""

import csv
import json
import stat
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from conftest import TEACHERS, VOTES, Nzc
from matplotlib.figure import Figure
from PIL import Image
from pydantic import ValidationError
from rich.console import Console

from nzc.mechanisms import count_votes
from nzc.runs import plots, sweep_plots
from nzc.runs.curves import SIZES, curves_of, read_curves, write_curves
from nzc.runs.layout import CURVES, Job, flatten
from nzc.runs.result import result_types
from nzc.runs.sweep_lines import lines_of, notes_of
from nzc.runs.sweep_spec import SweepFigure
from nzc.runs.sweep_table import SweepTable
from nzc.teachers import VoteHistograms

OWN = [*VOTES, "teachers.path=votes.npy", "teachers.labels=labels.npy"]
SWEEP = """# @package _global_
defaults: [override /recipe: papers, override /student: none]
hydra:
  mode: MULTIRUN
teachers: {epochs: 20}
aggregator: {sigma: 3}
sweep:
  rows:
    - {name: few, set: [teachers.count=2], paper: {mean_accuracy: 0.25}}
    - {name: many, set: [teachers.count=8], paper: {ensemble_accuracy: 0.75}}
  figures:
    - {name: accuracy, x: teachers.count, y: [ensemble_accuracy, mean_accuracy]}
    - {name: gaps, curve: gap_above}
"""


def _drawn(folder: Path) -> set[str]:
    """The figures of a folder, each both as SVG that parses and as PNG that is not blank."""
    for path in folder.glob("*.svg"):
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
    for path in folder.glob("*.png"):
        dark = np.asarray(Image.open(path).convert("L")) < 128
        assert 0.002 < dark.mean() < 0.5
    names = {path.stem for path in folder.iterdir()}
    assert {path.name for path in folder.iterdir()} == {f"{name}.{kind}" for name in names for kind in ("svg", "png")}
    return names


def _gap(row: np.ndarray) -> int:
    largest = max(row)
    others = list(row)
    others.remove(largest)
    return largest - max(others)


def test_gap_shares_are_counts_of_rows(nzc: Nzc) -> None:
    votes = np.random.default_rng(0).multinomial(9, [0.4, 0.4, 0.2], size=60)
    votes[:3] = [[4, 4, 1], [3, 3, 3], [9, 0, 0]]
    np.save("votes.npy", votes)
    gaps = [_gap(row) for row in votes.tolist()]
    assert gaps.count(0) > 2
    ran = nzc(*VOTES, "teachers.path=votes.npy", "queries=40", "aggregator=confident", "aggregator.threshold=5",
              "aggregator.sigma1=1")  # fmt: skip
    for n in (2, 3):
        assert ran.result["teachers"][f"gap_above_{n}"] == sum(gap > n for gap in gaps) / 60
    folder = next(ran.folder.glob("outputs/*/*"))
    found = read_curves(folder)
    for n, share in zip(*found["gap_above"], strict=True):
        assert share == pytest.approx(sum(gap > n for gap in gaps) / 60, abs=1e-12)
    answered = {int(row["row"]) for row in csv.DictReader((folder / "labels.csv").read_text().splitlines())}
    assert 0 < len(answered) < 40
    for gap, asked, passed in zip(*found["asked"], found["answered"][1], strict=True):
        assert asked == gaps[:40].count(gap)
        assert passed == sum(gaps[row] == gap for row in answered)
    assert stat.S_IMODE((folder / CURVES).stat().st_mode) == 0o600


def test_one_teacher_never_leads_by_two() -> None:
    votes = VoteHistograms(count_votes([[0, 1, 1]], 2), 1, np.array([0, 1, 0]))
    assert votes.summary["gap_above_2"] == 0
    found = curves_of(votes.votes, np.arange(3), np.zeros(3, int), (np.arange(0), {}))
    assert found["gap_above"][1].tolist() == [1, 0]
    assert VoteHistograms.of_truth(np.array([0, 1]), 2).summary["gap_above_2"] is None


def test_curves_of_very_many_teachers_are_short() -> None:
    teachers = 2 * 10**9
    votes = np.array([[teachers - 10, 10], [teachers // 2, teachers // 2], [teachers // 4, 3 * teachers // 4]])
    found = curves_of(votes, np.arange(3), np.zeros(3, int), (np.arange(0), {}))
    x, above = found["gap_above"]
    assert len(x) <= SIZES
    np.testing.assert_allclose(above[[0, len(x) // 4, 3 * len(x) // 4]], [2 / 3, 2 / 3, 1 / 3])
    assert found["asked"][1].sum() == found["plurality"][1].sum() == 3
    axes = Figure().subplots()
    plots._gaps(axes, found)
    assert axes.get_xlim()[1] == pytest.approx(teachers, rel=0.05)


def test_a_run_has_its_figures(nzc: Nzc, histograms: Path) -> None:
    ran = nzc(*OWN, "aggregator=confident", "aggregator.threshold=30", "figures=null")
    assert ran.code == 0, ran.err
    folder = next(ran.folder.glob("outputs/*/*/figures"))
    assert _drawn(folder) == {"gaps", "cost", "confusion"}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    nzc(*OWN, "aggregator=confident", "figures=false")
    assert len(list(ran.folder.glob("outputs/*/*"))) == 2
    assert len(list(ran.folder.glob("outputs/*/*/figures"))) == 1


def test_what_was_answered_is_dark_where_all_was_answered_too() -> None:
    for answered, shades in (([0, 2, 1], ["asked", "answered"]), ([1, 2, 1], ["answered"])):
        axes = Figure().subplots()
        counts = {name: (np.arange(3), np.array(y)) for name, y in {"asked": [1, 2, 1], "answered": answered}.items()}
        plots._gaps(axes, counts)
        assert [patch.get_label() for patch in axes.patches] == shades
        assert axes.patches[-1].get_facecolor()[0] < 0.5


def test_the_confusion_is_of_the_released_labels() -> None:
    axes = Figure().subplots()
    plots._confusion(axes, np.array([0, 0, 0, 0, 1, 2]), np.array([0, 0, 0, 1, 1, 0]))
    shares = np.square(np.asarray(axes.images[0].get_array()))
    assert shares == pytest.approx(np.array([[0.75, 0.25, 0], [0, 1, 0], [1, 0, 0]]))
    assert sorted(text.get_text() for text in axes.texts) == ["100", "100", "25.0", "75.0"]


def test_a_sweep_has_a_table_and_figures(nzc: Nzc) -> None:
    Path("sweeps").mkdir()
    Path("sweeps/mine.yaml").write_text(SWEEP)
    ran = nzc("+sweeps=mine", "trainer.progress=false", "trainer.accelerator=cpu", "figures=null")
    assert ran.code == 0, ran.err
    folder = next(ran.folder.glob("outputs/sweeps/*/*"))
    assert _drawn(folder / "figures") == {"accuracy", "gaps"}
    assert not list(folder.glob("[0-9]/figures"))
    heads, _, *lines = [line.strip("| ").split(" | ") for line in (folder / "table.md").read_text().splitlines()[2:6]]
    few, many = (dict(zip(heads, line, strict=True)) for line in lines)
    teachers = [result["teachers"] for result in ran.results]
    assert (few["one teacher: paper"], many["one teacher: paper"]) == ("25.0 %", "–")
    assert (few["ensemble: paper"], many["ensemble: paper"]) == ("–", "75.0 %")
    for line, of in ((few, teachers[0]), (many, teachers[1])):
        assert line["one teacher: measured"] == f"{100 * of['mean_accuracy']:.1f} %"
        assert line["ensemble: measured"] == f"{100 * of['ensemble_accuracy']:.1f} %"


@pytest.mark.parametrize(
    ("figure", "names"),
    [
        ("{name: a, x: teachers.count}", ["sweep.figures.2=", "x and y", "curve"]),
        ("{name: a, curve: asked, x: seed, y: accuracy}", ["sweep.figures.2=", "x and y", "curve"]),
        ("{name: a/b, curve: asked}", ["sweep.figures.2.name=a/b", "pattern"]),
        ("{name: a, curves: asked}", ["sweep.figures.2.curves=asked", "curve"]),
        ("{name: a, curve: asked, ylim: [2, 1]}", ["sweep.figures.2=", "smaller number first"]),
        ("{name: a, x: seed, y: 3}", ["sweep.figures.2.y.0=3", "text"]),
        ("{name: a, x: [seed], y: accuracy}", ["sweep.figures.2.x=['seed']", "text"]),
        ("{name: a, x: seed, y: accuracy, by: [[seed]]}", ["sweep.figures.2.by.0=['seed']", "text"]),
        ("asked", ["sweep.figures.2=asked", "SweepFigure"]),
        ("{name: a, curve: asked, by: seed}", ["sweep.figures.2=", "by and points"]),
        (
            "{name: a, x: teachers.cont, y: accuracy}",
            ["sweep.figures.a.x=teachers.cont", "did you mean teachers.count?"],
        ),
        ("{name: a, x: seed, y: acuracy}", ["sweep.figures.a.y=acuracy", "did you mean accuracy?"]),
        ("{name: a, x: seed, y: aggregator}", ["sweep.figures.a.y=aggregator", "number"]),
        ("{name: a, x: teachers.network, y: accuracy}", ["sweep.figures.a.x=teachers.network", "number", "mlp"]),
        ("{name: a, x: budget.epsilon, y: accuracy}", ["sweep.figures.a.x=budget.epsilon", "a value in at least one"]),
        ("{name: a, x: seed, y: accuracy, by: gama}", ["sweep.figures.a.by=gama", "key"]),
        ("{name: a, curve: gap}", ["sweep.figures.a.curve=gap", "gap_above"]),
        ("{name: gaps, curve: asked}", ["sweep.figures.name=gaps", "one figure"]),
    ],
)
def test_a_wrong_figure_is_said_before_anything_runs(nzc: Nzc, figure: str, names: list[str]) -> None:
    Path("sweeps").mkdir()
    Path("sweeps/mine.yaml").write_text(SWEEP + f"    - {figure}\n")
    ran = nzc("+sweeps=mine", *TEACHERS[1:], "student=none")
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert all(name in ran.err for name in names)
    assert [path.name for path in ran.folder.iterdir()] == ["sweeps"]


def _job(folder: Path, row: dict, result: dict, name: str = "", **config: object) -> Job:
    (folder / ".hydra").mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(result))
    (folder / ".hydra" / "config.yaml").write_text(json.dumps(config))
    return Job(folder, row, name or folder.name)


@pytest.fixture
def jobs(tmp_path: Path) -> list[Job]:
    """Two aggregators at γ = 0.01 and 1, with two seeds each; what the second costs is infinite."""
    return [
        _job(
            tmp_path / f"{name}{gamma}{seed}",
            {"name": name, "paper": {"accuracy": 0.6, "exact": 2, "epsilon": "> 8"}},
            {"accuracy": gamma / 2 + seed / 10, "epsilon": {"exact": "inf" if name == "nzc" else gamma}},
            aggregator={"gamma": gamma, "name": name},
        )
        for name in ("lnmax", "nzc")
        for gamma in (0.01, 1.0)
        for seed in (0, 1)
    ]


def _axes(jobs: list[Job], **declared: object):
    axes = Figure().subplots()
    sweep_plots._by_key(axes, SweepFigure.model_validate({"name": "a", **declared}), jobs)
    return axes


def test_lines_are_means_over_runs_with_the_papers_points_hollow(jobs: list[Job]) -> None:
    axes = _axes(jobs, x="aggregator.gamma", y="accuracy", by="aggregator.name")
    lines = {line.get_label(): line.get_xydata().tolist() for line in axes.lines if line.get_linestyle() != "None"}
    assert lines == {name: [[0.01, pytest.approx(0.055)], [1, pytest.approx(0.55)]] for name in ("lnmax", "nzc")}
    hollow = [line for line in axes.lines if line.get_markerfacecolor() == "white"]
    assert {tuple(point) for line in hollow for point in line.get_xydata()} == {(0.01, 0.6), (1, 0.6)}
    assert axes.get_xscale() == "log"
    assert axes.get_xticks().tolist() == [0.01, 1]
    looks = {(line.get_marker(), line.get_color()) for line in axes.lines}
    assert len({marker for marker, _ in looks}) == len({colour for _, colour in looks}) == 2


def test_points_of_another_program_are_hollow_and_lines_go_by_row(jobs: list[Job]) -> None:
    points = [{"name": "other", "x": [0.1, 10], "y": [0.2, 0.3]}]
    axes = _axes(jobs, x="aggregator.gamma", y="accuracy", by="row", points=points)
    assert axes.get_legend_handles_labels()[1] == ["lnmax", "nzc", "other"]
    other = axes.lines[-1]
    assert other.get_xydata().tolist() == [[0.1, 0.2], [10, 0.3]] and other.get_markerfacecolor() == "white"
    with pytest.raises(ValidationError, match="as many x as y"):
        _axes(jobs, x="aggregator.gamma", y="accuracy", points=[{"name": "other", "x": [1], "y": []}])


def test_curves_of_one_run_by_several_seeds_are_one_entry(tmp_path: Path) -> None:
    jobs = []
    for at, name in enumerate(["a", "a", "b"]):
        (folder := tmp_path / str(at)).mkdir()
        write_curves(folder, {"epsilon_exact": (np.arange(5), np.arange(5.0) + at)})
        jobs.append(Job(folder, {}, name))
    axes = Figure().subplots()
    sweep_plots._curve_of_each(axes, SweepFigure(name="c", curve="epsilon_exact"), jobs)
    assert axes.get_legend_handles_labels()[1] == ["a", "b"]
    colours = [line.get_color() for line in axes.lines]
    assert colours[0] == colours[1] != colours[2]


def test_runs_can_be_told_by_their_number(tmp_path: Path) -> None:
    jobs = [_job(tmp_path / str(at), {}, {"answered": 10 - at}) for at in range(3)]
    (line,) = _axes(jobs, x="run", y="answered").lines
    assert line.get_xydata().tolist() == [[1, 10], [2, 9], [3, 8]]


def test_what_is_infinite_stands_at_the_top(jobs: list[Job]) -> None:
    axes = _axes(jobs, x="aggregator.gamma", y=["epsilon.exact"], by="aggregator.name")
    assert [(note.get_text(), note.xy) for note in axes.texts] == [("∞", (0.01, 1)), ("∞", (1, 1))]
    lines = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
    assert lines["lnmax"] == [[0.01, 0.01], [1, 1]]
    assert lines["nzc"] == []


def test_a_table_shows_any_key_and_only_what_is_there(jobs: list[Job]) -> None:
    table = SweepTable(jobs[:4:2], ["aggregator.gamma"])
    assert table.headings == ["run", "student: paper", "student: measured", "ε: paper", "ε exact: paper",
                             "ε exact: measured"]  # fmt: skip
    assert table.lines == [
        ["lnmax0.010", "60.0 %", "0.5 %", "> 8", "2", "0.010"],
        ["lnmax1.00", "60.0 %", "50.0 %", "> 8", "2", "1.000"],
    ]


def _seeds(folder: Path, name: str, results: list[dict], **config: object) -> list[Job]:
    """Jobs of one name, which differ in their seed."""
    return [_job(folder / f"{name}{seed}", {}, result, name, **config) for seed, result in enumerate(results)]


def test_seeds_are_a_mean_and_a_band_also_where_x_is_measured(tmp_path: Path) -> None:
    few = [{"accuracy": 0.5 + seed / 10, "epsilon": {"exact": 1 + seed}} for seed in range(3)]
    many = [{"accuracy": 0.8, "epsilon": {"exact": 10}}] * 3
    jobs = [*_seeds(tmp_path, "few", few, queries=10), *_seeds(tmp_path, "many", many, queries=100)]
    for x, places in (("queries", (10, 100)), ("epsilon.exact", (2, 10))):
        axes = _axes(jobs, x=x, y="accuracy")
        (line,) = axes.lines
        assert line.get_xydata().tolist() == [[places[0], pytest.approx(0.6)], [places[1], pytest.approx(0.8)]]
        (band,) = axes.collections
        corners = {(x, round(y, 9)) for x, y in band.get_paths()[0].vertices}
        assert corners == {(places[0], 0.5), (places[0], 0.7), (places[1], 0.8)}
        assert axes.get_title(loc="left") == "mean of 3 seeds; band: smallest to largest"
    assert "mean of up to 3 seeds" in _axes(jobs[:-1], x="queries", y="accuracy").get_title(loc="left")
    assert _axes(jobs[2:4], x="queries", y="accuracy").get_title(loc="left") == ""


def test_a_figure_says_what_it_leaves_out(tmp_path: Path) -> None:
    jobs = [
        _job(tmp_path / "a", {}, {"accuracy": 0.5, "epsilon": {"exact": 1.0}}, aggregator={"sigma": 5}),
        _job(tmp_path / "b", {}, {"accuracy": 0.6, "epsilon": {"exact": "inf"}}, aggregator={"gamma": 0.1}),
        _job(tmp_path / "c", {}, {"accuracy": None, "epsilon": {"exact": None}}, aggregator={"sigma": 7}),
    ]
    figure = SweepFigure(name="f", x="epsilon.exact", y=["accuracy"], by=["aggregator.sigma"])
    assert notes_of(figure, jobs) == (
        ["Without ε exact, left out: c.", "Without student, left out: c.", "At the edge, as ∞: b."], ""
    )  # fmt: skip
    assert [line.group for line in lines_of(figure, jobs).lines] == ["aggregator.sigma 5", "", "aggregator.sigma 7"]
    sweep_plots.plot_sweep(tmp_path, figure, jobs[1:])
    assert notes_of(figure, jobs[1:])[1] == "no run has finite values of ε exact and student"
    assert not (tmp_path / "figures").exists()


def test_result_json_has_the_keys_that_its_types_say(nzc: Nzc, histograms: Path) -> None:
    ran = nzc(*OWN, "aggregator=lnmax", "queries=20")
    known, found = result_types(), flatten(ran.result)
    sections = tuple(key for key in known if key.endswith("."))
    assert set(sections) == {"versions.", "metrics.recall."}
    assert {key for key in found if not key.startswith(sections)} - {"data"} <= set(known)
    for key, value in found.items():
        if isinstance(value, int | float | str) and value != "inf" and key in known:
            assert isinstance(value, known[key]) or (float in known[key] and isinstance(value, int))


@pytest.mark.parametrize("width", [60, 90, 160])
def test_no_number_of_a_table_is_broken_on_a_terminal(tmp_path: Path, width: int) -> None:
    costs = {f"epsilon_{n}": 10**6 + n / 1000 for n in range(12)}
    results = [{"accuracy": 0.5 + seed / 100, "answered": 123456, **costs} for seed in range(2)]
    table = SweepTable(_seeds(tmp_path, "Confident, aggregator.sigma=12345.678, queries=1,000", results), list(costs))
    console = Console(width=width, file=StringIO())
    console.print(table)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    words = {word for line in lines for word in line.split()}
    assert {cell.split()[0] for cell in table.lines[0][1:]} <= words
    assert {"aggregator.sigma=12345.678,", "queries=1,000"} <= words
