"""Parts of the user's own: of which types they are, and what a statistic must be."""

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np

from nzc.mechanisms.adjacency import Adjacency, Boost
from nzc.mechanisms.noise.base import Noise
from nzc.mechanisms.screen import Screen
from nzc.validation import InputError, is_shipped

#: What the parts of a mechanism may be, by the field that holds them.
_PARTS = {"noise": Noise, "boost": Boost, "screen": Screen | None, "adjacency": Adjacency}


def is_own(part: object) -> bool:
    """Return whether a part is the user's own, which nzc's tests do not know."""
    return part is not None and not is_shipped(part)


def require_parts(mechanism: Any) -> None:
    """Raise InputError where a part is no part."""
    for key, kind in _PARTS.items():
        part = getattr(mechanism, key)
        if isinstance(part, type):
            raise unbuilt(key, part)
        if not isinstance(part, kind):
            raise InputError(key, part, f"must be a nzc.mechanisms.{key.capitalize()}")


def unbuilt(key: str, build: Callable[..., Any]) -> InputError:
    """Return the error for a class or function in place of the object that it makes."""
    arguments = ", ".join(f"{name}=…" for name in signature(build).parameters)
    name = f"nzc.{build.__name__}"
    return InputError(key, name, f"must be an object; write {name}({arguments})")


def require_statistic(screen: Screen, teachers: int, classes: int) -> None:
    """Raise InputError where one vote changes the statistic by more than 1 at made-up votes."""
    rng = np.random.default_rng(0)
    # Near agreement, near ties, and in between.
    shares = np.concatenate([rng.dirichlet(np.full(classes, size), 64) for size in (0.05, 1, 1000)])
    votes = rng.multinomial(teachers, shares)
    one = np.eye(classes, dtype=np.int64)
    moved = votes - one[votes.argmax(axis=1)] + one[rng.integers(classes, size=len(votes))]
    probs = shares if screen.asks_student else None
    change = np.asarray(screen.statistic(moved, probs)) - screen.statistic(votes, probs)
    if change.shape != (len(votes),) or not np.abs(change).max() <= 1 + 1e-9:
        found = f"it changes by {np.abs(change).max():.6g} at made-up votes"
        raise InputError(
            "statistic",
            type(screen).__name__,
            f"must be a number that changes by at most 1 where one vote moves; {found}",
        )
