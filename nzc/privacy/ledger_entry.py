"""An entry of the privacy ledger, and the ε of several entries together."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nzc.accounting.gaussian import gaussian
from nzc.accounting.rdp import CHOICES, adaptive_epsilon, to_epsilon
from nzc.types import Floats
from nzc.validation import InputError, Tree, between_0_and_1, one_of

#: The kinds of entries.
RELEASE, TRIAL = KINDS = ("release", "trial")


@dataclass(frozen=True, eq=False, repr=False)
class LedgerEntry:
    """One release or trial, as it was first recorded."""

    dataset: str  # its name or digest
    key: str
    orders: Floats  # ascending, above 1
    rdp: Floats  # [orders] Rényi cost; inf where there is no bound
    labels: bytes  # what was drawn
    description: str = ""
    facts: Tree | None = None  # what else is known without votes, such as queries
    recorded: str = ""  # UTC, ISO 8601; set by the ledger
    delta_cost: float = 0.0  # the part of δ that the entry uses itself
    kind: str = RELEASE

    def __post_init__(self) -> None:
        one_of("kind", self.kind, KINDS)
        if not len(self.orders) or not (np.diff(self.orders, prepend=1) > 0).all():
            raise InputError("orders", self.orders, "must be ascending, at least one, each above 1")
        if self.rdp.shape != self.orders.shape or not (self.rdp >= 0).all():
            raise InputError(
                "rdp", self.rdp, f"must be {len(self.orders)} costs of 0 or above, one per order"
            )

    @property
    def neighbours(self) -> str | None:
        """Which private datasets its cost compares, in words; None: this was not recorded."""
        return (self.facts or {}).get("neighbours")

    @property
    def mu(self) -> float:
        """The mean shift of Gaussian noise that is all of its cost; inf: there is more to it."""
        mu = (self.facts or {}).get("mu", np.inf)
        gaussian_rdp = self.orders * mu**2 / 2
        return float(mu) if (self.rdp <= gaussian_rdp * (1 + 1e-9)).all() else np.inf

    def at(self, orders: Floats) -> Floats:
        """Return the cost at any orders, [orders]: that at the next larger stored order, or inf."""
        return np.append(self.rdp, np.inf)[np.searchsorted(self.orders, orders)]


def total_epsilon(entries: Sequence[LedgerEntry], delta: float) -> float:
    """Return ε at δ of entries of one dataset together.

    Of Gaussian noise μ² adds exactly. Else the Rényi costs add at every order; later entries may
    depend on earlier ones: of several, the order is one of few (`rdp.adaptive_epsilon`). Costs
    between different neighbours do not add up: ε is ∞.
    """
    between_0_and_1("delta", delta)
    if not entries:
        return 0.0
    left = delta - sum(entry.delta_cost for entry in entries)
    if left <= 0 or len({entry.neighbours for entry in entries}) > 1:
        return np.inf
    mu = float(np.linalg.norm([entry.mu for entry in entries]))
    if mu < np.inf:
        return gaussian(mu, left)
    if len(entries) == 1:
        return to_epsilon(entries[0].at, left, entries[0].orders)[0]
    return adaptive_epsilon(np.sum([entry.at(CHOICES) for entry in entries], axis=0), left)
