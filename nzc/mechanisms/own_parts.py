"""Parts of the user's own: what they may replace of nzc's classes, and what a statistic must be."""

from dataclasses import fields
from inspect import getattr_static
from typing import Any

import numpy as np

from nzc.mechanisms.adjacency import Adjacency, Boost
from nzc.mechanisms.noise.base import Noise
from nzc.mechanisms.noise.continuous import ContinuousNoise
from nzc.mechanisms.screen import InteractiveScreen, Screen, ThresholdScreen
from nzc.validation import InputError, is_shipped

_OF_SCREEN = (
    "answers", "bound", "delta_cost", "ended", "histograms", "law", "log_answer", "one_round",
    "paid", "worst_case",
)  # fmt: skip
#: What a class derived from one of these must leave; one derived from another of nzc replaces none.
_FIXED: dict[type, tuple[str, ...]] = {
    Noise: (),
    ContinuousNoise: ("leads", "log_law", "neighbourhood", "winner"),
    Screen: _OF_SCREEN,
    ThresholdScreen: _OF_SCREEN,
    InteractiveScreen: _OF_SCREEN,
}
#: What the parts of a mechanism may be, by the field that holds them.
_PARTS = {"noise": Noise, "boost": Boost, "screen": Screen | None, "adjacency": Adjacency}


def is_own(part: object) -> bool:
    """Return whether a part is the user's own, which nzc's tests do not know."""
    return part is not None and not is_shipped(part)


def require_parts(mechanism: Any) -> None:
    """Raise InputError where a part is no part, or replaces what nzc's price is proved for."""
    for key, kind in _PARTS.items():
        part = getattr(mechanism, key)
        if not isinstance(part, kind):
            raise InputError(key, part, f"must be a nzc.mechanisms.{key.capitalize()}")
        if part is not None:
            require_kept(key, type(part))


def require_kept(key: str, kind: type) -> None:
    """Raise InputError where a class derived from one of nzc replaces what must stay as it is."""
    base = next(base for base in kind.__mro__ if is_shipped(base))
    fixed = _FIXED.get(base)
    if fixed is None:
        settings = {field.name for field in fields(base)}
        public = {name for name in dir(base) if not name.startswith("_")}
        fixed = ("__post_init__", *sorted(public - settings))
    for name in fixed:
        if getattr_static(kind, name, None) is not getattr_static(base, name, None):
            allowed = f"must leave `{name}` as {base.__name__} has it: nzc's price holds for that"
            raise InputError(key, kind.__name__, allowed)


def require_statistic(screen: Screen, teachers: int, classes: int) -> None:
    """Raise InputError where the statistic of made-up votes changes by over 1, or by other rows."""
    rng = np.random.default_rng(0)
    # Near agreement, near ties, and in between.
    shares = np.concatenate([rng.dirichlet(np.full(classes, size), 64) for size in (0.05, 1, 1000)])
    votes = rng.multinomial(teachers, shares)
    one = np.eye(classes, dtype=np.int64)
    source = (rng.random(votes.shape) * (votes > 0)).argmax(axis=1)
    moved = votes - one[source] + one[rng.integers(classes, size=len(votes))]
    probs = shares if screen.asks_student else None
    here = np.asarray(screen.statistic(votes, probs))
    there = np.asarray(screen.statistic(moved, probs))
    last = screen.statistic(votes[-1:], None if probs is None else probs[-1:])
    if here.shape != (len(votes),) or not np.isfinite(here).all():
        allowed = "must return one finite number for each histogram"
    elif not np.allclose(here[-1:], last):
        allowed = "must be of each histogram alone, whatever stands beside it"
    elif not np.abs(here - there).max() <= 1 + 1e-9:
        found = f"it changes by {np.abs(here - there).max():.6g} at made-up votes"
        allowed = f"must change by at most 1 where one vote moves; {found}"
    else:
        return
    raise InputError("statistic", type(screen).__name__, allowed)
