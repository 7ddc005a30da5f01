"""What to expect of labels, from public facts alone: how many rows to ask, how many are right."""

import numpy as np

from nzc.mechanisms.noisy_argmax import NoisyArgmax
from nzc.types import Floats, Ints

#: The share of votes for the right class that is assumed where nobody says it.
AGREEMENT = 0.8


def rows_to_ask(records: int, classes: int, public: int, noise_std: float) -> int:
    """Return how many public rows are best asked: seven times more records in a cell than noise.

    One for each class at least, a quarter of the public rows and a thousand at most. `noise_std` is
    that of one count.
    """
    best = max(records / (7 * noise_std), classes)
    return max(int(min(best, public / 4, 1000)), 1)


def vote_shares(classes: int, agreement: float = AGREEMENT, runner_up: float = 0.5) -> Floats:
    """Return shares of the votes [1, classes]: for the right class, a wrong one, and the rest.

    `runner_up` is the share of the other votes that one wrong class gets; 0: all of them are spread
    evenly.
    """
    rest = 1 - agreement
    others = classes - 1
    first = rest * max(runner_up, 1 / others)
    return np.array([[agreement, first, *[(rest - first) / max(others - 1, 1)] * (others - 1)]])


def histograms(shares: Floats, voters: int) -> tuple[Ints, Floats]:
    """Return distinct histograms of so many voters, as `shares` says, and how frequent [rows]."""
    exact = shares * voters
    votes = np.floor(exact + 1e-9).astype(np.int64)
    missing = voters - votes.sum(axis=1, keepdims=True)
    rank = np.argsort(np.argsort(votes - exact, axis=1, kind="stable"), axis=1)
    distinct, counts = np.unique(votes + (rank < missing), axis=0, return_counts=True)
    return distinct, counts / counts.sum()


def expected(mechanism: NoisyArgmax, votes: Ints, frequency: Floats) -> tuple[float, float]:
    """Return the expected shares of queries with a label, and with the right one, the first class.

    votes, frequency   see `histograms`
    """
    law = np.exp(mechanism.log_law(votes))
    return float(frequency @ (1 - law[:, -1])), float(frequency @ law[:, 0])


def expected_in_cells(
    mechanism: NoisyArgmax, records: int, classes: int, rows: int, agreement: float = AGREEMENT
) -> tuple[float, float]:
    """Return the same for own cells, as an estimate.

    Real cells differ in size, which costs, and smoothing helps.
    """
    return expected(mechanism, *histograms(vote_shares(classes, agreement, 0), records // rows))
