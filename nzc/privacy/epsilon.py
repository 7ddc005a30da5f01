"""The numbers that a run reports as ε, by name."""

from dataclasses import dataclass

#: Those that may be shown to anyone. What authors claim is none of them: it is no bound.
PUBLIC = ("data_independent", "sanitised", "audited")


@dataclass(frozen=True)
class Epsilon:
    """Every ε of one run. None: it does not apply or was not asked for; inf: there is no bound.

    exact             from the mechanism's own law at these votes; private
    theorem           the papers' data-dependent bounds at these votes; private
    data_independent  holds for any votes; may be published
    sanitised         the theorem's bound, released privately; may be published
    claimed           what the mechanism's authors claim where that is not one of the above; not a bound
    audited           empirical lower bound; may be published
    ledger_total      every release from this private dataset so far, this one included; private
    """

    exact: float | None = None
    theorem: float | None = None
    data_independent: float | None = None
    sanitised: float | None = None
    claimed: float | None = None
    audited: float | None = None
    ledger_total: float | None = None
    order: float | None = None  # the Rényi order at which `exact` was found

    @property
    def headline(self) -> float | None:
        """The tightest upper bound there is on the cost of this run."""
        for value in (self.exact, self.theorem, self.data_independent):
            if value is not None:
                return value
        return None
