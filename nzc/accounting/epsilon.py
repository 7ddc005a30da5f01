"""The result of accounting: every ε of a run, by name."""

from dataclasses import dataclass

#: The ε that may be published. `claimed` is not among them, because it is not a bound.
PUBLIC = ("data_independent", "sanitised", "audited")


@dataclass(frozen=True)
class Epsilon:
    """Every ε of one run at one δ. None: it does not apply or was not asked for. inf: there is no bound.

    exact             upper bound from the mechanism's own law at these votes; private
    theorem           the papers' data-dependent bound at these votes; private
    data_independent  upper bound for any votes; may be published
    sanitised         the data-dependent bound, released with noise; may be published
    claimed           what a paper claims where that is none of the above; not a bound
    audited           empirical lower bound at 95 % confidence; may be published
    ledger_total      upper bound for all releases from this private dataset so far; private
    order             the Rényi order at which `exact` was found
    """

    exact: float | None = None
    theorem: float | None = None
    data_independent: float | None = None
    sanitised: float | None = None
    claimed: float | None = None
    audited: float | None = None
    ledger_total: float | None = None
    order: float | None = None

    @property
    def headline(self) -> float | None:
        """The first of `exact`, `theorem` and `data_independent` that is known."""
        return next((e for e in (self.exact, self.theorem, self.data_independent) if e is not None), None)
