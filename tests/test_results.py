"""docs/results.py: evidence of a sweep, the pages made of it, and changes that the check finds."""

import importlib.util
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import VOTES, RunNzc, parametrize, write
from pytest import MonkeyPatch, raises

from nzc.app.config import HOME
from nzc.validation import InputError

SWEEP = """# @package _global_
sweep:
  command: NZC_DATA=FOLDER nzc +sweeps=mine
  rows:
    - {name: noisy, set: [aggregator=lnmax, aggregator.gamma=0.1], paper: {label_accuracy: 0.9}}
    - {name: NZC, set: [aggregator=nzc]}
  figures:
    - {name: cost, x: epsilon.published, y: [label_accuracy]}
hydra:
  mode: MULTIRUN
  sweeper:
    params:
      seed: 3,4
teachers:
  path: ${oc.env:NZC_DATA}/votes.npy
  labels: ${oc.env:NZC_DATA}/labels.npy
"""
TABLE = """<!-- table
of: [mine]
cells: {paper: paper.label_accuracy, right: label_accuracy, ε: epsilon.published, seeds: seeds}
-->
<!-- end -->
![Cost](results/mine_cost.svg)

*…*
Of NZC <!--= mine: NZC: label_accuracy -->0 %<!--/--> are right.
"""


@pytest.fixture
def results(tmp_path: Path, monkeypatch: MonkeyPatch) -> Any:
    """docs/results.py of a copy of the pages and their evidence."""
    shutil.copytree(HOME / "docs", tmp_path / "docs")
    shutil.copy(HOME / "README.md", tmp_path)
    spec = importlib.util.spec_from_file_location("results", tmp_path / "docs" / "results.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "_code", lambda: "now")
    return module


def _change(path: Path, pattern: str) -> None:
    """Change the last digit of what a pattern finds first."""
    text = path.read_text(encoding="utf-8")
    found = re.search(pattern, text)
    assert found is not None
    place = found.end() - 1
    other = str((int(text[place]) + 1) % 10)
    path.write_text(text[:place] + other + text[place + 1 :], encoding="utf-8")


def test_pages_are_as_their_evidence(results: Any) -> None:
    assert list(results.differences()) == []


@parametrize(
    ("page", "pattern"),
    [
        ("README.md", r" -->\d"),
        ("README.md", r"│ +\d"),
        ("docs/results_papers.md", r"-->\n\n\|.*\n.*\n.*\d"),
    ],
)
def test_a_changed_digit_of_a_page_is_found_and_mended(
    results: Any, page: str, pattern: str
) -> None:
    path = results.HOME / page
    before = path.read_text(encoding="utf-8")
    _change(path, pattern)
    assert next(results.differences())  # the first: to look at all pages takes seconds
    assert results.made(path.read_text(encoding="utf-8")) == before


@parametrize("file", ["first_run.csv", "run.txt"])
def test_a_changed_digit_of_evidence_is_found(results: Any, file: str) -> None:
    _change(results.EVIDENCE / file, r"(?s).*\d")
    with raises(InputError, match="changed by hand"):
        list(results.differences())


def test_a_sweep_leaves_its_evidence(
    results: Any, run_nzc: RunNzc, monkeypatch: MonkeyPatch
) -> None:
    """Its table is made of the file; ε that are released again are equal, and others are found."""
    monkeypatch.setenv("NZC_DATA", str(Path.cwd()))
    monkeypatch.setattr(results, "_code_of", lambda commit: "then")
    monkeypatch.setattr(results, "EVIDENCE", Path.cwd() / "evidence")
    page = Path.cwd() / "page.md"
    page.write_text(TABLE)
    monkeypatch.setattr(results, "HOME", Path.cwd())
    monkeypatch.setattr(results, "PAGES", [page])
    np.save("votes.npy", np.random.default_rng(0).multinomial(250, [0.4, 0.35, 0.25], 20))
    np.save("labels.npy", np.zeros(20, int))
    write("sweeps/mine.yaml", SWEEP)
    ran = run_nzc("+sweeps=mine", "queries=20", "figures=null", *VOTES)
    (folder,) = ran.folder.glob("outputs/sweeps/*/*")
    for path in folder.glob("*/result.json"):
        result = json.loads(path.read_text())
        result["versions"]["commit"] = "abc"  # a checkout with changes is refused
        path.write_text(json.dumps(result))
    results.take(folder)
    text = results.made(TABLE)
    page.write_text(text)
    assert "*4 runs on votes of a file, seed 3, 4: label accuracy (%) against ε published;" in text
    assert list(results.differences()) == []
    noisy, nzc_row = text.split("| --- |")[1].splitlines()[1:3]
    assert re.fullmatch(r"\| noisy \| 90\.0 % \| .+ % \| \d+\.\d+ \| 2 \|", noisy)
    assert "∞" in nzc_row and nzc_row.split(" | ")[2] in text.splitlines()[-1]
    assert "`NZC_DATA=DIR nzc +sweeps=mine queries=20" in text and str(ran.folder) not in text
    evidence = results.read("mine")
    assert list(results.changed()) == []
    wrong = evidence.rows.assign(**{"epsilon.exact": 0.5})
    results.write(results.Evidence("mine", evidence.source, wrong))
    results.read.cache_clear()
    assert len(list(results.changed())) == 1  # no ε of NZC is finite
    assert list(results.differences()) == ["mine_cost.svg: must be as it was drawn, of its file"]
    page.write_text("")
    assert list(results.differences()) == ["mine.csv: must be shown by a page: its marks have gone"]
