"""A sweep: what its file asks (rows, figures, question), and its jobs as one DataFrame."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from omegaconf import DictConfig, OmegaConf
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from nzc.runs.curves import AXES
from nzc.runs.layout import (
    ERROR,
    NOT_STARTED,
    RESULT,
    SWEEP,
    as_typed,
    flatten,
    read_overrides,
    with_infinity,
)
from nzc.runs.result import result_keys
from nzc.validation import InputError, from_pydantic, masked, masked_tree, nearest

if TYPE_CHECKING:
    from pandas import DataFrame

#: The jobs of a sweep with their rows and overrides.
JOBS = "jobs.json"
#: What a command line may set without changing the experiment of a sweep file: how and where it
#: runs, and its seeds.
_MACHINERY = (
    "sweeps",
    "hydra",
    "paths",
    "tracking",
    "trainer",
    "figures",
    "metrics",
    "audit",
    "rng",
    "objective",
)
_PLACES_AND_SEEDS = ("root", "path", "labels", "seed", "parallel", "stacked", "only")
#: One key or a list of keys.
Keys = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda value: value if isinstance(value, list | tuple) else [value]),
]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SweepRow(_Entry):
    """An entry of `sweep.rows`: a run, or, where `set` has several values for a key, a run for
    each.

    paper  values of a paper to show beside result.json, by key; they hold for the settings of the
           sweep file
    """

    name: str | None = None
    set: list[str] = []
    paper: dict[str, Any] = {}


class SweepFigure(_Entry):
    """An entry of `sweep.figures`: keys y of the runs against their key x; or one curve
    (nzc/runs/curves.py) of each.

    A key is one of result.json (`teachers.mean_accuracy`, or `mean_accuracy` for short), one of the
    configuration (`aggregator.gamma`), `run`, the number of the run, or `row`, the name of its row.
    There is a line for each value of the keys `by`; without them one joins all runs, or those of
    each row where a row stands for several runs.
    """

    name: Annotated[str, Field(pattern=r"^[\w-]+$")]
    x: str | None = None
    y: Keys = ()
    by: Keys = ()
    curve: str | None = None
    ylim: tuple[float, float] | None = None

    @property
    def keys(self) -> list[str]:
        """All keys that the figure names."""
        return [*filter(None, [self.x]), *self.y, *self.by]

    @model_validator(mode="after")
    def _complete(self) -> "SweepFigure":
        if not ((self.curve and not self.keys) or (self.x and self.y and not self.curve)):
            raise ValueError("must have x and y, with by, or else curve")
        return self


class SweepSpec(BaseModel):
    """The section `sweep` of a configuration. Further keys are for interpolation within the file.

    columns  keys of the runs that the table shows beside those that every table has; keys are as in
             `SweepFigure`
    only     keeps the rows whose name contains this text
    """

    rows: list[SweepRow] = []
    figures: list[SweepFigure] = []
    columns: Keys = ()
    only: Any = ""

    @property
    def keys(self) -> dict[str, list[str]]:
        """All keys of runs that the section names, by the place where it names them."""
        figures = {f"sweep.figures.{figure.name}": figure.keys for figure in self.figures}
        return {"sweep.columns": [*self.columns], **figures}


def spec_of(config: Any) -> SweepSpec:
    """Return the section `sweep` of a composed configuration; InputError: it is not valid."""
    section: Any = OmegaConf.to_container(config, resolve=False)["sweep"] or {}  # type: ignore[call-overload, index]
    for name in section if isinstance(section, dict) else ():
        known = get_close_matches(str(name), SweepSpec.model_fields, n=1, cutoff=0.7)
        if known and known != [name]:
            raise InputError(
                f"sweep.{name}", section[name], f"must have another name; did you mean {known[0]}?"
            )
    try:
        return SweepSpec.model_validate(section)
    except ValidationError as error:
        raise from_pydantic(error, "sweep") from error


def name_of(config: Any) -> str:
    """Return the name of a sweep: that of its file, if it has one."""
    return str(config.hydra.runtime.choices.get("sweeps") or "sweep")


def header_of(config: Any) -> dict[str, str]:
    """Return the comments at the top of a sweep file by name (Question, Expected, …); without
    names, as question.
    """
    for source in config.hydra.runtime.config_sources:
        file = Path(source.path) / "sweeps" / f"{name_of(config)}.yaml"
        if source.schema == "file" and file.is_file():
            lines = re.match(r"(#.*\n)*", file.read_text(encoding="utf-8"))
            comments = re.sub(r"^# *@package.*\n", "", lines[0] if lines else "")
            named = dict(
                re.findall(
                    r"^# (\w[\w ]*): +(.*)", re.sub(r"\n# {2,}", " ", comments), re.MULTILINE
                )
            )
            plain = " ".join(re.sub(r"^#+", "", comments, flags=re.MULTILINE).split())
            return named or ({"Question": plain} if plain else {})
    return {}


def changed_settings(config: Any) -> list[str]:
    """Return the overrides of the command line that change the experiment of a sweep file."""
    typed = as_typed(config.hydra.overrides.task)
    keys = {text: text.split("=")[0].lstrip("+~").replace("/", ".").split(".") for text in typed}
    return [
        text
        for text, key in keys.items()
        if key[0] not in _MACHINERY and key[-1] not in _PLACES_AND_SEEDS
    ]


def check_keys(spec: SweepSpec, configs: Sequence[DictConfig]) -> list[InputError]:
    """Return what is wrong with the keys of rows, figures and columns. `configs`: the composed ones
    of the jobs.

    A key of the configuration, or a metric of the user's own, is right where one of the jobs has
    it, because aggregators have different keys.
    """
    sections = [OmegaConf.select(config, "metrics") for config in configs]
    own = {
        f"metrics.{name}" for section in sections if OmegaConf.is_dict(section) for name in section
    }
    errors = [
        InputError(
            f"sweep.rows.{at}.paper.{key}",
            value,
            f"must be for a key of result.json{_near(key, (), own)}",
        )
        for at, row in enumerate(spec.rows)
        for key, value in row.paper.items()
        if key != "epsilon" and not _is_known(key, (), own)  # the paper's ε, whatever bound it is
    ]
    for at, figure in enumerate(spec.figures):
        name = f"sweep.figures.{figure.name}"
        if figure.curve is not None and figure.curve not in AXES:
            errors.append(
                InputError(f"{name}.curve", figure.curve, f"must be one of {', '.join(AXES)}")
            )
        if figure.name in [before.name for before in spec.figures[:at]]:
            errors.append(
                InputError("sweep.figures.name", figure.name, "must be the name of one figure only")
            )
    for name, keys in spec.keys.items():
        for key in keys:
            if key not in ("run", "row") and not _is_known(key, configs, own):
                allowed = "must have keys of result.json, or of the configuration with a value in at least one run"
                errors.append(InputError(name, key, allowed + _near(key, configs, own)))
    return errors


def _is_known(key: str, configs: Sequence[DictConfig], own: Iterable[str]) -> bool:
    """Return whether a key is of result.json, one of the user's own metrics, or has a value in a
    configuration.
    """
    keys = [*result_keys(), *own]
    of_section = key.startswith(tuple(name for name in keys if name.endswith(".")))
    return (
        whole_key(key) in keys
        or of_section
        or any(setting(config, key) is not None for config in configs)
    )


def _near(key: str, configs: Sequence[DictConfig], own: Iterable[str]) -> str:
    """Return a hint at the key of result.json or of a configuration that is meant; empty: none is
    near.
    """
    trees: list[Any] = [OmegaConf.to_container(config) for config in configs]
    settings = {name for tree in trees for name in flatten(tree) if not name.startswith("hydra.")}
    names = {*result_keys(), *settings, *own} - {key}
    longer = sorted(name for name in names if name.endswith(f".{key}"))
    return f"; did you mean {longer[0]}?" if longer else nearest(key, names)


def write_jobs(folder: Path, jobs: Iterable[Mapping[str, Any]]) -> None:
    """Write a sweep's jobs, in order, before they run: the row, folder and overrides of each."""
    (folder / JOBS).write_text(
        json.dumps([masked_tree(dict(job)) for job in jobs]), encoding="utf-8"
    )


