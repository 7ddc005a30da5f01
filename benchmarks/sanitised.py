"""What does publishing a data-dependent ε take? ε and time of the sanitised release beside the bound it hides.

python benchmarks/sanitised.py /root/data    (the folder that holds pate_votes/)
"""

import sys
import time
from pathlib import Path

import numpy as np

from nzc._types import Ints
from nzc.privacy import release
from nzc.privacy.conversion import epsilon
from nzc.privacy.theorem import Bound, gaussian_bound, laplace_bound


def sanitised(votes: Ints, bound: Bound, delta: float, draws: int = 21) -> dict[str, float]:
    """theorem ε (private), published ε (median and largest of `draws`), and seconds and µs a query of one release."""
    plan = release.plan(len(votes), [bound], delta)
    start = time.perf_counter()
    first = release.sanitise([(bound, votes)], plan, delta, np.random.default_rng(0)).epsilon
    seconds = time.perf_counter() - start
    more = [release.sanitise([(bound, votes)], plan, delta, np.random.default_rng(k)).epsilon for k in range(1, draws)]
    log_q = bound.log_flip(votes)
    return {
        "theorem": epsilon(lambda orders: bound.rdp(log_q, orders).sum(axis=0), delta)[0],
        "median": float(np.median([first, *more])),
        "largest": max(first, *more),
        "order": plan.order,
        "seconds": seconds,
        "us_a_query": 1e6 * seconds / len(votes),
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1]) / "pate_votes"
    for name, queries, delta in (
        ("mnist", 1000, 1e-5),
        ("mnist", 9000, 1e-5),
        ("svhn", 3000, 1e-6),
        ("adult", 1000, 1e-5),
    ):
        votes = np.load(folder / f"{name}_250_teachers.npy").astype(np.int64)[:queries]
        for noise, bound in (("gaussian 40", gaussian_bound(40)), ("laplace 0.05", laplace_bound(0.05))):
            print(name, queries, noise, {key: round(value, 3) for key, value in sanitised(votes, bound, delta).items()})
    rng = np.random.default_rng(0)
    for teachers, classes in ((250, 10), (5000, 10), (250, 150), (5000, 150)):
        shares = rng.dirichlet(np.full(classes, 0.1), size=2000)
        votes = np.stack([rng.multinomial(teachers, row) for row in shares])
        found = sanitised(votes, gaussian_bound(teachers / 6), 1e-5, draws=2)
        print(f"random votes, 2,000 queries, N={teachers}, K={classes}", {k: round(v, 3) for k, v in found.items()})
