"""Ranges of settings as annotations: `steps: Count`. nzc.app checks the fields of every object that
it builds by them.

An object that is made by hand is not checked.
"""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from pydantic import PlainValidator

from nzc.validation import below_1, between_0_and_1, not_negative, positive, share, whole


def checked(check: Callable[..., None]) -> PlainValidator:
    """Return an annotation that makes pydantic call `check` with the value: it raises InputError,
    or all is right.
    """

    def validate(value: Any) -> Any:
        check("value", value)
        return value

    return PlainValidator(validate)


Count = Annotated[int, checked(partial(whole, at_least=1))]
TwoOrMore = Annotated[int, checked(partial(whole, at_least=2))]
CountOrZero = Annotated[int, checked(partial(whole, at_least=0))]
Positive = Annotated[float, checked(positive)]
NotNegative = Annotated[float, checked(not_negative)]
#: From 0 to 1.
Share = Annotated[float, checked(share)]
#: From 0 to below 1.
BelowOne = Annotated[float, checked(below_1)]
#: Above 0 and below 1.
Between0And1 = Annotated[float, checked(between_0_and_1)]
