"""The quantities of a result: each is declared once, and tables, trackers and pages read that.

A metric of the student is declared where it is computed (metrics.py).
"""

import math
from dataclasses import dataclass, fields
from typing import get_args

from nzc.clock import Stage
from nzc.data import splits
from nzc.runs.metrics import RECALL, Metrics


@dataclass(frozen=True)
class Quantity:
    """What is said of one key of result.json.

    label    its name in tables and figures
    axis     its name on an axis, where that is another one
    meaning  what stands beside it in the table of a run
    share    whether it is shown in per cent
    lower    whether it is a lower bound, which is rounded down
    tracked  whether a tracker records it as a number
    """

    label: str = ""
    axis: str = ""
    meaning: str = ""
    share: bool = False
    lower: bool = False
    tracked: bool = False


def _share(label: str, axis: str = "") -> Quantity:
    return Quantity(label, axis, share=True, tracked=True)


def _epsilon(label: str, meaning: str, lower: bool = False) -> Quantity:
    return Quantity(f"ε {label}", meaning=meaning, lower=lower, tracked=True)


#: Keys of result.json of which nothing more is said; one that ends with a dot begins others.
_PLAIN = (
    "dataset",
    "aggregator",
    "student",
    "seed",
    "rng",
    "mechanism",
    "delta",
    "queries",
    "refused",
    "reinforced",
    "accuracy_interval",
    "epsilon.published_delta",
    "rounds",
    "neighbours",
    "unit",
    "bound",
    "finished",
    "versions.",
    "warnings",
    "learned_from",
    "grouped_by",
    "moved_votes",
    "voters",
    "individual.",
    "ledger_trials",
    "ledger_releases",
    "ledger_unbounded",
    RECALL,
    *(f"data.{key}" for key in get_args(splits.SummaryKey)),
)
#: What an ε is of that depends on the votes.
_OF_VOTES = ("exact", "exact_lower", "theorem", "ledger_released", "ledger_total")
#: What is shown in place of such an ε of 0.
NOBODY = "protects nobody"
#: Every quantity by its dotted key in result.json. `RunResult.public` and
#: `Epsilon.public` say which may be published.
QUANTITIES = dict.fromkeys(_PLAIN, Quantity())
QUANTITIES |= {
    "answered": Quantity(tracked=True),
    "label_accuracy": _share("label accuracy"),
    "accuracy": _share("student", "student accuracy"),
    "learned_accuracy": Quantity("accuracy of learned labels", share=True),
    "teachers.count": Quantity("teachers", tracked=True),
    "teachers.mean_accuracy": _share("one teacher", "teacher accuracy"),
    "teachers.ensemble_accuracy": _share("ensemble", "ensemble accuracy"),
    "teachers.gap_above_2": _share("gap > 2", "queries"),
    "teachers.gap_above_3": _share("gap > 3", "queries"),
    "epsilon.published": _epsilon("published", "the ε to state when you publish this run"),
    "epsilon.exact": _epsilon("exact", "these labels cost at most this at these votes; private"),
    "epsilon.exact_lower": _epsilon(
        "exact-lower", "these labels cost at least this at these votes; private", lower=True
    ),
    "epsilon.theorem": _epsilon(
        "theorem", "these labels cost at most this by the papers' theorems; private"
    ),
    "epsilon.paper": _epsilon(
        "by paper's method",
        "what the mechanism's paper would print for them, by its own method; private",
    ),
    "epsilon.data_independent": _epsilon(
        "data-independent", "any labels of such a run cost at most this; may be published"
    ),
    "epsilon.sanitised": _epsilon(
        "sanitised", "the cost of these labels, with noise so that it may be published"
    ),
    "epsilon.claimed": _epsilon("claimed", "the paper's claim, which guarantees nothing"),
    "epsilon.audited": _epsilon(
        "audited",
        "such labels cost at least this at the worst votes, seen in many runs; may be published",
        lower=True,
    ),
    "epsilon.ledger_released": _epsilon(
        "of all releases", "this run and all releases before it cost at most this; private"
    ),
    "epsilon.ledger_total": _epsilon(
        "ledger-total", "the same, with all trials (runs with rng=seeded); private"
    ),
    "order": Quantity(tracked=True),
}
QUANTITIES |= {f"seconds.{stage}": Quantity(tracked=True) for stage in get_args(Stage)}
QUANTITIES |= {
    f"metrics.{part.name}": _share(part.metadata["label"])
    for part in fields(Metrics)
    if part.metadata
}


def quantity_of(key: str) -> Quantity:
    """Return what is declared of a key of result.json, or of the configuration."""
    if key in QUANTITIES:
        return QUANTITIES[key]
    if key.startswith(RECALL):
        return Quantity(f"recall of {key.removeprefix(RECALL)}", share=True)
    if key.startswith("metrics."):
        return Quantity(key.removeprefix("metrics."), tracked=True)  # of the user's own
    # A paper's value, and a curve of a run, are no keys of result.json.
    return {"epsilon": Quantity("ε"), "gap_above": Quantity(share=True)}.get(key, Quantity())


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


def is_taken(name: str) -> bool:
    """Return whether a quantity of nzc has this name, at a tracker or in result.json."""
    names = list(map(tracked_as, QUANTITIES))
    sections = ["epsilon", *(taken for taken in names if taken.endswith("_"))]
    return name in ("own", "recall", *names) or name.startswith(tuple(sections))
