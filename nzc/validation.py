"""Input checks, and the one error that they raise.

A check takes the key as a user types it, and its value:

    >>> positive("gamma", -1)
    Traceback (most recent call last):
    nzc.validation.InputError: gamma=-1: must be a finite number above 0, from 1e-120 to 1e+120
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from json import dumps
from numbers import Real
from typing import Any

#: The smallest and the largest setting other than 0: squares and quotients of them stay within
#: float64. Noise may be much larger than NZC's boost of 1e100.
LEAST = 1e-120
MOST = 1e120
#: The password of an address, up to its last @; Hydra writes \\: for a colon.
_PASSWORD = re.compile(r"""(://[^:/\s\\]*\\?:)[^\s"']+(?=@)""")
#: Python's constants as one types them.
_TYPED = {"None": "null", "True": "true", "False": "false"}


class InputError(ValueError):
    """A value that cannot be used. The message is one line: `key=value: allowed`."""

    def __init__(self, key: str, value: object, allowed: str) -> None:
        self.key = key
        self.value = value
        self.allowed = allowed
        typed = masked(_TYPED.get(str(value), value))
        super().__init__(one_line(f"{shortened(key, 100)}={shortened(typed, 250)}: {allowed}"))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the three parts, not the message alone."""
        return type(self), (self.key, self.value, self.allowed)

    def within(self, group: str) -> "InputError":
        """Return the same error with its key below `group`; a dotted key stays as it is."""
        if "." in self.key:
            return self
        return InputError(f"{group}.{self.key}", self.value, self.allowed)


@contextmanager
def within(group: str) -> Iterator[None]:
    """Put the key of every InputError raised in this context below `group`."""
    try:
        yield
    except InputError as error:
        raise error.within(group) from error


def _number(fits: Callable[[float], bool], allowed: str) -> Callable[[str, Any], None]:
    """Return the check that a value is a number that fits."""

    def check(key: str, value: Any) -> None:
        number = isinstance(value, Real) and not isinstance(value, bool)
        if not number or not abs(value) <= MOST or not fits(float(value)):
            raise InputError(key, value, f"must be {allowed}")

    return check


positive = _number(
    lambda number: number >= LEAST, f"a finite number above 0, from {LEAST:g} to {MOST:g}"
)
not_negative = _number(lambda number: number >= 0, f"a finite number, 0 or above, up to {MOST:g}")
between_0_and_1 = _number(
    lambda number: LEAST <= number < 1, f"a number strictly between 0 and 1, from {LEAST:g}"
)
above_1 = _number(lambda number: number > 1, f"a number above 1, up to {MOST:g}")
below_1 = _number(lambda number: 0 <= number < 1, "a number of 0 or more, below 1")
share = _number(lambda number: 0 <= number <= 1, "from 0 to 1")


def whole(key: str, value: Any, at_least: int, at_most: int | None = None, unit: str = "") -> None:
    """Require a whole number within bounds; `unit` says what the upper bound counts."""
    good = isinstance(value, int) and not isinstance(value, bool) and value >= at_least
    if good and (at_most is None or value <= at_most):
        return
    if at_most is None:
        raise InputError(key, value, f"must be a whole number of {at_least} or more")
    bounds = f"from {at_least} to {at_most:,} {unit}".rstrip()
    raise InputError(key, value, f"must be a whole number {bounds}")


def one_of(key: str, value: Any, allowed: Sequence[str]) -> None:
    """Require one of the given words."""
    if value not in allowed:
        raise InputError(key, value, among(allowed, value))


def among(allowed: Sequence[str], value: object) -> str:
    """Return what an InputError says of a value that is none of the allowed words."""
    return f"must be one of {', '.join(allowed)}{nearest(str(value), allowed)}"


def is_shipped(part: object) -> bool:
    """Return whether this part, or class, is nzc's own: nzc has tested it."""
    if not isinstance(part, type):
        part = type(part)
    return part.__module__.startswith("nzc.")


def meant(name: str, known: Collection[str], listed: Collection[str] | None = None) -> str:
    """Return `; did you mean NAME?` for the known name that is near, or else the names that exist.

    listed  the names to list, if not all; those that are like `name` come first
    """
    if listed is None:
        listed = known
    by_likeness = get_close_matches(name, listed, max(len(listed), 1), cutoff=0.0)
    return nearest(name, known) or f": {', '.join(by_likeness)}"


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean NAME?` for the known name that is near, or nothing."""
    near = get_close_matches(name, list(known), 1, cutoff=0.7)
    if near:
        return f"; did you mean {near[0]}?"
    return ""


def masked(value: object) -> str:
    """Return a value as text, with *** in place of passwords of addresses: http://USER:***@HOST."""
    return _PASSWORD.sub(r"\1***", str(value))


def masked_tree(tree: Any) -> Any:
    """Return nested mappings and lists with the same in every text."""
    if isinstance(tree, Mapping):
        return {key: masked_tree(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [masked_tree(value) for value in tree]
    if isinstance(tree, str):
        return masked(tree)
    return tree


def one_line(text: str) -> str:
    """Return the text without passwords, and with an escape for what a terminal would not show."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in masked(text))


def in_a_line(text: object, at_most: int | None = None) -> str:
    """Return another library's message without passwords and line breaks, `at_most` so long."""
    return " ".join(masked(text).split())[:at_most]


def shortened(text: str, at_most: int = 500) -> str:
    """Return the text, cut with a sign after `at_most` characters."""
    if len(text) > at_most:
        return f"{text[: at_most - 1]}…"
    return text


def from_pydantic(error: Any, prefix: str) -> InputError:
    """Return pydantic's first complaint as an InputError below the key `prefix`."""
    first = error.errors()[0]
    key = ".".join(map(str, (prefix, *first["loc"]))).lstrip(".")
    value = first["input"]
    context = first.get("ctx", {})
    if isinstance(context.get("error"), InputError):  # of nzc.settings
        return InputError(key, value, context["error"].allowed)
    if first["type"] == "literal_error":
        return InputError(key, value, among(re.findall(r"'(.+?)'", context["expected"]), value))
    allowed = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    if first["type"] == "string_type" and isinstance(value, int | float | None):
        allowed = f"must be text; type '\"{dumps(value)}\"' instead"  # Hydra read no text
    return InputError(key, value, allowed)
