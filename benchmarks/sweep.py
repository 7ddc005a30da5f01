"""A grid of aggregators over stored votes in one process, against a process for each setting.

    python benchmarks/sweep.py [--points 40] [--separate 5] [--launcher NAME ...] [--evidence]
    [OVERRIDE ...]

The figures are seconds of the clock for one setting, each printed when it is known. All separate
processes are alike, so a few stand for all. `--launcher joblib --launcher ray_cluster` also times
the grid with these launchers, which use all cores. Overrides, such as dataset=mnist
teachers.count=250, hold for every run. `--evidence` leaves docs/results/benchmark_sweep.csv.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

sys.path.append(str(Path(__file__).parents[1] / "docs"))

import results  # docs/results.py

STORE = "paths.store=stored"


def seconds(folder: str, *overrides: str) -> float:
    """Return how many seconds `nzc` takes with these overrides, imports included."""
    begun = time.perf_counter()
    command = [sys.executable, "-m", "nzc", "student=none", "tracking=none", *overrides]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def measured(arguments: argparse.Namespace, overrides: list[str]) -> Iterator[tuple[str, float]]:
    """Yield how settings are run, and the seconds that one of them then takes."""
    sigmas = [str(10 + at) for at in range(arguments.points)]
    separate = sigmas[: arguments.separate]
    grid = ["--multirun", STORE, f"aggregator.sigma={','.join(sigmas)}", *overrides]
    with TemporaryDirectory() as folder:
        trained = [
            seconds(folder, f"paths.store=store{sigma}", f"aggregator.sigma={sigma}", *overrides)
            for sigma in separate
        ]
        yield "a process for each setting, which trains the teachers", sum(trained) / len(separate)
        seconds(folder, STORE, *overrides)  # now the teachers are stored
        stored = [
            seconds(folder, STORE, f"aggregator.sigma={sigma}", *overrides) for sigma in separate
        ]
        yield "a process for each setting, stored teachers", sum(stored) / len(separate)
        yield "one process for all settings", seconds(folder, *grid) / len(sigmas)
        for name in arguments.launcher:
            took = seconds(folder, f"hydra/launcher={name}", *grid)
            yield f"hydra/launcher={name}", took / len(sigmas)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", type=int, default=40, help="settings of the grid (default 40)")
    parser.add_argument("--separate", type=int, default=5, help="separate runs (default 5)")
    parser.add_argument("--launcher", action="append", default=[], help="repeatable")
    parser.add_argument("--evidence", action="store_true")
    arguments, overrides = parser.parse_known_args()
    begun = time.perf_counter()
    rows = []
    for name, took in measured(arguments, overrides):
        print(f"{took:8.2f} s   {name}", flush=True)
        rows.append({"name": name, "seconds": took})
    if arguments.evidence:
        table = pd.DataFrame(rows)
        one_process = table.seconds[table.name == "one process for all settings"].item()
        table["times"] = table.seconds / one_process
        command = " ".join(["python benchmarks/sweep.py", *sys.argv[1:]])
        source = results.source_of(command, begun)
        results.write(results.Evidence("benchmark_sweep", source, table))


if __name__ == "__main__":
    main()
