"""The result of accounting: every ε of a run, by name."""

from dataclasses import dataclass

#: The bounds of which a run publishes one, chosen before a vote is seen (the key `publish`).
DATA_INDEPENDENT, SANITISED = BOUNDS = ("data_independent", "sanitised")


@dataclass(frozen=True)
class Epsilon:
    """Every ε of one run at one δ. None: it does not apply or was not asked for. inf: there is no bound.

    published         upper bound for everything that is published of the run, promised before a vote is seen
    published_delta   the δ of `published`: 0 where it is a pure bound, else that of all others
    exact             upper bound from the mechanism's own law at these votes; private
    exact_lower       lower bound on the same quantity, which shows how tight `exact` is; private; None: several rounds
    theorem           the papers' data-dependent bound at these votes; private
    data_independent  upper bound for any votes, however many queries are answered; may be published
    sanitised         the data-dependent bound, released with noise; may be published instead (`publish=sanitised`)
    claimed           what a paper claims where that is none of the above; not a bound
    audited           empirical lower bound at 95 % confidence; may be published
    ledger_released   upper bound for this run and all releases from this private dataset so far; private
    ledger_total      the same with all trials on seeded noise; private
    order             the Rényi order at which `exact` was found
    """

    published: float | None = None
    published_delta: float | None = None
    exact: float | None = None
    exact_lower: float | None = None
    theorem: float | None = None
    data_independent: float | None = None
    sanitised: float | None = None
    claimed: float | None = None
    audited: float | None = None
    ledger_released: float | None = None
    ledger_total: float | None = None
    order: float | None = None

    def public(self, publish: str) -> "Epsilon":
        """Return what may be published where `publish` was chosen, one of BOUNDS."""
        public = {name: getattr(self, name) for name in ("published", "published_delta", "audited", publish)}
        return Epsilon(**public)
