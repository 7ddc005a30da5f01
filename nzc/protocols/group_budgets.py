"""Individual budgets: records have an ε by the group of people that they belong to.

A group of `budget.groups` has a whole weight, about in proportion to its ε. In own cells a record
counts so many times; of other teachers so many learn from it. docs/privacy.md has the prices
(Boenisch et al. 2023: weighting and upsampling).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from nzc.data import DataSplits
from nzc.data.hashing import keys_of, texts_of
from nzc.mechanisms import Adjacency
from nzc.privacy.promise import Share
from nzc.types import Floats, Ints
from nzc.validation import InputError, positive

#: Weights of at most `_FINEST` keep at least `_ENOUGH` of the proportion of each budget.
_FINEST = 100
_ENOUGH = 0.95


def shares(groups: Any, adjacency: Adjacency) -> dict[str, Share]:
    """Return the share of each group by name.

    groups  of `budget.groups`: a mapping of names to ε, or a list of ε, or one
    """
    if not isinstance(groups, Mapping):
        listed = groups if isinstance(groups, list) else [groups]
        groups = dict(zip(listed, listed, strict=True))
    for name, epsilon in groups.items():
        positive(f"budget.groups.{name}", epsilon)
    names = texts_of(np.array([*groups], dtype=object))
    budgets = dict(zip(names, groups.values(), strict=True))
    return {
        name: Share(budgets[name], weight, adjacency.times(weight))
        for name, weight in weights(budgets).items()
    }


def weights(budgets: Mapping[str, float]) -> dict[str, int]:
    """Return the smallest whole weights in the proportion of the budgets, at most 5 % below it, and
    never above.
    """
    values = np.array([*budgets.values()])
    for largest in range(1, _FINEST + 1):
        whole = (largest * values / values.max() * (1 + 1e-12)).astype(int)
        if (whole >= _ENOUGH * largest * values / values.max()).all():
            return dict(zip(budgets, whole.tolist(), strict=True))
    raise InputError(
        "budget.groups",
        min(budgets.values()),
        f"must be at least 1/{_FINEST} of the largest, {max(budgets.values()):g}",
    )


def weigh(splits: DataSplits, groups: Mapping[str, Share], taken: bool = True) -> DataSplits:
    """Return the splits with the weight of each private record, the smallest one of its person.

    Every record then has a name, so that no weight changes where other records go. InputError
    quotes no record.

    taken  whether what learns from the records knows budgets
    """
    given = [*groups] or None
    if groups and not taken:
        raise InputError(
            "budget.groups", given, "must be null with these teachers, and with a baseline"
        )
    units = splits.units
    if units.budgets is None:
        if not groups:
            return splits
        raise InputError(
            "budget.groups",
            given,
            "must be null where records have no group (`budget` of npz or a table)",
        )
    unknown = int((~np.isin(units.budgets.astype(str), [*groups])).sum())
    if unknown:
        raise InputError(
            "budget.groups",
            given,
            f"must give the ε of every record's group; {unknown:,} have another",
        )
    own = np.array([groups[name].weight for name in units.budgets])
    if units.groups is not None:
        from pandas import Series  # takes half a second to import

        own = Series(own).groupby(units.groups).transform("min").to_numpy()
    keys = units.keys
    if units.names is None:
        keys = keys_of(np.arange(len(own)))
    return replace(splits, units=replace(units, weights=own, keys=keys))


def total_weight(
    records: int, groups: Mapping[str, Share], counts: Ints | Floats | None = None
) -> float:
    """Return how many counts so many records have in own cells.

    counts  released noisy counts, which say so; None: the mean of the groups is expected
    """
    own = [share.weight for share in groups.values()] or [1]
    expected = records * float(np.mean(own))
    if counts is not None:
        expected = float(counts.sum())
    return float(np.clip(expected, records * min(own), records * max(own)))
