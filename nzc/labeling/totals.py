"""The people of private data, in the ledger: which data share their groups or ids, and what is
published about them.

Data of one name are about the same people, and so are data that names connect (`Ledger.name`).
"""

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from nzc.data.hashing import draw_by_key
from nzc.labeling.ledger import Ledger, now
from nzc.types import AnyArray, Ints
from nzc.validation import InputError

#: So many of the smallest hashes stand for all groups or ids of a dataset.
_KEPT = 10_000
#: ε, δ and neighbours (`Teachers.neighbours`) of a published folder.
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
        """Return the total of these folders. Decimals are added as they are shown: 0.1 + 0.2 is
        0.3.

        Folders protect the same where unit, the column that names it and the kind of neighbours are
        the same.
        """
        epsilon = float(sum(Decimal(str(promise[0])) for promise in promises))
        delta = float(sum(Decimal(str(promise[1])) for promise in promises))
        if len({neighbours for *_, neighbours in promises}) > 1:
            epsilon = np.inf
        return cls(len(promises), epsilon, delta, limit)


def limit_of(ledger: Ledger, dataset: str, name: str | None, given: float | None) -> float | None:
    """Return the smallest limit that holds for the people of a dataset, `given` now or before;
    None: there is none.
    """
    together = _together(ledger, dataset, name)
    limits = [
        epsilon
        for other, epsilon in ledger.execute("SELECT dataset, epsilon FROM limits")
        if other in together
    ]
    if given is not None:
        limits.append(given)
    return min(limits, default=None)


def total_with(
    ledger: Ledger,
    dataset: str,
    name: str | None,
    promised: Promised,
    limit: float | None,
    run: str | None = None,
) -> Total:
    """Return the total with another folder, and record it as that of `run`, unless None.

    dataset, name  of the private data
    InputError: the total exceeds `limit`
    """
    together = _together(ledger, dataset, name)
    with ledger.transaction() as connection:
        rows = connection.execute(
            "SELECT run, dataset, epsilon, delta, unit FROM published"
        ).fetchall()
        others = [row[2:] for row in rows if row[0] != run and row[1] in together]
        total = Total.of([promised, *others], limit)
        if limit is not None and total.epsilon > limit:
            every = (
                f"all {total.folders} folders published about these people, with that of this run"
            )
            allowed = f"must be at least {total.epsilon:.6g}, the ε of {every}; the smallest limit ever given holds"
            if np.isinf(total.epsilon):
                allowed = "allows no such run: with it, what is published protects different things, and ε has no sum"
            raise InputError("budget.total", limit, allowed)
        if run is not None:
            row = (run, dataset, now(), *promised)
            connection.execute("INSERT OR IGNORE INTO published VALUES (?, ?, ?, ?, ?, ?)", row)
    return total


def remember(ledger: Ledger, dataset: str, keys: Ints) -> None:
    """Keep a sample of the salted hashes of `keys`, those of groups or ids."""
    hashes = _sample(ledger, keys).astype("<u8").tobytes()
    ledger.execute("INSERT OR REPLACE INTO people VALUES (?, ?)", dataset, hashes)


def stranger(
    ledger: Ledger, dataset: str, name: str | None, option: str, keys: Ints | None = None
) -> str:
    """Return in a line which data, named ones first, share most groups or ids with a dataset, but
    no name; empty: none.

    option  with which a name is typed; name, keys: of the dataset, beside what the ledger has
    """
    together, names = _together(ledger, dataset, name), ledger.names()
    kept = {
        key: np.frombuffer(hashes, "<u8") for key, hashes in ledger.execute("SELECT * FROM people")
    }
    own = kept.get(dataset, np.zeros(0, "<u8")) if keys is None else _sample(ledger, keys)
    candidates = []
    for key in kept.keys() - together - {""}:
        compared = (
            own if len(kept[key]) < _KEPT else own[own <= kept[key][-1]]
        )  # of both the smallest hashes are kept
        if share := np.isin(compared, kept[key], assume_unique=True).sum() / max(1, len(compared)):
            candidates.append((key in names, float(share), key))
    if not candidates:
        return ""
    named, most, other = max(candidates)
    known = min(names[other]) if named else name or min(names.get(dataset, ()), default="NAME")
    typed = [f"{option}{known}"] * (known != name) + [f"nzc store --name {known} {other[:8]}"] * (
        not named
    )
    whose = (
        f"the data named {known}" if named else f"data without a name ({other[:8]} in the ledger)"
    )
    same = "If they are the same people, their costs add up only under one name"
    share = f"{100 * most:.3g} % of the groups or ids in these data are also in {whose}"
    return f"{share}. {same}: type {' and '.join(typed)}"


def _together(ledger: Ledger, dataset: str, name: str | None) -> set[str]:
    """Return all datasets that count together with a dataset, or with those of a name."""
    named = next((other for other, names in ledger.names().items() if name in names), dataset)
    return ledger.counted_with(dataset) | ledger.counted_with(named)


def _sample(ledger: Ledger, keys: Ints) -> AnyArray:
    """Return the smallest hashes of different keys, in ascending order, salted with random bits of
    this ledger.
    """
    ledger.execute("INSERT OR IGNORE INTO people VALUES ('', ?)", secrets.token_bytes(16))
    ((salt,),) = ledger.execute("SELECT hashes FROM people WHERE dataset = ''")
    return np.sort(draw_by_key(np.unique(keys), int.from_bytes(salt)))[:_KEPT]
