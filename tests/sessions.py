"""What tests share of sessions, ledgers and results: settings, entries, and how rows are asked."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import default_rng

from nzc.accounting import Epsilon, sanitised
from nzc.accounting.rdp import ORDERS
from nzc.mechanisms import NoisyArgmax
from nzc.privacy.ledger_entry import RELEASE, LedgerEntry
from nzc.privacy.promise import Policy
from nzc.privacy.run_ledger import RunLedger
from nzc.privacy.session import Session
from nzc.runs.result import RunResult
from nzc.types import Floats, Ints

POOL, CLASSES = 60, 4


def probabilities(seed: int = 0) -> np.ndarray:
    return default_rng(seed).dirichlet(np.full(CLASSES, 0.5), size=POOL)


def policy_of(mechanism: NoisyArgmax, budget: float | None = None, **rules: Any) -> Policy:
    rules = {"seed": 0, "delta": 1e-5, "audit_trials": None} | rules
    return Policy(mechanism, budget=budget, plan=sanitised.plan_bound, **rules)


def ledger_of(policy: Policy, dataset: str = "", neighbours: str = "one differs") -> RunLedger:
    path = Path("ledger.db")
    return RunLedger(path, dataset, None, policy.rng, policy.seed, 1, neighbours)


def ask_first(session: Session, votes: Ints, voters: int, probs: Floats | None = None) -> Ints:
    """Ask the first rows that are left, and return them."""
    left = np.setdiff1d(np.arange(len(votes)), session.rows)
    rows = left[: session.planned.size]
    session.ask(votes, voters, rows, probs)
    return rows


def result_of(mechanism: NoisyArgmax, epsilon: Epsilon | None = None, **more: Any) -> RunResult:
    """Return the result of three queries of this mechanism."""
    if epsilon is None:
        labels = mechanism.release([[60, 40]], np.random.default_rng(0))
        epsilon = mechanism.cost([[60, 40]], labels, None).epsilon(1e-5)
        epsilon = replace(epsilon, published=epsilon.data_independent, ledger_released=3.0)
    facts = {
        **dict.fromkeys(("queries", "answered"), 3),
        **dict.fromkeys(("seed", "refused", "reinforced", "ledger_releases"), 0),
        **dict.fromkeys(("dataset", "aggregator", "student", "neighbours"), "mine"),
        "rng": "seeded",
        "mechanism": repr(mechanism),
        "delta": 1e-5,
        "label_accuracy": 0.9,
        "accuracy": 0.8,
        "epsilon": epsilon,
        "rounds": [],
        "data": None,
        "teachers": {"count": 100, "mean_accuracy": 0.5, "ensemble_accuracy": 0.9},
        "unit": "record",
        "bound": "data_independent",
        "seconds": {"total": 1.0},
    }
    return RunResult(**(facts | more))


def release(
    key: str = "a",
    cost: float = 0.01,
    labels: bytes = b"labels",
    dataset: str = "digest",
    orders: np.ndarray = ORDERS,
    kind: str = RELEASE,
) -> LedgerEntry:
    facts = {"queries": 10}
    return LedgerEntry(dataset, key, orders, cost * orders, labels, "GNMax", facts, kind=kind)
