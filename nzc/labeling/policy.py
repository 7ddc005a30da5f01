"""The rules of a labeling session: mechanism, rows, budget, and what is published."""

from collections.abc import Callable
from dataclasses import dataclass

from nzc.accounting.epsilon import DATA_INDEPENDENT
from nzc.accounting.sanitised import Plan
from nzc.labeling.query_selection import QuerySelection
from nzc.labeling.randomness import SEEDED
from nzc.mechanisms import NoisyArgmax


@dataclass(frozen=True)
class LabelingPolicy:
    """The rules of a session. They are fixed before a vote is seen.

    budget        ε at δ that no release may exceed, whatever the votes; None: no limit
    answers       how many labels are released at most, in all rounds; None: no limit
    publish       which bound is published: data_independent, or sanitised, which is a release of its own
    plan          chooses the plan of the sanitised ε (accounting.sanitised.plan)
    audit_trials  how often the mechanism is run for a lower bound on ε; None: no audit
    name          of the mechanism, for messages and the ledger
    rng           where noise of labels and of the sanitised ε comes from: seeded, or system (labeling/randomness.py).
                  Public choices always follow from `seed`: rows, the student's first weights, the audit
    """

    mechanism: NoisyArgmax
    selection: QuerySelection
    seed: int
    delta: float
    budget: float | None
    plan: Callable[..., Plan]
    audit_trials: int | None
    name: str
    rng: str = SEEDED
    answers: int | None = None
    publish: str = DATA_INDEPENDENT
