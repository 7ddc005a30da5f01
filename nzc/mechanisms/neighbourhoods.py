"""The law of a noisy argmax at votes and at all one vote away, and the exact cost that follows."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from nzc.accounting.data_dependent import gaps
from nzc.accounting.exact import ExactCost, Pairs, joined
from nzc.mechanisms.adjacency import FAR
from nzc.mechanisms.base import Mechanism
from nzc.mechanisms.integration import neighbourhood
from nzc.mechanisms.noise.base import NoNoise, require_total
from nzc.mechanisms.noise.continuous import ContinuousNoise
from nzc.mechanisms.own_parts import is_own
from nzc.mechanisms.screen import screened
from nzc.mechanisms.votes import Probs
from nzc.types import Bools, Floats, Ints

_BATCH = 2_000_000  # about how many numbers a batch may hold


def label_law(mechanism: Mechanism, votes: Ints, student_probs: Probs) -> Floats:
    """Return log-probabilities [queries, classes + 1] of every label, and of abstaining."""
    scores = mechanism.boost.scores(votes)
    leads = (scores - scores.max(axis=1, keepdims=True)) / mechanism.boost.scale(votes)[:, None]
    labels = mechanism.noise.log_law(leads)
    require_total(mechanism.noise, labels)
    return screened(mechanism.screen, labels, votes, student_probs)


def exact_cost(mechanism: Mechanism, votes: Ints, student_probs: Probs) -> ExactCost:
    """Return the exact cost of labels where one vote of a unit moves in every histogram."""
    screen = mechanism.screen
    if screen is not None and student_probs is not None and not is_own(screen):
        student_probs = screen.relevant_probs(votes, student_probs)
    batches, inverse = distinct_histograms(votes, student_probs, _ordered(mechanism, votes))

    def ceiling(orders: Floats) -> Floats:
        releases = mechanism.worst_case()
        return np.stack([count * release.rdp(orders) for count, release in releases])

    laws = [(batch.places, partial(pairs, mechanism, batch)) for batch in batches]
    return ExactCost(laws, inverse, ceiling)


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


@dataclass(frozen=True, repr=False)
class HistogramBatch:
    """Distinct histograms that are computed together. Classes with equal counts form one kind."""

    places: Ints  # [queries] numbers of these distinct histograms
    votes: Ints  # [queries, classes]
    student_probs: Probs  # [queries, classes] inf where they do not matter
    representative: Ints  # [queries, kinds] one class of each kind
    copies: Ints  # [queries, kinds] how many classes each kind has

    def moved(self) -> tuple[Ints, Bools]:
        """Return votes after one moved, [queries, from, to, classes], and which moves exist."""
        source = self.representative[:, :, None]
        target = self.representative[:, None, :]
        same = np.eye(self.representative.shape[1], dtype=bool)
        exists = ~same | (self.copies[:, :, None] > 1)
        target = np.where(same & exists, target + 1, target)  # another class of the same kind
        moved = self.votes[:, None, None, :] - self._one(source) + self._one(target)
        return moved, exists & (moved >= 0).all(axis=3)

    def counted(self, change: int) -> tuple[Ints, Bools]:
        """Return votes after one count changed, [queries, kind, classes], and which exist."""
        counted = self.votes[:, None, :] + change * self._one(self.representative)
        return counted, np.asarray((counted >= 0).all(axis=2))

    def probs_of(self, rows: Ints) -> Probs:
        """Return the student's probabilities at these of the batch's histograms."""
        return None if self.student_probs is None else self.student_probs[rows]

    def _one(self, place: Ints) -> Ints:
        """Return one vote for each class, [..., classes]."""
        return np.eye(self.votes.shape[1], dtype=np.int64)[place]


def distinct_histograms(
    votes: Ints, student_probs: Probs, ordered: Bools
) -> tuple[list[HistogramBatch], Ints]:
    """Return the distinct histograms in batches, and the number of each query's, [queries].

    Histograms that differ only in class order count as one, unless `ordered` [queries] marks them.
    Classes are of one kind where their counts are equal, and their probabilities if any.
    """
    columns = votes[:, None, :]
    if student_probs is not None:
        columns = np.stack([votes, student_probs], axis=1)
    queries, parts, classes = columns.shape
    order = np.lexsort(-columns[:, ::-1].swapaxes(0, 1), axis=-1)
    order[ordered] = np.arange(classes)
    columns = np.take_along_axis(columns, order[:, None, :], axis=2)
    keys = np.concatenate([ordered[:, None], columns.reshape(queries, parts * classes)], axis=1)
    keys, inverse = np.unique(keys, axis=0, return_inverse=True)
    single = keys[:, :1] > 0
    columns = keys[:, 1:].reshape(len(keys), parts, classes)
    begins = np.ones((len(keys), classes), dtype=bool)  # whether a class is the first of its kind
    begins[:, 1:] = single | (columns[..., 1:] != columns[..., :-1]).any(axis=1)
    kinds = begins.sum(axis=1)
    group = single[:, 0] * (classes + 1) + kinds

    batches = []
    for alike in np.unique(group):
        places = np.flatnonzero(group == alike)
        size = kinds[places[0]] ** 2 * (classes + 100)
        pieces = min(len(places) * size // _BATCH + 1, len(places))
        for some in np.array_split(places, pieces):
            representative = np.nonzero(begins[some])[1].reshape(len(some), -1)
            copies = np.diff(representative, axis=1, append=classes)
            counts = columns[some, 0].astype(np.int64)
            probs = None if student_probs is None else columns[some, 1]
            batches.append(HistogramBatch(some, counts, probs, representative, copies))
    return batches, inverse.reshape(-1)


def pairs(mechanism: Mechanism, batch: HistogramBatch) -> Pairs:
    """Return the laws at the batch's histograms and at all their neighbours."""
    parts = [_moved_pairs(mechanism, batch)]
    teachers = mechanism.adjacency.teachers
    if teachers is not None:  # a vote may vanish or appear
        for change in (-1, 1):
            counted, exists = batch.counted(change)
            exists &= (batch.votes.sum(axis=1) + change <= teachers)[:, None]
            parts.append(_pairs(mechanism, batch, counted, exists))
    return joined(*parts)


