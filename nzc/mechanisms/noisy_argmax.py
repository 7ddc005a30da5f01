"""The one mechanism of all four papers: argmax of boosted counts plus noise, after a screen."""

from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from nzc.accounting import audit as empirical
from nzc.accounting.cost import Cost
from nzc.accounting.data_dependent import DataDependentBound, gaps
from nzc.accounting.data_independent import FREE, WorstCaseCost
from nzc.accounting.exact import ExactCost, Pairs
from nzc.accounting.privacy_filter import CLOSED, OPEN, PrivacyFilter, gaussian_filter, renyi_filter
from nzc.accounting.rdp import ORDERS
from nzc.mechanisms.boost import Boost
from nzc.mechanisms.histograms import FAR, HistogramBatch, distinct
from nzc.mechanisms.noise import ContinuousNoise, GaussianNoise, GumbelNoise, LaplaceNoise, Noise, NoNoise
from nzc.mechanisms.noise.base import require_total
from nzc.mechanisms.noise.checks import require_consistent
from nzc.mechanisms.noise.continuous import Neighbourhood
from nzc.mechanisms.screen import Screen
from nzc.mechanisms.votes import as_labels, as_probabilities, as_votes
from nzc.types import Bools, Floats, Ints
from nzc.validation import InputError, between_0_and_1, whole

#: The label of a query that was not answered.
ABSTAIN = -1
#: Stands for `student_probs` that the caller of `cost` left out.
_UNSTATED: Floats = np.empty(0)
#: An audit runs at most so many queries; its result bounds every longer run from below as well.
AUDITED = 100
#: The noises of nzc itself: its tests compare their samplers, laws and bounds, so that no mechanism has to.
_TESTED = (GaussianNoise, GumbelNoise, LaplaceNoise, NoNoise)


