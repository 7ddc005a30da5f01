"""Seconds that short commands take in this checkout, and in another one for comparison.

    python benchmarks/startup.py [OTHER_CHECKOUT ...] [--rounds 5]

Commands alternate between the checkouts. A line gives the median wall seconds and processor seconds of each, and the
ratio of processor seconds, other to this.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

HERE = Path(__file__).parents[1]
VOTES = "recipe=papers teachers=votes teachers.path=V.npy dataset=none student=none aggregator=gnmax queries=1000"
COMMANDS = {
    "--version": "--version",
    "--help": "--help",
    "unknown key": "querys=10",
    "wrong value": "student.steps=0",
    "1,000 votes": VOTES,
    "stored run": "",
}


def seconds(checkout: Path, command: str, folder: Path) -> tuple[float, float]:
    """Return wall and processor seconds of `nzc COMMAND` in `folder`."""
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-m", "nzc", *command.split()], cwd=folder, env=environment, capture_output=True)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - start
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("others", nargs="*", type=Path, metavar="OTHER_CHECKOUT")
    parser.add_argument("--rounds", type=int, default=5, help="of which each figure is the median (default 5)")
    args = parser.parse_args()
    others = [path.absolute() for path in args.others]
    rng = np.random.default_rng(0)
    votes = np.stack([rng.multinomial(250, share) for share in rng.dirichlet(np.full(10, 0.1), 1000)])
    with tempfile.TemporaryDirectory() as place:
        folders = {checkout: Path(place) / str(number) for number, checkout in enumerate([*others, HERE])}
        for checkout, folder in folders.items():
            folder.mkdir()
            np.save(folder / "V.npy", votes)
            seconds(checkout, "", folder)  # the first run stores the teachers and makes MLflow's database
        for name, command in COMMANDS.items():
            taken = [
                {each: seconds(each, command, folder) for each, folder in folders.items()} for _ in range(args.rounds)
            ]
            found = [[median(one[each][kind] for one in taken) for kind in (0, 1)] for each in folders]
            told = " → ".join(f"{wall:5.2f} s wall {cpu:5.2f} s cpu" for wall, cpu in found)
            print(f"{name:12} {told}   {found[0][1] / found[-1][1]:.2f}", flush=True)


if __name__ == "__main__":
    main()
