"""Ranges of settings as annotations: `steps: Count`.

nzc.app checks the arguments of every object that it builds by them. An object that is made by hand
is not checked.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from nzc.validation import (
    Check,
    above_1,
    below_1,
    between_0_and_1,
    not_negative,
    one_of,
    positive,
    share,
    typed,
    whole,
)


@dataclass(frozen=True)
class checked:
    """An annotation that makes pydantic call `check` with a key and the value."""

    check: Check

    def validate(self, value: Any) -> Any:
        number = self.check("value", typed(value))  # its InputError gets the key of the setting
        return value if number is None else number

    def __get_pydantic_core_schema__(self, *_: Any) -> Any:
        from pydantic_core import core_schema  # slow to import, and `nzc --help` needs none

        return core_schema.no_info_plain_validator_function(self.validate)


def word(*allowed: str) -> checked:
    """Return the annotation of a setting that is one of these words."""
    return checked(partial(one_of, allowed=allowed))


Count = Annotated[int, checked(partial(whole, at_least=1))]
TwoOrMore = Annotated[int, checked(partial(whole, at_least=2))]
CountOrZero = Annotated[int, checked(partial(whole, at_least=0))]
Positive = Annotated[float, checked(positive)]
NotNegative = Annotated[float, checked(not_negative)]
AboveOne = Annotated[float, checked(above_1)]
#: From 0 to 1.
Share = Annotated[float, checked(share)]
#: From 0 to below 1.
BelowOne = Annotated[float, checked(below_1)]
#: Above 0 and below 1.
Between0And1 = Annotated[float, checked(between_0_and_1)]
