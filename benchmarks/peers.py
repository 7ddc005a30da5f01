"""nzc beside its peers: what do others take for the same, and what do they reach at the same ε?

    python benchmarks/peers.py [teachers] [accounting] [dp_sgd] [--root DIR] [--visits DIR]
    [--data NAME ...]

teachers    time and peak memory of MNIST's teachers: nzc's engine, a PyTorch loop, and a Lightning
            Trainer per teacher
accounting  ε of PATE's published votes: nzc, the formulas of Scalable PATE, and dp-accounting
dp_sgd      what Opacus learns from the features of nzc's own baseline. What nzc learns from them is
            in the evidence of the sweeps baseline_tables, published_mnist, published_fashion_mnist

Each part leaves docs/results/peers_PART.csv, with a row for each method; `times_…` is a figure over
nzc's. DIR has MNIST, FashionMNIST, adult/ and pate_votes/; `trials/visits.py` makes the visits.
Whatever is timed has a process of its own, on Linux. Opacus: pip install -e ".[dpsgd]".
"""

import argparse
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import log_ndtr

from nzc.types import AnyArray, Floats, Ints

HOME = Path(__file__).parents[1]
sys.path += [str(HOME / "trials"), str(HOME / "docs")]

import results  # noqa: E402 - docs/results.py

Row = dict[str, Any]

#: Figures of which the ratio to nzc's says something.
COMPARED = ("seconds", "processor_seconds", "megabytes", "epsilon")


def timed(work: Callable[[], Any]) -> tuple[Any, Row]:
    """Return what `work` returns, and what it took of the clock, the processor and the memory."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = _megabytes("VmRSS")
    begun = time.perf_counter()
    begun_processor = time.process_time()  # of all threads, for the system too
    value = work()
    took = {
        "seconds": time.perf_counter() - begun,
        "processor_seconds": time.process_time() - begun_processor,
        "megabytes": _megabytes("VmHWM"),
        "megabytes_before": before,
    }
    return value, took


def _megabytes(name: str) -> float:
    """Return the memory of this process: VmRSS now, VmHWM at its peak. Linux alone has both."""
    status = Path("/proc/self/status").read_text()
    return float(status.partition(f"{name}:")[2].split()[0]) * 1024 / 1e6


def apart(work: Callable[..., Row], *arguments: Any) -> Row:
    """Return what `work` returns in a new process, whose peak memory is its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(work, *arguments).result()


# --- teachers ---

#: Methods, and their names in teachers.py.
TRAINED_BY = {
    "nzc": "engine",
    "PyTorch loop": "bare loop",
    "Lightning Trainer per teacher": "a Trainer per teacher",
}
RECORDS = 240
EPOCHS = 4


def train(name: str, count: int, root: str) -> Row:
    """Train so many teachers, and return what it took."""
    import teachers

    task = teachers.task_of(count, RECORDS, 1000, root, epochs=EPOCHS)
    return timed(partial(teachers.METHODS[name], task))[1]


def compare_teachers(arguments: argparse.Namespace) -> Iterator[Row]:
    count = arguments.teachers
    subject = f"{count} MNIST teachers, {RECORDS} records each, {EPOCHS} epochs"
    for method, name in TRAINED_BY.items():
        yield {"name": method, "subject": subject, **apart(train, name, count, arguments.root)}


# --- accounting ---

#: Published votes, queries, mechanism of accounting.py, and δ.
VOTES = [
    ("mnist", 100, "LNMax", 1e-5),
    ("mnist", 1000, "LNMax", 1e-5),
    ("mnist", 1000, "GNMax", 1e-5),
    ("svhn", 10_000, "Confident", 1e-6),
]
#: The orders of the scripts of Scalable PATE's authors.
ORDERS = np.concatenate([np.arange(2, 101, 0.5), np.geomspace(100, 500, 100)])


def exact(mechanism: Any, votes: Ints, labels: Ints, delta: float) -> float:
    """Return nzc's ε at these votes, from the mechanism's own law."""
    return float(mechanism.cost(votes, labels).exact_epsilon(delta)[0])


def by_theorem(mechanism: Any, votes: Ints, labels: Ints, delta: float) -> float:
    """Return nzc's ε at these votes by the papers' theorems."""
    from nzc.accounting.rdp import to_epsilon

    costs = [bound.cost(counts) for bound, counts in mechanism.cost(votes, labels).bounded]

    def total(orders: Floats) -> Floats:
        return np.sum([cost(orders).sum(axis=0) for cost in costs], axis=0)

    return to_epsilon(total, delta)[0]


