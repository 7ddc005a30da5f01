"""The result of accounting: every ε of a run by name, and δ at a given ε."""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log

import numpy as np

from nzc.validation import LEAST

#: The bounds of which a run publishes one, chosen before a vote is seen (the key `bound`).
BOUNDS = ("data_independent", "sanitised")
DATA_INDEPENDENT, SANITISED = BOUNDS
#: An ε or δ; None: it does not apply.
Bound = float | None
_NEAR = 1e-4  # `least_delta` finds log δ so near


@dataclass(frozen=True)
class Epsilon:
    """Every ε of one run at one δ.

    None: it does not apply or was not asked for. inf: there is no bound.
    """

    #: Upper bound for everything that is published of the run, promised beforehand.
    published: Bound = None
    #: The δ of `published`: 0 where it is a pure bound, else that of all others.
    published_delta: Bound = None
    #: Upper bound from the mechanism's own law at these votes. Private.
    exact: Bound = None
    #: Lower bound on the same: how tight it is; None: several rounds. Private.
    exact_lower: Bound = None
    #: The papers' data-dependent bound at these votes. Private.
    theorem: Bound = None
    #: The number that the papers print: their orders and conversion, or their claim. Private.
    paper: Bound = None
    #: Upper bound for any votes, however many queries are answered. Public.
    data_independent: Bound = None
    #: The data-dependent bound, released with noise. Public if `bound=sanitised`.
    sanitised: Bound = None
    #: What a paper claims where that is none of the above; not a bound.
    claimed: Bound = None
    #: Empirical lower bound at 95 % confidence. Public.
    audited: Bound = None
    #: Upper bound for this run and all releases of these data so far. Private.
    ledger_released: Bound = None
    #: The same with all trials on seeded noise. Private.
    ledger_total: Bound = None
    #: The Rényi order at which `exact` was found.
    order: Bound = None

    def public(self, bound: str) -> "Epsilon":
        """Return what may be published where `bound` was chosen, one of BOUNDS."""
        names = ("published", "published_delta", "audited", bound)
        return Epsilon(**{name: getattr(self, name) for name in names})


@dataclass(frozen=True)
class Delta:
    """δ of one cost at one ε: at the δ of a name, the ε of that name is at most this ε.

    None: it does not apply. 1: there is no bound.
    """

    exact: Bound
    theorem: Bound
    data_independent: Bound


def least_delta(epsilon_at: Callable[[float], Bound], epsilon: float) -> Bound:
    """Return the least δ at which an ε is at most `epsilon`, rounded up by at most 1e-4 of it.

    From 0, which only a pure bound has, to 1, which always holds. None: there is no ε.
    """
    with np.errstate(divide="ignore"):
        pure = epsilon_at(0.0)
    if pure is None or pure <= epsilon:
        return pure and 0.0
    short = log(LEAST)
    enough = 0.0
    while enough - short > _NEAR:
        middle = (short + enough) / 2
        if (epsilon_at(exp(middle)) or 0.0) <= epsilon:
            enough = middle
        else:
            short = middle
    return exp(enough)