@dataclass(frozen=True, repr=False)
class NoisyArgmax:
    """argmax_j { n_j + c·[j is the plurality] + Δ·Z_j } with independent noise Z; ties break to the lowest class index.

    It turns private vote histograms into labels that may be released, and says what they cost. Votes are
    [queries, classes], whole counts of 0 or more; every row sums to the number of teachers. The noise of each query is
    its own.

    noise   the law of Z
    boost   c and Δ; by default c = 0 and Δ = 1
    screen  which queries are answered; None: all
    first   the mechanism before there is a student; None: this one
    moved   on how many queries of a round a unit of privacy moves a vote at most. Then so many queries are paid for,
            however many are asked: the labels of the others have the same law at both neighbours. None: on all
    """

    noise: Noise
    boost: Boost = field(default_factory=Boost)
    screen: Screen | None = None
    first: "NoisyArgmax | None" = None
    moved: int | None = None

    def __post_init__(self) -> None:
        if type(self.noise) not in _TESTED:
            require_consistent(self.noise, self.boost.shift)

    def __repr__(self) -> str:
        boost = self.boost if self.boost.c else None
        parts = {"boost": boost, "screen": self.screen, "first": self.first, "moved": self.moved}
        said = [repr(self.noise), *(f"{name}={part!r}" for name, part in parts.items() if part is not None)]
        return f"{type(self).__name__}({', '.join(said)})"

    def check(self, teachers: int) -> None:
        """Raise InputError where so few teachers make no sense for the screen."""
        for part in (self.screen, self.first):
            if part is not None:
                part.check(teachers)

    def release(self, votes: Ints, rng: np.random.Generator, student_probs: Floats | None = None) -> Ints:
        """Return one label per query, [queries]; ABSTAIN (−1) where a query is not answered.

        Privacy boundary: the votes are private, the labels may be published at the ε of `cost(votes, labels)`.

        rng            `nzc.system_rng()` for labels to be published: nobody can repeat its noise, and comparisons with
                       it are exact. Anyone who knows the seed of another generator can subtract the noise
        student_probs  the student's class probabilities, [queries, classes]; None while there is no student
        """
        votes = as_votes(votes)
        labels = self._release(votes, rng, as_probabilities(student_probs, votes))
        return labels if self.screen is None else np.where(self.screen.ended(labels != ABSTAIN), ABSTAIN, labels)

    def _release(self, votes: Ints, rng: np.random.Generator, student_probs: Floats | None = None) -> Ints:
        labels = self.noise.winner(self.boost.scores(votes), self.boost.scale(votes), rng)
        if self.screen is None:
            return labels
        return np.where(self.screen.answers(votes, rng, student_probs), labels, ABSTAIN)

    def log_law(self, votes: Ints, student_probs: Floats | None = None) -> Floats:
        """Return the log-probability of every outcome, [queries, classes + 1]: each label, then abstaining."""
        votes = as_votes(votes, one_sum=False)
        scores = self.boost.scores(votes)
        leads = (scores - scores.max(axis=1, keepdims=True)) / self.boost.scale(votes)[:, None]
        labels = self.noise.log_law(leads)
        require_total(self.noise, labels)
        return self._screened(labels, votes, as_probabilities(student_probs, votes))

    def cost(self, votes: Ints, labels: Ints, student_probs: Floats | None = _UNSTATED) -> Cost:
        """Return what releasing `labels` at these votes cost; the arguments are those of `release`.

        InputError: `student_probs` is left out although the screen uses it. Where `release` had none, it is None.
        """
        if student_probs is _UNSTATED:
            if self.asks_student:
                raise InputError("student_probs", "missing", "must be what `release` was given; None if it had none")
            student_probs = None
        votes = as_votes(votes)
        labels, student_probs = as_labels(labels, votes), as_probabilities(student_probs, votes)
        asked, answered = len(votes), votes[labels != ABSTAIN]
        screened = [] if self.screen is None else [self.screen.histograms(votes, student_probs)]
        return replace(
            self.promise(asked, asked),
            exact=(self.exact_cost(votes, student_probs),),
            bounded=tuple(zip(self.bounds, [*screened, answered], strict=True)) if self.bounds else (),
            claim=self.noise.claimed if self.boost.c > 0 else None,
        )

    def exact_cost(self, votes: Ints, student_probs: Floats | None = None) -> ExactCost:
        """Return the exact Rényi cost of these queries, screening included."""
        votes = as_votes(votes, one_sum=False)
        if student_probs is not None:
            student_probs = None if self.screen is None else self.screen.relevant_probs(votes, student_probs)
        batches, inverse = distinct(votes, student_probs, self._ordered(votes))
        return ExactCost(
            [(batch.places, partial(self._pairs, batch)) for batch in batches],
            inverse,
            ceiling=lambda orders: np.stack([cost.rdp(orders) for _, cost in self._worst_case()]),
            paid=self._paid(len(votes)) if self.one_round else None,
            moved=None if self.one_round else self.moved,
        )

    def promise(self, asked: int, answered: int) -> Cost:
        """Return what so many queries and labels cost at most, whatever the votes; only ε data-independent is known."""
        queries = asked
        if self.moved is not None and not self.one_round:
            asked, answered = min(asked, self.moved), min(answered, self.moved)
        delta_cost = self._paid(asked) * (self._delta_cost or 0.0)
        return Cost(queries, None, (), self._worst_case(asked, answered), delta_cost)

    def worst_case_epsilon(self, queries: int, delta: float, rough: bool = False, answers: int | None = None) -> float:
        """Return ε at δ of `queries` queries, whatever the votes, and whichever of them are asked by `first`.

        rough    see `Cost.data_independent`
        answers  how many queries are answered at most; None: all
        """
        answered = queries if answers is None else min(queries, answers)
        cost = self.promise(queries, answered)
        if self.first is not None:
            cost = cost.dearer(self.first.promise(queries, answered))
        return cost.data_independent(delta, rough)

    def privacy_filter(self, epsilon: float, delta: float, queries: int, other: WorstCaseCost = FREE) -> PrivacyFilter:
        """Return the filter that keeps `queries` queries and `other` within a budget ε at δ, whatever the votes."""
        together = self.promise(queries, queries) + Cost(0, None, (), ((1, other),))
        if self.one_round or together.delta_cost >= delta:
            return OPEN if together.data_independent(delta) <= epsilon else CLOSED
        if self.moved is not None and together.data_independent(delta) <= epsilon:
            return OPEN  # however many queries are answered
        left = delta - together.delta_cost
        (_, ask), (_, answer) = self._worst_case()
        if np.isfinite(ask.mu + answer.mu):
            return gaussian_filter(epsilon, left, ask.mu, answer.mu, other.mu)
        return renyi_filter(epsilon, left, ask.rdp(ORDERS), answer.rdp(ORDERS), other.rdp(ORDERS))

    def audit(
        self, teachers: int, classes: int, queries: int, trials: int, delta: float, rng: np.random.Generator
    ) -> float | None:
        """See `nzc.audit`; None: there is no law to audit."""
        largest = [] if self.screen is None else [round(min(self.screen.threshold, teachers))]
        pair = empirical.worst_pair(self.log_law, teachers, classes, largest)
        queries = self._paid(min(queries, AUDITED))  # no run of so few queries ends early
        queries = queries if self.moved is None else min(queries, self.moved)
        found = empirical.audit(self._release, self.log_law, pair, queries, trials, delta, rng)
        empirical.check(found, data_independent=self.promise(queries, queries).data_independent(delta))
        return found.epsilon

    def moving(self, queries: int | None) -> "NoisyArgmax":
        """Return this mechanism for votes of which a unit of privacy moves one on at most so many queries a round."""
        if queries is not None:
            whole(1, moved=queries)
        found = copy(self)
        object.__setattr__(found, "moved", queries)
        object.__setattr__(found, "first", None if self.first is None else self.first.moving(queries))
        return found

    @property
    def bounds(self) -> tuple[DataDependentBound, ...]:
        """The papers' data-dependent bounds, of the screen and of the label; () where no theorem applies.

        The theorems cover the noisy argmax without a boost.
        """
        plain = self.boost.c == 0 and self.boost.shift == 1 and self._delta_cost is None
        parts = [self.noise.bound] if self.screen is None else [self.screen.bound, self.noise.bound]
        known = tuple(bound for bound in parts if bound is not None)
        return known if plain and len(known) == len(parts) else ()

    @property
    def asks_student(self) -> bool:
        """Whether the screen uses `student_probs`."""
        return self.screen is not None and self.screen.asks_student

    @property
    def one_round(self) -> bool:
        """Whether all queries of a run must be asked in one round."""
        return self.screen is not None and self.screen.one_round

    def reinforce(self, labels: Ints, student_probs: Floats) -> Ints:
        """Return `labels` with the student's own label where a query was not answered and the student is confident.

        This uses no votes. It is post-processing and costs nothing.
        """
        return labels if self.screen is None else self.screen.reinforce(labels, student_probs)

    @property
    def _delta_cost(self) -> float | None:
        """The δ per query that a label without noise uses behind a screen that protects it; None: no such screen."""
        return self.screen.delta_cost if self.screen is not None and isinstance(self.noise, NoNoise) else None

    def _paid(self, asked: int) -> int:
        return asked if self.screen is None else self.screen.paid(asked)

    def _worst_case(self, asked: int = 1, answered: int = 1) -> tuple[tuple[int, WorstCaseCost], ...]:
        """Return counts and costs, whatever the votes, of asking a query and, further, of its label."""
        ask = FREE if self.screen is None else self.screen.worst_case()
        label = FREE if self._delta_cost is not None else self.boost.worst_case(self.noise)
        return (self._paid(asked), ask), (answered, label)

    def _screened(self, labels: Floats, votes: Ints, student_probs: Floats | None) -> Floats:
        """Join laws of labels [..., outcomes] with the screen's at votes [..., classes]: [..., outcomes + 1]."""
        if self.screen is None:
            return np.concatenate([labels, np.full((*labels.shape[:-1], 1), -np.inf)], axis=-1)
        answer, abstain = self.screen.log_answer(votes, student_probs)
        return np.concatenate([labels + answer[..., None], abstain[..., None]], axis=-1)

    def _ordered(self, votes: Ints) -> Bools:
        """Return the queries whose law depends on class order: one vote away from a tie that the index breaks."""
        if self.boost.c == 0 and not isinstance(self.noise, NoNoise):
            return np.zeros(len(votes), dtype=bool)
        return gaps(votes)[:, 0] <= FAR

    def _pairs(self, batch: HistogramBatch) -> Pairs:
        """Return the laws at the batch's histograms and at all their neighbours."""
        moved, exists = batch.moved()
        row, a, b = np.nonzero(exists)
        probs = None if batch.student_probs is None else batch.student_probs[row]
        if self.screen is not None and self._delta_cost is not None:
            here = np.stack(self.screen.log_answer(batch.votes, batch.student_probs), axis=-1)[row]
            there = np.stack(self.screen.log_answer(moved[exists], probs), axis=-1)
        elif (laws := self._neighbourhood(batch)) is not None:
            labels = np.concatenate([laws.here[row], laws.here[row, a, None], laws.here[row, b, None]], axis=1)
            here = self._screened(labels, batch.votes[row], probs)
            there = self._screened(laws.there[exists], moved[exists], probs)
            return Pairs(row, here, there, np.pad(laws.copies[exists], ((0, 0), (0, 1)), constant_values=1))
        else:
            here = self.log_law(batch.votes, batch.student_probs)[row]
            there = self.log_law(moved[exists], probs)
        return Pairs(row, here, there, np.ones_like(here))

    def _neighbourhood(self, batch: HistogramBatch) -> Neighbourhood | None:
        """Return the laws of the labels from one grid a query; None where noise or boost do not allow it."""
        if not isinstance(self.noise, ContinuousNoise) or (self.boost.c > 0 and gaps(batch.votes)[:, 0].min() <= FAR):
            return None
        delta = self.boost.scale(batch.votes)
        scores = np.take_along_axis(self.boost.scores(batch.votes), batch.first, axis=1)
        leads = self.noise.leads(scores, delta[:, None])
        return self.noise.neighbourhood(leads, batch.copies.astype(np.float64), 1 / (self.noise.unit * delta))


def audit(
    mechanism: NoisyArgmax,
    teachers: int,
    classes: int,
    queries: int,
    trials: int = 20_000,
    delta: float = 1e-5,
    rng: np.random.Generator | None = None,
) -> float:
    """Return an empirical lower bound on the mechanism's ε at δ, 95 % confidence; 0: nothing was found.

    The mechanism is run `trials` times on its worst pair of neighbouring histograms, each time with `queries` queries.
    accounting.audit.Contradiction: the bound is above what accounting says holds for any votes.
    """
    between_0_and_1(delta=delta)
    rng = np.random.default_rng() if rng is None else rng
    return mechanism.audit(teachers, classes, queries, trials, delta, rng) or 0.0
