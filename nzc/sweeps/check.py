"""The check of all keys that a sweep file names, before its first job."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from omegaconf import DictConfig, OmegaConf

from nzc.runs.curves import AXES
from nzc.runs.layout import flatten
from nzc.runs.result import result_types
from nzc.sweeps.frame import setting, whole_key
from nzc.sweeps.spec import SweepFigure, SweepRow
from nzc.validation import InputError

#: A key of paper values only: the paper's ε, whatever bound it is.
_PAPER_EPSILON = "epsilon"


def check_keys(
    rows: Sequence[SweepRow], figures: Sequence[SweepFigure], configs: Sequence[DictConfig]
) -> list[InputError]:
    """Return what is wrong with the keys of rows and figures. `configs` are the composed configurations of the jobs.

    A key of the configuration is right where one of the jobs has it, because aggregators have different keys.
    """
    errors = []
    for at, row in enumerate(rows):
        for key, value in row.paper.items():
            if key != _PAPER_EPSILON and _result(key) is None:
                allowed = f"must be for a key of result.json{_near(key, ())}"
                errors.append(InputError(f"sweep.rows.{at}.paper.{key}", value, allowed))
    for figure in figures:
        name = f"sweep.figures.{figure.name}"
        if figure.curve is not None and figure.curve not in AXES:
            errors.append(InputError(f"{name}.curve", figure.curve, f"must be one of {', '.join(AXES)}"))
        axes = [*(("x", key) for key in [figure.x] if key), *(("y", key) for key in figure.y)]
        for axis, key in [*axes, *(("by", key) for key in figure.by)]:
            value = _example(key, rows, configs)
            if value is None:
                allowed = "must be a key of result.json, or of the configuration with a value in at least one run"
                errors.append(InputError(f"{name}.{axis}", key, allowed + _near(key, configs)))
            elif axis != "by" and isinstance(value, str):
                errors.append(InputError(f"{name}.{axis}", key, f"must be a number; in a run it is {value}"))
    names = [figure.name for figure in figures]
    twice = dict.fromkeys(name for name in names if names.count(name) > 1)
    return errors + [InputError("sweep.figures.name", name, "must be the name of one figure only") for name in twice]


def _example(key: str, rows: Sequence[SweepRow], configs: Sequence[DictConfig]) -> Any:
    """Return a value that a key may have; None: neither a result nor a configuration has it."""
    if key == "run" or (key == "row" and any(row.name for row in rows)):
        return 1 if key == "run" else "text"
    values = [_result(key), *(setting(config, key) for config in configs)]
    return next((value for value in values if value is not None), None)


def _result(key: str) -> Any:
    """Return a value that a key of result.json, whole or short, may have; None: there is no such key."""
    known = result_types()
    section = next((name for name in known if name.endswith(".") and key.startswith(name)), "")
    kinds = known.get(whole_key(key)) or known.get(section)
    return None if kinds is None else 1 if {int, float} & set(kinds) else "text"


def _near(key: str, configs: Sequence[DictConfig]) -> str:
    """Return a hint at the key of result.json or of a configuration that is meant; empty: none is near."""
    trees: list[Any] = [OmegaConf.to_container(config) for config in configs]
    settings = {name for tree in trees for name in flatten({k: v for k, v in tree.items() if k != "hydra"})}
    near = get_close_matches(key, [*result_types(), *settings], 1)
    return f"; did you mean {near[0]}?" if near and near[0] != key else ""
