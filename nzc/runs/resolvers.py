"""Resolvers of presets, whose noise a budget may decide: ${without_budget:NOISE}.

Stored configurations contain them, so every program that reads one needs them.
"""

from typing import Any

from omegaconf import OmegaConf


def _without_budget(noise: float, *, _root_: Any) -> float | None:
    """Return the noise of a preset; None where a budget is given, which then decides it."""
    return noise if OmegaConf.select(_root_, "budget.epsilon") is None else None


def _in_proportion(value: float, noise: float | None, usual: float, *, _root_: Any) -> float | None:
    """Return a preset's value, in proportion to the `noise` that a budget decides."""
    if OmegaConf.select(_root_, "budget.epsilon") is None:
        return value
    return None if noise is None else value * noise / usual


def _unless_typed(queries: int | None, *, _root_: Any) -> int | None:
    """Return how many rows a dataset suggests to ask; None where another key wants or has others.

    These are more rounds or answers, sizes of rounds, and fewer public rows.
    """
    wanted = [OmegaConf.select(_root_, key) for key in ("rounds", "answers")]
    if queries is None or OmegaConf.is_list(wanted[0]):
        return None
    most = max([0, *(value for value in wanted if isinstance(value, int))])
    rows = OmegaConf.select(_root_, "dataset.public")
    is_short = isinstance(rows, int) and rows < queries
    return None if is_short or most > queries else queries


OmegaConf.register_new_resolver("without_budget", _without_budget, replace=True)
OmegaConf.register_new_resolver("in_proportion", _in_proportion, replace=True)
OmegaConf.register_new_resolver("unless_typed", _unless_typed, replace=True)
