"""What is said of a quantity of a result, once: its name, its words, who may see it.

A field of `RunResult`, or of `Metrics`, declares it by `said`. Tables, trackers, pages and
statements read that.
"""

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Quantity:
    """What is said of one key of result.json.

    label    its name in tables and figures
    axis     its name on an axis, where that is another one
    meaning  what stands beside it in the table of a run
    share    whether it is shown in per cent
    lower    whether it is a lower bound, which is rounded down
    tracked  whether a tracker records it as a number
    stated   whether the statement of a published folder has it as it is, and `RunResult.public`
    public   whether `RunResult.public` has it: what is not said is private
    """

    label: str = ""
    axis: str = ""
    meaning: str = ""
    share: bool = False
    lower: bool = False
    tracked: bool = False
    stated: bool = False
    public: bool = False


#: The quantities of a section of a result, by key.
Section = Mapping[str, Quantity]


def said(
    label: str = "",
    *,
    default: Any = MISSING,
    make: Any = MISSING,
    of: Section | None = None,
    **words: Any,
) -> Any:
    """Return a field of which this is said (`Quantity`); by default it must be given.

    make  makes its default
    of    what is said of the keys of a field that is a section
    """
    declared = {"quantity": Quantity(label, **words), "of": of}
    return field(default=default, default_factory=make, metadata=declared)


def share(label: str, axis: str = "") -> Quantity:
    """Return what is said of a share that a tracker records."""
    return Quantity(label, axis, share=True, tracked=True)


def _epsilon(label: str, meaning: str, lower: bool = False) -> Quantity:
    return Quantity(f"ε {label}", meaning=meaning, lower=lower, tracked=True)


#: What an ε is of that depends on the votes.
_OF_VOTES = ("exact", "exact_lower", "theorem", "ledger_released", "ledger_total")
#: What is shown in place of such an ε of 0.
NOBODY = "protects nobody"
#: Every ε (`accounting.epsilon.Epsilon`), in the order of the table of a run.
EPSILONS = {
    "published": _epsilon("published", "the ε to state when you publish this run"),
    "exact": _epsilon("exact", "these labels cost at most this at these votes; private"),
    "exact_lower": _epsilon(
        "exact-lower", "these labels cost at least this at these votes; private", lower=True
    ),
    "theorem": _epsilon(
        "theorem", "these labels cost at most this by the papers' theorems; private"
    ),
    "paper": _epsilon(
        "by paper's method",
        "what the mechanism's paper would print for them, by its own method; private",
    ),
    "data_independent": _epsilon(
        "data-independent", "any labels of such a run cost at most this; may be published"
    ),
    "sanitised": _epsilon(
        "sanitised", "the cost of these labels, with noise so that it may be published"
    ),
    "claimed": _epsilon("claimed", "the paper's claim, which guarantees nothing"),
    "audited": _epsilon(
        "audited",
        "such labels cost at least this at the worst votes, seen in many runs; may be published",
        lower=True,
    ),
    "ledger_released": _epsilon(
        "of all releases", "this run and all releases before it cost at most this; private"
    ),
    "ledger_total": _epsilon(
        "ledger-total", "the same, with all trials (runs with rng=seeded); private"
    ),
}


def protects_nobody(key: str, value: object, published: object) -> bool:
    """Return whether an ε of given votes is 0 where no finite one can be published.

    By chance no label would change with one vote.
    """
    return key.removeprefix("epsilon.") in _OF_VOTES and value == 0 and published == math.inf


def tracked_as(key: str) -> str:
    """Return the name at a tracker of a key of result.json: seconds.total → seconds_total.

    A metric has its own name: metrics.f1 → f1.
    """
    return key.removeprefix("metrics.").replace(".", "_")
