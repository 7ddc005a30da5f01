"""What a sweep file asks: its rows, its figures and its question; and the check of the keys that it names."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

from omegaconf import DictConfig, OmegaConf
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from nzc.runs.curves import AXES
from nzc.runs.layout import as_typed, flatten
from nzc.runs.result import result_keys
from nzc.sweeps.frame import setting, whole_key
from nzc.validation import InputError, from_pydantic

#: What a command line may set without changing the experiment of a sweep file: how and where it runs, and its seeds.
_MACHINERY = ("sweeps", "hydra", "paths", "tracking", "trainer", "figures", "audit", "audit_trials", "rng", "objective")
_PLACES_AND_SEEDS = ("root", "path", "labels", "seed", "parallel", "stacked", "only")
#: One key or a list of keys.
Keys = Annotated[tuple[str, ...], BeforeValidator(lambda value: value if isinstance(value, list | tuple) else [value])]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SweepRow(_Entry):
    """An entry of `sweep.rows`: a run, or, where `set` has several values for a key, a run for each.

    name   of the run
    set    overrides, key=value
    paper  values of a paper to show beside result.json, by key; they hold for the settings of the sweep file
    """

    name: str | None = None
    set: list[str] = []
    paper: dict[str, Any] = {}


class SweepFigure(_Entry):
    """An entry of `sweep.figures`: keys y of the runs against their key x; or one curve of each run.

    A key is one of result.json (`teachers.mean_accuracy`, or `mean_accuracy` for short), one of the configuration
    (`aggregator.gamma`), `run`, the number of the run, or `row`, the name of its row. A curve is one of
    nzc/runs/curves.py.

    by    keys: one line for each of their values. By default one line joins all runs; or those of each row, where a
          row stands for several runs
    ylim  range of the y axis
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
        lines = bool(self.x and self.y)
        if lines == bool(self.curve) or not (lines or not (self.x or self.y or self.by)):
            raise ValueError("must have x and y, with by, or else curve")
        return self


class SweepSpec(BaseModel):
    """The section `sweep` of a configuration. `only` keeps the rows whose name contains this text.

    Further keys are for interpolation within the file.
    """

    rows: list[SweepRow] = []
    figures: list[SweepFigure] = []
    only: Any = ""


def spec_of(config: Any) -> SweepSpec:
    """Return the section `sweep` of a composed configuration; InputError: it is not valid."""
    section = OmegaConf.to_container(config, resolve=False)["sweep"]  # type: ignore[call-overload, index]
    try:
        return SweepSpec.model_validate({} if section is None else section)
    except ValidationError as error:
        raise from_pydantic(error, "sweep") from error


def name_of(config: Any) -> str:
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


def changed_settings(config: Any) -> list[str]:
    """Return the overrides of the command line that change the experiment of a sweep file: not how and where it runs,
    nor its seeds."""
    parts = {
        text: text.split("=")[0].lstrip("+~").replace("/", ".").split(".")
        for text in as_typed(config.hydra.overrides.task)
    }
    return [text for text, key in parts.items() if key[0] not in _MACHINERY and key[-1] not in _PLACES_AND_SEEDS]


def check_keys(spec: SweepSpec, configs: Sequence[DictConfig]) -> list[InputError]:
    """Return what is wrong with the keys of rows and figures. `configs` are the composed configurations of the jobs.

    A key of the configuration is right where one of the jobs has it, because aggregators have different keys.
    """
    errors = []
    for at, row in enumerate(spec.rows):
        for key, value in row.paper.items():
            if key != "epsilon" and not _in_result(key):  # the paper's ε, whatever bound it is
                allowed = f"must be for a key of result.json{_near(key, ())}"
                errors.append(InputError(f"sweep.rows.{at}.paper.{key}", value, allowed))
    for at, figure in enumerate(spec.figures):
        name = f"sweep.figures.{figure.name}"
        if figure.curve is not None and figure.curve not in AXES:
            errors.append(InputError(f"{name}.curve", figure.curve, f"must be one of {', '.join(AXES)}"))
        if figure.name in [before.name for before in spec.figures[:at]]:
            errors.append(InputError("sweep.figures.name", figure.name, "must be the name of one figure only"))
        for key in figure.keys:
            if not (key in ("run", "row") or _in_result(key) or any(setting(cfg, key) is not None for cfg in configs)):
                allowed = "must have keys of result.json, or of the configuration with a value in at least one run"
                errors.append(InputError(name, key, allowed + _near(key, configs)))
    return errors


def _in_result(key: str) -> bool:
    keys = result_keys()
    return whole_key(key) in keys or key.startswith(tuple(name for name in keys if name.endswith(".")))


def _near(key: str, configs: Sequence[DictConfig]) -> str:
    """Return a hint at the key of result.json or of a configuration that is meant; empty: none is near."""
    trees: list[Any] = [OmegaConf.to_container(config) for config in configs]
    settings = {name for tree in trees for name in flatten(tree) if not name.startswith("hydra.")}
    near = get_close_matches(key, [*result_keys(), *sorted(settings)], 1)
    return f"; did you mean {near[0]}?" if near and near[0] != key else ""
