"""What a sweep file asks: its rows and figures, and their checks."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

from omegaconf import DictConfig, OmegaConf
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from nzc.validation import InputError, from_pydantic

Model = TypeVar("Model", bound=BaseModel)
#: What a command line may set without changing the experiment of a sweep file: how and where it runs, and its seeds.
_MACHINERY = ("sweeps", "hydra", "paths", "tracking", "trainer", "figures", "audit", "audit_trials", "rng", "objective")
_PLACES_AND_SEEDS = ("root", "path", "labels", "seed", "parallel", "stacked", "unfold", "only")
#: One key or a list of keys.
Keys = Annotated[tuple[str, ...], BeforeValidator(lambda value: value if isinstance(value, list | tuple) else [value])]


class SweepRow(BaseModel):
    """An entry of `sweep.rows`: a run, or, where `set` has several values for a key, a run for each.

    name   of the run
    set    overrides, key=value
    paper  values of a paper to show beside result.json, by key; they hold for the settings of the sweep file
    """

    model_config = ConfigDict(extra="forbid")

    name: str | None = None
    set: list[str] = []
    paper: dict[str, Any] = {}


class SweepPoints(BaseModel):
    """An entry of a figure's `points`: values of something that is no run, such as another program's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]

    @model_validator(mode="after")
    def _pairs(self) -> "SweepPoints":
        if len(self.x) != len(self.y):
            raise ValueError("must have as many x as y")
        return self


class SweepFigure(BaseModel):
    """An entry of `sweep.figures`: keys y of the runs against their key x; or one curve of each run.

    A key is one of result.json (`teachers.mean_accuracy`, or `mean_accuracy` for short), one of the configuration
    (`aggregator.gamma`), `run`, the number of the run, or `row`, the name of its row. A curve is one of
    nzc/runs/curves.py.

    by      keys: one line for each of their values
    points  further lines, with hollow markers; they hold for the settings of the sweep file, as paper values do
    ylim    range of the y axis
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^[\w-]+$")]
    x: str | None = None
    y: Keys = ()
    by: Keys = ()
    points: tuple[SweepPoints, ...] = ()
    curve: str | None = None
    ylim: tuple[float, float] | None = None

    @model_validator(mode="after")
    def _complete(self) -> "SweepFigure":
        if (self.x is not None and bool(self.y)) == (self.curve is not None):
            raise ValueError("must have x and y, or else curve")
        if self.curve is not None and (self.by or self.points):
            raise ValueError("must have x and y, not curve, for by and points")
        if self.ylim is not None and not self.ylim[0] < self.ylim[1]:
            raise ValueError("must have ylim with the smaller number first")
        return self


def figures_of(config: DictConfig) -> list[SweepFigure]:
    """Return the figures of a composed configuration; InputError: one is not valid."""
    return _entries(config, "figures", SweepFigure)


def rows_of(config: DictConfig) -> list[SweepRow]:
    """Return the rows of a composed configuration; InputError: one is not valid."""
    return _entries(config, "rows", SweepRow)


def name_of(config: DictConfig) -> str:
    """Return the name of a sweep: that of its file, if it has one."""
    return str(config.hydra.runtime.choices.get("sweeps") or "sweep")


def header_of(config: Any) -> dict[str, str]:
    """Return the comments at the top of a sweep file by name: Question, Expected, Time, Command.

    Comments without such names are the question.
    """
    for source in config.hydra.runtime.config_sources:
        file = Path(source.path) / "sweeps" / f"{name_of(config)}.yaml"
        if source.schema == "file" and file.is_file():
            lines = re.match(r"(#.*\n)*", file.read_text(encoding="utf-8"))
            comments = re.sub(r"^# *@package.*\n", "", lines[0] if lines else "")
            named = dict(re.findall(r"^# (\w[\w ]*): +(.*)", re.sub(r"\n# {2,}", " ", comments), re.MULTILINE))
            plain = " ".join(re.sub(r"^#+", "", comments, flags=re.MULTILINE).split())
            return named or ({"Question": plain} if plain else {})
    return {}


def keys_of(figures: Sequence[SweepFigure]) -> list[str]:
    """Return all keys of the figures."""
    return [key for figure in figures for key in (*filter(None, [figure.x]), *figure.y, *figure.by)]


def changed_settings(config: Any) -> list[str]:
    """Return the overrides of the command line that change the experiment of a sweep file: not how and where it runs,
    nor its seeds."""
    typed = OmegaConf.to_container(config, resolve=False)["hydra"]["overrides"]["task"]  # type: ignore[call-overload, index]
    parts = {text: text.split("=")[0].lstrip("+~").replace("/", ".").split(".") for text in map(str, typed)}
    return [text for text, key in parts.items() if key[0] not in _MACHINERY and key[-1] not in _PLACES_AND_SEEDS]


def _entries(config: DictConfig, key: str, model: type[Model]) -> list[Model]:
    sweep: Any = config.get("sweep")
    if not (sweep is None or OmegaConf.is_dict(sweep)):
        raise InputError("sweep", sweep, "must be a mapping with the keys rows and figures")
    asked: Any = OmegaConf.to_container(sweep) if sweep else {}
    entries = [] if asked.get(key) is None else asked[key]
    try:
        return TypeAdapter(list[model]).validate_python(entries)  # type: ignore[valid-type]
    except ValidationError as error:
        wrong = from_pydantic(error, f"sweep.{key}")
        if error.errors()[0]["type"] == "extra_forbidden":
            wrong = InputError(wrong.key, wrong.value, f"must be one of the keys {', '.join(model.model_fields)}")
        raise wrong from error
