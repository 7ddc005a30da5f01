"""Curves and figures, of runs and of sweeps; and a sweep's table of any keys."""

import csv
import json
import stat
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from conftest import TEACHERS, VOTES, Nzc
from matplotlib.figure import Figure
from PIL import Image
from pydantic import ValidationError

from nzc.mechanisms import count_votes
from nzc.runs import plots, sweep_plots
from nzc.runs.curves import curves_of, read_curves, write_curves
from nzc.runs.layout import CURVES, Job
from nzc.runs.sweep_spec import SweepFigure
from nzc.runs.sweep_table import SweepTable
from nzc.teachers import VoteHistograms
from nzc.validation import InputError

OWN = [*VOTES, "teachers.path=votes.npy", "teachers.labels=labels.npy"]
SWEEP = """# @package _global_
hydra:
  mode: MULTIRUN
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


def test_matplotlib_is_imported_only_to_draw(histograms: Path) -> None:
    script = "import sys; from nzc.app.main import main; main(); print('matplotlib' in sys.modules)"
    for drawn, imported in (("false", "False"), ("true", "True")):
        command = [sys.executable, "-c", script, *OWN, "tracking=none", f"figures={drawn}"]
        ran = subprocess.run(command, cwd=histograms.parent, capture_output=True, text=True, timeout=300, check=True)
        assert ran.stdout.endswith(f"{imported}\n")


def test_the_confusion_is_of_the_released_labels() -> None:
    axes = Figure().subplots()
    plots._confusion(axes, np.array([0, 0, 0, 0, 1, 2]), np.array([0, 0, 0, 1, 1, 0]))
    shares = np.square(np.asarray(axes.images[0].get_array()))
    assert shares == pytest.approx(np.array([[0.75, 0.25, 0], [0, 1, 0], [1, 0, 0]]))
    assert sorted(text.get_text() for text in axes.texts) == ["100", "100", "25.0", "75.0"]


def test_a_sweep_has_a_table_and_figures(nzc: Nzc) -> None:
    Path("sweeps").mkdir()
    Path("sweeps/mine.yaml").write_text(SWEEP)
    ran = nzc("+sweeps=mine", *TEACHERS[1:], "student=none", "aggregator=plurality", "figures=null")
    assert ran.code == 0, ran.err
    folder = next(ran.folder.glob("outputs/sweeps/*/*"))
    assert _drawn(folder / "figures") == {"accuracy", "gaps"}
    assert not list(folder.glob("[0-9]/figures"))
    heads, _, *lines = [line.strip("| ").split(" | ") for line in (folder / "table.md").read_text().splitlines()[2:]]
    few, many = (dict(zip(heads, line, strict=True)) for line in lines)
    teachers = [result["teachers"] for result in ran.results]
    assert (few["one teacher: paper"], many["one teacher: paper"]) == ("25.0 %", "–")
    assert (few["ensemble: paper"], many["ensemble: paper"]) == ("–", "75.0 %")
    for line, of in ((few, teachers[0]), (many, teachers[1])):
        assert line["one teacher: measured"] == f"{100 * of['mean_accuracy']:.1f} %"
        assert line["ensemble: measured"] == f"{100 * of['ensemble_accuracy']:.1f} %"


def test_a_wrong_key_of_a_figure_loses_nothing(nzc: Nzc) -> None:
    wrong = {
        "{name: a, x: teachers.cont, y: accuracy}": ["sweep.figures.a.x=teachers.cont", "teachers.count"],
        "{name: b, x: seed, y: aggregator}": ["sweep.figures.b.y=aggregator", "number", "gnmax"],
        "{name: c, curve: gap}": ["sweep.figures.c.curve=gap", "gap_above"],
    }
    Path("sweeps").mkdir()
    Path("sweeps/mine.yaml").write_text(SWEEP + "".join(f"    - {figure}\n" for figure in wrong))
    ran = nzc("+sweeps=mine", *TEACHERS[1:], "student=none", "aggregator=gnmax", "figures=null")
    assert ran.code == 2
    for line, names in zip(ran.err.splitlines(), wrong.values(), strict=True):
        assert all(name in line for name in names)
    assert len(ran.results) == 2
    assert _drawn(next(ran.folder.glob("outputs/sweeps/*/*/figures"))) == {"accuracy", "gaps"}


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


def _job(folder: Path, row: dict, result: dict, **config: object) -> Job:
    (folder / ".hydra").mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(result))
    (folder / ".hydra" / "config.yaml").write_text(json.dumps(config))
    return Job(folder, row, folder.name)


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
    assert {tuple(line.get_xydata()[0]) for line in hollow} == {(0.01, 0.6), (1, 0.6)}
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
    with pytest.raises(InputError, match=r"sweep\.figures\.a\.by=gama"):
        _axes(jobs, x="accuracy", y="epsilon.exact", by="gama")