def job_folders(folder: Path) -> dict[int, Path]:
    """Return the folders of a sweep's jobs by number: of all planned jobs, or of those of a search
    that have begun.
    """
    if planned := _written(folder):
        return {
            number: folder / job.get("folder", str(number)) for number, job in enumerate(planned)
        }
    begun = [path for path in folder.iterdir() if path.name.isdecimal() and path.is_dir()]
    return {int(path.name): path for path in sorted(begun, key=lambda path: int(path.name))}


def read_jobs(folder: Path, keys: Sequence[str] = ()) -> "DataFrame":
    """Return a row for each job of a sweep, also for those that never began; a search leaves only
    those that did.

    Columns: `folder`; `job`, its number; `run`, counted from 1; `name`, what sets it apart; `row`,
    its row's name; `overrides`; `error`, why it has no result, or None; the keys of result.json;
    `paper.KEY`; settings among `keys`.
    """
    from pandas import DataFrame  # takes half a second

    folders = job_folders(folder)
    jobs = dict(enumerate(_written(folder))) or {
        number: {"row": {}, "overrides": read_overrides(job)}
        for number, job in folders.items()
        if _error(job) != NOT_STARTED
    }
    common, rows = _common(jobs.values()), []
    for number, job in jobs.items():
        own = [text for text in job["overrides"] if not is_seed(text)]
        facts = _job(folders[number], number, job["row"], keys)
        rows.append(
            facts | {"name": _name(job["row"], own, common) or "run", "overrides": job["overrides"]}
        )
    return DataFrame(
        rows, columns=None if rows else ["name", "error"], dtype=object
    )  # whole numbers stay whole


