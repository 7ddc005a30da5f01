"""The jobs of a sweep: every row with every point of the grid, and the check of all keys before the first job."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig

from nzc.app.build import KINDS, build
from nzc.app.config import refuse_unknown_keys
from nzc.app.errors import error_line, input_error
from nzc.sweeps.spec import SweepRow, spec_of
from nzc.validation import InputError, in_a_line


@dataclass(frozen=True)
class SweepJob:
    """One job of a sweep: its row, and the overrides KEY=VALUE of the command line, the grid and the row."""

    row: SweepRow
    overrides: list[str]


def expand_rows(config: DictConfig) -> list[SweepRow]:
    """Return the rows of a sweep file, each once for every combination of the values that it sets.

    `+sweep.only=TEXT` keeps the rows whose name contains TEXT.
    """
    rows = [point for at, row in enumerate(spec_of(config).rows) for point in _points(row, at)]
    only = str(spec_of(config).only or "")
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
            cfg = loader.load_sweep_config(config, list(job.overrides))
            refuse_unknown_keys(cfg)
            for group in [group for group in KINDS if any(text.startswith(f"+{group}.") for text in job.overrides)]:
                build(cfg, group)  # composition accepts any key after +
            composed.append(cfg)
        except Exception as error:  # Hydra's, OmegaConf's, or an InputError
            wrong, line = input_error(error), error_line(error)[1]
            same = line if wrong is None else (wrong.key, wrong.allowed)  # one line for all values of a grid
            mistakes.setdefault(same, (line, []))[1].append(job.row.name or "")
    rows = {line: ", ".join(filter(None, dict.fromkeys(names))) for line, names in mistakes.values()}
    return composed, [f"{line} (row {names})" if names else line for line, names in rows.items()]


def _points(row: SweepRow, at: int) -> list[SweepRow]:
    """Return a row for every combination of the values that it sets, named by the values of which there are several."""
    try:
        overrides = OverridesParser.create().parse_overrides(row.set)
    except HydraException as error:
        raise InputError(f"sweep.rows.{at}.set", row.set, f"must read key=value ({in_a_line(error)})") from error
    values = _values(overrides)
    if len(values) < len(overrides):
        raise InputError(f"sweep.rows.{at}.set", row.set, "must set each key once")
    swept, points = [override.is_sweep_override() for override in overrides], []
    for point in product(*values.values()):
        own = [text for text, several in zip(point, swept, strict=True) if several]
        texts = [text if several else given for text, several, given in zip(point, swept, row.set, strict=True)]
        points.append(SweepRow(name=", ".join(filter(None, [row.name, *own])), set=texts, paper=row.paper))
    return points


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
