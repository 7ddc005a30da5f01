"""Does a long session use more and more memory, files or threads? The default run, many times in
one process.

All are measured after every run, and each result is compared with the first. The first runs fill
caches, so slopes are those of the second half.
"""

import argparse
import contextlib
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import psutil
from _nzc import progress, result, show_table

from nzc.app.main import main as nzc

#: The largest growth per run, over the second half, that is not called a leak.
ALLOWED = {"memory (MB)": 0.5, "open files": 0.05, "threads": 0.05}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=100, help="how many (default 100)")
    parser.add_argument(
        "override",
        nargs="*",
        help="of the default run, such as teachers.count=10 student.steps=200",
    )
    chosen = parser.parse_args()
    if chosen.runs < 4:
        parser.error(f"--runs {chosen.runs}: must be 4 or more, because a slope needs two runs")
    process, measured, results = psutil.Process(), [], []
    with tempfile.TemporaryDirectory(prefix="nzc-soak-") as folder, contextlib.chdir(folder):
        for number in range(chosen.runs):
            sys.argv = ["nzc", "trainer.progress=false", *chosen.override]
            with Path("out.txt").open("w") as out, contextlib.redirect_stdout(out):
                nzc()
            results.append(result(max(Path().glob("outputs/*/*/result.json"))))
            measured.append(
                (
                    process.memory_info().rss / 1e6,
                    len(os.listdir("/proc/self/fd")),
                    process.num_threads(),
                )
            )
            progress(f"{number + 1} of {chosen.runs} runs: {measured[-1]}")
    same, half, rows, failed = (
        sum(content == results[0] for content in results),
        chosen.runs // 2,
        [],
        False,
    )
    for (name, allowed), values in zip(ALLOWED.items(), np.array(measured).T, strict=True):
        slope = float(np.polyfit(np.arange(chosen.runs - half), values[half:], 1)[0])
        failed |= slope > allowed
        figures = (values[0], values[half], values[-1], values.max())
        rows.append((name, *(f"{figure:.0f}" for figure in figures), f"{slope:+.3f}"))
    title = f"{chosen.runs} runs in one process, {same} of {chosen.runs} results identical"
    show_table(title, ("", "first", "middle", "last", "largest", "slope per run"), rows)
    sys.exit(failed or same < chosen.runs)


if __name__ == "__main__":
    main()
