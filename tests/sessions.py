"""What the tests of sessions share: a policy, the ledger of a run, and how rows are asked."""

from pathlib import Path
from typing import Any

import numpy as np

from nzc.accounting import sanitised
from nzc.mechanisms import NoisyArgmax
from nzc.privacy.promise import Policy
from nzc.privacy.run_ledger import RunLedger
from nzc.privacy.session import Session
from nzc.types import Floats, Ints


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
