"""Curves and figures of a run."""

import csv
import stat
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from conftest import VOTES, Nzc
from matplotlib.figure import Figure
from PIL import Image

from nzc.mechanisms import count_votes
from nzc.runs import plots
from nzc.runs.curves import SIZES, curves_of, read_curves
from nzc.runs.layout import CURVES, flatten
from nzc.runs.result import result_types
from nzc.teachers import VoteHistograms

OWN = [*VOTES, "teachers.path=votes.npy", "teachers.labels=labels.npy"]


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
    shares = np.asarray(axes.images[0].get_array()) / 100
    assert shares == pytest.approx(np.array([[0.75, 0.25, 0], [0, 1, 0], [1, 0, 0]]))
    assert sorted(text.get_text() for text in axes.texts) == ["100", "100", "25.0", "75.0"]


def test_result_json_has_the_keys_that_its_types_say(nzc: Nzc, histograms: Path) -> None:
    ran = nzc(*OWN, "aggregator=lnmax", "queries=20")
    known, found = result_types(), flatten(ran.result)
    sections = tuple(key for key in known if key.endswith("."))
    assert set(sections) == {"versions.", "metrics.recall."}
    assert {key for key in found if not key.startswith(sections)} - {"data"} <= set(known)
    for key, value in found.items():
        if isinstance(value, int | float | str) and value != "inf" and key in known:
            assert isinstance(value, known[key]) or (float in known[key] and isinstance(value, int))