def _job(folder: Path, number: int, row: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Return what is known of one job, which may have a row of the sweep file."""
    error = _error(folder)
    job: dict[str, Any] = {"folder": folder, "job": number, "run": number + 1, "error": error}
    job["row"] = (
        re.sub(r"(, [^ =,]+=[^ =]+)+$", "", row.get("name") or "") or None
    )  # without the values of a grid
    if error is not None:
        return job
    result = flatten(
        json.loads((folder / RESULT).read_text(encoding="utf-8"), object_hook=with_infinity)
    )
    paper = {f"paper.{whole_key(key)}": value for key, value in row.get("paper", {}).items()}
    unknown = [key for key in map(whole_key, keys) if key not in job | result]
    config = OmegaConf.load(folder / ".hydra" / "config.yaml") if unknown else None
    return job | {key: setting(config, key) for key in unknown} | result | paper


def is_seed(override: str) -> bool:
    """Return whether an override sets the seed: runs that differ in it only are one line, mean ±
    deviation.
    """
    return override.startswith("seed=")


def job_name(folder: Path, at: int, overrides: Sequence[str]) -> str:
    """Return what distinguishes job `at` of a running sweep: the name of its row, and its own
    overrides.
    """
    overrides = [masked(text) for text in overrides]  # as in jobs.json
    if jobs := _written(folder):
        return _name(jobs[at]["row"], overrides, _common(jobs))
    return _name({}, overrides, set(as_typed(OmegaConf.load(folder / SWEEP).hydra.overrides.task)))


@cache
def whole_key(key: str) -> str:
    """Return the whole key of result.json that `key` is, or ends: mean_accuracy →
    teachers.mean_accuracy.
    """
    keys = result_keys()
    return key if key in keys else next((name for name in keys if name.endswith(f".{key}")), key)


def setting(config: Any, key: str) -> Any:
    """Return the value of a key of a composed configuration; None for a section or a list too."""
    value = OmegaConf.select(config, key)
    return None if OmegaConf.is_config(value) else value


def _error(folder: Path) -> str | None:
    """Return why a job has no result, in a line; None: it has one. A result beside an error is an
    earlier sweep's.
    """
    if (folder / ERROR).is_file():
        return (folder / ERROR).read_text(encoding="utf-8").strip()
    if (folder / RESULT).is_file():
        return None
    return "did not finish" if folder.is_dir() else NOT_STARTED


def _written(folder: Path) -> list[dict[str, Any]]:
    path = folder / JOBS
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []


def _common(jobs: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the overrides that all jobs have."""
    overrides = [set(job["overrides"]) for job in jobs]
    return set.intersection(*overrides) if overrides else set()


def _name(row: Mapping[str, Any], overrides: Iterable[str], common: set[str]) -> str:
    known = {*common, *(text for text in row.get("set", []) if not is_seed(text))}
    return ", ".join(
        filter(None, [row.get("name"), " ".join(text for text in overrides if text not in known)])
    )
