"""Benchmarks: gpu.py runs whole in its smallest form, so that it works at the first try where a GPU
is lent.
"""

import json
import subprocess
import sys
from pathlib import Path

GPU = Path(__file__).parents[1] / "benchmarks" / "gpu.py"


def test_the_gpu_benchmark_runs(tmp_path: Path) -> None:
    parts = ["machine", "agree"]
    command = [sys.executable, GPU, "--small", "--out=gpu.json", *parts]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    measured = json.loads((tmp_path / "gpu.json").read_text())["parts"]
    assert list(measured) == parts
    for name, part in measured.items():
        assert part["error"] is None and part["figures"], name
        assert [figure["error"] for figure in part["figures"]] == [None] * len(part["figures"]), (
            name
        )
