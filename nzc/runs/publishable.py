"""What may be published of a run: asked before its noise is drawn, and again by `nzc publish`."""

import shlex
from collections.abc import Collection
from math import inf
from typing import Any

from nzc.privacy.randomness import SYSTEM
from nzc.validation import InputError

_ELSE = "(or type rng=seeded, and not tracking.private=false: then nothing can be published)"


def require_publishable(rng: str, epsilon: Any, undeclared: str | None, baseline: bool) -> None:
    """Raise InputError where what is published would tell more of private records than ε says.

    epsilon     of the run, or "inf"
    undeclared  what to type for classes that private labels alone decide; None: there are none
    """
    if baseline:
        raise InputError(
            "baseline",
            True,
            f"must be false: a baseline is there to compare, and is not published {_ELSE}",
        )
    if epsilon in (inf, "inf", None):
        raise InputError(
            "epsilon.published",
            epsilon,
            "must be finite, or the labels may reveal the votes: what is claimed is no bound "
            f"{_ELSE}",
        )
    if rng != SYSTEM:
        raise InputError(
            "rng",
            rng,
            f"must be {SYSTEM} where a run or its tracker is public: "
            "anyone who knows the seed can subtract the noise",
        )
    if undeclared is not None:
        typed = shlex.quote(f"dataset.classes={undeclared}")
        raise InputError(
            "dataset.classes",
            None,
            "must be declared, because else private labels decide which classes are published: "
            f"add {typed}, less what must not be known {_ELSE}",
        )


def require_name(key: str, typed: str | None, known: Collection[str]) -> str:
    """Return whom private data are about: what was `typed` for `key`, or the first `known` name.

    InputError: there is none
    """
    name = typed or min(known, default=None)
    if not name:
        raise InputError(
            key,
            None,
            f"must say whom the data are about, as in {key}=hospital; "
            f"all that is published under one name adds up {_ELSE}",
        )
    return name


def own_names(dataset: Any, name: str) -> list[str]:
    """Return the `name` of a dataset of nzc, and none of the user's own, by its configuration."""
    node = dataset or {"name": None}
    if "name" in node or not str(node["_target_"]).startswith("nzc."):
        return []
    return [name]
