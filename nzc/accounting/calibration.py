"""Calibration: find the noise that spends a given privacy budget."""

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import cache, partial
from inspect import Parameter, signature
from typing import Any

from nzc.validation import InputError, between_0_and_1, positive, whole

#: The noise that is tried first, as powers of 2; also that which drowns NZC's boost of 1e100 votes.
_POWERS = (*range(-390, -50, 20), *range(-50, 51), *range(70, 391, 20))
_TRIALS = 60  # how often a precise bound is tried at most
_PRECISION = 1e-8  # how near the noise of a jump is found, relatively


def calibrate(
    mechanism: Callable[..., Any],
    epsilon: float,
    delta: float,
    queries: int,
    parameter: str | None = None,
    rough: bool = False,
) -> float:
    """Return the noise at which `queries` answered queries cost `epsilon` at δ, for any votes.

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
    if not callable(mechanism):
        raise InputError(
            "mechanism",
            mechanism,
            "must be what builds one, such as nzc.GNMax: its noise is what is to be found",
        )
    queries = whole("queries", queries, 1)
    name = parameter or _free(mechanism)

    def epsilon_of(noise: float, rough: bool) -> float:
        return float(mechanism(**{name: noise}).worst_case_epsilon(queries, delta, rough))

    if delta != 0:
        delta = between_0_and_1("delta", delta)
    elif epsilon_of(1.0, True) == math.inf:
        pure = "0 is for Laplace, Gumbel and exponential noise without a screen"
        raise InputError("delta", delta, f"must be strictly between 0 and 1; {pure}")
    return calibrate_noise(epsilon_of, epsilon, name, queries, rough)


def calibrate_noise(
    epsilon_of: Callable[[float, bool], float],
    epsilon: float,
    name: str,
    queries: int,
    rough: bool = False,
) -> float:
    """Return the noise at which `epsilon_of` is `epsilon`, as `calibrate` does for a mechanism.

    epsilon_of  maps a noise, and whether a rough bound will do, to an ε for any votes
    name        the noise parameter, and `queries` their number: for the error line
    """
    epsilon = positive("epsilon", epsilon)
    cost = cache(epsilon_of)
    roughly = partial(cost, rough=True)
    values = list(map(partial(math.ldexp, 1.0), _POWERS))
    # Noise shrinks with an inverse scale, of which every small value is enough.
    sign = 1.0
    if roughly(values[0]) <= epsilon:
        sign = -1.0
        values.reverse()
    if roughly(values[-1]) > epsilon:  # where more noise uses more of δ, few values may be enough
        values = _until_cheapest(roughly, values)
    if roughly(values[-1]) > epsilon:
        finer = [values[-1] * 2 ** (step / 64) for step in range(-64, 65)]
        values = _until_cheapest(roughly, finer)
        least = cost(values[-1], rough=rough)
        if least == math.inf:
            allowed = f"must be null, because no {name} gives a finite ε"
            raise InputError("epsilon", epsilon, allowed)
        if least > epsilon:
            allowed = (
                f"must be above {least:.3g}: {name} alone cannot make {queries} queries cheaper"
            )
            raise InputError("epsilon", epsilon, allowed)
    enough_for = partial(_least_enough, roughly, values)
    enough = enough_for(epsilon) or values[-1]
    if rough or roughly(values[0]) <= epsilon:
        return enough
    return _refined(partial(cost, rough=False), enough_for, epsilon, enough, sign)


def _until_cheapest(cost: Callable[[float], float], values: list[float]) -> list[float]:
    """Return the values up to the cheapest: ε falls until there, and then rises or stays."""

    def price(place: int) -> tuple[float, int]:
        epsilon = cost(values[place])
        return epsilon, place if epsilon < math.inf else 0

    cheapest = len(values) // 2
    for step in (64, 32, 16, 8, 4, 2, 1):
        beside = (cheapest, max(0, cheapest - step), min(len(values) - 1, cheapest + step))
        cheapest = min(beside, key=price)
    return values[: cheapest + 1]


def _least_enough(
    cost: Callable[[float], float], values: list[float], budget: float
) -> float | None:
    """Return the least noise that costs at most `budget`; None: none of the values does.

    values  from little noise to much, which is ever cheaper; the result is found between two of
            them, by bisection
    """
    if cost(values[-1]) > budget:
        return None
    place = bisect_left(values, True, key=lambda noise: cost(noise) <= budget)
    if place == 0:
        return values[0]
    from scipy.optimize import brentq  # takes a fifth of a second to import

    def excess(log_noise: float) -> float:
        return math.log(min(max(cost(2**log_noise), 1e-300), 1e300) / budget)

    short = values[place - 1]
    enough = values[place]
    root = 2 ** brentq(excess, math.log2(short), math.log2(enough), xtol=2e-12)
    while abs(math.log(enough / short)) > 1e-11:
        middle = math.sqrt(enough * short)
        if math.isclose(middle, root, rel_tol=3e-12):
            is_enough = cost(middle) <= budget
        else:  # as a noise near the root tells
            is_enough = (middle > root) == (enough > short)
        if is_enough:
            enough = middle
        else:
            short = middle
    return enough


def _refined(
    cost: Callable[[float], float],
    enough_for: Callable[[float], float | None],
    epsilon: float,
    enough: float,
    sign: float,
) -> float:
    """Return less noise than is `enough` by a rough bound, at a precise ε of at most `epsilon`.

    sign  1: more noise is a larger value; −1: a smaller one
    """
    none = 0.0 if sign > 0 else math.inf
    short = none  # the most noise that is known to be too little
    least = epsilon * (1 - 1e-3)
    # The noise at which both bounds have the same ε is in about the same ratio for all ε.
    target = enough_for(epsilon * (1 - 3e-4)) or enough
    value = target * 0.82**sign
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
            value = enough * 0.5**sign if short == none else math.sqrt(enough * short)
    return enough


def _free(mechanism: Callable[..., Any]) -> str:
    """Return the name of the one argument that still has to be given."""
    free = [
        name
        for name, parameter in signature(mechanism).parameters.items()
        if parameter.default is Parameter.empty
    ]
    if len(free) != 1:
        missing = ", ".join(free) or "no argument"
        raise InputError(
            "parameter",
            None,
            f"must be the name of the noise parameter; {missing} must still be given",
        )
    return free[0]
