"""People whose rows are private, and public or test rows too: they are counted, and refused by default."""

import sys
from collections.abc import Mapping, Set
from typing import Any, Literal

from nzc.validation import InputError

Overlap = Literal["refuse", "drop", "allow"]


def to_drop(private: Set[Any], others: Mapping[str, Set[Any]], names: str, overlap: Overlap) -> Set[Any]:
    """Return those of the names of private rows whose private rows are left out; say how many names stand elsewhere.

    others  names of public and of test rows
    names   what they are: column `patient`

    Private rows are dropped, because dropping public ones would publish who is private; public files alone decide which
    private rows count, so ε protects all people that they do not name, and of the others nothing is used.
    """
    shared = {where: private & found for where, found in others.items()}
    every = frozenset[Any]().union(*shared.values())
    if not every:
        return every
    where = ", ".join(f"{len(found):,} are in {key} rows too" for key, found in shared.items() if found)
    told = f"of {len(private):,} values of the {names} in private rows, {where}"
    if overlap == "refuse":
        allowed = f"must be drop, to learn nothing from the private rows of people on both sides, or allow: {told}"
        raise InputError("overlap", overlap, allowed)
    print(f"nzc: dataset.overlap={overlap}: {told}", file=sys.stderr)
    return every if overlap == "drop" else frozenset()