def for_any_votes(mechanism: Any, votes: Ints, labels: Ints, delta: float) -> float:
    """Return nzc's ε for any votes."""
    return float(mechanism.cost(votes, labels).data_independent(delta))


def by_authors(mechanism: Any, votes: Ints, labels: Ints, delta: float) -> float:
    """Return ε as the authors of Scalable PATE find it, one query after the other.

    A label behind a screen costs its share: the probability that it is answered.
    """
    total = np.zeros(len(ORDERS))
    for counts in votes:
        total += _cost_by_authors(mechanism, counts)
    return float(np.min(total - math.log(delta) / (ORDERS - 1)))


def _cost_by_authors(mechanism: Any, counts: Ints) -> Floats:
    """Return the Rényi cost of one query, [orders]."""
    largest = counts.max()
    behind = np.delete(largest - counts, counts.argmax())
    tie = math.log1p(-1 / len(counts))
    if hasattr(mechanism.noise, "gamma"):
        gamma = mechanism.noise.gamma
        log_q = np.logaddexp.reduce(np.log((2 + gamma * behind) / 4) - gamma * behind)
        return laplace_theorem(min(log_q, tie), 2 * gamma)
    sigma = mechanism.noise.sigma
    log_q = np.logaddexp.reduce(log_ndtr(-behind / (math.sqrt(2) * sigma)))
    label = gaussian_theorem(min(log_q, tie), sigma)
    if mechanism.screen is None:
        return label
    distance = (largest - mechanism.screen.threshold) / mechanism.screen.sigma1
    rarer = log_ndtr(-abs(distance))
    # The largest count moves by one where two counts of a label do.
    screen = gaussian_theorem(rarer, math.sqrt(2) * mechanism.screen.sigma1)
    return np.asarray(screen + math.exp(log_ndtr(distance)) * label)


def laplace_theorem(log_q: float, pure: float) -> Floats:
    """Return the cost [orders] of a (pure, 0)-private label that is another one with probability q.

    PATE 2017, Theorem 3.
    """
    independent = np.minimum(pure, pure**2 * ORDERS / 2)
    q = math.exp(log_q)
    if q > 1 / (math.exp(pure) + 1):
        return independent
    more = ORDERS - 1
    same = math.log1p(-q) + more * math.log((1 - q) / (1 - q * math.exp(pure)))
    return np.minimum(independent, np.logaddexp(same, log_q + pure * more) / more)


def gaussian_theorem(log_q: float, sigma: float) -> Floats:
    """Return the cost [orders] of the noisy argmax that is another one with probability q.

    Scalable PATE 2018, Theorem 6, with the orders μ₁ and μ₂ of Proposition 10.
    """
    independent = ORDERS / sigma**2
    second = sigma * math.sqrt(-log_q)
    first = second + 1
    if second <= 1 or -log_q <= second / sigma**2:
        return independent
    highest = (second - 1) * second / sigma**2
    highest -= second * math.log((first / second) * (second / (second - 1)))
    if log_q > highest:
        return independent
    more = ORDERS - 1
    log_same = math.log1p(-math.exp(log_q))
    shrunk = -math.expm1((log_q + second / sigma**2) * (1 - 1 / second))
    log_a = more * (log_same - math.log(shrunk))
    log_b = more * (first / sigma**2 - log_q / second)
    bound = np.logaddexp(log_same + log_a, log_q + log_b) / more
    return np.where(first > ORDERS, np.minimum(independent, bound), independent)


def by_dp_accounting(
    accountant: str, mechanism: Any, votes: Ints, labels: Ints, delta: float
) -> float:
    """Return ε of the same noise for any votes: of two noisy counts that change by one.

    Any votes may have all queries answered.
    """
    from dp_accounting import ComposedDpEvent, GaussianDpEvent, LaplaceDpEvent, SelfComposedDpEvent
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    queries = len(votes)
    if hasattr(mechanism.noise, "gamma"):
        releases = [SelfComposedDpEvent(LaplaceDpEvent(1 / mechanism.noise.gamma), 2 * queries)]
    else:
        noise = GaussianDpEvent(mechanism.noise.sigma / math.sqrt(2))
        releases = [SelfComposedDpEvent(noise, queries)]
    if mechanism.screen is not None:
        screen = GaussianDpEvent(mechanism.screen.sigma1)
        releases.append(SelfComposedDpEvent(screen, queries))
    accountants = {"RDP": RdpAccountant, "PLD": PLDAccountant}
    composed = accountants[accountant]().compose(ComposedDpEvent(releases))
    return float(composed.get_epsilon(delta))


