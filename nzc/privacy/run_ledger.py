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
from nzc.privacy.ledger import Ledger
from nzc.privacy.ledger_entry import RELEASE, TRIAL, LedgerEntry
from nzc.privacy.randomness import SEEDED, SYSTEM, system_rng
from nzc.privacy.totals import People
from nzc.types import AnyArray
from nzc.validation import Tree


@dataclass
class RunLedger:
    """The draws and entries of one run: trials where noise is seeded, else releases."""

    path: Path
    dataset: str  # digest of the private data whose privacy is spent
    name: str | None  # of the people whom these data are about (`Ledger.name`); None: no name
    rng: str  # where noise comes from: seeded, with `seed`, or system
    seed: int
    wait: float
    neighbours: str  # which private datasets the run's costs compare (`DataSplits.neighbours`)
    limit: float | None = (
        None  # budget.total: ε of all published about these people; None: no limit
    )
    entries: dict[str, LedgerEntry] = field(default_factory=dict)  # in the ledger, by key
    _draws: list[str] = field(default_factory=list)  # keys of operating-system noise that was drawn

    def check(self, bound: Callable[[], tuple[float, float]]) -> None:
        """Raise InputError where the file is no whole ledger, or budget.total forbids this run.

        bound  returns ε and δ of the run, where a limit needs them
        """
        if not self.path.exists():
            return
        self.ledger.entries(self.dataset)
        people = People(self.ledger, self.dataset, self.name)
        limit = people.limit(self.limit)
        if limit is not None and self.rng == SYSTEM:
            people.total_with((*bound(), self.neighbours), limit)

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
        fresh = secrets.token_bytes(16) + drawn.tobytes()
        stored = self.ledger.keep_draw(self.dataset, question, fresh)
        self._draws.append(question)
        return np.frombuffer(stored[16:], drawn.dtype).reshape(drawn.shape).copy(), stored[:16]

    def add(self, key: str, cost: Cost | WorstCaseCost, **about: Any) -> None:
        """Record an entry of this run (`Ledger.add`). It is on disk when this returns."""
        kind = TRIAL if self.rng == SEEDED else RELEASE
        if self.name is not None and not self.entries:
            self.ledger.name(self.dataset, self.name)
        if self.limit is not None and kind == RELEASE:
            self.ledger.limit(self.dataset, self.limit)
        about["facts"] = {**about.get("facts", {}), "neighbours": self.neighbours}
        self.entries[key] = self.ledger.add(self.dataset, cost, key=key, kind=kind, **about)

    def split(self) -> tuple[list[LedgerEntry], list[LedgerEntry]]:
        """Return this run's entries, even forgotten ones, with all releases of the dataset; and
        trials of other runs.
        """
        counted = list(self.entries.values())
        trials: list[LedgerEntry] = []
        if not counted:
            return counted, trials
        for entry in self.ledger.entries(self.dataset):
            if entry.dataset == self.dataset and entry.key in self.entries:
                continue
            if entry.kind == RELEASE:
                counted.append(entry)
            else:
                trials.append(entry)
        return counted, trials

    def finish(self, digests: Mapping[str, str], facts: Tree) -> None:
        """Record a finished run: the SHA-256 of its files by name, and of what ε follows. A later
        run draws anew.
        """
        if self.rng != SEEDED:
            facts = {"files": dict(digests), "entries": list(self.entries), **facts}
            self.ledger.finish_run(digests["result.json"], self.dataset, facts, self._draws)


def release_key(*parts: object) -> str:
    """Return a hash of what is asked. Arrays count with their type, shape and content; the rest by
    its repr.
    """
    key = sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            key.update(f"{part.dtype}{part.shape}".encode() + part.tobytes())
        else:
            key.update(repr(part).encode())
    return key.hexdigest()
