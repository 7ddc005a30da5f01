"""Does a long session wear out? The default run, many times in one process, as a sweep's jobs run.

Memory (RSS), open files and threads are read after every run, and each result is compared with the first. The first
runs fill caches: the slope is that of the second half.
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
from _nzc import progress, result
from rich.table import Table

from nzc.app.main import main as nzc
from nzc.runs.formatting import show

#: What may grow, and by how much a run, over the second half, before it is called a delta_cost.
ALLOWED = {"memory (MB)": 0.5, "open files": 0.05, "threads": 0.05}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100, help="how many (default 100)")
    parser.add_argument("--keep", help="a folder to work in; it stays")
    parser.add_argument("override", nargs="*", help="of the default run: teachers.count=10 student.steps=200")
    chosen = parser.parse_args()
    if chosen.runs < 4:
        parser.error("--runs: must be 4 or more, for a slope")
    folder = Path(chosen.keep or tempfile.mkdtemp(prefix="nzc-soak-")).absolute()
    folder.mkdir(exist_ok=True)
    os.chdir(folder)
    process, seen, results, begun = psutil.Process(), [], [], time.monotonic()
    for number in range(chosen.runs):
        sys.argv = ["nzc", "trainer.progress=false", *chosen.override]
        with Path("out.txt").open("w") as out, contextlib.redirect_stdout(out):
            nzc()
        results.append(result(max(folder.glob("outputs/*/*/result.json"))))
        seen.append((process.memory_info().rss / 1e6, len(os.listdir("/proc/self/fd")), process.num_threads()))
        memory, files, threads = seen[-1]
        took = time.monotonic() - begun
        progress(f"{number + 1} of {chosen.runs} runs, {memory:.0f} MB, {files} files, {threads} threads, {took:.0f} s")
    for each in results:
        del each["epsilon"]["ledger_total"]
    same = sum(each == results[0] for each in results)
    if chosen.keep is None:
        shutil.rmtree(folder)
    sys.exit(_tell(np.array(seen), same))


def _tell(seen: np.ndarray, same: int) -> int:
    runs, late = len(seen), len(seen) // 2
    table = Table(title=f"{runs} runs in one process, {same} of {runs} results identical", title_style="bold")
    for name in ("", "first", "middle", "last", "most", "slope a run"):
        table.add_column(name, justify="right" if name else "left")
    worn = same < runs
    for (name, allowed), values in zip(ALLOWED.items(), seen.T, strict=True):
        slope = float(np.polyfit(np.arange(runs - late), values[late:], 1)[0])
        worn |= slope > allowed
        numbers = (values[0], values[late], values[-1], values.max())
        table.add_row(name, *(f"{number:.0f}" for number in numbers), f"{slope:+.3f}")
    show(table)
    return int(worn)


if __name__ == "__main__":
    main()
