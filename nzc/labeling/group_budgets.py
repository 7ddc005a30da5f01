"""Individual budgets: records have an ε by the group of people that they belong to
(`budget.groups`).

A group has a whole weight, about in proportion to its ε. In own cells a record counts so many
times; of other teachers so many learn from it. docs/privacy.md has the prices (Boenisch et al.
2023: weighting and upsampling).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nzc.data import DataSplits
from nzc.data.hashing import keys_of, texts_of
from nzc.mechanisms import Adjacency
from nzc.types import Ints
from nzc.validation import InputError, positive

#: Weights of at most `_FINEST` keep at least `_ENOUGH` of the proportion of each budget.
_FINEST, _ENOUGH = 100, 0.95


@dataclass(frozen=True)
class Share:
    """What a group of people allows, and what follows from it."""

    budget: float  # ε
    weight: int
    adjacency: Adjacency  # the neighbours where a record of this group changes


def shares(groups: Any, adjacency: Adjacency) -> dict[str, Share]:
    """Return the share of each group by name, from `budget.groups`: a mapping of names to ε, or a
    list of ε.
    """
    if not isinstance(groups, Mapping):
        groups = {name: name for name in (groups if isinstance(groups, list) else [groups])}
    for name, epsilon in groups.items():
        positive(f"budget.groups.{name}", epsilon)
    named = dict(zip(texts_of(np.array([*groups], dtype=object)), groups.values(), strict=True))
    return {
        name: Share(named[name], weight, adjacency.times(weight))
        for name, weight in weights(named).items()
    }


def weights(budgets: Mapping[str, float]) -> dict[str, int]:
    """Return the smallest whole weights in the proportion of the budgets, at most 5 % below it, and
    never above.
    """
    largest = max(budgets.values())
    for top in range(1, _FINEST + 1):
        whole = {
            name: int(top * budget / largest * (1 + 1e-12)) for name, budget in budgets.items()
        }
        if all(weight >= _ENOUGH * top * budgets[name] / largest for name, weight in whole.items()):
            return whole
    raise InputError(
        "budget.groups",
        min(budgets.values()),
        f"must be at least 1/{_FINEST} of the largest, {largest:g}",
    )


def weigh(splits: DataSplits | None, of: Mapping[str, Share], taken: bool) -> DataSplits | None:
    """Return the splits with the weight of each private record; `taken`: whether what learns from
    them knows budgets.

    Every record then has a name, so that no weight changes where other records go. InputError
    quotes no record.
    """
    budgets, given = None if splits is None else splits.budgets, [*of] or None
    if of and not taken:
        raise InputError(
            "budget.groups", given, "must be null with these teachers, and with a baseline"
        )
    if splits is None or (budgets is None and not of):
        return splits
    if budgets is None:
        raise InputError(
            "budget.groups",
            given,
            "must be null where records have no group (`budget` of npz or a table)",
        )
    if unknown := int((~np.isin(budgets.astype(str), [*of])).sum()):
        raise InputError(
            "budget.groups",
            given,
            f"must give the ε of every record's group; {unknown:,} have another",
        )
    own = np.array([of[name].weight for name in budgets])
    if splits.groups is not None:
        from pandas import Series  # takes half a second to import

        own = Series(own).groupby(splits.groups).transform("min").to_numpy()
    return replace(
        splits,
        weights=own,
        keys=keys_of(np.arange(len(own))) if splits.names is None else splits.keys,
    )


def total_weight(records: int, of: Mapping[str, Share], counts: Ints | None = None) -> float:
    """Return how many counts so many records have in own cells: as released noisy counts say, or
    the mean of groups.
    """
    own = [share.weight for share in of.values()] or [1]
    expected = records * float(np.mean(own)) if counts is None else float(counts.sum())
    return float(np.clip(expected, records * min(own), records * max(own)))
