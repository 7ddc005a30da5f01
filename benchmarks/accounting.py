"""How long does accounting take? Exact ε by composition and its lower bound, and Rényi ε, with the seconds of each.

    python benchmarks/accounting.py --routes data/pate_votes     the published votes
    python benchmarks/accounting.py                              synthetic votes: more queries, classes, teachers

Each row runs in a process of its own, so that the peak memory is that of the row.
"""

import argparse
import resource
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
SYNTHETIC = [(1000, 10, 250), (3000, 10, 250), (9000, 10, 250)]
SYNTHETIC += [(1000, 50, 250), (1000, 150, 250), (1000, 10, 1000), (1000, 10, 5000)]


def synthetic(queries: int, classes: int, teachers: int) -> Ints:
    """Return histograms [queries, classes] of teachers that agree on some queries and not on others."""
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
    return f"{renyi:8.4f} {seconds[0]:7.1f} {upper:9.4f} {lower:8.4f} {ratio} {seconds[1]:7.1f} {peak:6.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--routes", type=Path, metavar="FOLDER", help="folder of the published votes")
    parser.add_argument("--queries", type=int, help="at most so many queries")
    arguments = parser.parse_args()
    heads = f"{'Rényi':>8} {'s':>7} {'exact':>9} {'lower':>8} {'ratio':>7} {'s':>7} {'GiB':>6}"
    print(f"{'votes':30} {'mechanism':10} {heads}")
    rows = []
    for name, queries, kind, delta in PUBLISHED if arguments.routes else ():
        votes = np.load(arguments.routes / f"{name}_250_teachers.npy")[:queries][: arguments.queries]
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