#: For which votes a method's ε holds, the method, and what finds it.
ACCOUNTED_BY: dict[tuple[str, str], Callable[[Any, Ints, Ints, float], float]] = {
    ("these votes", "nzc"): exact,
    ("these votes", "nzc, by theorem"): by_theorem,
    ("these votes", "formulas of Scalable PATE's authors"): by_authors,
    ("any votes", "nzc"): for_any_votes,
    ("any votes", "dp-accounting, Rényi"): partial(by_dp_accounting, "RDP"),
    ("any votes", "dp-accounting, privacy loss distributions"): partial(by_dp_accounting, "PLD"),
}


def account(way: tuple[str, str], path: Path, queries: int, kind: str, delta: float) -> Row:
    """Return ε of the first queries, and what it took."""
    from accounting import MECHANISMS

    mechanism = MECHANISMS[kind]
    votes = np.load(path)[:queries]
    labels = mechanism.release(votes, np.random.default_rng(0))
    find = ACCOUNTED_BY[way]
    find(mechanism, votes[:2], labels[:2], delta)  # imports what it needs
    epsilon, took = timed(lambda: find(mechanism, votes, labels, delta))
    return {"epsilon": epsilon, "answered": int((labels >= 0).sum()), **took}


def compare_accounting(arguments: argparse.Namespace) -> Iterator[Row]:
    for name, queries, kind, delta in VOTES:
        path = Path(arguments.root) / "pate_votes" / f"{name}_250_teachers.npy"
        for way in ACCOUNTED_BY:
            votes, method = way
            subject = f"{kind}, {queries:,} queries of {name.upper()}, {votes}"
            found = apart(account, way, path, queries, kind, delta)
            yield {"name": method, "subject": subject, "delta": delta, **found}


# --- DP-SGD ---

SEEDS = (100, 101, 102)
DATA = ["Adult", "visits", "MNIST", "Fashion-MNIST"]
#: Settings of every fit of a linear model; the learning rate follows from the noise. Of six tried
#: on Adult with seed 0, they are the fastest, and within 0.3 points of the most accurate.
OPACUS = argparse.Namespace(epochs=10, share=0.05, lr=None, clip=1.0)


@dataclass(frozen=True)
class Features:
    """What nzc's baseline learns from: features of length 1 and a constant, float32."""

    private: AnyArray
    labels: Ints
    test: AnyArray
    truth: Ints
    classes: tuple[str, ...]
    delta: float


def features(overrides: list[str]) -> Features:
    """Return the features of nzc's baseline."""
    from torch import nn

    from nzc.app.build import build
    from nzc.app.config import compose_run
    from nzc.protocols.dp_sgd import Scaled
    from nzc.representation import Placement

    cfg = compose_run(["recipe=near_zero", "trainer.progress=false", *overrides])
    splits = build(cfg, "dataset").load()
    representation = build(cfg, "representation")
    place = Placement(nn.Flatten())
    if representation is not None:
        place = representation.fit(splits.pool, build(cfg, "trainer"))
    scaled = Placement(Scaled(place.network, splits.public.x))
    return Features(
        scaled.all(splits.private.x).astype(np.float32),
        splits.private.y,
        scaled.all(splits.test.x).astype(np.float32),
        splits.test.y,
        tuple(map(str, range(splits.classes))),
        cfg.delta,
    )


def learn(data: Features, epsilon: float, delta: float, seed: int) -> Row:
    """Return what a linear model learns by Opacus, at (ε, δ) for an added or removed record."""
    import torch
    from dp_sgd import train_opacus

    from nzc import networks
    from nzc.runs.metrics import Metrics

    torch.manual_seed(seed)
    module = torch.nn.Linear(data.private.shape[1], len(data.classes), bias=False)
    torch.nn.init.zeros_(module.weight)
    x = torch.from_numpy(data.private)
    y = torch.from_numpy(data.labels)
    (trained, noise), took = timed(lambda: train_opacus(module, x, y, epsilon, delta, OPACUS))
    probs = networks.outputs(trained, data.test).softmax(dim=1).numpy()
    accuracy = float((probs.argmax(axis=1) == data.truth).mean())
    auc = Metrics.of(probs, data.truth, data.classes).auc
    seconds = {name: took[name] for name in ("seconds", "processor_seconds")}
    return {"accuracy": accuracy, "metrics.auc": auc, "noise_multiplier": noise, **seconds}


