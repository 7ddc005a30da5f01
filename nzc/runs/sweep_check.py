"""The check of all keys that a sweep file names, before its first job."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

from omegaconf import DictConfig, OmegaConf

from nzc.runs.curves import AXES
from nzc.runs.layout import flatten, setting, whole_key
from nzc.runs.result import result_types
from nzc.runs.sweep_spec import SweepFigure, SweepRow
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
            if key != _PAPER_EPSILON and not _types(key):
                wanted = f"must be for a key of result.json{_near(key)}"
                errors.append(InputError(f"sweep.rows.{at}.paper.{key}", value, wanted))
    for figure in figures:
        name = f"sweep.figures.{figure.name}"
        if figure.curve is not None and figure.curve not in AXES:
            errors.append(InputError(f"{name}.curve", figure.curve, f"must be one of {', '.join(AXES)}"))
        numbers = [("x", figure.x)] if figure.x else []
        for axis, key in [*numbers, *(("y", key) for key in figure.y)]:
            if wrong := _wrong_key(key, rows, configs) or _no_number(key, configs):
                errors.append(InputError(f"{name}.{axis}", key, wrong))
        for key in figure.by:
            if wrong := _wrong_key(key, rows, configs):
                errors.append(InputError(f"{name}.by", key, wrong))
    names = [figure.name for figure in figures]
    twice = dict.fromkeys(name for name in names if names.count(name) > 1)
    return errors + [InputError("sweep.figures.name", name, "must be the name of one figure only") for name in twice]


def _types(key: str) -> tuple[Any, ...]:
    """Return the types of a key of result.json, whole or short; empty: result.json has no such key."""
    known = result_types()
    section = next((name for name in known if name.endswith(".") and key.startswith(name)), "")
    return known.get(whole_key(key, known)) or known.get(section, ())


def _wrong_key(key: str, rows: Sequence[SweepRow], configs: Sequence[DictConfig]) -> str | None:
    """Return what `key` must be, if neither a result nor a configuration has it."""
    if key == "run" or (key == "row" and any(row.name for row in rows)) or _types(key):
        return None
    if any(setting(config, key) is not None for config in configs):
        return None
    settings: dict[str, Any] = {}
    for config in configs:
        tree: Any = OmegaConf.to_container(config)
        settings |= flatten({name: value for name, value in tree.items() if name not in ("hydra", "sweep")})
    if key in settings:
        return "must be a key that has a value in at least one run"
    return f"must be a key of result.json or of the configuration{_near(key, settings)}"


def _no_number(key: str, configs: Sequence[DictConfig]) -> str | None:
    """Return what `key` must be, if its values are no numbers."""
    if kinds := _types(key):
        return None if {int, float} & set(kinds) else "must be a number of result.json"
    words = [value for config in configs if isinstance(value := setting(config, key), str)]
    return f"must be a number{'; in a run it is ' + words[0] if words else ''}" if words or key == "row" else None


def _near(key: str, settings: Iterable[str] = ()) -> str:
    """Return a hint: the key of result.json or of the settings that is meant, or all those of result.json."""
    known = [name for name in result_types() if not name.endswith(".")]
    last = key.rpartition(".")[2]
    alike = get_close_matches(key, [*known, *settings], 1) or [name for name in known if name.endswith(f".{last}")]
    return f"; did you mean {alike[0]}?" if alike else f": {', '.join(known)}"
