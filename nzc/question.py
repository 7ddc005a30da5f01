"""What a file of sweeps/ asks: its rows, each a run or a grid of runs, and its figures."""

import re
from dataclasses import dataclass, fields
from itertools import product
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from nzc.errors import InputError

#: The keys of a row.
_ROW = ("name", "set", "paper")


@dataclass(frozen=True)
class SweepFigure:
    """An entry of `sweep.figures`: keys y of the runs by their key x, a line each; or one curve of every run.

    A key is one of result.json (`teachers.mean_accuracy`, or `mean_accuracy` for short) or of the configuration
    (`aggregator.gamma`), or `run`, the number of the run; a curve is one of nzc/curves.py.
    """

    name: str
    x: str | None = None
    y: tuple[str, ...] = ()
    by: tuple[str, ...] = ()  # keys: a line for each of their values
    curve: str | None = None
    ylim: tuple[float, float] | None = None  # what the y axis shows, where not everything

    @classmethod
    def of(cls, at: int, entry: Any) -> "SweepFigure":
        """Entry `at` as the sweep file gives it."""
        allowed = [field.name for field in fields(cls)]
        key = f"sweep.figures.{at}"
        if not isinstance(entry, dict):
            raise InputError(key, entry, f"must have the keys {', '.join(allowed)}")
        for unknown in entry.keys() - set(allowed):
            raise InputError(f"{key}.{unknown}", entry[unknown], f"must be one of the keys {', '.join(allowed)}")
        name, lines = entry.get("name"), entry.get("x") is not None and bool(entry.get("y"))
        if not isinstance(name, str) or not re.fullmatch(r"[\w-]+", name):
            raise InputError(f"{key}.name", name, "must be a word: figures/NAME.svg is drawn")
        if lines == (entry.get("curve") is not None):
            raise InputError(key, name, "must have x and y, or else curve")
        ylim = entry.get("ylim")
        numbers = isinstance(ylim, list) and all(isinstance(end, int | float) for end in ylim)
        if ylim is not None and not (numbers and len(ylim) == 2 and ylim[0] < ylim[1]):
            raise InputError(f"{key}.ylim", ylim, "must be two numbers, the smaller first")
        lists = {one: named if isinstance(named := entry.get(one) or [], list) else [named] for one in ("y", "by")}
        for one, names in (lists | {one: [entry.get(one) or ""] for one in ("x", "curve")}).items():
            if not all(isinstance(each, str) for each in names):
                raise InputError(f"{key}.{one}", entry[one], "must be the name of a key")
        return cls(**entry | {one: tuple(names) for one, names in lists.items()})


def rows_of(config: DictConfig | None) -> list[dict[str, Any]]:
    """The rows of a composed configuration, each once for every point of its own grid; none without a sweep file.

    `+sweep.only=TEXT` keeps those with this in their name.
    """
    rows = [point for row in _asked(config, "rows") for point in _points(row)]
    only = "" if config is None or config.get("sweep") is None else str(config.sweep.get("only") or "")
    if rows and not (kept := [row for row in rows if only in row["name"]]):
        raise InputError("sweep.only", only, f"must be in the name of a row: {'; '.join(row['name'] for row in rows)}")
    return kept if rows else []


def _points(row: dict[str, Any]) -> list[dict[str, Any]]:
    """A row with `aggregator.gamma=0.05,0.1` among what it sets is two rows, told apart by name."""
    if (
        not isinstance(row, dict)
        or not isinstance(row.get("name"), str | None)
        or not isinstance(row.get("set", []), list)
    ):
        raise InputError("sweep.rows", row, "must each have a name, and a list `set` of key=value")
    for unknown in row.keys() - set(_ROW):
        raise InputError(f"sweep.rows.{unknown}", row[unknown], f"must be one of the keys {', '.join(_ROW)}")
    grid: list[list[str]] = []
    for text in map(str, row.get("set", [])):
        try:
            override = OverridesParser.create().parse_override(text)
        except HydraException as error:
            raise InputError("sweep.rows", text, "must read key=value") from error
        values = override.sweep_string_iterator() if override.is_sweep_override() else []
        grid.append([f"{override.get_key_element()}={value}" for value in values] or [text])
    points = list(product(*grid))
    own = {options[0] for options in grid if len(options) == 1}
    names = [
        ", ".join(filter(None, [row.get("name"), *(part for part in point if part not in own)])) for point in points
    ]
    return [row | {"name": name, "set": list(point)} for name, point in zip(names, points, strict=True)]


def figures_of(config: DictConfig) -> list[SweepFigure]:
    """The figures that a composed configuration declares."""
    return [SweepFigure.of(at, entry) for at, entry in enumerate(_asked(config, "figures"))]


def _asked(config: DictConfig | None, what: str) -> list[Any]:
    sweep: Any = None if config is None else config.get("sweep")
    if not (sweep is None or OmegaConf.is_dict(sweep)):
        raise InputError("sweep", sweep, "must be a mapping: rows, figures")
    asked: Any = None if sweep is None else sweep.get(what)
    if not (asked is None or OmegaConf.is_list(asked)):
        raise InputError(f"sweep.{what}", asked, "must be a list")
    entries: Any = [] if asked is None else OmegaConf.to_container(asked)
    return list(entries)


def name_of(config: DictConfig) -> str:
    """What a sweep is called: its file, where there is one."""
    choices = config.hydra.runtime.choices
    return str(choices.get("sweeps") or "sweep")
