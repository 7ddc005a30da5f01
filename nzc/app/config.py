"""The configuration: its keys and their ranges, where presets lie, and the text of `nzc --help`."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from textwrap import indent
from typing import Annotated, Any

import yaml
from hydra import initialize_config_dir
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra.types import RunMode
from omegaconf import MISSING, DictConfig, OmegaConf

from nzc.app.overrides import GROUPS, check_overrides, refuse_sweeps, telling, typed_values
from nzc.ranges import AboveOne, Between0And1, Count, Positive, checked, word
from nzc.saying import say
from nzc.validation import InputError, Tree, whole

_PACKAGE = Path(__file__).parents[1]
#: The folder with conf/ and sweeps/: nzc/home in a wheel, the folder above the package in a
#: checkout.
HOME = _PACKAGE / "home" if (_PACKAGE / "home").is_dir() else _PACKAGE.parent
CONF = HOME / "conf"


def _check_audit(key: str, value: Any) -> None:
    if isinstance(value, bool) or (isinstance(value, int) and value >= 100):
        return
    raise InputError(key, value, "must be true, false, or a whole number of trials, 100 or more")


@dataclass
class Paths:
    store: str = MISSING
    ledger: str | None = None
    output: str = MISSING


@dataclass
class Budget:
    epsilon: Positive | None = None
    total: Positive | None = None


@dataclass
class Sanitise:
    order: AboveOne | None = None
    beta: Positive | None = None


@dataclass
class Config:
    """All keys but those of the groups: these are the arguments of the class that YAML names."""

    seed: Annotated[int, checked(partial(whole, at_least=0, at_most=2**32 - 1))] = MISSING
    rng: Annotated[str, word("seeded", "system")] = MISSING
    delta: Between0And1 = MISSING
    queries: Count | None = None
    query_choice: str = MISSING
    rounds: Any = None  # null, a number, or a list of sizes
    answers: Count | None = None
    bound: Annotated[str, word("data_independent", "sanitised")] = MISSING
    budget: Budget = field(default_factory=Budget)
    sanitise: Sanitise = field(default_factory=Sanitise)
    audit: Annotated[Any, checked(_check_audit)] = MISSING
    wait: Positive = MISSING
    figures: bool | None = None
    metrics: Any = field(  # their names are the user's
        default_factory=lambda: DictConfig({}, flags={"struct": False})
    )
    baseline: bool = False
    paths: Paths = field(default_factory=Paths)
    dataset: Any = MISSING
    representation: Any = None
    teachers: Any = MISSING
    aggregator: Any = MISSING
    student: Any = MISSING
    trainer: Any = MISSING
    tracking: Any = MISSING
    objective: Any = None
    sweep: Any = None


def name_of_people(cfg: DictConfig) -> str | None:
    """Return dataset.name, the user's name of the people in the private data; None: no name."""
    return str(OmegaConf.select(cfg, "dataset.name") or "").strip() or None


def names_of(cfg: DictConfig, choices: Tree) -> dict[str, str]:
    """Return what results, tracker and errors call the options of some groups.

    It is the option, as it was typed; a class that was typed in place of the option's (`_target_`);
    of torchvision's datasets the kind.
    """
    names = {}
    for group in ("dataset", "representation", "teachers", "aggregator", "student"):
        target = OmegaConf.select(cfg, f"{group}._target_", default="none")
        preset = read_file(f"conf/{group}", choices[group])
        is_preset = preset.get("_target_", target) == target != "none"
        names[group] = str(choices[group]) if is_preset else target
    kind = OmegaConf.select(cfg, "dataset.kind")
    if kind is not None and names["dataset"] in ("mnist", "torchvision"):
        names["dataset"] = kind
    return names


def experiment_of(cfg: DictConfig, choices: Tree) -> str:
    """Return the name of a run's experiment: dataset.name, the dataset, or the votes' file."""
    people = name_of_people(cfg)
    if people is not None:
        return people
    dataset = names_of(cfg, choices)["dataset"]
    if dataset != "none":
        return dataset
    return Path(str(OmegaConf.select(cfg, "teachers.path") or "votes.npy")).stem


def shows_private(cfg: DictConfig) -> bool:
    """Return whether output and tracking may depend on votes: tracking.private, or no tracking."""
    return bool(OmegaConf.select(cfg, "tracking.private", default=True))


