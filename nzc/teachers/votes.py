"""Votes from a file: account for an ensemble that somebody else trained."""

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

import numpy as np

from nzc._types import AnyArray, Ints
from nzc.datasets import Roles
from nzc.errors import InputError, reason
from nzc.store import Store
from nzc.teachers.teachers import Ballots, Size, Teachers
from nzc.training import Training


@dataclass(frozen=True)
class VoteFile(Teachers):
    """Histograms [queries, classes] in an .npy file; every row sums to the number of teachers.

    With a dataset, row i belongs to its public row i; where the dataset is one file (npz, folder) and there are votes
    for all of its rows, to row i of that file. Without one, `labels` [queries] may give the truth.
    """

    path: str
    labels: str | None = None

    @cached_property
    def _votes(self) -> Ints:
        votes = _load(self.path, "path")
        if votes.ndim != 2 or 0 in votes.shape or votes.shape[1] < 2:
            raise InputError(
                "path", self.path, f"must hold votes [queries, 2 or more classes], not {list(votes.shape)}"
            )
        whole = votes.dtype.kind in "iu" or (
            votes.dtype.kind == "f" and np.isfinite(votes).all() and (votes == np.rint(votes)).all()
        )
        if not whole:
            raise InputError("path", self.path, "must hold whole numbers of votes")
        if votes.min() < 0:
            raise InputError("path", self.path, "must hold counts of 0 or more")
        if votes.max() > 2**31:
            raise InputError("path", self.path, f"must hold counts up to {2**31:,}")
        votes = votes.astype(np.int64)
        sums = votes.sum(axis=1)
        if (odd := np.flatnonzero(sums != sums[0])).size or sums[0] < 1:
            row = int(odd[0]) if odd.size else 0
            raise InputError("path", self.path, f"must have rows of one sum, the number of teachers; row {row} has not")
        return votes

    @cached_property
    def _labels(self) -> Ints | None:
        if self.labels is None:
            return None
        labels = _load(self.labels, "labels")
        rows, classes = self._votes.shape
        if labels.shape != (rows,) or labels.dtype.kind not in "iu":
            raise InputError("labels", self.labels, f"must hold {rows:,} whole numbers, one per row of votes, not "
                             f"{labels.dtype} {list(labels.shape)}")  # fmt: skip
        if labels.min() < 0 or labels.max() >= classes:
            wrong = labels.min() if labels.min() < 0 else labels.max()
            raise InputError("labels", self.labels, f"must hold classes from 0 to {classes - 1}, not {wrong}")
        return labels.astype(np.int64)

    def check(self, roles: Roles | None) -> Size:
        rows, classes = self._votes.shape
        if roles is not None:
            if classes != roles.classes:
                raise InputError("path", self.path, f"must have the dataset's {roles.classes} classes, not {classes}")
            rows = len(self._of(roles))
        return Size(rows, classes, int(self._votes[0].sum()))

    def truth(self, roles: Roles | None) -> Ints | None:
        return self._labels if roles is None else roles.public.y[: len(self._of(roles))]

    def learnt_from(self, roles: Roles | None) -> str:
        """Of the votes themselves: what the teachers learnt from is not here."""
        return sha256(self._votes.tobytes()).hexdigest()

    def train(self, roles: Roles | None, store: Store, training: Training) -> AnyArray:
        return self._votes

    def vote(self, roles: Roles | None, trained: AnyArray) -> Ballots:
        return Ballots(self._of(roles), int(self._votes[0].sum()), self.truth(roles))

    def _of(self, roles: Roles | None) -> Ints:
        """The votes on the rows that can be asked about."""
        if roles is None:
            return self._votes
        rows = sum(len(split) for split in (roles.private, roles.public, roles.test))
        if roles.origin is not None and len(self._votes) >= rows:
            return self._votes[roles.origin]
        return self._votes[: len(roles.public)]


def _load(path: str, key: str) -> AnyArray:
    try:
        array = np.load(path, allow_pickle=False)
    except Exception as error:  # whatever NumPy made of these bytes
        raise InputError(key, path, f"must be a readable .npy file without pickles ({reason(error)})") from error
    if not isinstance(array, np.ndarray):
        raise InputError(key, path, "must be an .npy file of one array, not an archive")
    return array
