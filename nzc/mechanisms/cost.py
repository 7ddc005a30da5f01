"""What the labels of a noisy argmax cost: at most for any votes, exactly at given votes, audited.

The functions that `NoisyArgmax` lists are its methods.
"""

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.random import Generator

from nzc.accounting import audit as empirical
from nzc.accounting.cost import Cost
from nzc.accounting.data_dependent import DataDependentBound, gaps
from nzc.accounting.data_independent import (
    FREE,
    UNBOUNDED,
    KnownCost,
    Release,
    WorstCaseCost,
    gaussian_cost,
)
from nzc.accounting.exact import ExactCost
from nzc.accounting.kinds import Kind
from nzc.accounting.privacy_filter import CLOSED, PrivacyFilter, gaussian_filter, renyi_filter
from nzc.accounting.rdp import ORDERS
from nzc.accounting.sampling import sampled
from nzc.mechanisms.adjacency import FAR, OwnCells, Vectors
from nzc.mechanisms.neighbourhoods import Mechanism, distinct, pairs
from nzc.mechanisms.noise.base import Noise, NoNoise
from nzc.mechanisms.noise.continuous import ContinuousNoise
from nzc.mechanisms.own_parts import is_own, unbuilt
from nzc.mechanisms.votes import ABSTAIN, Probs, as_labels, as_votes
from nzc.types import Bools, Floats, Ints
from nzc.validation import InputError, between_0_and_1, generator, positive

__all__ = ["audit"]

UNSTATED: Floats = np.empty(0)  # stands for `student_probs` that the caller of `cost` left out
#: An audit runs at most so many queries; its result bounds every longer run from below as well.
_AUDITED = 100
#: Counts and costs of asking queries and, further, of their labels.
Prices = tuple[Release, Release]


def worst_case(mechanism: Mechanism, asked: int = 1, answered: int = 1) -> Prices:
    """Return counts and costs for any votes of asking queries and, further, of their labels."""
    screen = mechanism.screen
    adjacency = mechanism.adjacency
    if isinstance(adjacency, Vectors):  # all labels follow from one sum, which moves by 2·weight
        return (asked, FREE), (
            min(answered, 1),
            mechanism.noise.worst_case(2**0.5 * adjacency.weight),
        )
    probability = adjacency.probability
    count, label = _label(mechanism, answered)
    if screen is None:
        return (asked, FREE), (count, sampled(label, probability))
    ask = screen.worst_case(mechanism.adjacency.votes)
    if probability < 1:
        both = gaussian_cost(float(np.hypot(ask.mu, label.mu)))  # of one sample
        return (asked, sampled(both, probability)), (0, FREE)
    if label.hint is not None and label.hint.kind is Kind.LABEL:
        label = replace(label, hint=replace(label.hint, kind=Kind.SCREENED))
    return (asked, ask), (count, label)


def _label(mechanism: Mechanism, labels: int) -> Release:
    """Return what so many labels cost beside their screen: a count, and the cost of each."""
    noise = mechanism.noise
    adjacency = mechanism.adjacency
    plain = mechanism.boost.plain
    cost = mechanism.boost.worst_case(noise)
    if mechanism.delta_cost is not None:
        return labels, FREE
    if isinstance(adjacency, OwnCells):  # all labels cost as much as those of one query
        changes = adjacency.changes
        if plain and changes > 1:
            changes, cost = noise.own_cells(adjacency.records)
        elif adjacency.records > 1:
            cost = UNBOUNDED
        labels = min(labels, 1) * changes
    elif adjacency.votes > 1:
        cost = noise.worst_case(adjacency.votes) if plain and noise.l1_bounded else UNBOUNDED
    # `hint` is about the argmax, and about one moved vote.
    if mechanism.releases == "counts" or adjacency.votes > 1 or _is_lent(noise, cost):
        cost = replace(cost, hint=None)
    return labels, cost


def _is_lent(noise: Noise, cost: WorstCaseCost) -> bool:
    """Return whether a noise of the user's own has a composition that is proved for nzc's only."""
    if cost.hint is None or cost.hint.kind is Kind.RANGE:
        return False
    return is_own(noise)


def promise(mechanism: Mechanism, asked: int, answered: int) -> Cost:
    """Return what so many queries and labels cost at most, whatever the votes."""
    delta_cost = asked * (mechanism.delta_cost or 0.0)
    return Cost(asked, None, (), worst_case(mechanism, asked, answered), delta_cost)


def worst_case_epsilon(
    mechanism: Mechanism,
    queries: int,
    delta: float,
    rough: bool = False,
    answers: int | None = None,
    other: WorstCaseCost = FREE,
) -> float:
    """Return ε at δ of `queries` queries, whatever the votes and whichever `first` is asked.

    rough    see `Cost.data_independent`
    answers  how many queries are answered at most; None: all
    other    the cost of another release beside the labels
    """
    answered = queries if answers is None else min(queries, answers)
    labels = promise(mechanism, queries, answered)
    if mechanism.first is not None:
        labels = labels.dearer(promise(mechanism.first, queries, answered))
    return _beside(labels, other).published(delta, rough)[0]


def privacy_filter(
    mechanism: Mechanism, epsilon: float, delta: float, queries: int, other: WorstCaseCost = FREE
) -> PrivacyFilter:
    """Return the filter that keeps `queries` queries and `other` within ε at δ, for any votes."""
    epsilon = positive("epsilon", epsilon)
    together = _beside(promise(mechanism, queries, queries), other)
    left = between_0_and_1("delta", delta) - together.delta_cost
    if left <= 0:
        return CLOSED
    (_, ask), (_, answer) = worst_case(mechanism)
    if np.isfinite(ask.mu + answer.mu):
        return gaussian_filter(epsilon, left, ask.mu, answer.mu, other.mu)
    return renyi_filter(epsilon, left, ask.rdp(ORDERS), answer.rdp(ORDERS), other.rdp(ORDERS))