class _SearchPath(SearchPathPlugin):
    """Finds options and sweeps of nzc, and those in conf/ and sweeps/ of the working directory."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        search_path.append("nzc", f"file://{HOME}")
        here = Path.cwd()
        for folder, path in ((here / "conf", here / "conf"), (here / "sweeps", here)):
            if here != HOME and folder.is_dir():
                search_path.append("nzc-here", f"file://{path}")


def options(folder: str) -> list[str]:
    """Return the options of conf/GROUP, or the sweeps, of nzc and of the working directory."""
    files = [*HOME.glob(f"{folder}/*.yaml"), *Path.cwd().glob(f"{folder}/*.yaml")]
    return sorted({path.stem for path in files})


def _text_of(folder: str, name: str | None) -> str:
    """Return a file of nzc or of the working directory, as Hydra finds it; empty: elsewhere."""
    for home in (HOME, Path.cwd()):
        file = home / folder / f"{name}.yaml"
        if file.is_file():
            return file.read_text(encoding="utf-8")
    return ""


def read_file(folder: str, name: str | None) -> Tree:
    """Return what stands in a configuration file; {}: it is not there, or is no mapping."""
    with suppress(yaml.YAMLError):
        content = yaml.safe_load(_text_of(folder, name))
        if isinstance(content, dict):
            return content
    return {}


def _groups_help() -> str:
    folders = {f"{group}=": f"conf/{group}" for group in sorted(GROUPS)}
    folders["+sweeps="] = "sweeps"
    return "\n".join(
        f"  {name:15} {', '.join(options(folder))}" for name, folder in folders.items()
    )


def _keys_help(*, _root_: Any) -> str:
    """Return the commented keys of config.yaml and of the chosen options."""
    text = (CONF / "config.yaml").read_text(encoding="utf-8")
    main = text.partition("\nseed:")[2].partition("\nhydra:")[0]
    sections = [f"seed:{main}".rstrip()]
    for group in GROUPS:
        choice = _root_.hydra.runtime.choices[group]
        if choice is not None:
            lines = _text_of(f"conf/{group}", choice).strip().replace("\n\n", "\n")
            sections.append(f"{group}: # {group}={choice}\n{indent(lines, '  ')}".rstrip())
    return indent("\n\n".join(sections), "  ")


def compose_run(overrides: Sequence[str], config_name: str = "config") -> DictConfig:
    """Return the configuration of `nzc OVERRIDE…`, with Hydra's own part.

    Its `hydra.mode` is MULTIRUN where a file says so; only then may overrides list values.
    """
    register()
    check_overrides(overrides)
    with initialize_config_dir(str(CONF), job_name="nzc", version_base="1.3"):
        hydra = GlobalHydra.instance().hydra
        assert hydra is not None

        def compose(words: Sequence[str]) -> DictConfig:
            return hydra.compose_config(
                config_name, [*words], RunMode.RUN, validate_sweep_overrides=False
            )

        better: list[str] = []
        if {"recipe", "sweeps"} & typed_values(overrides).keys() or config_name != "config":
            chosen = compose(telling(overrides))
            if chosen.hydra.mode != RunMode.MULTIRUN:  # else each job has its own
                better = better_recipe(chosen)
        try:
            cfg = compose([*overrides, *better])
        except Exception as error:
            for override in better:
                error.add_note(override)  # the line of the error names the recipe
            raise
    if cfg.hydra.mode != RunMode.MULTIRUN:
        refuse_sweeps(overrides)
    return cfg


def recipe_of(cfg: DictConfig) -> list[str]:
    """Return the chosen recipe, as an override; []: there is none."""
    recipe = cfg.hydra.runtime.choices.get("recipe")
    return [] if recipe is None else [f"recipe={recipe}"]


def better_recipe(cfg: DictConfig) -> list[str]:
    """Return the recipe that suits the dataset in place of the chosen one, as an override.

    A line says so; []: it is the chosen one. DP-SGD takes nothing of a recipe but its features.
    """
    choices = cfg.hydra.runtime.choices
    recipe = choices.get("recipe")
    better = OmegaConf.select(cfg, f"dataset.suits.recipe.{recipe}")
    if better in (None, recipe) or cfg.baseline:
        return []
    say(
        f"recipe={recipe} is {better} for dataset={choices.dataset}: dataset.suits.recipe=null "
        f"keeps {recipe} itself"
    )
    return [f"recipe={better}"]


def register() -> None:
    """Register schema, search path and the text of `nzc --help` with Hydra; again is no harm."""
    ConfigStore.instance().store(name="spine", node=Config)
    Plugins.instance().register(_SearchPath)
    OmegaConf.register_new_resolver("groups_help", _groups_help, replace=True)
    OmegaConf.register_new_resolver("keys_help", _keys_help, replace=True)
