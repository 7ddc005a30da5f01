"""The one mechanism of all four papers: argmax of boosted counts plus noise, after a screen."""

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from nzc._types import AnyArray, Bools, Floats, Ints
from nzc.aggregators.aggregator import ABSTAIN, Aggregator
from nzc.aggregators.boost import Boost
from nzc.aggregators.neighbours import FAR, Histograms, distinct
from nzc.aggregators.noise.noise import Noise
from nzc.aggregators.noise.none import NoNoise
from nzc.aggregators.noise.quadrature import MAX_STEP, Neighbourhood, Quadrature
from nzc.aggregators.screen.screen import Screen
from nzc.privacy import audit, independent
from nzc.privacy.conversion import ORDERS
from nzc.privacy.cost import Cost
from nzc.privacy.exact import Batch, ExactCost, Pairs
from nzc.privacy.filter import Filter, gaussian_filter, renyi_filter
from nzc.privacy.theorem import Bound, gaps

#: An audit runs at most this many queries: what it finds bounds every longer run from below as well.
AUDITED = 100


@dataclass(frozen=True)
class NoisyArgmax(Aggregator):
    """argmax_j { n_j + c·[j is the plurality] + Δ·Z_j } with independent noise Z; ties break to the lowest class.

    plurality (no noise), LNMax (Laplace), GNMax (Gaussian), Gumbel (the exponential mechanism) and NZC (c > 0) are
    settings of it. With a screen (Confident, Interactive, stable) only queries that pass it are answered.
    """

    noise: Noise
    boost: Boost = field(default_factory=Boost)
    screen: Screen | None = None
    first: "NoisyArgmax | None" = None  # how it asks before there is a student; None: in the same way

    def check(self, teachers: int) -> None:
        if self.screen is not None:
            self.screen.check(teachers)
        if self.first is not None:
            self.first.check(teachers)

    def label(self, votes: Ints, rng: np.random.Generator, baseline: Floats | None = None) -> Ints:
        noise = self.noise.sample(votes.shape, rng) * self.boost.scale(votes)[:, None]
        labels = (self.boost.scores(votes) + noise).argmax(axis=1)
        if self.screen is None:
            return np.asarray(labels)
        return np.where(self.screen.answers(votes, rng, baseline), labels, ABSTAIN)

    def log_law(self, votes: Ints, baseline: Floats | None = None) -> Floats:
        """log-probability of every outcome, [queries, classes + 1]: each label, then abstaining."""
        scores = self.boost.scores(votes)
        leads = (scores - scores.max(axis=1, keepdims=True)) / self.boost.scale(votes)[:, None]
        labels = self.noise.log_law(leads)
        return self._screened(labels, votes, baseline)

    def _screened(self, labels: Floats, votes: Ints, baseline: Floats | None) -> Floats:
        """Laws of labels, [..., outcomes], joined with the screen's at votes [..., classes]: [..., outcomes + 1]."""
        if self.screen is None:
            return np.concatenate([labels, np.full((*labels.shape[:-1], 1), -np.inf)], axis=-1)
        answer, abstain = self.screen.log_answer(votes, baseline)
        return np.concatenate([labels + answer[..., None], abstain[..., None]], axis=-1)

    def cost(self, votes: Ints, labels: Ints, baseline: Floats | None = None) -> Cost:
        asked, answered = len(votes), int((labels != ABSTAIN).sum())
        return Cost(
            queries=asked,
            exact=(self.exact(votes, baseline),),
            bounded=tuple(self._bounded(votes, labels, baseline)),
            releases=tuple(self._releases(asked, answered)),
            leak=asked * (self._leak or 0.0),
            claim=self.noise.claimed if self.boost.c > 0 else None,
        )

    @property
    def bounds(self) -> tuple[Bound, ...]:
        return tuple(bound for bound, _ in self._bounded(np.zeros((0, 2), np.int64), np.zeros(0, np.int64), None))

    @property
    def asks_student(self) -> bool:
        return self.screen is not None and self.screen.asks_student

    def reinforce(self, labels: Ints, baseline: Floats) -> Ints:
        return labels if self.screen is None else self.screen.reinforce(labels, baseline)

    def exact(self, votes: Ints, baseline: Floats | None = None) -> ExactCost:
        """The exact Rényi cost of these queries, screening included."""
        seen = None if self.screen is None or baseline is None else self.screen.within_reach(votes, baseline)
        batches, inverse = distinct(votes, seen, self._ordered)
        return ExactCost(
            [Batch(at.places, partial(self._pairs, at)) for at in batches],
            inverse,
            ceiling=lambda orders: np.sum([release.rdp(orders) for release in self._each()], axis=0),
        )

    def filter(self, epsilon: float, delta: float, queries: int) -> Filter:
        left = delta - queries * (self._leak or 0.0)
        ask, answer = self._each()
        if left <= 0:
            return Filter(0.0, np.inf, np.inf)
        if np.isfinite(ask.mu + answer.mu):
            return gaussian_filter(epsilon, left, ask.mu, answer.mu)
        return renyi_filter(epsilon, left, ask.rdp(ORDERS), answer.rdp(ORDERS))

    def audit(
        self, teachers: int, classes: int, queries: int, trials: int, delta: float, rng: np.random.Generator
    ) -> float:
        largest = [] if self.screen is None else [round(min(self.screen.threshold, teachers))]
        pair = audit.worst_pair(self.log_law, teachers, classes, largest)
        queries = min(queries, AUDITED)
        found = audit.audit(self.label, self.log_law, pair, queries, trials, delta, rng)
        left = delta - queries * (self._leak or 0.0)
        bound = independent.compose(self._releases(queries, queries), left) if left > 0 else np.inf
        audit.check(found, data_independent=bound)
        return found.epsilon

    def _bounded(self, votes: Ints, labels: Ints, baseline: Floats | None) -> list[tuple[Bound, AnyArray]]:
        """What was released, as the papers' bounds see it: screenings of all votes, labels of the answered ones."""
        if not self._plain or self._leak is not None or self.noise.bound is None:
            return []
        answered = (self.noise.bound, votes[labels != ABSTAIN])
        if self.screen is None:
            return [answered]
        return [(self.screen.bound, self.screen.histograms(votes, baseline)), answered]

    @property
    def _plain(self) -> bool:
        """Whether it is, up to a screen, the noisy argmax of the papers' theorems."""
        return self.boost.c == 0 and self.boost.shift == 1

    @property
    def _leak(self) -> float | None:
        """The probability per query that a label without noise is released although one vote can flip it."""
        return self.screen.leak if self.screen is not None and isinstance(self.noise, NoNoise) else None

    def _each(self) -> tuple[independent.Release, independent.Release]:
        """What asking one query costs for any votes, and what its label costs besides."""
        ask = independent.FREE if self.screen is None else self.screen.release()
        return ask, independent.FREE if self._leak is not None else self.noise.release(self.boost.shift)

    def _releases(self, asked: int, answered: int) -> list[tuple[int, independent.Release]]:
        ask, label = self._each()
        return [(asked, ask), (answered, label)]

    def _ordered(self, votes: Ints) -> Bools:
        """Queries whose law depends on the order of the classes: one vote away from a tie that the index breaks."""
        if self.boost.c == 0 and not isinstance(self.noise, NoNoise):
            return np.zeros(len(votes), dtype=bool)
        return gaps(votes)[:, 0] <= FAR

    def _pairs(self, at: Histograms) -> Pairs:
        """The laws at these histograms and at all their neighbours."""
        moved, exists = at.moved()
        row, a, b = np.nonzero(exists)
        baseline = None if at.baseline is None else at.baseline[row]
        if self.screen is not None and self._leak is not None:
            here = np.stack(self.screen.log_answer(at.votes, at.baseline), axis=-1)[row]
            there = np.stack(self.screen.log_answer(moved[exists], baseline), axis=-1)
        elif (laws := self._neighbourhood(at)) is not None:
            labels = np.concatenate([laws.here[row], laws.here[row, a, None], laws.here[row, b, None]], axis=1)
            here = self._screened(labels, at.votes[row], baseline)
            there = self._screened(laws.there[exists], moved[exists], baseline)
            return Pairs(row, here, there, np.concatenate([laws.copies[exists], np.ones((len(row), 1))], axis=1))
        else:
            here = self.log_law(at.votes, at.baseline)[row]
            there = self.log_law(moved[exists], baseline)
        return Pairs(row, here, there, np.ones_like(here))

    def _neighbourhood(self, at: Histograms) -> Neighbourhood | None:
        """The laws of the labels from one grid a query, where noise and boost allow it."""
        if not isinstance(self.noise, Quadrature) or (self.boost.c > 0 and gaps(at.votes)[:, 0].min() <= FAR):
            return None
        delta = self.boost.scale(at.votes)
        step = 1 / (self.noise.scale * delta)
        if step.max() > MAX_STEP:
            return None
        scores = np.take_along_axis(self.boost.scores(at.votes), at.first, axis=1)
        return self.noise.neighbourhood(self.noise.leads(scores, delta[:, None]), at.copies.astype(np.float64), step)
