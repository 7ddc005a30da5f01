"""Does a long session use more and more resources? The default run, many times in one process, like a sweep's jobs.

Memory (RSS), open files and threads are measured after every run, and each result is compared with the first. The first
runs fill caches, so slopes are those of the second half.
"""

import argparse
import contextlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
from _nzc import progress
from _traces import result
from rich.table import Table

from nzc.app.main import main as nzc
from nzc.runs.formatting import show
from nzc.types import Floats

#: The largest growth per run, over the second half, that is not called a leak.
ALLOWED = {"memory (MB)": 0.5, "open files": 0.05, "threads": 0.05}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100, help="how many (default 100)")
    parser.add_argument("--keep", help="folder to work in, which is kept")
    parser.add_argument("override", nargs="*", help="of the default run, such as teachers.count=10 student.steps=200")
    chosen = parser.parse_args()
    if chosen.runs < 4:
        parser.error(f"--runs {chosen.runs}: must be 4 or more, because a slope needs two runs")
    folder = Path(chosen.keep or tempfile.mkdtemp(prefix="nzc-soak-")).absolute()
    folder.mkdir(exist_ok=True)
    os.chdir(folder)
    process, measured, results, begun = psutil.Process(), [], [], time.monotonic()
    for number in range(chosen.runs):
        sys.argv = ["nzc", "trainer.progress=false", *chosen.override]
        with Path("out.txt").open("w") as out, contextlib.redirect_stdout(out):
            nzc()
        results.append(result(max(folder.glob("outputs/*/*/result.json"))))
        measured.append((process.memory_info().rss / 1e6, len(os.listdir("/proc/self/fd")), process.num_threads()))
        memory, files, threads = measured[-1]
        spent = time.monotonic() - begun
        progress(
            f"{number + 1} of {chosen.runs} runs, {memory:.0f} MB, {files} files, {threads} threads, {spent:.0f} s"
        )
    for each in results:
        del each["epsilon"]["ledger_total"], each["ledger_trials"]
    same = sum(each == results[0] for each in results)
    if chosen.keep is None:
        shutil.rmtree(folder)
    sys.exit(_show_table(np.array(measured), same))


def _show_table(measured: Floats, same: int) -> int:
    """Show the measurements [runs, quantities]. Return 1 where a quantity grows or a result differs, else 0."""
    runs, half = len(measured), len(measured) // 2
    table = Table(title=f"{runs} runs in one process, {same} of {runs} results identical", title_style="bold")
    for name in ("", "first", "middle", "last", "largest", "slope per run"):
        table.add_column(name, justify="right" if name else "left")
    failed = same < runs
    for (name, allowed), values in zip(ALLOWED.items(), measured.T, strict=True):
        slope = float(np.polyfit(np.arange(runs - half), values[half:], 1)[0])
        failed |= slope > allowed
        numbers = (values[0], values[half], values[-1], values.max())
        table.add_row(name, *(f"{number:.0f}" for number in numbers), f"{slope:+.3f}")
    show(table)
    return int(failed)


if __name__ == "__main__":
    main()
