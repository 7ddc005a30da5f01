"""Who is a neighbour: the laws of a noisy argmax at a histogram, and at every histogram one vote away."""

from typing import Protocol

import numpy as np

from nzc.accounting.data_dependent import gaps
from nzc.accounting.exact import Pairs
from nzc.mechanisms.boost import Boost
from nzc.mechanisms.histograms import FAR, HistogramBatch
from nzc.mechanisms.noise import ContinuousNoise, Noise, NoNoise
from nzc.mechanisms.noise.continuous import Neighbourhood
from nzc.mechanisms.screen import Screen
from nzc.types import Bools, Floats, Ints


class Mechanism(Protocol):
    """What pricing needs of a `NoisyArgmax`."""

    @property
    def noise(self) -> Noise: ...
    @property
    def boost(self) -> Boost: ...
    @property
    def screen(self) -> Screen | None: ...
    @property
    def moved(self) -> int | None: ...
    @property
    def asks_student(self) -> bool: ...
    @property
    def one_round(self) -> bool: ...
    def draw(self, votes: Ints, rng: np.random.Generator, student_probs: Floats | None = None) -> Ints: ...
    def log_law(self, votes: Ints, student_probs: Floats | None = None) -> Floats: ...


def screened(screen: Screen | None, labels: Floats, votes: Ints, student_probs: Floats | None) -> Floats:
    """Join laws of labels [..., outcomes] with the screen's at votes [..., classes]: [..., outcomes + 1]."""
    if screen is None:
        return np.concatenate([labels, np.full((*labels.shape[:-1], 1), -np.inf)], axis=-1)
    answer, abstain = screen.log_answer(votes, student_probs)
    return np.concatenate([labels + answer[..., None], abstain[..., None]], axis=-1)


def ordered(mechanism: Mechanism, votes: Ints) -> Bools:
    """Return the queries whose law depends on class order: one vote away from a tie that the index breaks."""
    if mechanism.boost.c == 0 and not isinstance(mechanism.noise, NoNoise):
        return np.zeros(len(votes), dtype=bool)
    return gaps(votes)[:, 0] <= FAR


def pairs_of(mechanism: Mechanism, batch: HistogramBatch) -> Pairs:
    """Return the laws at the batch's histograms and at all their neighbours."""
    moved, exists = batch.moved()
    row, a, b = np.nonzero(exists)
    probs = None if batch.student_probs is None else batch.student_probs[row]
    screen = mechanism.screen
    if screen is not None and isinstance(mechanism.noise, NoNoise) and screen.delta_cost is not None:
        here = np.stack(screen.log_answer(batch.votes, batch.student_probs), axis=-1)[row]
        there = np.stack(screen.log_answer(moved[exists], probs), axis=-1)
    elif (laws := _neighbourhood(mechanism, batch)) is not None:
        labels = np.concatenate([laws.here[row], laws.here[row, a, None], laws.here[row, b, None]], axis=1)
        here = screened(screen, labels, batch.votes[row], probs)
        there = screened(screen, laws.there[exists], moved[exists], probs)
        return Pairs(row, here, there, np.pad(laws.copies[exists], ((0, 0), (0, 1)), constant_values=1))
    else:
        here = mechanism.log_law(batch.votes, batch.student_probs)[row]
        there = mechanism.log_law(moved[exists], probs)
    return Pairs(row, here, there, np.ones_like(here))


def _neighbourhood(mechanism: Mechanism, batch: HistogramBatch) -> Neighbourhood | None:
    """Return the laws of the labels from one grid a query; None where noise or boost do not allow it."""
    noise, boost = mechanism.noise, mechanism.boost
    if not isinstance(noise, ContinuousNoise) or (boost.c > 0 and gaps(batch.votes)[:, 0].min() <= FAR):
        return None
    delta = boost.scale(batch.votes)
    leads = noise.leads(np.take_along_axis(boost.scores(batch.votes), batch.first, axis=1), delta[:, None])
    return noise.neighbourhood(leads, batch.copies.astype(np.float64), 1 / (noise.unit * delta))
