"""How long does accounting take, and what does it give? One row a run: ε exact, by theorem, sanitised; seconds; memory.

    python benchmarks/accounting.py --votes data/pate_votes      the published votes, and growth on synthetic ones
    python benchmarks/accounting.py                              synthetic votes only

Each row runs in a process of its own, so that its peak memory is its own.
"""

import argparse
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from nzc.mechanisms import NoisyArgmax
from nzc.mechanisms import GaussianNoise, GumbelNoise, LaplaceNoise
from nzc.mechanisms import ThresholdScreen
from nzc.accounting.rdp import ORDERS, to_epsilon
from nzc.accounting.sanitised import plan

MECHANISMS = {
    "gaussian": NoisyArgmax(GaussianNoise(40)),
    "laplace": NoisyArgmax(LaplaceNoise(0.05)),
    "gumbel": NoisyArgmax(GumbelNoise(0.05)),
    "confident": NoisyArgmax(GaussianNoise(40), screen=ThresholdScreen(300, 200)),
}


def synthetic(queries: int, classes: int, teachers: int) -> np.ndarray:
    """Histograms [queries, classes] of teachers that agree on some queries and not on others."""
    rng = np.random.default_rng(0)
    agree = rng.beta(4, 1, size=(queries, 1))
    rest = rng.dirichlet(np.full(classes - 1, 0.3), size=queries)
    return rng.multinomial(teachers, np.concatenate([agree, (1 - agree) * rest], axis=1))


def timed(call: Callable[[], float]) -> tuple[float, float]:
    """What it gives, and its seconds."""
    start = time.perf_counter()
    return call(), time.perf_counter() - start


def measure(name: str, votes: np.ndarray, delta: float) -> tuple[float, ...]:
    """ε exact, seconds, GiB; at the labels drawn: ε by theorem, seconds; ε sanitised, microseconds a query."""
    mechanism = MECHANISMS[name]
    exact, seconds = timed(lambda: epsilon(mechanism.exact_cost(votes).total, delta, ORDERS)[0])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    labels = mechanism.release(votes, np.random.default_rng(0))
    cost, draw = mechanism.cost(votes, labels), np.random.default_rng(1)
    theorem, by_theorem = timed(lambda: cost.theorem(delta) or np.nan)
    intended = plan([(len(votes), bound) for bound in mechanism.bounds], delta) if mechanism.bounds else None
    sanitised, by_release = timed(lambda: np.nan if intended is None else cost.sanitised(delta, draw, intended))
    return exact, seconds, peak, theorem, by_theorem, sanitised, 1e6 * by_release / len(votes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--votes", type=Path, help="folder of the published votes")
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--queries", type=int, default=1000, help="queries of the rows on classes and teachers")
    arguments = parser.parse_args()

    rows = []
    if arguments.votes:
        mnist, svhn = (np.load(arguments.votes / f"{name}_250_teachers.npy") for name in ("mnist", "svhn"))
        rows += [(f"mnist {len(mnist):,} x 10", name, mnist) for name in ("gaussian", "laplace", "gumbel")]
        rows += [("svhn 10,000 x 10", name, svhn[:10_000]) for name in ("confident", "laplace")]
    shapes = [(queries, 10, 250) for queries in (1000, 3000, 9000)]
    shapes += [(arguments.queries, classes, 250) for classes in (50, 150)]
    shapes += [(arguments.queries, 10, teachers) for teachers in (1000, 5000)]
    rows += [
        (f"{queries:,} x {classes}, {teachers:,} teachers", name, synthetic(queries, classes, teachers))
        for queries, classes, teachers in shapes
        for name in ("gaussian", "laplace")
    ]
    names = f"{'votes':30} {'mechanism':10} {'exact':>8} {'s':>7} {'GiB':>5}   {'theorem':>8} {'s':>6}"
    print(f"{names}   {'sanitised':>9} {'µs/query':>8}")
    for label, name, votes in rows:
        with ProcessPoolExecutor(1) as process:
            row = process.submit(measure, name, votes, arguments.delta).result()
        print(
            f"{label:30} {name:10} {row[0]:8.3f} {row[1]:7.2f} {row[2]:5.2f}   {row[3]:8.3f} {row[4]:6.2f}"
            f"   {row[5]:9.3f} {row[6]:8.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
