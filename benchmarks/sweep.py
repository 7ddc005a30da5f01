"""A grid of aggregators over stored votes in one process, against separate runs, and against
training each time.

The figures are seconds per setting, each printed when it is known. All separate runs are alike, so
a few stand for all.

    python benchmarks/sweep.py [--points 100] [--separate 5] [OVERRIDE ...]     such as
    dataset=mnist teachers.count=250

`--launcher joblib --launcher ray_cluster` also times the grid with these launchers, which use all
cores.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory


def seconds(folder: Path, *overrides: str) -> float:
    """Return how many seconds `nzc` takes with these overrides, imports included."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "nzc", *overrides, "student=none"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--points", type=int, default=100, help="settings of the grid (default 100)"
    )
    parser.add_argument(
        "--separate",
        type=int,
        default=5,
        help="separate runs of each kind that are timed (default 5)",
    )
    parser.add_argument(
        "--launcher", action="append", default=[], help="also time the grid with it (repeatable)"
    )
    args, overrides = parser.parse_known_args()

    sigmas, store = (
        [f"aggregator.sigma={10 + at}" for at in range(args.points)],
        "paths.store=store0",
    )
    grid = ["--multirun", store, ",".join(sigmas).replace(",aggregator.sigma=", ","), *overrides]
    settings = {
        "a process each, teachers trained": [
            [f"paths.store=store{at}", *overrides] for at in range(args.separate)
        ],
        "a process each, teachers stored": [
            [store, sigma, *overrides] for sigma in sigmas[: args.separate]
        ],
        "one process, teachers stored": [grid],
        **{
            f"{name}, teachers stored": [[f"hydra/launcher={name}", *grid]]
            for name in args.launcher
        },
    }
    print(f"{args.points} settings of an aggregator, {' '.join(overrides)}; seconds per setting:")
    with TemporaryDirectory() as folder:
        for name, commands in settings.items():
            spent = sum(seconds(Path(folder), *command) for command in commands)
            runs_grid = commands[0][-len(grid) :] == grid
            settings_run = args.points if runs_grid else len(commands)
            print(f"{name:33} {spent / settings_run:7.2f}")


if __name__ == "__main__":
    main()
