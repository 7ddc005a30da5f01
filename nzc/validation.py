"""Input checks, and the one error that they raise.

A check takes its value by keyword, and the keyword becomes the key of the message:

    >>> positive(gamma=-1)
    Traceback (most recent call last):
    nzc.validation.InputError: gamma=-1: must be a finite number above 0, from 1e-100 to 1e+100
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from typing import Any

#: The smallest and the largest setting other than 0: squares and quotients of them stay within float64.
LEAST, MOST = 1e-100, 1e100


class InputError(ValueError):
    """A value that cannot be used. The message is one line: `key=value: allowed`."""

    def __init__(self, key: str, value: object, allowed: str) -> None:
        self.key, self.value, self.allowed = key, value, allowed
        shown = {"None": "null", "True": "true", "False": "false"}.get(str(value), value)  # as one types it
        super().__init__(one_line(f"{key}={shown}: {allowed}"))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the three parts; by default pickle would pass the message as the only argument."""
        return type(self), (self.key, self.value, self.allowed)

    def within(self, group: str) -> "InputError":
        """Return the same error with its key below `group`: sigma → aggregator.sigma. A dotted key stays as it is."""
        return self if "." in self.key else InputError(f"{group}.{self.key}", self.value, self.allowed)


@contextmanager
def within(group: str) -> Iterator[None]:
    """Put the key of every InputError raised in this context below `group`."""
    try:
        yield
    except InputError as error:
        raise error.within(group) from error


def positive(**values: Any) -> None:
    """Require a finite number above 0."""
    for key, value in values.items():
        if (number := _number(value)) is None or number < LEAST:
            raise InputError(key, value, f"must be a finite number above 0, from {LEAST:g} to {MOST:g}")


def not_negative(**values: Any) -> None:
    """Require a finite number of 0 or more."""
    for key, value in values.items():
        if (number := _number(value)) is None or number < 0:
            raise InputError(key, value, f"must be a finite number, 0 or above, up to {MOST:g}")


def between_0_and_1(**values: Any) -> None:
    """Require a number strictly between 0 and 1."""
    for key, value in values.items():
        if (number := _number(value)) is None or not 0 < number < 1:
            raise InputError(key, value, "must be a number strictly between 0 and 1")


def below_1(**values: Any) -> None:
    """Require a number of 0 or more, below 1."""
    for key, value in values.items():
        if (number := _number(value)) is None or not 0 <= number < 1:
            raise InputError(key, value, "must be a number of 0 or more, below 1")


def share(**values: Any) -> None:
    """Require a number from 0 to 1."""
    for key, value in values.items():
        if (number := _number(value)) is None or not 0 <= number <= 1:
            raise InputError(key, value, "must be from 0 to 1")


def whole(at_least: int, at_most: int | None = None, unit: str = "", **values: Any) -> None:
    """Require a whole number within bounds; `unit` says what the upper bound counts."""
    for key, value in values.items():
        good = isinstance(value, int) and not isinstance(value, bool) and value >= at_least
        if not good or (at_most is not None and value > at_most):
            upper = "" if at_most is None else f" to {at_most:,}{unit and ' ' + unit}"
            bounds = f"from {at_least}{upper}" if upper else f"of {at_least} or more"
            raise InputError(key, value, f"must be a whole number {bounds}")


def fits_memory(bytes_needed: float, **counts: int) -> None:
    """Require that what these counts make at once, at least `bytes_needed`, fits into this machine's memory.

    The error names the largest of the counts.
    """
    from psutil import virtual_memory

    if bytes_needed > (there := virtual_memory().total):
        key = max(counts, key=lambda each: counts[each])
        size = f"{bytes_needed / 1e9:,.0f} GB at least, of {there / 1e9:,.0f} GB here"
        raise InputError(key, counts[key], f"must fit into memory; with it this takes {size}")


def one_of(allowed: tuple[str, ...], **values: Any) -> None:
    """Require one of the given words."""
    for key, value in values.items():
        if value not in allowed:
            raise InputError(key, value, f"must be one of {', '.join(allowed)}")


def masked(text: object) -> str:
    """Return the text with *** in place of the password of every address: http://USER:***@HOST."""
    return re.sub(r"""(://[^\s/:@"'<]*:)[^\s"'<]*@""", r"\1***@", str(text))


def one_line(text: str) -> str:
    """Return the text without passwords, and with an escape for every character that a terminal would not show."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in masked(text))


def in_a_line(text: object, at_most: int | None = None) -> str:
    """Return another library's message without passwords and line breaks, cut after `at_most` characters."""
    return " ".join(masked(text).split())[:at_most]


def from_pydantic(error: Any, prefix: str) -> InputError:
    """Return pydantic's first complaint as an InputError below the key `prefix`."""
    first = error.errors()[0]
    key = ".".join(map(str, (prefix, *first["loc"])))
    words = {"a valid string": "text", "a valid list": "a list", "a valid dictionary": "a mapping"}
    said = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    for theirs, ours in words.items():
        said = said.replace(theirs, ours)
    return InputError(key, first["input"], said)


def reason(error: Exception) -> str:
    """Return why a private file cannot be read, without quoting its content."""
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__


def _number(value: object) -> float | None:
    if isinstance(value, Real) and not isinstance(value, bool) and abs(value) <= MOST:  # type: ignore[operator]
        return float(value)
    return None
