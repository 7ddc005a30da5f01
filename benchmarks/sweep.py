"""A grid of aggregators over stored votes in one process, against separate runs, and against training each time.

The figures are seconds per setting, and their ratios. All separate runs are alike, so a few of them stand for all.

    python benchmarks/sweep.py [--points 100] [--separate 5] [OVERRIDE ...]     such as dataset=mnist teachers.count=250

`--launcher joblib --launcher ray_cluster` also times the grid with these launchers, which use all cores.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from nzc.runs.formatting import show


def seconds(folder: Path, *overrides: str) -> float:
    """Return how many seconds `nzc` takes with these overrides, imports included."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "nzc", "recipe=papers", *overrides, "student=none"]
    subprocess.run(command, cwd=folder, env=os.environ, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=100, help="settings of the grid (default 100)")
    parser.add_argument("--separate", type=int, default=5, help="separate runs of each kind that are timed (default 5)")
    parser.add_argument("--launcher", action="append", default=[], help="also time the grid with it (repeatable)")
    args, overrides = parser.parse_known_args()

    sigmas = [str(10 + at) for at in range(args.points)]
    grid = ["--multirun", "paths.store=store0", f"aggregator.sigma={','.join(sigmas)}", *overrides]
    with TemporaryDirectory() as folder:
        path = Path(folder)
        training = [seconds(path, f"paths.store=store{at}", *overrides) for at in range(args.separate)]
        stored = [
            seconds(path, "paths.store=store0", f"aggregator.sigma={s}", *overrides) for s in sigmas[: args.separate]
        ]
        shared = seconds(path, *grid) / args.points
        launched = {name: seconds(path, f"hydra/launcher={name}", *grid) / args.points for name in args.launcher}
    show(f"{args.points} settings of an aggregator, {' '.join(['recipe=papers', *overrides])}")
    for name, value in {
        "one process, teachers stored": shared,
        **{f"{name}, teachers stored": value for name, value in launched.items()},
        "a process each, teachers stored": sum(stored) / len(stored),
        "a process each, teachers trained": sum(training) / len(training),
    }.items():
        show(f"{name:33} {value:7.2f} s per setting   {value / shared:.1f} ×")


if __name__ == "__main__":
    main()
