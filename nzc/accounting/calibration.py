"""Calibration: find the noise that spends a given privacy budget."""

import math
from collections.abc import Callable
from functools import partial
from inspect import Parameter, signature
from typing import Protocol

from nzc.validation import InputError, between_0_and_1, positive, whole

#: No noise parameter outside 1e-15 … 1e15 is tried.
_MOST = 1e15


class HasWorstCase(Protocol):
    """A mechanism whose ε is known for any votes."""

    def worst_case_epsilon(self, queries: int, delta: float) -> float:
        """Return ε at δ of `queries` queries that are all answered, whatever the votes."""


def calibrate(
    mechanism: Callable[..., HasWorstCase], epsilon: float, delta: float, queries: int, parameter: str | None = None
) -> float:
    """Return the noise parameter at which `queries` answered queries cost `epsilon` at δ, whatever the votes.

    mechanism  builds a mechanism from its one free argument: `nzc.GNMax`, or
               `functools.partial(nzc.Confident, threshold=200, sigma1=150)`
    parameter  name of that argument, where several are free and the others have defaults

    The result never costs more than `epsilon`, and at least `epsilon` (1 − 1e-9). InputError: no noise is enough.

        >>> import nzc
        >>> nzc.calibrate(nzc.GNMax, epsilon=1, delta=1e-5, queries=1000)
        166.838...
    """
    positive(epsilon=epsilon)
    between_0_and_1(delta=delta)
    whole(1, queries=queries)
    name = parameter or _free(mechanism)

    def cost(value: float) -> float:
        return mechanism(**{name: value}).worst_case_epsilon(queries, delta)

    up = 2.0 if cost(1e3) < cost(1e-3) else 0.5  # the direction in which noise grows
    enough = 1.0
    while cost(enough) > epsilon:
        enough *= up
        if not 1 / _MOST < enough < _MOST:
            allowed = f"must be above {cost(enough / up):.3g}: {name} alone cannot make {queries} queries cheaper"
            raise InputError("epsilon", epsilon, allowed)
    short = enough
    while cost(short) <= epsilon:
        short /= up
        if not 1 / _MOST < short < _MOST:
            return short
    while abs(math.log(enough / short)) > 1e-11:
        middle = math.sqrt(enough * short)
        enough, short = (middle, short) if cost(middle) <= epsilon else (enough, middle)
    return enough


def _free(mechanism: Callable[..., HasWorstCase]) -> str:
    """Return the name of the one argument that still has to be given."""
    given = mechanism.keywords if isinstance(mechanism, partial) else {}
    parameters = signature(mechanism).parameters.items()
    free = [name for name, each in parameters if each.default is Parameter.empty and name not in given]
    if len(free) != 1:
        allowed = f"must be the name of the noise parameter; {', '.join(free) or 'no argument'} must still be given"
        raise InputError("parameter", None, allowed)
    return free[0]
