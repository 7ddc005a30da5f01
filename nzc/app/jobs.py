"""The jobs of a sweep: every row with every point of the grid, and the check of all keys before the first job."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from nzc.app.build import KINDS, build
from nzc.app.errors import check_overrides, error_line, input_error
from nzc.sweeps.spec import SweepRow, rows_of
from nzc.validation import InputError


@dataclass(frozen=True)
class SweepJob:
    """One job of a sweep: its row, and the overrides KEY=VALUE of the command line, the grid and the row."""

    row: SweepRow
    overrides: list[str]


def expand_rows(config: DictConfig) -> list[SweepRow]:
    """Return the rows of a sweep file, each once for every combination of the values that it sets.

    `+sweep.only=TEXT` keeps the rows whose name contains TEXT.
    """
    rows = [point for at, row in enumerate(rows_of(config)) for point in _points(row, at)]
    only = str(OmegaConf.select(config, "sweep.only") or "")
    kept = [row for row in rows if only in (row.name or "")]
    if rows and not kept:
        names = "; ".join(row.name or "" for row in rows)
        raise InputError("sweep.only", only, f"must be in the name of a row: {names}")
    return kept


def plan_jobs(config: DictConfig) -> list[SweepJob]:
    """Return the jobs of the sweeper `rows`: every row with every point of the grid.

    The grid is that of the sweep file, `hydra.sweeper.params`, and of the command line. A row's value of a key replaces
    the grid's.
    """
    parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
    typed, params = list(config.hydra.overrides.task), config.hydra.sweeper.get("params") or {}
    grid = _values(parser.parse_overrides([*(f"{key}={value}" for key, value in params.items()), *typed]))
    jobs = []
    for point, row in product(product(*grid.values()), expand_rows(config) or [SweepRow()]):
        taken = {text.split("=", 1)[0] for text in row.set}
        jobs.append(SweepJob(row, [*(text for text in point if text.split("=", 1)[0] not in taken), *row.set]))
    return jobs


def compose_jobs(config: DictConfig, jobs: Sequence[SweepJob]) -> tuple[list[DictConfig], list[str]]:
    """Return the configuration of each job that can be composed, and a line for each mistake in the others' keys."""
    loader, composed, mistakes = GlobalHydra.instance().config_loader(), [], dict[object, tuple[str, list[str]]]()
    for job in jobs:
        try:
            for override in job.overrides:
                check_overrides([override])
            composed.append(loader.load_sweep_config(config, list(job.overrides)))
            _check_added(composed[-1], job.overrides)
        except Exception as error:  # Hydra's, OmegaConf's, or an InputError
            wrong, line = input_error(error), error_line(error)[1]
            same = line if wrong is None else (wrong.key, wrong.allowed)  # one line for all values of a grid
            mistakes.setdefault(same, (line, []))[1].append(job.row.name or "")
    rows = {line: ", ".join(filter(None, dict.fromkeys(names))) for line, names in mistakes.values()}
    return composed, [f"{line} (row {names})" if names else line for line, names in rows.items()]


def check_sweeper(hydra: DictConfig) -> None:
    """Raise InputError where a search is configured, but the sweeper cannot search; or jobs would share a folder."""
    search = [key for key in hydra.sweeper if key not in ("_target_", "max_batch_size", "params")]
    if search and hydra.runtime.choices["hydra/sweeper"] == "rows":
        wanted = f"must be optuna, of the extra `search`, where hydra.sweeper.{search[0]} is set"
        raise InputError("hydra/sweeper", "rows", wanted)
    subdir = OmegaConf.to_container(hydra.sweep, resolve=False)["subdir"]  # type: ignore[call-overload, index]
    if subdir != "${hydra.job.num}":
        raise InputError("hydra.sweep.subdir", subdir, "must be ${hydra.job.num}, the number of the job")


def _points(row: SweepRow, at: int) -> list[SweepRow]:
    overrides: list[Override] = []
    for text in row.set:
        try:
            override = OverridesParser.create().parse_override(text)
        except HydraException as error:
            raise InputError(f"sweep.rows.{at}.set", text, "must read key=value") from error
        if override.get_key_element() in [each.get_key_element() for each in overrides]:
            raise InputError(f"sweep.rows.{at}.set", text, "must set each key once")
        overrides.append(override)
    swept, found = [each.is_sweep_override() for each in overrides], []
    for point in product(*_values(overrides).values()):
        own = [each for each, several in zip(point, swept, strict=True) if several]
        values = [each if several else text for text, each, several in zip(row.set, point, swept, strict=True)]
        found.append(SweepRow(name=", ".join(filter(None, [row.name, *own])), set=values, paper=row.paper))
    return found


def _values(overrides: Sequence[Override]) -> dict[str, list[str]]:
    """Return the values of each key, as KEY=VALUE; the last override of a key counts."""
    values: dict[str, list[str]] = {}
    for override in overrides:
        key = override.get_key_element()
        if not override.is_sweep_override():
            values[key] = [f"{key}={override.get_value_element_as_str()}"]
        elif override.is_discrete_sweep():
            values[key] = [f"{key}={value}" for value in override.sweep_string_iterator()]
        else:
            raise InputError(key, override.value(), "must list its values; a search needs hydra/sweeper=optuna")
    return values


def _check_added(config: DictConfig, overrides: Sequence[str]) -> None:
    """Raise InputError where a key after + is no argument of its group's class. Composition accepts any such key."""
    for override in OverridesParser.create().parse_overrides([each for each in overrides if each.startswith("+")]):
        key = override.key_or_group
        if "." not in key or (group := key.partition(".")[0]) not in KINDS:
            continue
        try:
            build(config, group)
        except InputError as error:
            if error.key == key:
                raise
