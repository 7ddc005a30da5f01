"""More private records than memory holds: seconds and peak memory of a run that is killed halfway
and then resumed.

The records are numbers in a folder of .npy files; teachers take one pass over them.

    python benchmarks/large.py         20 million records of 30 columns, 2,000 teachers
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

CLASSES, PUBLIC = 10, 2_000


def write_records(folder: Path, rows: int, columns: int) -> None:
    """Write x.npy and y.npy: each class is a cloud about a point of its own."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(CLASSES, columns)).astype(np.float32)
    y = rng.integers(0, CLASSES, rows)
    x = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float32, (rows, columns))
    for first in range(0, rows, 2**18):
        own = y[first : first + 2**18]
        x[first : first + len(own)] = centres[own] + rng.normal(size=(len(own), columns)).astype(
            np.float32
        )
    np.save(folder / "y.npy", y)


def run(folder: Path, overrides: list[str], most: int) -> None:
    """Run nzc until it ends, or until `most` teachers are trained: then kill it.

    Print seconds and peak memory.
    """
    begun, peak = time.perf_counter(), 0
    command = [sys.executable, "-m", "nzc", *overrides, "hydra.run.dir=run"]
    with open(folder / "out.txt", "wb") as out:
        process = subprocess.Popen(
            command, cwd=folder, stdout=out, stderr=out, start_new_session=True
        )
    while process.poll() is None:
        with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
            peak = max(
                [
                    peak,
                    *(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM")),
                ]
            )
        if (trained := len(list(folder.glob(".nzc/predictions/*.work/*.npz")))) >= most:
            print(f"{trained:,} teachers are trained: killed")
            os.killpg(process.pid, signal.SIGKILL)
        time.sleep(0.2)
    print(
        f"exit code {process.returncode}, {time.perf_counter() - begun:.0f} s, "
        f"at most {peak / 2**30:.2f} GiB"
    )
    if process.returncode not in (0, -signal.SIGKILL):
        sys.exit((folder / "out.txt").read_text())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--records", type=int, default=20_000_000, help="private records (default 20,000,000)"
    )
    parser.add_argument("--teachers", type=int, default=2_000)
    parser.add_argument("--columns", type=int, default=30, help="numbers of a record (default 30)")
    parser.add_argument(
        "--folder", type=Path, help="where the records and the run are written (default: temporary)"
    )
    args = parser.parse_args()
    with TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        overrides = ["student=none", "tracking=none", "queries=1000", "figures=false",
                     f"teachers.count={args.teachers}", "teachers.epochs=1", "teachers.network=mlp",
                     "teachers.augment=null"]  # fmt: skip
        rows = args.records + 2 * PUBLIC
        write_records(folder, rows, args.columns)
        shares = [f"dataset.private={args.records / rows!r}", f"dataset.public={PUBLIC / rows!r}"]
        overrides += ["dataset=npz", "dataset.path=.", *shares, "dataset.classes=10"]
        run(folder, overrides, args.teachers // 2)
        run(folder, overrides, args.teachers + 1)
        result = json.loads((folder / "run" / "result.json").read_text())
        print(
            f"{result['label_accuracy']:.1%} of {result['queries']:,} labels are right; "
            f"seconds {result['seconds']}"
        )


if __name__ == "__main__":
    main()
