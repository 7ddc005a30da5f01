"""Parts of the user's own: what of nzc's classes they may replace, and what the statistic of a
screen must be.
"""

from dataclasses import fields
from inspect import getattr_static
from typing import Any

import numpy as np

from nzc.mechanisms.adjacency import Adjacency, Boost
from nzc.mechanisms.noise import ContinuousNoise, Noise
from nzc.mechanisms.screen import InteractiveScreen, Screen, ThresholdScreen
from nzc.types import Ints
from nzc.validation import InputError, is_shipped, shortened

#: What a class derived from one of these must leave as it is. One derived from another class of nzc
#: replaces nothing.
_OF_INTEGRAL = ("leads", "log_law", "neighbourhood", "winner")
_OF_SCREEN = (
    "answers", "bound", "delta_cost", "ended", "histograms", "log_answer", "one_round", "paid", "worst_case",
)  # fmt: skip
_FIXED: dict[type, tuple[str, ...]] = {
    Noise: (),
    ContinuousNoise: _OF_INTEGRAL,
    Screen: _OF_SCREEN,
    ThresholdScreen: _OF_SCREEN,
    InteractiveScreen: _OF_SCREEN,
}
#: The fields of a mechanism that hold parts, what they may be, and what else to do.
_PARTS = {
    "noise": (Noise, "derive it from nzc.Noise or nzc.ContinuousNoise"),
    "boost": (Boost, "use nzc.Boost itself"),
    "screen": (Screen, "derive it from nzc.Screen, and define `statistic`"),
    "adjacency": (Adjacency, "use the classes of nzc.mechanisms.adjacency"),
}


def require_parts(mechanism: Any) -> None:
    """Raise InputError where a part is no part, or replaces what nzc's price is proved for."""
    for key, (kind, advice) in _PARTS.items():
        part = getattr(mechanism, key)
        if part is None and key == "screen":
            continue
        if not isinstance(part, kind):
            raise InputError(key, part, f"must be a nzc.mechanisms.{kind.__name__}")
        require_kept(key, type(part), advice)


def require_kept(key: str, kind: type, advice: str) -> None:
    """Raise InputError where a class derived from one of nzc replaces what must stay as it is."""
    shipped = [base for base in kind.__mro__ if is_shipped(base)]
    base = shipped[0]
    if not all(issubclass(base, other) for other in shipped):
        raise InputError(key, kind.__name__, f"must derive from one class of nzc only; {advice}")
    if base in _FIXED:
        fixed = _FIXED[base]
    else:
        settings = {field.name for field in fields(base)}
        public = [name for name in dir(base) if not name.startswith("_") and name not in settings]
        fixed = (*public, "__post_init__")
    for name in fixed:
        if getattr_static(kind, name, None) is not getattr_static(base, name, None):
            must = f"must leave `{name}` as {base.__name__} has it, because nzc's price holds for that one"
            raise InputError(key, kind.__name__, f"{must}; {advice}")


def require_statistic(screen: Screen, teachers: int, classes: int) -> None:
    """Raise InputError where the statistic of made-up histograms changes by more than 1, or depends
    on other rows.
    """
    rng = np.random.default_rng(0)
    votes = _histograms(teachers, classes, rng)
    one = np.eye(classes, dtype=np.int64)
    source = (rng.random(votes.shape) * (votes > 0)).argmax(axis=1)
    moved = votes - one[source] + one[rng.integers(classes, size=len(votes))]
    probs = rng.dirichlet(np.ones(classes), size=len(votes)) if screen.asks_student else None
    here = np.asarray(screen.statistic(votes, probs))
    there = np.asarray(screen.statistic(moved, probs))
    if here.shape != (len(votes),) or not np.isfinite(here).all():
        raise InputError(
            "statistic", type(screen).__name__, "must return one finite number for each histogram"
        )
    backwards = np.asarray(screen.statistic(votes[::-1], None if probs is None else probs[::-1]))[
        ::-1
    ]
    if not np.array_equal(here, backwards):
        raise InputError(
            "statistic",
            type(screen).__name__,
            "must be of each histogram alone, wherever it stands",
        )
    steps = np.abs(here - there)
    worst = int(steps.argmax())
    if not steps[worst] <= 1 + 1e-9:
        pair = f"{votes[worst].tolist()} and {moved[worst].tolist()}"
        allowed = f"must change by at most 1 where one vote moves; it changes by {steps[worst]:.6g} between the made-up"
        raise InputError(
            "statistic", type(screen).__name__, f"{allowed} votes {shortened(pair, 200)}"
        )


def _histograms(teachers: int, classes: int, rng: np.random.Generator) -> Ints:
    """Return histograms of all kinds, [queries, classes]: near ties, near agreement, and in
    between.
    """
    shares = np.concatenate([rng.dirichlet(np.full(classes, size), 64) for size in (0.05, 1, 1000)])
    spread = rng.multinomial(teachers, shares)
    leaders = np.arange(classes)[None] <= rng.integers(classes, size=64)[:, None]
    tied = leaders * (teachers // leaders.sum(axis=1, keepdims=True))
    tied[:, 0] += teachers - tied.sum(axis=1)
    return np.concatenate([spread, rng.permuted(tied, axis=1)])