@dataclass(frozen=True)
class Learned:
    """Data, their features, how nzc is told of them, and each ε."""

    name: str
    features: str
    overrides: list[str]
    epsilons: tuple[float, ...]


def tasks(arguments: argparse.Namespace) -> list[Learned]:
    """Return what is learned."""
    root = f"dataset.root={arguments.root}"
    files = {"private": "visits", "public": "new", "test": "test"}
    visits = [f"dataset.{key}={arguments.visits}/{name}.csv" for key, name in files.items()]
    visits += ["dataset.label=back", "dataset.classes=[no,yes]", "dataset.name=visits"]
    visits += ["dataset.group=patient", "dataset.id=visit"]
    columns = "columns"
    learned = "learned from public rows without labels"
    return [
        Learned("Adult", columns, ["dataset=adult", root], (0.3, 1)),
        Learned("visits", columns, ["dataset=table", *visits], (0.3, 1)),
        Learned("MNIST", learned, ["dataset=mnist", root], (0.1, 1)),
        Learned("Fashion-MNIST", learned, ["dataset=fashion_mnist", root], (0.1, 1)),
    ]


def compare_dp_sgd(arguments: argparse.Namespace) -> Iterator[Row]:
    """Train at nzc's promise, which follows by group privacy, and at a weaker one.

    Opacus protects a record that is added or removed. It cannot protect all visits of a patient.
    """
    for task in filter(lambda task: task.name in arguments.data, tasks(arguments)):
        for seed in SEEDS:
            data = features([*task.overrides, f"seed={seed}"])
            for epsilon in task.epsilons:
                for promise, (added, delta) in promises(epsilon, data.delta).items():
                    row = f"{task.name}, Opacus ({promise})"
                    yield {
                        "name": f"{row}, budget.epsilon={epsilon}",
                        "row": row,
                        "dataset": task.name.lower().replace("-", "_"),
                        "budget.epsilon": epsilon,
                        "features": task.features,
                        "delta": data.delta,
                        "seed": seed,
                        **learn(data, added, delta, seed),
                    }


def promises(epsilon: float, delta: float) -> dict[str, tuple[float, float]]:
    """Return what (ε, δ) may protect, and with which ε and δ Opacus then trains."""
    from dp_sgd import group_privacy

    return {
        "records replaced": group_privacy(epsilon, delta),
        "records added or removed": (epsilon, delta),
    }


# --- the file ---

PARTS: dict[str, Callable[[argparse.Namespace], Iterable[Row]]] = {
    "teachers": compare_teachers,
    "accounting": compare_accounting,
    "dp_sgd": compare_dp_sgd,
}


def with_ratios(table: Any) -> Any:
    """Return the table with each figure as a ratio to that of nzc for the same subject."""
    by_nzc = table[table.name == "nzc"]
    for name in COMPARED:
        if name in table and len(by_nzc):
            table[f"times_{name}"] = table[name] / table.subject.map(
                by_nzc.set_index("subject")[name]
            )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--root", default=os.environ.get("NZC_DATA", "data"), metavar="DIR")
    parser.add_argument("--visits", default=".", metavar="DIR", help="of visits.csv and others")
    parser.add_argument("--teachers", type=int, default=250, help="how many (default 250)")
    parser.add_argument("--data", nargs="+", default=DATA, help=f"of {', '.join(DATA)} (dp_sgd)")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # Opacus warns of noise that is not cryptographic, and of hooks
    for part in arguments.parts or PARTS:
        begun = time.perf_counter()
        rows = []
        for row in PARTS[part](arguments):
            print(*row.values(), sep="   ", flush=True)
            rows.append(row)
        command = f"python benchmarks/peers.py {part}"
        if part == "dp_sgd" and arguments.data != DATA:
            command += f" --data {' '.join(arguments.data)}"
        source = results.source_of(command, begun)
        table = with_ratios(pd.DataFrame(rows))
        results.write(results.Evidence(f"peers_{part}", source, table))


if __name__ == "__main__":
    main()
