"""Records as vectors: each adds its features to the column of its class, in one matrix of sums."""

from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
from scipy.sparse import csr_array

from nzc.mechanisms.noisy_sums import UNIT
from nzc.types import Floats, Ints


@dataclass(frozen=True, repr=False)
class PrivateSums:
    """The private records as vectors; a unit of privacy adds one whole vector to each sum.

    features     [records, features]; those longer than 1 are cut to length 1, and those that are no
                 finite numbers count as 0
    labels       [records]
    classes      their number
    persons      [records] numbers from 0 of the units of privacy; None: each record is one
    most         so many records of a person count in full; None: they are averaged
    labels_only  whether a unit may change in its label only
    """

    features: Floats
    labels: Ints
    classes: int
    persons: Ints | None = None
    most: float | None = None
    labels_only: bool = False

    def of_persons(self, names: Ints, most: float | None) -> "PrivateSums":
        """Return the sums of persons, by the names [records] of whom a record is about."""
        return replace(self, persons=np.unique(names, return_inverse=True)[1], most=most)

    def class_counts(self) -> Ints:
        """Return the sum of the units' class counts, each cut to the length `most`, [classes]."""
        ones = np.ones((len(self.labels), 1))
        one_hot = np.eye(self.classes)[self.labels]
        return self._sum(ones, one_hot, counts_reach(self.most), self.most)[0]

    def matrix(self, code: Floats, centre: Floats | None = None) -> Ints:
        """Return the sum of the units' matrices φ ⊗ code[y], [features, columns].

        A person's matrix is cut to the length of the longest one that a record may add.

        code    [classes, columns]: a record adds its features times the row of its class
        centre  [records, classes] class probabilities by a public model, which `Recentred` puts in
                the place of those in the code; None: the code as it is
        """
        longest = code_reach(code, labels_only=False)
        factors = code[self.labels]
        if centre is not None:
            factors = Recentred(centre, longest).codes(np.eye(self.classes)[self.labels])
        return self._sum(
            self.bounded,
            factors,
            code_reach(code, self.labels_only),
            None if self.most is None else longest,
        )

    @property
    def units(self) -> int:
        """How many units there are, a public fact: so many records, or more, are counted."""
        return len(self.labels) if self.persons is None else int(self.persons.max()) + 1

    @cached_property
    def bounded(self) -> Floats:
        """The features of length 1 at most."""
        with np.errstate(over="ignore", invalid="ignore"):
            lengths = np.linalg.norm(self.features, axis=1, keepdims=True)
            bounded = self.features / np.maximum(1, lengths)
        return np.where(np.isfinite(lengths), bounded, 0)

    def _sum(self, features: Floats, factors: Floats, reach: float, longest: float | None) -> Ints:
        """Return the sum of whole vectors [features, columns]; see `scale_of` for `reach`.

        factors  [records, columns], by which a record's features are multiplied
        longest  to which length the vector of a unit is cut; None: none is longer
        """
        scale = np.full((self.units, 1), scale_of(features.shape[1] * factors.shape[1], reach))
        if longest is not None:
            squares = [(self._added(features, by) ** 2).sum(axis=1) for by in factors.T]
            lengths = np.sqrt(np.sum(squares, axis=0))
            scale[:, 0] *= np.minimum(1, longest / np.maximum(lengths, longest))
        columns = [np.rint(self._added(features, by) * scale).sum(axis=0) for by in factors.T]
        return np.stack(columns, axis=1).astype(np.int64)

    def _added(self, features: Floats, factors: Floats) -> Floats:
        """Return features times factors [records], added or averaged over the records of a unit."""
        vectors = features * factors[:, None]
        if self.persons is None:
            return vectors
        added = np.asarray(members_of(self.persons) @ vectors)
        if self.most is None:
            added /= np.bincount(self.persons)[:, None]
        return added


def members_of(persons: Ints) -> csr_array:
    """Return which rows are about which person, [persons, rows]: times rows, it adds them up."""
    rows = len(persons)
    return csr_array((np.ones(rows), (persons, np.arange(rows))))


def scale_of(numbers: int, reach: float) -> float:
    """Return the factor that makes vectors of so many numbers whole, by rounding.

    reach  half of the largest distance of two vectors that a unit of privacy may add

    Whole vectors are then at most 2·UNIT apart: rounding moves each by √numbers/2 at most, and the
    1 that is left is far more than float64 may be wrong by. Proof: docs/proofs.md, "Sums".
    """
    return float((UNIT - np.sqrt(numbers) / 2 - 1) / reach)


@cache
def contrasts(classes: int) -> Floats:
    """Return an orthonormal basis [classes, classes − 1] of all that adds to 0 over the classes."""
    basis, _ = np.linalg.qr(np.eye(classes) - 1 / classes)
    return basis[:, :-1]


@dataclass(frozen=True, repr=False)
class Recentred:
    """The codes of labels less a model's probabilities.

    centre   [rows, classes] or [classes], the model's probabilities
    longest  so long is a code at most, whatever the label: a row where one could be longer counts
             less, by a factor that depends on its features alone. So the codes of a row still add
             to 0 where the model is right.
    """

    centre: Floats
    longest: float

    @cached_property
    def _factors(self) -> Floats:
        squares = 1 - 2 * self.centre.min(axis=-1) + (self.centre**2).sum(axis=-1)
        factors = np.minimum(1, self.longest / np.sqrt(squares))
        return np.asarray(factors[..., None])

    def codes(self, labels: Floats) -> Floats:
        """Return the codes [rows, classes − 1] of labels.

        labels  [rows, classes] one-hot, or class probabilities, or shares of them that are kept
        """
        apart = labels - labels.sum(axis=1, keepdims=True) * self.centre
        return np.asarray(self._factors * (apart @ contrasts(apart.shape[1])))

    def by_class(self, slopes: Floats) -> Floats:
        """Return the slopes by labels [rows, classes], given those by codes: the transpose."""
        slopes = self._factors * (slopes @ contrasts(slopes.shape[1] + 1).T)
        return np.asarray(slopes - (slopes * self.centre).sum(axis=1, keepdims=True))


def counts_reach(most: float | None) -> float:
    """Return the `reach` of class counts: none is below 0, so two are at most √2·most apart."""
    return (most or 1.0) / np.sqrt(2)


def code_reach(code: Floats, labels_only: bool) -> float:
    """Return the `reach` of φ ⊗ code[y] with |φ| ≤ 1, if a person's are cut to the longest."""
    if labels_only:
        apart = np.linalg.norm(code[:, None] - code, axis=2)
        return float(apart.max() / 2)
    return float(np.linalg.norm(code, axis=1).max())
