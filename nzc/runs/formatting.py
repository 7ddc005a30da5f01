"""How keys and numbers are shown, in tables, figures and pages alike."""

import math
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from rich.console import Console

from nzc.runs.result import quantity_of
from nzc.saying import say
from nzc.validation import in_a_line


def heading(key: str) -> str:
    """Return the name of a key of result.json, or of the configuration, in tables and figures."""
    return quantity_of(key).label or key


def axis_name(key: str) -> str:
    """Return the name of a key on an axis, with its unit."""
    name = long_name(key)
    return f"{name} (%)" if is_share(key) else name


def long_name(key: str) -> str:
    """Return the name of a key where no table stands around it."""
    return quantity_of(key).axis or heading(key)


def is_share(key: str) -> bool:
    """Return whether the value of a key is shown in per cent."""
    return quantity_of(key).share


def percent(value: float | None) -> str:
    """Return 87.4 %, or a dash for None."""
    if value is None:
        return "–"
    return f"{100 * value:.1f} %"


def number(value: float | None, key: str = "") -> str:
    """Return an ε, rounded up, or down where `key` names a lower bound; ∞ as a sign, None as –."""
    if value is None:
        return "–"
    if math.isinf(value):
        return "∞"
    is_lower = quantity_of(f"epsilon.{key.removeprefix('epsilon.')}").lower
    rounding = ROUND_FLOOR if is_lower else ROUND_CEILING
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
    if value is None or key.startswith("epsilon"):
        return number(value, key)
    if isinstance(value, int):
        return f"{value:,}"
    if value == 0 or 1e-3 <= abs(value) < 1e9:
        return f"{value:,.3f}"
    return f"{value:.1e}"


def some(names: Iterable[str], most: int = 8) -> str:
    """Return the different names in a line, at most `most` of them."""
    shown = list(dict.fromkeys(names))
    if len(shown) > most:
        shown[most:] = [f"and {len(shown) - most} more"]
    return "; ".join(shown)


def short_range(numbers: Iterable[int]) -> str:
    """Return numbers in a line: 1, 2, 3; or the first and the last of many: 100 to 109."""
    ordered = sorted(numbers)
    if len(ordered) > 3:
        return f"{ordered[0]} to {ordered[-1]}"
    return ", ".join(map(str, ordered))


def show(what: object, style: str | None = None) -> None:
    """Print a table, or a line without wrapping it, to standard output. Text is no markup."""
    console = Console(markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 160
    console.print(what, style=style, soft_wrap=isinstance(what, str))


@contextmanager
def optional(what: str) -> Iterator[None]:
    """Let what a run can do without, such as a figure, cost a line where it fails."""
    try:
        yield
    except Exception as error:  # disk, memory, fonts, matplotlib
        say(f"{what} could not be made ({in_a_line(error, 200) or type(error).__name__})")
