"""What is published about the same people: the total ε of all published folders, and its limit.

Data of one name are about the same people, and so are data that names connect (`Ledger.name`).
"""

from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from nzc.privacy.ledger import CONNECTED, Ledger, now
from nzc.validation import InputError

#: ε, δ and neighbours (`DataSplits.neighbours`) of a published folder.
Promised = tuple[float, float, str]


@dataclass(frozen=True)
class Total:
    """How many folders are published about the same people, and the sums of their ε and δ.

    (ε, δ)-differential privacy composes so, also where later settings follow from earlier folders
    (Rogers et al. 2016).
    """

    folders: int
    epsilon: float  # inf where the folders' neighbours differ: then their ε have no sum
    delta: float
    limit: float | None = None  # the smallest budget.total that was ever given for these people

    @classmethod
    def of(cls, promises: Collection[Promised], limit: float | None = None) -> "Total":
        """Return the total of these folders. Decimals are added as shown: 0.1 + 0.2 is 0.3.

        Folders protect the same where unit, the column that names it and the kind of neighbours are
        the same.
        """
        epsilons, deltas, neighbours = zip(*promises, strict=True)
        epsilon, delta = (float(sum(map(Decimal, map(str, part)))) for part in (epsilons, deltas))
        if len(set(neighbours)) > 1:
            epsilon = np.inf
        return cls(len(promises), epsilon, delta, limit)


@dataclass(frozen=True)
class People:
    """Whom private data are about: those of a dataset in the ledger, and those of a name."""

    ledger: Ledger
    dataset: str
    name: str | None

    def limit(self, given: float | None) -> float | None:
        """Return the smallest limit that holds, `given` now or before; None: there is none."""
        ((limit,),) = self.ledger.execute(
            f"SELECT min(epsilon) FROM (SELECT epsilon FROM limits WHERE dataset IN ({CONNECTED}) "
            "UNION SELECT ?3)",
            self.dataset,
            self.name,
            given,
        )
        return None if limit is None else float(limit)

    def total_with(self, promised: Promised, limit: float | None, run: str | None = None) -> Total:
        """Return the total with another folder, and record it as that of `run`, unless None.

        InputError: the total exceeds `limit`
        """
        with self.ledger.transaction() as connection:
            earlier = connection.execute(
                "SELECT epsilon, delta, unit FROM published "
                f"WHERE dataset IN ({CONNECTED}) AND run IS NOT ?3",
                (self.dataset, self.name, run),
            ).fetchall()
            total = Total.of([promised, *earlier], limit)
            if limit is not None and total.epsilon > limit:
                allowed = (
                    f"must be at least {total.epsilon:.6g}, the ε of all {total.folders} folders "
                    "published about these people, with this run"
                )
                if np.isinf(total.epsilon):
                    allowed = "allows no such run: what is published then protects different things"
                raise InputError("budget.total", limit, f"{allowed}; the smallest limit holds")
            if run is not None:
                connection.execute(
                    "INSERT OR IGNORE INTO published VALUES (?, ?, ?, ?, ?, ?)",
                    (run, self.dataset, now(), *promised),
                )
        return total
