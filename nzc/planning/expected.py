"""What to expect of labels, from public facts alone: how many rows to ask, and how many labels will
be right.
"""

import numpy as np

from nzc.mechanisms.noisy_argmax import NoisyArgmax
from nzc.types import Floats, Ints

AGREEMENT = 0.8  # what is assumed where nobody says how many votes are for the right class
#: Noise may spoil one label in ten, and four in ten in own cells, where neighbouring rows share
#: their counts.
ENOUGH, ENOUGH_IN_CELLS = 0.9, 0.6
PER_CLASS = 2  # a student needs at least so many labels of each class; fewer are warned of


def rows_to_ask(records: int, classes: int, public: int, noise_std: float) -> int:
    """Return how many of the public rows are best asked: a cell should have seven times more
    records than noise.

    One for each class at least, a quarter of the public rows and a thousand at most. `noise_std` is
    that of one count.
    """
    return max(int(min(max(records / (7 * noise_std), classes), public / 4, 1000)), 1)


def vote_shares(classes: int, agreement: float = AGREEMENT, runner_up: float = 0.5) -> Floats:
    """Return shares of the votes [1, classes]: for the right class, for a wrong one, and the rest
    spread evenly.

    `runner_up` is the share of the other votes that one wrong class gets; 0: all of them are spread
    evenly.
    """
    rest, others = 1 - agreement, classes - 1
    first = rest * max(runner_up, 1 / others)
    return np.array([[agreement, first, *[(rest - first) / max(others - 1, 1)] * (others - 1)]])


def histograms(shares: Floats, voters: int) -> tuple[Ints, Floats]:
    """Return the distinct histograms of so many voters, each row as in `shares`, and how frequent
    they are [rows].
    """
    exact = shares * voters
    votes = np.floor(exact + 1e-9).astype(np.int64)
    missing = voters - votes.sum(axis=1, keepdims=True)
    votes += np.argsort(np.argsort(votes - exact, axis=1, kind="stable"), axis=1) < missing
    distinct, counts = np.unique(votes, axis=0, return_counts=True)
    return distinct, counts / counts.sum()


def expected(mechanism: NoisyArgmax, votes: Ints, frequency: Floats) -> tuple[float, float]:
    """Return the expected shares of queries that get a label, and the right one: the first class of
    `histograms`.
    """
    law = np.exp(mechanism.log_law(votes))
    return float(frequency @ (1 - law[:, -1])), float(frequency @ law[:, 0])


def expected_in_cells(
    mechanism: NoisyArgmax, records: int, classes: int, rows: int, agreement: float = AGREEMENT
) -> tuple[float, float]:
    """Return the same for own cells. It is an estimate: real cells differ in size, which costs, and
    smoothing helps.
    """
    return expected(mechanism, *histograms(vote_shares(classes, agreement, 0), records // rows))


def doubts(
    labels: float,
    accuracy: float,
    classes: int,
    epsilon: float | None,
    delta: float,
    records: int | None,
    without: float = 1.0,
    in_cells: bool = False,
    agreement: float | None = AGREEMENT,
) -> list[str]:
    """Return what speaks against a run, one sentence each.

    Of expected `labels`, a share `accuracy` will be right, and `without` noise another share;
    `epsilon` is the budget where it limits their number. `agreement` is what `accuracy` assumes;
    None: the reader knows it.
    """
    lines = []
    if accuracy < (ENOUGH_IN_CELLS if in_cells else ENOUGH) * without:
        given = "" if agreement is None else f" if {100 * agreement:.0f} % of the votes were right"
        shares = f"{100 * accuracy:.1f} % of the labels would be right{given}, without noise {100 * without:.1f} %"
        remedy = f"use more {'records' if in_cells else 'teachers'}, a larger ε or fewer queries"
        lines.append(
            f"noise drowns the votes: {shares}; {remedy} (at a fixed ε, more queries mean {price(in_cells)})"
        )
    if epsilon is not None and labels < PER_CLASS * classes:
        few = f"fewer than {PER_CLASS} for each of {classes} classes"
        lines.append(f"ε = {epsilon:g} buys {labels:.3g} labels, {few}")
    if records is not None and delta > 1 / records:
        lines.append(f"δ = {delta:g} is above 1/records = {1 / records:.2g}: choose a smaller δ")
    return lines


def price(in_cells: bool) -> str:
    """Return what more queries cost where a budget decides the noise."""
    return f"{'fewer votes' if in_cells else 'more noise'} for each"
