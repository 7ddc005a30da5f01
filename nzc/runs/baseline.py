"""The baseline: what DP-SGD learns from the same private records, in the same representation, at the same ε and δ."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nzc.accounting import Epsilon
from nzc.accounting.data_independent import gaussian_cost
from nzc.accounting.rdp import ORDERS
from nzc.data.rows import blocks
from nzc.labeling.dp_sgd import DPSGD, STEPS
from nzc.labeling.ledger_entry import total_epsilon
from nzc.labeling.run_ledger import question
from nzc.networks import outputs
from nzc.representation import Placement
from nzc.runs.prepare import PreparedRun
from nzc.students import FittedStudent
from nzc.students.linear import LinearNetwork
from nzc.teachers import Teachers
from nzc.types import AnyArray

#: The name of the baseline in place of an aggregator's.
NAME = "dp_sgd"


def learn(run: PreparedRun) -> tuple[FittedStudent, Epsilon, dict[str, Any]]:
    """Learn from the private records, charge the ledger, and return the model, its cost and what the result says."""
    session, splits, parts = run.session, run.splits, run.parts
    policy, epsilon = session.policy, session.promise.epsilon
    assert splits is not None
    place = Placement(nn.Flatten())
    if parts.representation is not None:
        place = parts.representation.fit(splits.pool, parts.trainer)
    features = Placement(Scaled(place.network, splits.public.x))
    x, y = np.concatenate([features(part) for part in blocks(splits.private.x)], dtype=np.float64), splits.private.y
    learner = DPSGD.at(epsilon, policy.delta, splits.units)
    of = question(learner, policy.seed, splits.classes, x, y, splits.groups)
    # Privacy boundary: private records become public weights, which are charged before anyone sees them.
    weights, nonce = session.ledger.draw([7], of, lambda rng: learner.learn(x, y, splits.groups, splits.classes, rng))
    rdp = gaussian_cost(learner.mu).rdp(ORDERS)
    about = {"orders": ORDERS, "rdp": rdp, "labels": weights.tobytes(), "description": NAME}
    session.ledger.add(question(of, weights, nonce), facts={"aggregator": repr(learner)}, **about)
    counted, trials = session.ledger.split()
    costs = Epsilon(
        published=epsilon,
        published_delta=policy.delta,
        data_independent=epsilon,
        ledger_released=total_epsilon(counted, policy.delta),
        ledger_total=total_epsilon(trials + counted, policy.delta),
    )
    unit = parts.teachers.unit(splits)
    facts = {
        "aggregator": NAME, "student": "linear", "mechanism": repr(learner), "queries": 0, "refused": 0,
        "neighbours": Teachers.neighbours(parts.teachers, splits), "moved_votes": None, "voters": "teachers",
        "learned_from": f"{splits.units:,} private {unit}s: {STEPS} steps, noise {learner.noise:.4g}",
    }  # fmt: skip
    classifier = nn.Sequential(features.network, LinearNetwork(weights.T.copy(), np.zeros(splits.classes)))
    student = FittedStudent(classifier)
    return student if parts.student is None else parts.student.decided(student, splits.public.x), costs, facts


class Scaled(nn.Module):
    """Rows as networks take them → features of length 1, and a constant. Public rows alone decide mean and spread."""

    def __init__(self, place: nn.Module, public: AnyArray) -> None:
        super().__init__()
        places, self.place = outputs(place, public), place
        spread = places.std(dim=0)
        self.mean = nn.Buffer(places.mean(dim=0))
        self.spread = nn.Buffer(torch.where(spread > 1e-4, spread, torch.inf))  # features that never vary do not count

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(F.normalize((self.place(x).cpu() - self.mean) / self.spread, dim=1), (0, 1), value=0.5)
