"""What the tests of labeling sessions share: a policy, and the ledger of a run."""

from pathlib import Path
from typing import Any

from nzc.accounting import sanitised
from nzc.labeling.bound import LabelingPolicy
from nzc.labeling.query_selection import QuerySelection
from nzc.labeling.run_ledger import RunLedger
from nzc.mechanisms import NoisyArgmax


def policy_of(
    mechanism: NoisyArgmax, budget: float | None = None, choice: str = "first", **rules: Any
) -> LabelingPolicy:
    rules = {"seed": 0, "delta": 1e-5, "audit_trials": None} | rules
    selection = QuerySelection(choice, None)
    return LabelingPolicy(mechanism, selection, budget=budget, plan=sanitised.plan, **rules)


def ledger_of(
    policy: LabelingPolicy, dataset: str = "", neighbours: str = "one differs"
) -> RunLedger:
    path = Path("ledger.db")
    return RunLedger(path, dataset, None, policy.rng, policy.seed, 1, neighbours)
