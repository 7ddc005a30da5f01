"""Calibration: find the noise that spends a given privacy budget."""

import math
from collections.abc import Callable
from functools import cache, partial
from inspect import Parameter, signature
from typing import Any

from nzc.validation import InputError, between_0_and_1, positive, whole

#: The noise that is tried first, as powers of 2; also that which drowns NZC's boost of 1e100 votes.
_POWERS = (*range(-390, -50, 20), *range(-50, 51), *range(70, 391, 20))
_TRIALS, _PRECISION = (
    60,
    1e-8,
)  # how often a precise bound is tried at most, and how near the noise of a jump is found


def calibrate(
    mechanism: Callable[..., Any],
    epsilon: float,
    delta: float,
    queries: int,
    parameter: str | None = None,
    rough: bool = False,
) -> float:
    """Return the noise parameter at which `queries` answered queries cost `epsilon` at δ, whatever
    the votes.

    mechanism  builds one from one free argument: `nzc.GNMax`, `partial(nzc.Confident,
               threshold=200, sigma1=150)`
    parameter  name of that argument, where several are free and the others have defaults
    rough      leave out the numeric bound of LNMax, GNMax, Gumbel and screens: up to two fifths too
               much noise, at once

    The result costs from (1 − 1e-3) of `epsilon` to all of it. It costs less only where a bound
    jumps: where noise that is less by 1e-8 costs more than `epsilon`, as at a large δ, which alone
    pays for much noise. InputError: no noise up to 1e117 is enough.

        >>> import nzc
        >>> nzc.calibrate(nzc.LNMax, epsilon=1, delta=1e-5, queries=1000)
        0.00838...
    """
    positive("epsilon", epsilon)
    between_0_and_1("delta", delta)
    whole("queries", queries, 1)
    name = parameter or _free(mechanism)

    @cache
    def cost(value: float, rough: bool = True) -> float:
        return float(mechanism(**{name: value}).worst_case_epsilon(queries, delta, rough))

    values: list[float] = [2.0**power for power in _POWERS]
    if (
        cost(values[0]) <= epsilon
    ):  # an inverse scale: noise shrinks with it, and every small value is enough
        values.reverse()

    def enough_for(budget: float) -> float | None:
        """Return the least noise that is enough by the rough bound; None: there is none."""
        at = next((at for at, value in enumerate(values) if cost(value) <= budget), None)
        if at is None:
            return None
        enough, short = values[at], values[max(at - 1, 0)]
        while abs(math.log(enough / short)) > 1e-11:
            middle = math.sqrt(enough * short)
            enough, short = (middle, short) if cost(middle) <= budget else (enough, middle)
        return enough

    enough = enough_for(epsilon)
    if enough is None:  # where more noise uses more of δ, few values may be enough
        cheapest = min(values, key=cost)
        values = sorted(
            (cheapest * 2 ** (step / 64) for step in range(-64, 65)), reverse=values[0] > values[-1]
        )
        cheapest = min(values, key=cost)
        least = cost(cheapest, rough)
        if least > epsilon:
            cheaper = (
                f"must be above {least:.3g}: {name} alone cannot make {queries} queries cheaper"
            )
            never = f"must be null, because no {name} gives a finite ε"
            raise InputError("epsilon", epsilon, never if math.isinf(least) else cheaper)
        enough = enough_for(epsilon) or cheapest
    if rough or cost(values[0]) <= epsilon:
        return enough
    grows = values[0] < values[-1]  # whether more noise is a larger value
    return _refined(partial(cost, rough=False), enough_for, epsilon, enough, grows)


def _refined(
    cost: Callable[[float], float],
    enough_for: Callable[[float], float | None],
    epsilon: float,
    enough: float,
    grows: bool,
) -> float:
    """Return less noise than is `enough` by a rough bound, at a precise ε of at most `epsilon`."""
    less = 0.5 if grows else 2.0
    none = 0.0 if grows else math.inf
    least = epsilon * (1 - 1e-3)
    short = none  # the most noise that is known to be too little
    # The noise at which both bounds have the same ε is in about the same ratio for all ε: first,
    # 0.82.
    target = enough_for(epsilon * (1 - 3e-4)) or enough
    value = target * (0.82 if grows else 1 / 0.82)
    for _ in range(_TRIALS):
        price = cost(value)
        if price > epsilon:
            short = value
        else:
            enough = value
        if least <= price <= epsilon or abs(enough - short) < _PRECISION * enough:
            break
        equal = enough_for(price) if price > 0 else None
        value = enough if equal is None else target * value / equal
        if not min(enough, short) < value < max(enough, short):
            if cost(enough) >= least:  # the rough bound is precise
                break
            # Where δ alone pays for much noise, ε may rise steeply from 0: the ratio leads nowhere,
            # and halving does.
            value = enough * less if short == none else math.sqrt(enough * short)
    return enough


def _free(mechanism: Callable[..., Any]) -> str:
    """Return the name of the one argument that still has to be given."""
    given = mechanism.keywords if isinstance(mechanism, partial) else {}
    parameters = signature(mechanism).parameters.items()
    free = [
        name for name, one in parameters if one.default is Parameter.empty and name not in given
    ]
    if len(free) != 1:
        allowed = f"must be the name of the noise parameter; {', '.join(free) or 'no argument'} must still be given"
        raise InputError("parameter", None, allowed)
    return free[0]
