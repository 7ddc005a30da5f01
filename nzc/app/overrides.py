"""Overrides KEY=VALUE as they are typed: what Hydra would misread is refused before it composes."""

import re
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, Quote, QuotedString
from hydra.errors import HydraException, OverrideParseException

from nzc.validation import InputError, in_a_line

#: The groups of the configuration.
GROUPS = (
    "recipe",
    "dataset",
    "representation",
    "teachers",
    "aggregator",
    "student",
    "trainer",
    "tracking",
)
#: Keys of overrides that tell which recipe suits the dataset, and which files Hydra reads.
_TELLING = re.compile(r"[+~]*(recipe|sweeps|dataset|dataset\.suits.*|baseline|hydra[./].*)(=|$)")


def typed_values(words: Iterable[str]) -> dict[str, str]:
    """Return the values of overrides by key, as text."""
    return dict(word.lstrip("+~").split("=", 1) for word in words if "=" in word)


def telling(words: Iterable[str]) -> list[str]:
    """Return the overrides that tell which recipe suits the dataset."""
    return [word for word in words if _TELLING.match(word)]


def check_overrides(words: Sequence[str]) -> None:
    """Raise InputError for an override that Hydra cannot read, or that gives a group no option."""
    try:
        overrides = OverridesParser.create().parse_overrides([*words])
    except OverrideParseException as error:
        raise unread(error.override, in_a_line(error)) from error
    for override in overrides:
        if not override.is_sweep_override() and not override.is_delete():
            _check_group(override)


def _check_group(override: Override) -> None:
    """Raise InputError for an override that gives a group no option, or adds one to it."""
    group = override.key_or_group
    value = override.get_value_string()
    is_added = group in GROUPS and override.is_add() and override.package is None
    is_option = isinstance(override.value(), str | list | dict)
    if is_added or ((group in GROUPS or "/" in group) and not is_option):
        raise InputError(
            group, value, f"must be {group}=OPTION, without a plus; nzc --help lists the options"
        )
    if group == "sweep" and isinstance(override.value(), str):
        raise InputError(
            group, value, f"must be a section of a sweep file; did you mean +sweeps={value}?"
        )


def refuse_sweeps(words: Iterable[str]) -> None:
    """Raise InputError for an override that lists values, as only those of a sweep do."""
    for override in OverridesParser.create().parse_overrides([*words]):
        if override.is_sweep_override():
            raise unread(
                str(override.input_line),
                "for a list, put it into []; to run a job for each part, add --multirun",
            )


def unread(word: str, why: str) -> InputError:
    """Return the error for an override that Hydra does not read as one value.

    The line says what to type if it is text, and `why` Hydra reads it otherwise.
    """
    key, _, value = word.partition("=")
    text = quoted(value)
    with suppress(HydraException):
        OverridesParser.create().parse_override(f"{key}={text}")
        why = f"if it is text, type {shlex.quote(f'{key}={text}')}; {why}"
    return InputError(key, value, why)


def quoted(text: str) -> str:
    """Return the text in quotes, for Hydra."""
    return QuotedString(text, Quote.double).with_quotes()
