"""The part of the ledger that one run uses: what it draws, and what that costs."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from nzc.accounting import Cost
from nzc.accounting.data_independent import WorstCaseCost
from nzc.accounting.rdp import ORDERS
from nzc.labeling import totals as people
from nzc.labeling.ledger import Ledger
from nzc.labeling.ledger_entry import RELEASE, TRIAL, LedgerEntry
from nzc.labeling.randomness import SEEDED, SYSTEM, system_rng
from nzc.types import AnyArray, Ints


@dataclass
class RunLedger:
    """The draws and entries of one run, as releases where noise is the operating system's, else as
    trials.
    """

    path: Path
    dataset: str  # digest of the private data whose privacy is spent
    name: (
        str | None
    )  # of the people whom these data are about (`Ledger.name`); None: they have none
    rng: str  # where noise comes from: seeded, with `seed`, or system
    seed: int
    wait: float
    neighbours: str  # which private datasets the run's costs compare (`Teachers.neighbours`)
    limit: float | None = (
        None  # budget.total: ε of all that may be published about these people; None: no limit
    )
    entries: dict[str, LedgerEntry] = field(default_factory=dict)  # in the ledger, by key
    keys: Ints | None = field(
        default=None, repr=False
    )  # of the groups, or else of the ids of these data
    _draws: list[str] = field(
        default_factory=list
    )  # questions for which operating-system noise was drawn

    def check(self, bound: Callable[[], tuple[float, float]]) -> None:
        """Raise InputError where a file is no whole ledger, or where budget.total forbids to
        publish this run.

        bound  returns ε and δ of the run, where a limit needs them
        """
        if self.path.exists():
            self.ledger.entries(self.dataset)
            limit = people.limit_of(self.ledger, self.dataset, self.name, self.limit)
            if limit is not None and self.rng == SYSTEM:
                people.total_with(
                    self.ledger, self.dataset, self.name, (*bound(), self.neighbours), limit
                )

    @property
    def stranger(self) -> str:
        """Which data may be about the same people, in a line (`people.stranger`)."""
        known = self.keys is not None and self.path.exists()
        return (
            people.stranger(self.ledger, self.dataset, self.name, "dataset.name=", self.keys)
            if known
            else ""
        )

    @property
    def repeats(self) -> int:
        """How many releases from these data answer the question of this run's first one, itself
        included.
        """
        if self.rng != SYSTEM:
            return 0
        releases = [entry for entry in self.split()[0] if entry.dataset == self.dataset]
        questions = [((entry.facts or {}).get("question"), entry.neighbours) for entry in releases]
        return questions.count(questions[0]) if questions else 0

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger; its file is created when it is first needed."""
        return Ledger(self.path, self.wait)

    def draw(
        self, stream: list[int], question: str, draw: Callable[[np.random.Generator], AnyArray]
    ) -> tuple[AnyArray, bytes]:
        """Return what `draw` makes of the noise, and a nonce that identifies the draw.

        Seeded noise follows from `stream` and has no nonce. Operating-system noise is drawn once
        per question until `finish`: a run that was killed and is started again gets what it drew
        before, or it would release twice.
        """
        if self.rng == SEEDED:
            return draw(np.random.default_rng([self.seed, *stream])), b""
        drawn = draw(system_rng())
        kept = self.ledger.keep_draw(
            self.dataset, question, secrets.token_bytes(16) + drawn.tobytes()
        )
        self._draws.append(question)
        return np.frombuffer(kept[16:], drawn.dtype).reshape(drawn.shape).copy(), kept[:16]

    def add(self, key: str, cost: Cost | WorstCaseCost, **about: Any) -> None:
        """Record an entry of this run: the other fields of LedgerEntry. It is on disk when this
        returns.
        """
        kind = TRIAL if self.rng == SEEDED else RELEASE
        if self.name is not None and not self.entries:
            self.ledger.name(self.dataset, self.name)
        if self.keys is not None and not self.entries:
            people.remember(self.ledger, self.dataset, self.keys)
        if self.limit is not None and kind == RELEASE:
            self.ledger.limit(self.dataset, self.limit)
        about["facts"] = {**about.get("facts", {}), "neighbours": self.neighbours}
        entry = LedgerEntry(self.dataset, key, ORDERS, cost.rdp(ORDERS), kind=kind, **about)
        self.entries[key] = self.ledger.record(entry)

    def split(self) -> tuple[list[LedgerEntry], list[LedgerEntry]]:
        """Return this run's entries, even forgotten ones, and all releases of the dataset; and
        trials of other runs.
        """
        recorded = self.ledger.entries(self.dataset) if self.entries else []
        others = [
            entry
            for entry in recorded
            if entry.dataset != self.dataset or entry.key not in self.entries
        ]
        releases = [entry for entry in others if entry.kind == RELEASE]
        return [*self.entries.values(), *releases], [
            entry for entry in others if entry.kind == TRIAL
        ]

    def finish(self, digests: Mapping[str, str], facts: Mapping[str, Any]) -> None:
        """Record a finished run: the SHA-256 of its files by name, and of what ε follows. A later
        run draws anew.
        """
        if self.rng != SEEDED:
            whole = {"files": dict(digests), "entries": list(self.entries), **facts}
            self.ledger.finish_run(digests["result.json"], self.dataset, whole, self._draws)


def question(*parts: object) -> str:
    """Return a hash of what is asked. Arrays count with their type, shape and content; the rest by
    its repr.
    """
    key = sha256()
    for part in parts:
        whole = (
            f"{part.dtype}{part.shape}".encode() + part.tobytes()
            if isinstance(part, np.ndarray)
            else None
        )
        key.update(repr(part).encode() if whole is None else whole)
    return key.hexdigest()
