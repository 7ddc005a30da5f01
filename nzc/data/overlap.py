"""People whose rows are private, and public or test rows too: they are counted, and refused by default."""

import sys
from collections.abc import Mapping, Set
from typing import Any, Literal

from nzc.validation import InputError

Overlap = Literal["refuse", "drop", "allow"]


def to_drop(private: Set[Any], others: Mapping[str, Set[Any]], names: str, overlap: Overlap) -> Set[Any]:
    """Return the people whose private rows are left out; say how many people have private rows and others.

    others  people of the public and of the test rows
    names   what names them: column `patient`

    `drop` leaves out private rows, not public ones, whose absence from a published folder would tell who is private:
    which rows remain follows from public files, so ε holds between private data of the people whom these do not name.
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
    if overlap == "allow":
        every = frozenset()
    print(f"nzc: {told}{'; these private rows are left out' * bool(every)}", file=sys.stderr)
    return every
