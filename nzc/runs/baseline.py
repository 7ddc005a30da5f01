"""The baseline: what DP-SGD learns from the same private records at the same ε and δ.

    records (private)  →  DPSGD.learn  →  weights (public)

All records are one batch, each gradient is clipped to norm 1, and every step adds Gaussian noise to
their sum (Abadi et al. 2016, "Deep learning with differential privacy"; averaged weights: De et al.
2022, arXiv 2204.13650). Where records have groups, the mean gradient of a group counts. One
replaced record, or group, moves the sum by at most 2. So T steps with noise of standard deviation s
are one Gaussian release at mean shift μ = 2√T/s (Dong, Roth, Su 2019, Corollary 2).
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import softmax
from torch import Tensor, nn
from torch.nn import functional as F

from nzc.accounting import Epsilon
from nzc.accounting.data_independent import gaussian_cost
from nzc.accounting.gaussian import gaussian
from nzc.labeling.ledger_entry import total_epsilon
from nzc.labeling.release import LabelingSession
from nzc.labeling.run_ledger import question
from nzc.networks import outputs
from nzc.representation import Placement
from nzc.representation.bounded import shortened
from nzc.runs.checks import PreparedRun
from nzc.streams import Stream
from nzc.students import FittedStudent
from nzc.students.linear import LinearNetwork
from nzc.teachers import Teachers
from nzc.types import AnyArray, Floats, Ints
from nzc.validation import Tree

#: The name of the baseline in place of an aggregator's.
NAME = "dp_sgd"
#: Steps of every fit, and the largest learning rate: nothing is tuned on the data.
STEPS = 60
LARGEST_RATE = 128.0
#: Of the noise that exact arithmetic needs, 1 % more: a group of another size may change how other
#: rows are rounded.
_ROUNDING = 0.99


@dataclass(frozen=True)
class DPSGD:
    """Learns a linear classifier from so many `units`, groups or records, at mean shift `mu`."""

    mu: float
    units: int

    @classmethod
    def at(cls, epsilon: float, delta: float, units: int) -> "DPSGD":
        """Return the one that costs at most ε at δ."""
        from scipy.optimize import brentq  # takes a fifth of a second to import

        mu = brentq(lambda mu: gaussian(mu, delta) - epsilon, 1e-9, 1e5)
        return cls(_ROUNDING * float(mu), units)

    @property
    def noise(self) -> float:
        """Standard deviation of the noise in the sum of gradients."""
        return 2 * math.sqrt(STEPS) / self.mu

    def learn(
        self, x: Floats, y: Ints, groups: Ints | None, classes: int, rng: np.random.Generator
    ) -> Floats:
        """Return weights [features, classes] for private rows x [rows, features] of length 1."""
        # The noise of all steps together moves a logit by 1, in standard deviations.
        rate = min(LARGEST_RATE, self.mu * self.units / (2 * STEPS))
        weights = np.zeros((x.shape[1], classes))
        total = np.zeros_like(weights)
        for step in range(STEPS):
            noise = self.noise * rng.normal(size=weights.shape)
            gradient = gradients(x, y, groups, weights) + noise
            weights = weights - rate / self.units * gradient
            if step >= STEPS // 2:
                total += weights
        return total / (STEPS - STEPS // 2)


def gradients(x: Floats, y: Ints, groups: Ints | None, weights: Floats) -> Floats:
    """Return the sum of the cross-entropy's clipped gradients [features, classes]."""
    # The gradient of a record is the outer product of x and the error.
    error = softmax(x @ weights, axis=1)
    error[np.arange(len(y)), y] -= 1
    norms = np.linalg.norm(x, axis=1) * np.linalg.norm(error, axis=1)
    keys = np.arange(len(y)) if groups is None else groups
    _, group, sizes = np.unique(keys, return_inverse=True, return_counts=True)
    return x.T @ (error / (np.maximum(1, norms) * sizes[group])[:, None])


def learn(run: PreparedRun) -> tuple[FittedStudent, Epsilon, Tree]:
    """Learn from the private records, and charge the ledger.

    Return the model, its cost and what the result says.
    """
    splits = run.splits
    parts = run.parts
    place = Placement(nn.Flatten())
    if parts.representation is not None:
        place = parts.representation.fit(splits.pool, parts.trainer)
    features = Placement(Scaled(place.network, splits.public.x))
    x = features.all(splits.private.x).astype(np.float64)

    learner = DPSGD.at(run.session.promise.epsilon, run.session.policy.delta, splits.unit_count)
    weights = _charged(run, learner, x)

    classifier = LinearNetwork(weights.T.copy(), np.zeros(splits.classes))
    student = FittedStudent(nn.Sequential(features.network, classifier))
    if parts.student is not None:
        student = parts.student.decided(student, splits.public.x)
    facts = {
        "aggregator": NAME,
        "student": "linear",
        "mechanism": repr(learner),
        "queries": 0,
        "refused": 0,
        "neighbours": Teachers.neighbours(parts.teachers, splits),
        "learned_from": f"{splits.unit_count:,} private {parts.teachers.unit(splits)}s: "
        f"{STEPS} steps, noise {learner.noise:.4g}",
    }
    return student, _cost(run.session), facts


def _charged(run: PreparedRun, learner: DPSGD, x: Floats) -> Floats:
    """Return the weights that the learner draws, once their cost is in the ledger."""
    ledger = run.session.ledger
    splits = run.splits
    y = splits.private.y
    groups = splits.units.groups
    asked = question(learner, run.session.policy.seed, splits.classes, x, y, groups)
    # Privacy boundary: private records become public weights, which are charged before anyone sees
    # them.
    weights, nonce = ledger.draw(
        [Stream.BASELINE], asked, lambda rng: learner.learn(x, y, groups, splits.classes, rng)
    )
    ledger.add(
        question(asked, weights, nonce),
        gaussian_cost(learner.mu),
        labels=weights.tobytes(),
        description=repr(learner),
    )
    return weights


def _cost(session: LabelingSession) -> Epsilon:
    """Return every ε of what was learned."""
    epsilon = session.promise.epsilon
    delta = session.policy.delta
    counted, trials = session.ledger.split()
    return Epsilon(
        published=epsilon,
        published_delta=delta,
        data_independent=epsilon,
        ledger_released=total_epsilon(counted, delta),
        ledger_total=total_epsilon(trials + counted, delta),
    )


class Scaled(nn.Module):
    """Rows as networks take them → features of length 1, and a constant.

    Public rows alone decide mean and spread. A row with a feature that is no finite number has
    features 0.
    """

    def __init__(self, place: nn.Module, public: AnyArray) -> None:
        super().__init__()
        places = outputs(place, public)
        spread = places.std(dim=0)
        never_varies = spread <= 1e-4  # such a feature does not count
        self.place = place
        self.mean = nn.Buffer(places.mean(dim=0))
        self.spread = nn.Buffer(spread.masked_fill(never_varies, torch.inf))

    def forward(self, x: Tensor) -> Tensor:
        scaled = (self.place(x).cpu() - self.mean) / self.spread
        return F.pad(shortened(scaled, 1e-12), (0, 1), value=0.5)
