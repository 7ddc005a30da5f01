"""Input checks, and the one error that they raise.

A check takes its value by keyword, and the keyword becomes the key of the message:

    >>> positive(gamma=-1)
    Traceback (most recent call last):
    nzc.validation.InputError: gamma=-1: must be a finite number above 0, from 1e-100 to 1e+100
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from numbers import Real
from typing import Any
from urllib.parse import unquote

#: The smallest and the largest setting other than 0: squares and quotients of them stay within float64.
LEAST, MOST = 1e-100, 1e100
#: Variables of the environment that a message may name.
_ENVIRONMENT = ("TMPDIR",)
#: Names of secrets: password, sslpassword, PWD, api_token, client_secret, AWS_ACCESS_KEY, …
_SECRET = (
    r"passw|passphrase|pwd|credential|signature(?![a-z])|(?<![a-z])(?:sig|auth)(?![a-z])|(?:token|secret)(?![a-z])"
    r"|(?:api|access|account|private|secret|shared)_?key"
)
_SECRET_NAME = re.compile(_SECRET, re.IGNORECASE)
#: The password of an address, up to the last @ of its line, as it may hold any character; *** stays as it is. Hydra
#: writes \\: for a colon.
_PASSWORD = re.compile(r"(://[^:/\n\\]*\\?:)(?!\*\*\*@)(.+)(?=@)")
#: The value of NAME=VALUE, also percent-encoded; and of {NAME: VALUE}.
_NAMED_SECRET = re.compile(
    rf"""((?:{_SECRET})[\w.-]*(?:=|%3D)|[{{,]\s*["']?[\w.-]*(?:{_SECRET})[\w.-]*["']?\s*:\s*+)(?!["']?\*\*\*(?:\W|$))([^&\n]+)""",
    re.IGNORECASE,
)


class InputError(ValueError):
    """A value that cannot be used. The message is one line: `key=value: allowed`."""

    def __init__(self, key: str, value: object, allowed: str) -> None:
        self.key, self.value, self.allowed = key, value, allowed
        typed = {"None": "null", "True": "true", "False": "false"}.get(str(value), str(value))  # as one types it
        shown = masked_tree(value if isinstance(value, (dict, list, tuple)) else typed, key)
        secrets = [found[2] for pattern in (_PASSWORD, _NAMED_SECRET) for found in pattern.finditer(f"{key}={typed}")]
        said = f"{shortened(key, 100)}={shortened(str(shown), 250)}"
        super().__init__(one_line(f"{said}: {_without_parts(masked(allowed), secrets)}"))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the three parts; by default pickle would pass the message as the only argument."""
        return type(self), (self.key, self.value, self.allowed)

    def within(self, group: str) -> "InputError":
        """Return the same error with its key below `group`: sigma → aggregator.sigma.

        A dotted key stays as it is, and so does a variable of the environment, such as TMPDIR.
        """
        if "." in self.key or self.key in _ENVIRONMENT:
            return self
        return InputError(f"{group}.{self.key}", self.value, self.allowed)


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
        if (number := _number(value)) is None or not LEAST <= number < 1:
            raise InputError(key, value, f"must be a number strictly between 0 and 1, from {LEAST:g}")


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


def masked(value: object) -> str:
    """Return a value as text, with *** in place of passwords of addresses, and of values whose name is a secret's.

    http://USER:***@HOST, postgresql://HOST/DB?password=***, tracking.token=***. A text that is JSON stays JSON. Where a
    password ends cannot be seen in other text: everything up to the last @ of the line, or up to the next &, is hidden.
    """
    if isinstance(value, (dict, list, tuple)):
        return str(masked_tree(value))
    text = str(value)
    if text.lstrip()[:1] in ("{", "["):
        with suppress(ValueError, RecursionError):
            tree = json.loads(text)
            return text if (hidden := masked_tree(tree)) == tree else json.dumps(hidden, ensure_ascii=False)
    return _NAMED_SECRET.sub(r"\1***", _PASSWORD.sub(r"\1***", text))


def masked_tree(tree: Any, name: str = "") -> Any:
    """Return nested mappings and lists with *** in place of every secret; `name` is the key of `tree`."""
    if isinstance(tree, Mapping):
        return {key: masked_tree(value, str(key)) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [masked_tree(value, name) for value in tree]
    if tree is None or isinstance(tree, bool):
        return tree
    if _SECRET_NAME.search(name):
        return "***"
    return masked(tree) if isinstance(tree, str) else tree


def one_line(text: str) -> str:
    """Return the text without passwords, and with an escape for every character that a terminal would not show."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in masked(text))


def in_a_line(text: object, at_most: int | None = None) -> str:
    """Return another library's message without passwords and line breaks, cut after `at_most` characters."""
    return " ".join(masked(text).split())[:at_most]


def _without_parts(text: str, secrets: Iterable[str]) -> str:
    """Return the text with *** in place of every part of 4 or more characters of the secrets."""
    for secret in {*secrets, *map(unquote, secrets)}:
        for length in range(len(secret), 3, -1):
            for part in {secret[at : at + length] for at in range(len(secret) - length + 1)}:
                text = text.replace(part, "***")
    return text


def shortened(text: str, at_most: int = 500) -> str:
    """Return the text, or as much of it as at most so many characters hold, with a sign that something is left out."""
    return text if len(text) <= at_most else f"{text[: at_most - 1]}…"


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
