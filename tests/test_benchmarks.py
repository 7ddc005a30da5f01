"""Benchmarks: gpu.py runs whole in its smallest form, so that it works at the first try where a GPU is lent."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

GPU = Path(__file__).parents[1] / "benchmarks" / "gpu.py"


@pytest.mark.parametrize(
    "parts",
    [
        ["machine", "agree"],
        pytest.param(
            ["--minutes=40", "engine", "step", "many", "label", "augment", "students", "overhead"],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_every_part_of_the_gpu_benchmark_runs(parts: list[str], tmp_path: Path) -> None:
    command = [sys.executable, GPU, "--small", "--out=gpu.json", *parts]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    measured = json.loads((tmp_path / "gpu.json").read_text())["parts"]
    assert list(measured) == [part for part in parts if not part.startswith("--")]
    for name, part in measured.items():
        assert part["error"] is None and part["figures"], name
        assert [figure["error"] for figure in part["figures"]] == [None] * len(part["figures"]), name
    for figure in measured.get("agree", {"figures": []})["figures"]:
        if "NaN" in figure["name"]:
            assert figure["value"] is True
        elif "logit" in figure["name"]:
            assert figure["value"] < 1e-8
        else:
            assert figure["value"] > 0.99
