"""How keys and numbers are shown, in tables, figures and pages alike."""

import math
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from rich.console import Console

from nzc.validation import in_a_line

#: What each ε means, in the order of the table.
EPSILONS = {
    "published": "the ε to state when you publish this run",
    "exact": "these labels cost at most this at these votes; private",
    "exact_lower": "these labels cost at least this at these votes; private",
    "theorem": "these labels cost at most this by the papers' theorems; private",
    "paper": "what the mechanism's paper would print for them, by its own method; private",
    "data_independent": "any labels of such a run cost at most this; may be published",
    "sanitised": "the cost of these labels, with noise so that it may be published",
    "claimed": "the paper's claim, which guarantees nothing",
    "audited": "such labels cost at least this at the worst votes, seen in many runs; may be published",
    "ledger_released": "this run and all releases before it cost at most this; private",
    "ledger_total": "the same, with all trials (runs with rng=seeded); private",
}
_LOWER = ("exact_lower", "audited")  # bounds
#: The key of the recall of a class is this and the class's name.
RECALL = "metrics.recall."
#: Names of keys of result.json where they differ from the key. The key "epsilon" is only used for a
#: paper's value.
_NAMES = {
    "label_accuracy": "label accuracy",
    "learned_accuracy": "accuracy of learned labels",
    "accuracy": "student",
    "teachers.count": "teachers",
    "teachers.mean_accuracy": "one teacher",
    "teachers.ensemble_accuracy": "ensemble",
    "teachers.gap_above_2": "gap > 2",
    "teachers.gap_above_3": "gap > 3",
    "metrics.majority": "majority rate",
    "metrics.balanced_accuracy": "balanced accuracy",
    "metrics.auc": "AUC",
    "metrics.average_precision": "average precision",
    "metrics.agreement": "agreement with released labels",
    "epsilon": "ε",
    **{f"epsilon.{name}": f"ε {name.replace('_', '-')}" for name in EPSILONS},
    "epsilon.paper": "ε by paper's method",
    "epsilon.ledger_released": "ε of all releases",
}
#: Whose accuracy it is, on the axes of figures.
_ACCURACIES = {
    "accuracy": "student accuracy",
    "teachers.mean_accuracy": "teacher accuracy",
    "teachers.ensemble_accuracy": "ensemble accuracy",
}


def heading(key: str) -> str:
    """Return the name of a key of result.json, or of the configuration, in tables and figures."""
    if key.startswith(RECALL):
        return f"recall of {key.removeprefix(RECALL)}"
    return _NAMES.get(key, key.removeprefix("metrics."))


def axis_name(key: str) -> str:
    """Return the name of a key on an axis, with its unit."""
    if "gap_above" in key:
        return "queries (%)"
    return f"{_ACCURACIES.get(key, heading(key))} (%)" if is_share(key) else heading(key)


def is_share(key: str) -> bool:
    """Return whether the value of a key is shown in per cent. The user's own metrics need not be
    shares.
    """
    if key.startswith("metrics."):
        return key.startswith(RECALL) or key in _NAMES
    return key.endswith("accuracy") or "gap_above" in key


def percent(value: float | None) -> str:
    """Return 87.4 %, or a dash for None."""
    return "–" if value is None else f"{100 * value:.1f} %"


def number(value: float | None, key: str = "") -> str:
    """Return an ε, rounded up, or down where `key` names a lower bound; ∞ as a sign, and a dash for
    None.
    """
    if value is None:
        return "–"
    if math.isinf(value):
        return "∞"
    rounding = ROUND_FLOOR if key.removeprefix("epsilon.") in _LOWER else ROUND_CEILING
    digits = Decimal(str(float(value)))
    if value and not 1e-3 <= value < 1e9:
        return f"{float(Context(prec=2, rounding=rounding).create_decimal(digits)):.1e}"
    return str(digits.quantize(Decimal("0.001"), rounding))


def short_mechanism(description: str) -> str:
    """Return what a mechanism says of itself with at most five digits for each of its numbers."""
    return re.sub(r"\d+\.\d{5,}", lambda found: f"{float(found[0]):.5g}", description)


def figure(value: float | None, key: str) -> str:
    """Return the value of a key of result.json, or of the configuration, as tables show it."""
    if is_share(key):
        return percent(value)
    if value is None or key.startswith(("epsilon", "individual.")):
        return number(value, key)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.3f}" if value == 0 or 1e-3 <= abs(value) < 1e9 else f"{value:.1e}"


def some(names: Iterable[str], most: int = 8) -> str:
    """Return the different names in a line, at most `most` of them."""
    known = list(dict.fromkeys(names))
    return "; ".join(
        [*known[:most], *([f"and {len(known) - most} more"] if len(known) > most else [])]
    )


def show(what: object, style: str | None = None) -> None:
    """Print a table, or a line without wrapping it, to standard output. Text is no markup."""
    console = Console(markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 160
    console.print(what, style=style, soft_wrap=isinstance(what, str))


@contextmanager
def optional(what: str) -> Iterator[None]:
    """Make what a run can do without, such as a figure: where that fails in this context, a line
    says so.
    """
    try:
        yield
    except Exception as error:  # disk, memory, fonts, matplotlib
        why = in_a_line(error, 200) or type(error).__name__
        print(f"nzc: {what} could not be made ({why})", file=sys.stderr)
