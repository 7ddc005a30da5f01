"""The result of accounting: every ε of a run, by name."""

from dataclasses import dataclass

#: The bounds of which a run publishes one, chosen before a vote is seen (the key `bound`).
BOUNDS = ("data_independent", "sanitised")
DATA_INDEPENDENT, SANITISED = BOUNDS


@dataclass(frozen=True)
class Epsilon:
    """Every ε of one run at one δ.

    None: it does not apply or was not asked for. inf: there is no bound.
    """

    #: Upper bound for everything that is published of the run, promised beforehand.
    published: float | None = None
    #: The δ of `published`: 0 where it is a pure bound, else that of all others.
    published_delta: float | None = None
    #: Upper bound from the mechanism's own law at these votes. Private.
    exact: float | None = None
    #: Lower bound on the same: how tight it is; None: several rounds. Private.
    exact_lower: float | None = None
    #: The papers' data-dependent bound at these votes. Private.
    theorem: float | None = None
    #: The number that the papers print: their orders and conversion, or their claim. Private.
    paper: float | None = None
    #: Upper bound for any votes, however many queries are answered. Public.
    data_independent: float | None = None
    #: The data-dependent bound, released with noise. Public if `bound=sanitised`.
    sanitised: float | None = None
    #: What a paper claims where that is none of the above; not a bound.
    claimed: float | None = None
    #: Empirical lower bound at 95 % confidence. Public.
    audited: float | None = None
    #: Upper bound for this run and all releases of these data so far. Private.
    ledger_released: float | None = None
    #: The same with all trials on seeded noise. Private.
    ledger_total: float | None = None
    #: The Rényi order at which `exact` was found.
    order: float | None = None

    def public(self, bound: str) -> "Epsilon":
        """Return what may be published where `bound` was chosen, one of BOUNDS."""
        names = ("published", "published_delta", "audited", bound)
        return Epsilon(**{name: getattr(self, name) for name in names})
