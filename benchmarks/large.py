"""More private records than memory holds: seconds and peak memory of a run that is killed halfway and then resumed.

The records are numbers in a folder of .npy files, or glyphs, which are drawn; teachers take one pass over them.

    python benchmarks/large.py                            20 million records of 30 columns, 2,000 teachers
    python benchmarks/large.py --glyphs                   20 million glyphs instead
    python benchmarks/large.py --records 2000000 --teachers 200
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from nzc.runs.formatting import show

CLASSES, PUBLIC = 10, 2_000
_WAIT = 0.2


def write_records(folder: Path, rows: int, columns: int) -> None:
    """Write x.npy and y.npy: each class is a cloud about a point of its own."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(CLASSES, columns)).astype(np.float32)
    y = rng.integers(0, CLASSES, rows)
    x = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float32, (rows, columns))
    for first in range(0, rows, 2**18):
        own = y[first : first + 2**18]
        x[first : first + len(own)] = centres[own] + rng.normal(size=(len(own), columns)).astype(np.float32)
    np.save(folder / "y.npy", y)


def start(folder: Path, overrides: list[str]) -> subprocess.Popen[bytes]:
    """Start the command in a process group of its own."""
    command = [sys.executable, "-m", "nzc", *overrides, "hydra.run.dir=run"]
    with open(folder / "out.txt", "wb") as out:
        return subprocess.Popen(command, cwd=folder, stdout=out, stderr=out, start_new_session=True)


def watch(process: subprocess.Popen[bytes], work: Path, most: int) -> tuple[float, int]:
    """Wait until the process ends, or `most` teachers are trained: then kill it. Return seconds and peak bytes."""
    begun = time.perf_counter()
    peak = 0
    while process.poll() is None:
        with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
            peak = max([peak, *(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))])
        if len(list(work.glob(".nzc/predictions/*.work/*.npz"))) >= most:
            os.killpg(process.pid, signal.SIGKILL)
        time.sleep(_WAIT)
    return time.perf_counter() - begun, peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=20_000_000, help="private records (default 20,000,000)")
    parser.add_argument("--teachers", type=int, default=2_000)
    parser.add_argument("--columns", type=int, default=30, help="numbers of a record (default 30)")
    parser.add_argument("--glyphs", action="store_true", help="glyphs of 28 × 28 pixels instead")
    parser.add_argument("--folder", type=Path, help="where the records and the run are written (default: temporary)")
    args = parser.parse_args()

    with TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        overrides = ["recipe=papers", "student=none", "tracking=none", "queries=1000", "figures=false",
                     f"teachers.count={args.teachers}", "teachers.epochs=1", "teachers.network=mlp",
                     "teachers.augment=null"]  # fmt: skip
        if args.glyphs:
            overrides += ["dataset=glyph", f"dataset.private={args.records}", f"dataset.public={PUBLIC}"]
        else:
            begun = time.perf_counter()
            rows = args.records + 2 * PUBLIC
            write_records(folder, rows, args.columns)
            show(f"{rows:,} records of {args.columns} columns written in {time.perf_counter() - begun:.0f} s")
            shares = [f"dataset.private={args.records / rows!r}", f"dataset.public={PUBLIC / rows!r}"]
            overrides += ["dataset=npz", "dataset.path=.", *shares, "dataset.classes=10"]
        seconds, peak = watch(start(folder, overrides), folder, args.teachers // 2)
        done = len(list(folder.glob(".nzc/predictions/*.work/*.npz")))
        show(f"killed after {done:,} of {args.teachers:,} teachers: {seconds:.0f} s, at most {peak / 2**30:.2f} GiB")
        again = start(folder, overrides)
        seconds, peak = watch(again, folder, args.teachers + 1)
        show(f"resumed: {seconds:.0f} s, at most {peak / 2**30:.2f} GiB, exit code {again.returncode}")
        if again.returncode:
            sys.exit((folder / "out.txt").read_text())
        result = json.loads((folder / "run" / "result.json").read_text())
        show(f"{result['label_accuracy']:.1%} of {result['queries']:,} labels are right; seconds {result['seconds']}")


if __name__ == "__main__":
    main()
