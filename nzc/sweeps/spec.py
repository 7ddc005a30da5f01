"""What a sweep file asks: its question, rows, figures and columns."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any

from omegaconf import DictConfig, OmegaConf
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from nzc.runs.curves import AXES
from nzc.runs.layout import flatten, unresolved
from nzc.runs.result import QUANTITIES
from nzc.validation import InputError, did_you_mean, from_pydantic


@cache
def whole_key(key: str) -> str:
    """Return the key of result.json that `key` ends: mean_accuracy → teachers.mean_accuracy."""
    ending = [name for name in QUANTITIES if f".{name}".endswith(f".{key}")]
    return min(ending, key=len, default=key)


def as_list(value: Any) -> Any:
    """Return a list of one text, and anything else as it is."""
    return [value] if isinstance(value, str) else value


#: A key of a run, and one key or a list of keys.
Key = Annotated[str, AfterValidator(whole_key)]
Keys = Annotated[tuple[Key, ...], BeforeValidator(as_list)]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SweepRow(_Entry):
    """An entry of `sweep.rows`: a run, or a run for each of the values that `set` has for a key.

    paper  values of a paper to show beside result.json, by key; they hold for the settings of the
           sweep file
    point  which of these values this run has
    """

    name: str | None = None
    set: list[str] = []
    paper: dict[Key, Any] = {}
    point: list[str] = []

    @property
    def title(self) -> str:
        """The name of the row and of the run in it."""
        return ", ".join(filter(None, [self.name, *self.point]))


class SweepFigure(_Entry):
    """An entry of `sweep.figures`: keys y of the runs against their key x; or a curve of each run.

    A key is one of result.json (`teachers.mean_accuracy`, or `mean_accuracy` for short), one of the
    configuration (`aggregator.gamma`), `run`, the number of the run, or `row`, the name of its row.
    There is a line for each y and each value of the keys `by`. Curves are those of
    nzc/runs/curves.py.
    """

    name: Annotated[str, Field(pattern=r"^[\w-]+$")]
    x: Key = ""
    y: Keys = ()
    by: Keys = ()
    curve: str | None = None
    ylim: tuple[float, float] | None = None

    @property
    def keys(self) -> list[str]:
        """All keys that the figure names."""
        return list(filter(None, [self.x, *self.y, *self.by]))

    @model_validator(mode="after")
    def _complete(self) -> "SweepFigure":
        is_curve = self.curve and not self.keys
        if self.curve not in {None, *AXES}:
            raise ValueError(f"curve must be one of {', '.join(AXES)}")
        if not is_curve and not (self.x and self.y and not self.curve):
            raise ValueError("must have x and y, with by, or else curve")
        return self


class SweepSpec(BaseModel):
    """The section `sweep` of a configuration. Further keys are for interpolation within the file.

    columns  keys of the runs that the table shows beside those that every table has; keys are as in
             `SweepFigure`
    only     keeps the rows whose name contains this text
    """

    question: str = ""
    expected: str = ""
    time: str = ""
    command: str = ""
    rows: list[SweepRow] = []
    figures: list[SweepFigure] = []
    columns: Keys = ()
    only: Any = ""

    @property
    def keys(self) -> dict[str, list[str]]:
        """All keys of runs that the section names, by the place where it names them."""
        of_figures = {f"sweep.figures.{figure.name}": figure.keys for figure in self.figures}
        return {"sweep.columns": [*self.columns]} | of_figures


def spec_of(config: Any) -> SweepSpec:
    """Return the section `sweep` of a composed configuration; InputError: it is not valid."""
    section: Any = {}
    if config.sweep:
        section = unresolved(config.sweep)
    for name, value in section.items():
        known = get_close_matches(str(name), SweepSpec.model_fields, n=1, cutoff=0.7)
        if known and known != [name]:
            raise InputError(
                f"sweep.{name}", value, f"must have another name; did you mean {known[0]}?"
            )
    try:
        return SweepSpec.model_validate(section)
    except ValidationError as error:
        raise from_pydantic(error, "sweep") from error


def name_of(config: Any) -> str:
    """Return the name of a sweep: that of its file, if it has one."""
    return str(config.hydra.runtime.choices.get("sweeps") or "sweep")


def check_keys(spec: SweepSpec, configs: Sequence[DictConfig]) -> list[InputError]:
    """Return what is wrong with the keys of rows, figures and columns.

    configs  composed ones of the jobs. A key of the configuration, or a metric of the user's own,
             is right where one of the jobs has it, because aggregators have different keys.
    """
    settings = _given_settings(configs)
    own_metrics = {".".join(key.split(".")[:2]) for key in settings if key.startswith("metrics.")}
    results = {*QUANTITIES, *own_metrics, "epsilon"}  # the paper's ε, whatever bound it is
    known = {*results, *settings, "run", "row"}
    errors: list[InputError] = []

    def require(place: str, key: str, value: Any, names: set[str], allowed: str) -> None:
        sections = tuple(filter(lambda name: name.endswith("."), names))
        if key not in names and not key.startswith(sections):
            errors.append(InputError(place, value, f"{allowed}{_near(key, names)}"))

    for number, row in enumerate(spec.rows):
        for key, value in row.paper.items():
            place = f"sweep.rows.{number}.paper.{key}"
            require(place, key, value, results, "must be for a key of result.json")
    for place, keys in spec.keys.items():
        for key in keys:
            allowed = "must have keys of result.json, or of the configuration with a value"
            require(place, key, key, known, allowed)
    return errors


def _given_settings(configs: Iterable[DictConfig]) -> set[str]:
    """Return the keys that have a value in one of the configurations."""
    settings: set[str] = set()
    for config in configs:
        tree = flatten(OmegaConf.to_container(config))  # type: ignore[arg-type]
        settings.update(key for key, value in tree.items() if value is not None)
    return settings


def _near(key: str, known: Iterable[str]) -> str:
    """Return a hint at the known key that is meant; empty: none is near."""
    for name in sorted(known):
        if name.endswith(f".{key}"):
            return f"; did you mean {name}?"
    return did_you_mean(key, known)
