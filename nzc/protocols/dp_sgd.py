"""The baseline: what DP-SGD learns from the same private records at the same ε and δ.

    records (private)  →  DPSGD.learn, by Session.release  →  weights (public)

All records are one batch, each gradient is clipped to norm 1, and every step adds Gaussian noise to
their sum (Abadi et al. 2016, "Deep learning with differential privacy"; averaged weights: De et al.
2022, arXiv 2204.13650). Where records have groups, the mean gradient of a group counts. One
replaced record, or group, moves the sum by at most 2. So T steps with noise of standard deviation s
are one Gaussian release at mean shift μ = 2√T/s (Dong, Roth, Su 2019, Corollary 2).
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.special import softmax
from torch import Tensor, nn
from torch.nn import functional as F

from nzc.accounting.data_independent import gaussian_cost
from nzc.accounting.gaussian import gaussian
from nzc.clock import Clock
from nzc.data import DataSplits
from nzc.networks import outputs
from nzc.privacy.promise import Policy, Promise
from nzc.privacy.run_ledger import release_key
from nzc.privacy.session import Session
from nzc.protocols.base import Data, InPlace, Released
from nzc.protocols.task import Task
from nzc.representation import Placement, Representation
from nzc.representation.bounded import cut_to
from nzc.streams import Stream
from nzc.students import FittedStudent
from nzc.students.linear import LinearNetwork
from nzc.types import AnyArray, Floats, Ints
from nzc.validation import InputError, within

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


@dataclass(frozen=True)
class Baseline(InPlace):
    """DP-SGD learns from the records, at the ε that the labels of `instead_of` would have.

    representation  in which it learns; None: from the rows as they are
    """

    representation: Representation | None

    only_compares = True

    def check(self, splits: DataSplits) -> Task:
        task = super().check(splits)
        if self.representation is not None:
            self.representation.check(splits.public.x)
        return task

    def promise(self, policy: Policy, data: Data, learns: bool) -> Promise:
        """Return it at the δ of DP-SGD. InputError: there are no records, or no finite ε."""
        labels = self.instead_of.promise(policy, data, learns)
        if data.task.unit == "teacher" or not np.isfinite(labels.epsilon):
            raise InputError(
                "baseline",
                True,
                "must be false unless there are private records, and labels with a finite ε",
            )
        alone = replace(labels.rounds[0], size=0)
        return Promise(policy, (alone,), None, (labels.epsilon, policy.delta))

    def placed(self, data: Data, stage: Clock) -> Data:
        return data  # it asks no rows, and places the records itself

    def teach(self, data: Data, session: Session, stage: Clock) -> "_Features":
        """Return the features of the records, which public rows alone place."""
        splits = data.splits
        with stage("representation"), within("representation"):
            place = Placement(nn.Flatten())
            if self.representation is not None:
                place = self.representation.fit(splits.pool, data.trainer)
            scaled = Scaled(place.network, splits.public.x)
            x = Placement(scaled).all(splits.private.x).astype(np.float64)
        return _Features(scaled, x)

    def release(
        self, taught: "_Features", data: Data, session: Session, probs: Floats | None
    ) -> Released:
        splits = data.splits
        x = taught.x
        y = splits.private.y
        groups = splits.units.groups
        learner = DPSGD.at(session.promise.epsilon, session.policy.delta, splits.unit_count)
        weights = session.release(
            Stream.BASELINE,
            release_key(learner, session.policy.seed, splits.classes, x, y, groups),
            lambda rng: learner.learn(x, y, groups, splits.classes, rng),
            gaussian_cost(learner.mu),
            repr(learner),
        )
        classifier = LinearNetwork(weights.T.copy(), np.zeros(splits.classes))
        return Released(
            labels=session.labels,
            model=FittedStudent(nn.Sequential(taught.network, classifier)),
            model_from=f"{splits.unit_count:,} private {data.task.unit}s: "
            f"{STEPS} steps, noise {learner.noise:.4g}",
            names={"aggregator": NAME, "student": "linear"},
            mechanism=repr(learner),
        )


@dataclass(frozen=True, repr=False)
class _Features:
    """The private records as DP-SGD sees rows, x [records, features], and what places them."""

    network: nn.Module
    x: Floats


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
        return F.pad(cut_to(scaled, 1e-12), (0, 1), value=0.5)