def _moved_pairs(mechanism: Mechanism, batch: HistogramBatch) -> Pairs:
    """Return the laws at the batch's histograms and where one vote moved."""
    moved, exists = batch.moved()
    noise = mechanism.noise
    boost = mechanism.boost
    votes = batch.votes
    is_near = boost.c > 0 and gaps(votes)[:, 0].min() <= FAR
    if is_near or not isinstance(noise, ContinuousNoise):
        return _pairs(mechanism, batch, moved, exists)
    delta = boost.scale(votes)
    scores = np.take_along_axis(boost.scores(votes), batch.representative, axis=1)
    leads = noise.leads(scores, delta[:, None])
    laws = neighbourhood(noise, leads, batch.copies.astype(np.float64), 1 / (noise.unit * delta))
    if laws is None:
        return _pairs(mechanism, batch, moved, exists)

    # One grid served all neighbours of a query.
    here, there, copies = laws
    row, loser, gainer = np.nonzero(exists)
    probs = batch.probs_of(row)
    here = np.concatenate([here[row], here[row, loser, None], here[row, gainer, None]], axis=1)
    return Pairs(
        row,
        screened(mechanism.screen, here, votes[row], probs),
        screened(mechanism.screen, there[exists], moved[exists], probs),
        np.pad(copies[exists], ((0, 0), (0, 1)), constant_values=1),
    )


def _pairs(mechanism: Mechanism, batch: HistogramBatch, others: Ints, exists: Bools) -> Pairs:
    """Return the laws at the batch's histograms and at `others` [queries, ..., classes]."""
    row = np.nonzero(exists)[0]
    if mechanism.screen is not None and mechanism.delta_cost is not None:
        law = mechanism.screen.law  # it protects the label, which costs nothing more
    else:
        law = partial(label_law, mechanism)
    here = law(batch.votes, batch.student_probs)
    there = law(others[exists], batch.probs_of(row))
    return Pairs(row, here[row], there, np.ones_like(there))
