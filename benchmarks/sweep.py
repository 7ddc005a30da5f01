"""A grid of aggregators over stored votes, in one process, against as many separate runs, and against training again.

What is reported are seconds a run, and ratios. Separate runs are all alike, so that a few of them stand for all.

    python benchmarks/sweep.py [--points 100] [--separate 5] [OVERRIDE ...]     such as dataset=mnist teachers.count=250
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
    """How long `nzc` takes with these overrides, its start included."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "nzc", *overrides, "student=none"]
    subprocess.run(command, cwd=folder, env=os.environ, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=100, help="of the grid")
    parser.add_argument("--separate", type=int, default=5, help="separate runs, and trainings, that are timed")
    args, overrides = parser.parse_known_args()

    sigmas = [str(10 + at) for at in range(args.points)]
    with TemporaryDirectory() as folder:
        path = Path(folder)
        again = [seconds(path, f"paths.store=store{at}", *overrides) for at in range(args.separate)]
        alone = [
            seconds(path, "paths.store=store0", f"aggregator.sigma={s}", *overrides) for s in sigmas[: args.separate]
        ]
        grid = seconds(path, "--multirun", "paths.store=store0", f"aggregator.sigma={','.join(sigmas)}", *overrides)
    one = grid / args.points
    show(f"{args.points} settings of an aggregator, {' '.join(overrides) or 'the default run'}")
    for name, value in {
        "one process, teachers stored": one,
        "a process each, teachers stored": sum(alone) / len(alone),
        "a process each, teachers trained": sum(again) / len(again),
    }.items():
        show(f"{name:33} {value:7.2f} s a setting   {value / one:.1f} ×")


if __name__ == "__main__":
    main()
