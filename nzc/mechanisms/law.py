"""The law of a noisy argmax, at vote histograms and one vote away."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from nzc.accounting import audit as empirical
from nzc.accounting.data_dependent import gaps
from nzc.accounting.data_independent import UNBOUNDED, WorstCaseCost
from nzc.accounting.exact import Pairs, joined
from nzc.mechanisms.adjacency import FAR, Adjacency, Boost, OwnCells, OwnLabels
from nzc.mechanisms.noise import ContinuousNoise, Noise, NoNoise
from nzc.mechanisms.noise.base import require_total
from nzc.mechanisms.screen import Screen
from nzc.mechanisms.votes import ABSTAIN, HistogramBatch, as_probabilities, as_votes
from nzc.types import Bools, Floats, Ints


@dataclass(frozen=True, repr=False)
class ArgmaxLaw:
    """The parts of a noisy argmax, its draws and their law (see `NoisyArgmax`)."""

    noise: Noise  # the law of Z
    boost: Boost = field(default_factory=Boost)  # c and Δ
    screen: Screen | None = None  # which queries are answered; None: all
    adjacency: Adjacency = field(
        default_factory=Adjacency, kw_only=True
    )  # which histograms are neighbours
    releases_counts: ClassVar[bool] = False  # whether `release` returns noisy counts, not labels

    @property
    def asks_student(self) -> bool:
        """Whether the screen uses `student_probs`."""
        return self.screen is not None and self.screen.asks_student

    def known_to_screen(self, votes: Ints, student_probs: Floats | None) -> Floats | None:
        """Return the probabilities [queries, classes] that the screen gets; None where it uses
        none.
        """
        probabilities = as_probabilities(student_probs, votes)
        return probabilities if self.asks_student else None

    @property
    def delta_cost(self) -> float | None:
        """The δ per query that a label without noise uses behind a screen that protects it; None:
        no such screen.
        """
        return (
            self.screen.delta_cost
            if self.screen is not None and isinstance(self.noise, NoNoise)
            else None
        )

    @property
    def one_round(self) -> bool:
        """Whether all queries of a run must be asked in one round."""
        return self.screen is not None and self.screen.one_round

    def votes(self, votes: Any) -> Ints:
        """Return histograms between the neighbours of this mechanism, checked (see `as_votes`)."""
        state = "mechanism.between(nzc.Abstentions(teachers=NUMBER))"
        return as_votes(votes, self.adjacency.everywhere, self.adjacency.teachers, state)

    def draw(
        self, votes: Ints, rng: np.random.Generator, student_probs: Floats | None = None
    ) -> Ints:
        """Draw one label per query, also after a screen has ended the run (`Screen.ended`)."""
        labels = self.noise.winner(self.boost.scores(votes), self.boost.scale(votes), rng)
        if self.screen is None:
            return labels
        return np.where(self.screen.answers(votes, rng, student_probs), labels, ABSTAIN)

    def labels_of(self, released: Ints) -> Ints:
        """Return the labels [queries] of what `release` returned: here, itself."""
        return released

    def log_law(self, votes: Ints, student_probs: Floats | None = None) -> Floats:
        """Return the log-probability of every outcome, [queries, classes + 1]: each label, then
        abstaining.
        """
        votes = as_votes(votes, one_sum=False)
        return self._log_law(votes, self.known_to_screen(votes, student_probs))

    def _log_law(self, votes: Ints, student_probs: Floats | None) -> Floats:
        scores = self.boost.scores(votes)
        leads = (scores - scores.max(axis=1, keepdims=True)) / self.boost.scale(votes)[:, None]
        labels = self.noise.log_law(leads)
        require_total(self.noise, labels)
        return self._screened(labels, votes, student_probs)

    def evidence(self, pair: tuple[Ints, Ints]) -> Callable[[Ints], Floats]:
        """Return the log-likelihood ratio of released labels [queries] between two histograms
        [classes], for audits.
        """
        p, q = (np.maximum(self.log_law(votes[None])[0], empirical.FLOOR) for votes in pair)
        return lambda labels: (p - q)[labels]  # label −1 (abstaining) reads the last entry

    def worst_label(self, labels: int) -> tuple[int, WorstCaseCost]:
        """Return what so many labels cost, whatever the votes: a count, and the cost of each."""
        cost, adjacency, plain = self.boost.worst_case(self.noise), self.adjacency, self.boost.plain
        if adjacency.votes > 1:  # `shown` is of one vote that moves
            known = plain and self.noise.concentrated
            return labels, replace(
                self.noise.worst_case(adjacency.votes), shown=None
            ) if known else UNBOUNDED
        if not isinstance(adjacency, OwnCells):
            return labels, cost
        count = (
            1 if isinstance(adjacency, OwnLabels) else 2
        )  # two counts change, in two histograms or in one
        if count == 2 and plain:
            count, cost = self.noise.own_cells(adjacency.records)
        return min(labels, 1) * count, cost if plain or adjacency.records == 1 else UNBOUNDED

    def pairs(self, batch: HistogramBatch) -> Pairs:
        """Return the laws at the batch's histograms and at all their neighbours."""
        moved = self.moved_pairs(batch)
        if self.adjacency.teachers is None:
            return moved
        return joined(moved, self.counted_pairs(batch, -1), self.counted_pairs(batch, 1))

    def moved_pairs(self, batch: HistogramBatch) -> Pairs:
        """Return the laws at the batch's histograms and where one vote moved."""
        moved, exists = batch.moved()
        row, a, b = np.nonzero(exists)
        votes, probs = (
            batch.votes,
            None if batch.student_probs is None else batch.student_probs[row],
        )
        noise, boost = self.noise, self.boost
        if isinstance(noise, ContinuousNoise) and (boost.c == 0 or gaps(votes)[:, 0].min() > FAR):
            delta = boost.scale(votes)
            leads = noise.leads(
                np.take_along_axis(boost.scores(votes), batch.representative, axis=1),
                delta[:, None],
            )
            laws = noise.neighbourhood(
                leads, batch.copies.astype(np.float64), 1 / (noise.unit * delta)
            )
            if laws is not None:  # one grid served all neighbours of a query
                own, others, copies = laws
                labels = np.concatenate([own[row], own[row, a, None], own[row, b, None]], axis=1)
                there = self._screened(others[exists], moved[exists], probs)
                copies = np.pad(copies[exists], ((0, 0), (0, 1)), constant_values=1)
                return Pairs(row, self._screened(labels, votes[row], probs), there, copies)
        return self._pairs(batch, moved, exists)

    def counted_pairs(self, batch: HistogramBatch, change: int) -> Pairs:
        """Return the laws at the batch's histograms and where one count differs by ±1."""
        counted, exists = batch.counted(change)
        if self.adjacency.teachers is not None:
            exists &= (batch.votes.sum(axis=1) + change <= self.adjacency.teachers)[:, None]
        return self._pairs(batch, counted, exists)

    def _pairs(self, batch: HistogramBatch, others: Ints, exists: Bools) -> Pairs:
        """Return the laws at the batch's histograms beside those at `others` [queries, ...,
        classes] that exist.
        """
        row = np.nonzero(exists)[0]
        probs = None if batch.student_probs is None else batch.student_probs[row]
        if self.screen is not None and self.delta_cost is not None:
            here = np.stack(self.screen.log_answer(batch.votes, batch.student_probs), axis=-1)
            there = np.stack(self.screen.log_answer(others[exists], probs), axis=-1)
        else:
            here, there = (
                self._log_law(batch.votes, batch.student_probs),
                self._log_law(others[exists], probs),
            )
        return Pairs(row, here[row], there, np.ones_like(there))

    def _screened(self, labels: Floats, votes: Ints, student_probs: Floats | None) -> Floats:
        """Join laws of labels [..., outcomes] with the screen's at votes [..., classes]: [...,
        outcomes + 1].
        """
        if self.screen is None:
            return np.concatenate([labels, np.full((*labels.shape[:-1], 1), -np.inf)], axis=-1)
        answer, abstain = self.screen.log_answer(votes, student_probs)
        return np.concatenate([labels + answer[..., None], abstain[..., None]], axis=-1)
