"""Ranges of settings as annotations: `steps: Count`.

nzc.app checks the arguments of every object that it builds by them. An object that is made by hand
is not checked.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from nzc.validation import (
    above_1,
    below_1,
    between_0_and_1,
    not_negative,
    one_of,
    positive,
    share,
    whole,
)


@dataclass(frozen=True)
class checked:
    """An annotation that makes pydantic call `check` with the value: it raises InputError."""

    check: Callable[[Any], None]

    def validate(self, value: Any) -> Any:
        self.check(value)
        return value

    def __get_pydantic_core_schema__(self, *_: Any) -> Any:
        from pydantic_core import core_schema  # slow to import, and `nzc --help` needs none

        return core_schema.no_info_plain_validator_function(self.validate)


def in_range(check: Callable[..., None], **bounds: int) -> checked:
    """Return the annotation of a setting for a check of nzc.validation, which takes a key first."""
    return checked(partial(check, "value", **bounds))


def word(*allowed: str) -> checked:
    """Return the annotation of a setting that is one of these words."""
    return checked(partial(one_of, "value", allowed=allowed))


Count = Annotated[int, in_range(whole, at_least=1)]
TwoOrMore = Annotated[int, in_range(whole, at_least=2)]
CountOrZero = Annotated[int, in_range(whole, at_least=0)]
Positive = Annotated[float, in_range(positive)]
NotNegative = Annotated[float, in_range(not_negative)]
AboveOne = Annotated[float, in_range(above_1)]
#: From 0 to 1.
Share = Annotated[float, in_range(share)]
#: From 0 to below 1.
BelowOne = Annotated[float, in_range(below_1)]
#: Above 0 and below 1.
Between0And1 = Annotated[float, in_range(between_0_and_1)]
