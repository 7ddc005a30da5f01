"""How long does accounting take? Exact ε by composition and its lower bound, and Rényi ε, with the
seconds of each.

    python benchmarks/accounting.py --routes data/pate_votes     the published votes
    python benchmarks/accounting.py --run data/pate_votes        the run that a user starts, from
    the command to its end python benchmarks/accounting.py                              synthetic
    votes: more queries, classes, teachers

Each row runs in a process of its own, so that the peak memory is that of the row.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from nzc import Confident, GNMax, LNMax
from nzc.accounting.composition import compose
from nzc.accounting.exact import ExactCost
from nzc.accounting.rdp import to_epsilon
from nzc.mechanisms import NoisyArgmax
from nzc.types import Ints

MECHANISMS = {"LNMax": LNMax(0.05), "GNMax": GNMax(40), "Confident": Confident(300, 200, 40)}
#: Published votes, queries, mechanism and δ; synthetic votes: queries, classes, teachers.
PUBLISHED = [
    ("mnist", 100, "LNMax", 1e-5),
    ("mnist", 1000, "LNMax", 1e-5),
    ("mnist", 1000, "GNMax", 1e-5),
    ("mnist", 9000, "LNMax", 1e-5),
    ("mnist", 9000, "GNMax", 1e-5),
    ("svhn", 10_000, "Confident", 1e-6),
    ("adult", 500, "LNMax", 1e-5),
]
#: What `nzc` is told of the three longest: votes, queries, δ, and the aggregator with its noise.
RUNS = [
    ("mnist", 9000, 1e-5, "aggregator=gnmax aggregator.sigma=40"),
    ("mnist", 9000, 1e-5, "aggregator=lnmax aggregator.gamma=0.05"),
    (
        "svhn",
        10_000,
        1e-6,
        "aggregator=confident aggregator.threshold=300 aggregator.sigma1=200 aggregator.sigma=40",
    ),
]
SYNTHETIC = [(1000, 10, 250), (3000, 10, 250), (9000, 10, 250)]
SYNTHETIC += [(1000, 50, 250), (1000, 150, 250), (1000, 10, 1000), (1000, 10, 5000)]


def synthetic(queries: int, classes: int, teachers: int) -> Ints:
    """Return histograms [queries, classes] of teachers that agree on some queries and not on
    others.
    """
    rng = np.random.default_rng(0)
    agreement = rng.beta(4, 1, size=(queries, 1))
    rest = rng.dirichlet(np.full(classes - 1, 0.3), size=queries)
    return rng.multinomial(teachers, np.concatenate([agreement, (1 - agreement) * rest], axis=1))


def measure(mechanism: NoisyArgmax, votes: Ints, delta: float) -> str:
    """Return the figures of one row as text."""
    start = time.perf_counter()
    cost = mechanism.exact(votes)
    assert isinstance(cost, ExactCost)
    renyi, order = to_epsilon(cost.total, delta)
    middle = time.perf_counter()
    lower, upper = compose(cost.laws(), delta, renyi, order)
    seconds = middle - start, time.perf_counter() - middle
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    ratio = f"{upper / lower:7.4f}" if lower else "      –"
    figures = f"{renyi:8.4f} {seconds[0]:7.1f} {upper:9.4f} {lower:8.4f} {ratio}"
    return f"{figures} {seconds[1]:7.1f} {peak:6.2f}"


def started(folder: Path, name: str, queries: int, delta: float, aggregator: str) -> str:
    """Return seconds from the command to its end, and of the processor, of `nzc` on published
    votes.
    """
    votes = folder.resolve() / f"{name}_250_teachers.npy"
    settings = "dataset=none student=none query_choice=first tracking=none"
    settings = f"{settings} queries={queries} delta={delta}"
    with tempfile.TemporaryDirectory() as place:
        own = [f"teachers.path={votes}", f"paths.store={place}/store", f"hydra.run.dir={place}/run"]
        command = [
            sys.executable,
            "-m",
            "nzc",
            "teachers=votes",
            *settings.split(),
            *aggregator.split(),
            *own,
        ]
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return f"{seconds:7.1f} s, of the processor {after.ru_utime - before.ru_utime:7.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--routes", type=Path, metavar="FOLDER", help="folder of the published votes"
    )
    parser.add_argument("--queries", type=int, help="at most so many queries")
    parser.add_argument(
        "--run", type=Path, metavar="FOLDER", help="the same folder: time whole runs of nzc"
    )
    arguments = parser.parse_args()
    if arguments.run:
        for name, queries, delta, aggregator in RUNS:
            line = started(
                arguments.run, name, min(queries, arguments.queries or queries), delta, aggregator
            )
            print(f"{name:6} {queries:6,} {aggregator.split()[0]:22} {line}", flush=True)
        return
    heads = f"{'Rényi':>8} {'s':>7} {'exact':>9} {'lower':>8} {'ratio':>7} {'s':>7} {'GiB':>6}"
    print(f"{'votes':30} {'mechanism':10} {heads}")
    rows = []
    for name, queries, kind, delta in PUBLISHED if arguments.routes else ():
        votes = np.load(arguments.routes / f"{name}_250_teachers.npy")[:queries][
            : arguments.queries
        ]
        rows.append((f"{name}, {len(votes):,}, δ {delta:.0e}", kind, votes, delta))
    for queries, classes, teachers in () if arguments.routes else SYNTHETIC:
        votes = synthetic(queries, classes, teachers)[: arguments.queries]
        name = f"{len(votes):,} × {classes}, {teachers:,} teachers"
        rows += [(name, kind, votes, 1e-5) for kind in ("GNMax", "LNMax")]
    for name, kind, votes, delta in rows:
        with ProcessPoolExecutor(1) as process:
            line = process.submit(measure, MECHANISMS[kind], votes, delta).result()
        print(f"{name:30} {kind:10} {line}", flush=True)


if __name__ == "__main__":
    main()
