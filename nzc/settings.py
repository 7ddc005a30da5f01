"""Ranges of settings as annotations: `steps: Count`. nzc.app checks the fields of every object that it builds by them.

An object that is made by hand is not checked.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from nzc.validation import below_1, not_negative, positive, share, whole


@dataclass(frozen=True)
class Checked:
    """Makes pydantic call `check` with the value: its type and its range are then right, or it raises InputError."""

    check: Callable[..., None]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema  # not needed by those who only read these annotations

        def validate(value: Any) -> Any:
            self.check(value=value)
            return value

        return core_schema.no_info_plain_validator_function(validate)


Count = Annotated[int, Checked(partial(whole, 1))]
TwoOrMore = Annotated[int, Checked(partial(whole, 2))]
CountOrZero = Annotated[int, Checked(partial(whole, 0))]
Positive = Annotated[float, Checked(positive)]
NotNegative = Annotated[float, Checked(not_negative)]
#: From 0 to 1.
Share = Annotated[float, Checked(share)]
#: From 0 to below 1.
BelowOne = Annotated[float, Checked(below_1)]