def _beside(labels: Cost, other: WorstCaseCost) -> Cost:
    """Return the cost of labels and of one other release."""
    return labels + Cost(0, None, (), ((1, other),))


def bounds(mechanism: Mechanism) -> tuple[DataDependentBound, ...]:
    """The papers' data-dependent bounds, of the screen and of the label; () without theorem."""
    one_vote = mechanism.adjacency.everywhere and mechanism.adjacency.known
    labels = mechanism.delta_cost is None and mechanism.releases == "labels"
    if not (one_vote and labels and mechanism.boost.plain):
        return ()
    parts = [mechanism.noise.bound]
    if mechanism.screen is not None:
        parts.insert(0, mechanism.screen.bound)
    theorems = tuple(bound for bound in parts if bound is not None)
    if len(theorems) < len(parts):
        return ()
    return theorems


def cost(mechanism: Mechanism, votes: Ints, labels: Ints, student_probs: Probs = UNSTATED) -> Cost:
    """Return what releasing `labels` at these votes cost; the arguments are those of `release`.

    InputError: `student_probs` is left out although the screen uses it. Where `release` had none,
    it is None.
    """
    if student_probs is UNSTATED:
        if mechanism.asks_student:
            raise InputError(
                "student_probs", "missing", "must be what `release` was given; None if it had none"
            )
        student_probs = None
    votes = mechanism.votes(votes)
    abstains = mechanism.screen is not None
    labels = as_labels(mechanism.labels_of(np.asarray(labels)), votes, abstains)
    student_probs = mechanism.known_to_screen(votes, student_probs)
    theorems = bounds(mechanism)
    asked: list[Floats] = []
    shares = [np.ones(len(votes))]
    if theorems and mechanism.screen is not None:
        asked.append(mechanism.screen.histograms(votes, student_probs))
        shares.append(np.exp(mechanism.screen.log_answer(votes, student_probs)[0]))
    answered = votes[labels != ABSTAIN]
    return replace(
        promise(mechanism, len(votes), len(votes)),
        exact=(exact(mechanism, votes, student_probs),),
        bounded=tuple(zip(theorems, [*asked, answered], strict=False)),
        printed=tuple(zip(theorems, [*asked, votes], shares, strict=False)),
        claim=mechanism.noise.claimed if mechanism.boost.c > 0 else None,
    )


def exact(mechanism: Mechanism, votes: Ints, student_probs: Probs = None) -> ExactCost | KnownCost:
    """Return the exact Rényi cost of these queries, screening included."""
    votes = as_votes(votes, one_sum=False)
    probs = mechanism.known_to_screen(votes, student_probs)
    adjacency = mechanism.adjacency
    screen = mechanism.screen
    if mechanism.releases == "counts" or not (adjacency.known and adjacency.everywhere):
        return KnownCost(len(votes), lambda queries: worst_case(mechanism, queries, queries))
    if screen is not None and probs is not None and not is_own(screen):
        probs = screen.relevant_probs(votes, probs)

    batches, inverse = distinct(votes, probs, _ordered(mechanism, votes))

    def ceiling(orders: Floats) -> Floats:
        releases = worst_case(mechanism)
        return np.stack([count * release.rdp(orders) for count, release in releases])

    made = [(batch.places, partial(pairs, mechanism, batch)) for batch in batches]
    return ExactCost(made, inverse, ceiling)


def _ordered(mechanism: Mechanism, votes: Ints) -> Bools:
    """Return at which histograms the class order matters, [queries].

    It breaks ties of nzc's own parts. It may matter to any part of the user's own, unless its law
    is nzc's integral.
    """
    noise = mechanism.noise
    ties = mechanism.boost.c > 0 or isinstance(noise, NoNoise)
    own = is_own(noise) and not isinstance(noise, ContinuousNoise)
    near = gaps(votes)[:, 0] <= FAR
    return (ties & near) | own | is_own(mechanism.screen)


def audit(
    mechanism: Mechanism,
    teachers: int,
    classes: int,
    queries: int,
    trials: int = 20_000,
    delta: float = 1e-5,
    rng: Generator | int | None = None,
) -> float | None:
    """Return an empirical lower bound on the mechanism's ε at δ, 95 % confidence; 0: none found.

    None: there is no law to audit. The mechanism is run `trials` times on its worst pair of
    neighbouring histograms, each time with `queries` queries. accounting.audit.Contradiction: the
    bound is above what accounting says holds for any votes.
    """
    if callable(mechanism):
        raise unbuilt("mechanism", mechanism)
    screen = mechanism.screen
    # Sums and true labels have no law of labels; the votes of a fixed pair are not sampled.
    if mechanism.releases in ("sums", "truth") or mechanism.adjacency.probability < 1:
        return None
    largest = [] if screen is None else [round(min(screen.threshold, teachers))]
    pair = empirical.worst_pair(mechanism.log_law, teachers, classes, largest)
    queries = min(queries, _AUDITED)
    if not mechanism.adjacency.everywhere:
        queries = 1  # a vote moves within one histogram
    evidence = mechanism.evidence(pair)
    drawn = generator(rng or 0)
    epsilon = empirical.audit(mechanism.draw, evidence, pair, queries, trials, delta, drawn)
    bound = promise(mechanism, queries, queries).data_independent(delta)
    if epsilon > bound:
        found = f"audit: ε ≥ {epsilon:.3f} at 95 % confidence"
        raise empirical.Contradiction(f"{found}, but epsilon.data_independent={bound:.3f}")
    return epsilon
