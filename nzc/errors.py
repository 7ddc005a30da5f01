"""What is said when the input is wrong: one line that names the key, the value and what is allowed.

    InputError      the person can mend it (exit code 2)
    anything else   a failure while running (exit code 1)

Each check takes its value by keyword, and the keyword becomes the key of the message:

    >>> positive(gamma=-1)
    Traceback (most recent call last):
    nzc.errors.InputError: gamma=-1: must be a finite number above 0, from 1e-100 to 1e+100
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from typing import Any

#: How small and how large a setting other than 0 may be: its square and its quotients stay within what floats hold.
LEAST, MOST = 1e-100, 1e100
#: The config groups, which a key may name by itself.
GROUPS = ("dataset", "teachers", "aggregator", "student", "trainer", "tracking")


class InputError(ValueError):
    """A value that cannot be used: `key=value: allowed`."""

    def __init__(self, key: str, value: object, allowed: str) -> None:
        self.key, self.value, self.allowed = key, value, allowed
        super().__init__(one_line(f"{key}={value}: {allowed}"))

    def __reduce__(self) -> tuple[Any, ...]:
        """Its three parts: pickle would make it again from the message alone."""
        return type(self), (self.key, self.value, self.allowed)

    def within(self, group: str) -> "InputError":
        """The same error, its key below a config group: gamma → aggregator.gamma. Whole keys stay as they are."""
        whole = "." in self.key or self.key in GROUPS
        return self if whole else InputError(f"{group}.{self.key}", self.value, self.allowed)


def masked(text: object) -> str:
    """The text with *** for the password of every address in it: http://USER:***@HOST."""
    return re.sub(r"""(://[^\s/:@"'<]*:)[^\s"'<]*@""", r"\1***@", str(text))


def one_line(text: str) -> str:
    """The text with an escape for every character that a terminal would not show, line ends among them; no password."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in masked(text))


def in_a_line(text: object, at_most: int | None = None) -> str:
    """Somebody else's text, an error's mostly, in one line without passwords, cut after so many characters."""
    return " ".join(masked(text).split())[:at_most]


@contextmanager
def within(group: str) -> Iterator[None]:
    """Input errors raised below get the group's name."""
    try:
        yield
    except InputError as error:
        raise error.within(group) from error


def reason(error: Exception) -> str:
    """Why a private file cannot be read: never by quoting it."""
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__


def _number(value: object) -> float | None:
    if isinstance(value, Real) and not isinstance(value, bool) and abs(value) <= MOST:  # type: ignore[operator]
        return float(value)
    return None


def positive(**values: Any) -> None:
    """A finite number above 0."""
    for key, value in values.items():
        if (number := _number(value)) is None or number < LEAST:
            raise InputError(key, value, f"must be a finite number above 0, from {LEAST:g} to {MOST:g}")


def not_negative(**values: Any) -> None:
    """A finite number, 0 or above."""
    for key, value in values.items():
        if (number := _number(value)) is None or number < 0:
            raise InputError(key, value, f"must be a finite number, 0 or above, up to {MOST:g}")


def share(**values: Any) -> None:
    """A number strictly between 0 and 1."""
    for key, value in values.items():
        if (number := _number(value)) is None or not 0 < number < 1:
            raise InputError(key, value, "must be a number strictly between 0 and 1")


def fraction(**values: Any) -> None:
    """A number of 0 or more, below 1."""
    for key, value in values.items():
        if (number := _number(value)) is None or not 0 <= number < 1:
            raise InputError(key, value, "must be a number of 0 or more, below 1")


def whole(at_least: int, at_most: int | None = None, unit: str = "", **values: Any) -> None:
    """A whole number within bounds; `unit` says what the upper bound counts."""
    for key, value in values.items():
        good = isinstance(value, int) and not isinstance(value, bool) and value >= at_least
        if not good or (at_most is not None and value > at_most):
            bounds = (
                f"of {at_least} or more" if at_most is None else f"from {at_least} to {at_most:,}{unit and ' ' + unit}"
            )
            raise InputError(key, value, f"must be a whole number {bounds}")


def one_of(allowed: tuple[str, ...], **values: Any) -> None:
    """One of the given words."""
    for key, value in values.items():
        if value not in allowed:
            raise InputError(key, value, f"must be one of {', '.join(allowed)}")
