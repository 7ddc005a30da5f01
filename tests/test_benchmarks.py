"""Benchmarks: gpu.py runs whole in its smallest form, so that it works at the first try where a GPU is lent."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

GPU = Path(__file__).parents[1] / "benchmarks" / "gpu.py"


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, GPU, *arguments], cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize(
    "parts",
    [
        ["machine", "agree", "engine"],
        pytest.param(["--minutes=40", "step", "many", "label", "augment", "students"], marks=pytest.mark.slow),
    ],
)
def test_every_part_of_the_gpu_benchmark_runs(parts: list[str], tmp_path: Path) -> None:
    run = _run(tmp_path, "--small", "--out=gpu.json", *parts)
    assert run.returncode == 0, run.stderr
    found = json.loads((tmp_path / "gpu.json").read_text())["parts"]
    assert list(found) == [part for part in parts if not part.startswith("--")]
    for name, part in found.items():
        assert part["error"] is None, name
        assert [figure["error"] for figure in part["figures"]] == [None] * len(part["figures"]), name
        assert part["figures"], name
    for figure in found.get("agree", {"figures": []})["figures"]:
        if "NaN" in figure["name"]:
            assert figure["value"] is True
        elif "logit" in figure["name"]:
            assert figure["value"] < 1e-8
        else:
            assert figure["value"] > 0.99


@pytest.mark.slow
def test_a_part_that_takes_too_long_is_stopped_and_the_next_one_starts(tmp_path: Path) -> None:
    run = _run(tmp_path, "--small", "--minutes=0.01", "--out=gpu.json", "students", "machine")
    assert run.returncode == 0, run.stderr
    found = json.loads((tmp_path / "gpu.json").read_text())["parts"]
    assert found["students"]["error"] == "stopped: its budget was used up"


@pytest.mark.slow
def test_files_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text("mine")
    run = _run(tmp_path, "--out=mine.json", "machine")
    assert run.returncode == 2
    assert "--out=mine.json: must not exist" in run.stderr
    assert (tmp_path / "mine.json").read_text() == "mine"
