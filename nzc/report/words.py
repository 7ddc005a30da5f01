"""How keys and numbers read, in tables, figures and pages alike."""

import math
from collections.abc import Sequence

from rich.console import Console

#: In the order of the table: what each ε means, in a line.
EPSILONS = {
    "exact": "what these labels cost; private",
    "theorem": "the papers' bound at these votes; private",
    "data_independent": "for any votes; may be published",
    "sanitised": "upper bound, released privately; may be published",
    "claimed": "what the authors claim; not a bound",
    "audited": "measured lower bound; may be published",
    "ledger_total": "all labels from this data so far; private",
}


#: What tables and figures call the keys of result.json, where not by their own name. "epsilon" is only a paper's.
_NAMES = {
    "label_accuracy": "label accuracy",
    "accuracy": "student",
    "teachers.count": "teachers",
    "teachers.mean_accuracy": "one teacher",
    "teachers.ensemble_accuracy": "ensemble",
    "teachers.gap_above_2": "gap > 2",
    "teachers.gap_above_3": "gap > 3",
    "epsilon": "ε",
    **{f"epsilon.{name}": f"ε {name.replace('_', '-')}" for name in EPSILONS},
}


def heading(key: str) -> str:
    """What a key of result.json, or of the configuration, is called in tables and figures."""
    return _NAMES.get(key, key)


def is_share(key: str) -> bool:
    """Whether the value of a key is a share, to be shown in per cent."""
    return key.endswith("accuracy") or "gap_above" in key


def percent(value: float | None) -> str:
    """87.4 %, or a dash."""
    return "–" if value is None else f"{100 * value:.1f} %"


def between(interval: Sequence[float]) -> str:
    """The 95 % interval of an accuracy, in words."""
    return f"95 % sure: {percent(interval[0])} to {percent(interval[1])}"


def number(value: float | None) -> str:
    """An ε for reading: rounded up, ∞ as itself, a dash for none."""
    if value is None:
        return "–"
    if math.isinf(value):
        return "∞"
    if 0 < value < 1e-3:
        return f"{value:.1e}"
    return f"{math.ceil(value * 1e3) / 1e3:.3f}"


def show(what: object, style: str | None = None) -> None:
    """Print a table, or a line, to standard output, at a width that a table needs where there is no terminal. Names
    and paths are what they are, no markup; a line is not broken, for whoever copies a path out of it."""
    console = Console(markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 160
    console.print(what, style=style, soft_wrap=isinstance(what, str))
