"""The result of accounting: every ε of a run, by name."""

from dataclasses import dataclass

#: The bounds of which a run publishes one, chosen before a vote is seen (the key `bound`).
DATA_INDEPENDENT, SANITISED = BOUNDS = ("data_independent", "sanitised")


@dataclass(frozen=True)
class Epsilon:
    """Every ε of one run at one δ. None: it does not apply or was not asked for. inf: there is no
    bound.
    """

    published: float | None = (
        None  # upper bound for everything that is published of the run, promised beforehand
    )
    published_delta: float | None = (
        None  # the δ of `published`: 0 where it is a pure bound, else that of all others
    )
    exact: float | None = None  # upper bound from the mechanism's own law at these votes; private
    exact_lower: float | None = (
        None  # lower bound on the same: how tight it is; private; None: several rounds
    )
    theorem: float | None = None  # the papers' data-dependent bound at these votes; private
    paper: float | None = (
        None  # the number that the papers print: their orders and conversion, or their claim; private
    )
    data_independent: float | None = (
        None  # upper bound for any votes, however many queries are answered; public
    )
    sanitised: float | None = (
        None  # the data-dependent bound, released with noise; public if `bound=sanitised`
    )
    claimed: float | None = None  # what a paper claims where that is none of the above; not a bound
    audited: float | None = None  # empirical lower bound at 95 % confidence; public
    ledger_released: float | None = (
        None  # upper bound for this run and all releases of these data so far; private
    )
    ledger_total: float | None = None  # the same with all trials on seeded noise; private
    order: float | None = None  # the Rényi order at which `exact` was found

    def public(self, bound: str) -> "Epsilon":
        """Return what may be published where `bound` was chosen, one of BOUNDS."""
        public = {
            name: getattr(self, name) for name in ("published", "published_delta", "audited", bound)
        }
        return Epsilon(**public)
