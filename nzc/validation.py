"""Input checks, and the one error that they raise.

A check takes the key as a user types it, and its value:

    >>> positive("gamma", -1)
    Traceback (most recent call last):
    nzc.validation.InputError: gamma=-1: must be a finite number above 0, from 1e-120 to 1e+120
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from json import dumps
from numbers import Real
from operator import index
from typing import Any

#: The smallest and the largest setting other than 0: squares and quotients of them stay within
#: float64. Noise may be much larger than NZC's boost of 1e100.
LEAST = 1e-120
MOST = 1e120
#: The password of an address, up to its last @; Hydra writes \\: for a colon.
_PASSWORD = re.compile(r"""(://[^:/\s\\]*\\?:)[^\s"']+(?=@)""")
#: Nested facts or settings, by name.
Tree = dict[str, Any]
#: Takes a key and its value, and returns the value as a number of Python's own.
Check = Callable[[str, Any], Any]
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


def as_number(value: Any) -> int | float | None:
    """Return a number of Python, NumPy or torch as Python's own; None: it is none."""
    if getattr(value, "shape", None) == ():
        value = value.item()
    if isinstance(value, bool):
        return None
    with suppress(TypeError):
        return index(value)
    return float(value) if isinstance(value, Real) else None


def _number(fits: Callable[[float], bool], allowed: str) -> Check:
    """Return the check that a value is a number that fits."""

    def check(key: str, value: Any) -> float:
        number = as_number(value)
        if number is None or not abs(number) <= MOST or not fits(number):
            raise InputError(key, value, f"must be {allowed}")
        return number

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


def whole(key: str, value: Any, at_least: int, at_most: int | None = None, unit: str = "") -> int:
    """Require a whole number within bounds; `unit` says what the upper bound counts."""
    number = as_number(value)
    if isinstance(number, int) and number >= at_least and (at_most is None or number <= at_most):
        return number
    bounds = f"of {at_least} or more"
    if at_most is not None:
        bounds = f"from {at_least} to {at_most:,} {unit}".rstrip()
    raise InputError(key, value, f"must be a whole number {bounds}")


def keep(part: object, **checks: Check) -> None:
    """Check fields of a frozen dataclass, and make them numbers of Python's own."""
    for name, check in checks.items():
        object.__setattr__(part, name, check(name, typed(getattr(part, name))))


def typed(value: Any) -> Any:
    """Return the number that a text is, as of ${oc.env:NAME}; other values stay as they are."""
    if isinstance(value, str):
        for kind in (int, float):
            with suppress(ValueError):
                return kind(value)
    return value


def as_generator(rng: Any) -> Any:
    """Return a generator of NumPy: the given one, or that of a seed."""
    seed = as_number(rng)
    if isinstance(seed, int) and seed >= 0:
        from numpy.random import default_rng

        return default_rng(seed)
    if not hasattr(rng, "laplace"):
        kinds = "a seed of 0 or more, a generator of NumPy, or nzc.system_rng() for labels that are"
        raise InputError("rng", rng, f"must be {kinds} published")
    return rng


def one_of(key: str, value: Any, allowed: Sequence[str]) -> None:
    """Require one of the given words."""
    if value not in allowed:
        raise InputError(key, value, among(allowed, value))


def among(allowed: Sequence[str], value: object) -> str:
    """Return what an InputError says of a value that is none of the allowed words."""
    return f"must be one of {', '.join(allowed)}{did_you_mean(str(value), allowed)}"


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
    return did_you_mean(name, known) or f": {', '.join(by_likeness)}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean NAME?` for the known name that is near, or nothing."""
    spelled = {text.lower(): text for text in known}
    near = get_close_matches(name.lower(), spelled, 1, cutoff=0.7)
    if near:
        return f"; did you mean {spelled[near[0]]}?"
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
    if isinstance(context.get("error"), InputError):  # of nzc.ranges
        return InputError(key, value, context["error"].allowed)
    if first["type"] == "literal_error":
        return InputError(key, value, among(re.findall(r"'(.+?)'", context["expected"]), value))
    allowed = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    if first["type"] == "string_type" and isinstance(value, int | float | None):
        allowed = f"must be text; type '\"{dumps(value)}\"' instead"  # Hydra read no text
    return InputError(key, value, allowed)
