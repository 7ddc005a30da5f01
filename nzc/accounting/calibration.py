"""Calibration: find the noise that spends a given privacy budget."""

import math
from collections.abc import Callable
from functools import partial
from inspect import Parameter, signature
from typing import Any

from nzc.validation import InputError, between_0_and_1, positive, whole


def calibrate(
    mechanism: Callable[..., Any],
    epsilon: float,
    delta: float,
    queries: int,
    parameter: str | None = None,
    rough: bool = False,
) -> float:
    """Return the noise parameter at which `queries` answered queries cost `epsilon` at δ, whatever the votes.

    mechanism  builds one from one free argument: `nzc.GNMax`, `partial(nzc.Confident, threshold=200, sigma1=150)`
    parameter  name of that argument, where several are free and the others have defaults
    rough      for GNMax: leave out the numeric bound, so that the noise is up to a fifth too large, in milliseconds

    The result costs at most `epsilon`, and at least (1 − 1e-5) of it; for GNMax (1 − 1e-3), after several seconds. With
    a `first` (nzc.Interactive) that holds however the queries are divided. InputError: no noise up to 1e15 is enough.

        >>> import nzc
        >>> nzc.calibrate(nzc.LNMax, epsilon=1, delta=1e-5, queries=1000)
        0.004243...
    """
    positive(epsilon=epsilon)
    between_0_and_1(delta=delta)
    whole(1, queries=queries)
    name = parameter or _free(mechanism)

    def cost(value: float, rough: bool = True) -> float:
        return float(mechanism(**{name: value}).worst_case_epsilon(queries, delta, rough))

    values = [2.0**power for power in range(-50, 51)]
    if cost(values[0]) <= epsilon:  # an inverse scale: noise shrinks with it, and every small value is enough
        values.reverse()
    costs = [cost(value) for value in values]
    if min(costs) > epsilon:
        allowed = f"must be above {min(costs):.3g}: {name} alone cannot make {queries} queries cheaper"
        if math.isinf(min(costs)):
            allowed = f"must be null, because no {name} gives a finite ε"
        raise InputError("epsilon", epsilon, allowed)
    if costs[0] <= epsilon:
        return values[0]
    at = next(at for at, price in enumerate(costs) if price <= epsilon)
    enough, short = values[at], values[at - 1]
    scale = 1 if enough > short else -1  # noise grows with the value, or shrinks
    while abs(math.log(enough / short)) > 1e-11:
        middle = math.sqrt(enough * short)
        enough, short = (middle, short) if cost(middle) <= epsilon else (enough, middle)
    return enough if rough else _refined(partial(cost, rough=False), enough, scale, epsilon)


def _refined(cost: Callable[[float], float], enough: float, scale: int, epsilon: float) -> float:
    """Return less noise than `enough`, at a precise ε of at most `epsilon`: log ε is about linear in log noise."""
    known, over = cost(enough), None
    for _ in range(12):
        if known == 0 or known >= epsilon * (1 - 1e-3) or (over is not None and over[0] == enough):
            break
        slope = -1.2 * scale if over is None else math.log(over[1] / known) / math.log(over[0] / enough)
        value = enough * (epsilon * (1 - 3e-4) / known) ** (1 / slope)
        price = cost(value)
        if price <= epsilon:
            enough, known = value, price
        else:
            over = (value, price)
    return enough


def _free(mechanism: Callable[..., Any]) -> str:
    """Return the name of the one argument that still has to be given."""
    given = mechanism.keywords if isinstance(mechanism, partial) else {}
    parameters = signature(mechanism).parameters.items()
    free = [name for name, one in parameters if one.default is Parameter.empty and name not in given]
    if len(free) != 1:
        allowed = f"must be the name of the noise parameter; {', '.join(free) or 'no argument'} must still be given"
        raise InputError("parameter", None, allowed)
    return free[0]
