"""How long does accounting take, and what are the figures?

    python benchmarks/accounting.py --routes data/pate_votes     Rényi accounting and composition of the published votes
    python benchmarks/accounting.py --votes data/pate_votes      the published votes, and growth on synthetic ones
    python benchmarks/accounting.py                              synthetic votes only

`--routes` prints ε and seconds of both routes to the exact ε, and its lower bound. Otherwise each row shows Rényi ε, ε
by theorem, sanitised ε, and the seconds of each. Each row runs in a process of its own, so that the peak memory is that
of the row.
"""

import argparse
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np

from nzc import Confident, GNMax, LNMax
from nzc.accounting.composition import compose, steps
from nzc.accounting.rdp import ORDERS, to_epsilon
from nzc.accounting.sanitised import plan
from nzc.mechanisms import GaussianNoise, GumbelNoise, LaplaceNoise, NoisyArgmax, ThresholdScreen
from nzc.types import Ints

MECHANISMS = {
    "gaussian": NoisyArgmax(GaussianNoise(40)),
    "laplace": NoisyArgmax(LaplaceNoise(0.05)),
    "gumbel": NoisyArgmax(GumbelNoise(0.05)),
    "confident": NoisyArgmax(GaussianNoise(40), screen=ThresholdScreen(300, 200)),
}


def synthetic(queries: int, classes: int, teachers: int) -> Ints:
    """Return histograms [queries, classes] of teachers that agree on some queries and not on others."""
    rng = np.random.default_rng(0)
    agreement = rng.beta(4, 1, size=(queries, 1))
    rest = rng.dirichlet(np.full(classes - 1, 0.3), size=queries)
    return rng.multinomial(teachers, np.concatenate([agreement, (1 - agreement) * rest], axis=1))


def timed(call: Callable[[], float]) -> tuple[float, float]:
    """Return the value of a call, and its seconds."""
    start = time.perf_counter()
    return call(), time.perf_counter() - start


def measure(name: str, votes: Ints, delta: float) -> tuple[float, ...]:
    """Return exact ε, seconds and GiB; ε by theorem and seconds; sanitised ε and microseconds per query."""
    mechanism = MECHANISMS[name]
    exact, seconds = timed(lambda: to_epsilon(mechanism.pricing.exact(votes).total, delta, ORDERS)[0])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    labels = mechanism.release(votes, np.random.default_rng(0))
    cost, rng = mechanism.cost(votes, labels), np.random.default_rng(1)
    by_theorem = replace(cost, exact=None, worst_case=())  # a cost that has only the papers' bounds
    theorem, theorem_seconds = timed(lambda: by_theorem.epsilon(delta).theorem or np.nan)
    bounds = mechanism.pricing.bounds
    planned = plan([(len(votes), bound) for bound in bounds], delta) if bounds else None
    sanitised, sanitised_seconds = timed(lambda: np.nan if planned is None else cost.sanitised(delta, rng, planned))
    return exact, seconds, peak, theorem, theorem_seconds, sanitised, 1e6 * sanitised_seconds / len(votes)


#: Votes, queries, mechanism and δ of the rows of `--routes`.
ROUTES = [
    ("mnist", 100, LNMax(0.05), 1e-5),
    ("mnist", 1000, LNMax(0.05), 1e-5),
    ("mnist", 1000, GNMax(40), 1e-5),
    ("mnist", 9000, GNMax(40), 1e-5),
    ("svhn", 10_000, Confident(300, 200, 40), 1e-6),
    ("adult", 500, LNMax(0.05), 1e-5),
]


def routes(folder: Path) -> None:
    """Print Rényi ε, exact ε by composition, its lower bound, their ratio, and the seconds of both routes."""
    print(
        f"{'votes':14} {'mechanism':9} {'δ':>5} {'Rényi':>7} {'exact':>7} {'lower':>7} {'ratio':>7} {'s':>6} {'s':>6}"
    )
    for name, queries, mechanism, delta in ROUTES:
        cost = mechanism.pricing.exact(np.load(folder / f"{name}_250_teachers.npy")[:queries])
        start = time.perf_counter()
        renyi, order = to_epsilon(cost.total, delta)
        middle = time.perf_counter()
        found = [step for pairs, times in cost.laws() for step in steps(pairs, times)]
        lower, upper = compose(found, delta, renyi, order)
        seconds = middle - start, time.perf_counter() - middle
        kind = "Confident" if mechanism.screen else "GNMax" if isinstance(mechanism.noise, GaussianNoise) else "LNMax"
        print(
            f"{name:6} {queries:7,} {kind:9} {delta:5.0e} {renyi:7.4f} {upper:7.4f} {lower:7.4f} {upper / lower:7.4f}"
            f" {seconds[0]:6.1f} {seconds[1]:6.1f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--votes", type=Path, help="folder of the published votes")
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--queries", type=int, default=1000, help="queries of the rows with more classes or teachers")
    parser.add_argument("--routes", type=Path, help="folder of the published votes; compare both routes to exact ε")
    arguments = parser.parse_args()
    if arguments.routes:
        routes(arguments.routes)
        return

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
