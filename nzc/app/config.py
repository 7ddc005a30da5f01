"""The configuration: types of its keys, where presets lie, and the text of `nzc --help`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import indent
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import MISSING, DictConfig, OmegaConf

_PACKAGE = Path(__file__).parents[1]
#: The folder with conf/ and sweeps/: nzc/home in a wheel, the folder above the package in a
#: checkout.
HOME = _PACKAGE / "home" if (_PACKAGE / "home").is_dir() else _PACKAGE.parent
CONF = HOME / "conf"
#: The groups of the configuration.
GROUPS = (
    "recipe",
    "dataset",
    "representation",
    "teachers",
    "aggregator",
    "student",
    "trainer",
    "tracking",
)
#: The groups whose options name a run.
_NAMING = ("dataset", "teachers", "aggregator", "student")


@dataclass
class Paths:
    store: str = MISSING
    ledger: str | None = None
    output: str = MISSING


@dataclass
class Budget:
    epsilon: float | None = None
    groups: Any = None  # null, a mapping of names to ε, or a list of ε
    total: float | None = None


@dataclass
class Sanitise:
    order: float | None = None
    beta: float | None = None


@dataclass
class Config:
    """All keys but those of the groups. The YAML of a group's option names a class, whose arguments
    are its keys.
    """

    seed: int = MISSING
    rng: str = MISSING
    delta: float = MISSING
    queries: int | None = None
    query_choice: str = MISSING
    rounds: Any = None  # null, a number, or a list of sizes
    answers: int | None = None
    bound: str = MISSING
    budget: Budget = field(default_factory=Budget)
    sanitise: Sanitise = field(default_factory=Sanitise)
    audit: Any = MISSING  # a truth value, or how often the mechanism is run
    wait: float = MISSING
    figures: bool | None = None
    metrics: Any = field(
        default_factory=lambda: DictConfig({}, flags={"struct": False})
    )  # names are the user's
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
    """Return dataset.name, the user's own name of the people whom the private data are about; None:
    they have none.
    """
    name = OmegaConf.select(cfg, "dataset.name")
    return None if name is None else str(name).strip() or None


def names_of(cfg: DictConfig, choices: Mapping[str, Any]) -> dict[str, str]:
    """Return what results and tracker call dataset, teachers, aggregator and student: the options,
    as they were typed.

    A class that was typed in place of the option's (`_target_`) is the name; so is a kind of
    torchvision's datasets.
    """
    names = {}
    for group in _NAMING:
        target = OmegaConf.select(cfg, f"{group}._target_")
        preset = re.search(r"^_target_: (\S+)", _option_text(group, choices[group]), re.MULTILINE)
        names[group] = str(choices[group])
        if target is None:
            names[group] = "none"
        elif preset is not None and preset[1].strip("'\"") != target:
            names[group] = target
    kind = OmegaConf.select(cfg, "dataset.kind")
    if kind is not None and names["dataset"] in ("mnist", "torchvision"):
        names["dataset"] = kind
    return names


def experiment_of(cfg: DictConfig, choices: Mapping[str, Any]) -> str:
    """Return the name of a run's experiment: dataset.name, or the dataset, or the votes' file where
    there is none.
    """
    dataset = names_of(cfg, choices)["dataset"]
    votes = str(OmegaConf.select(cfg, "teachers.path") or "votes.npy") if dataset == "none" else ""
    return name_of_people(cfg) or Path(votes).stem or dataset


def shows_private(cfg: DictConfig) -> bool:
    """Return whether output and tracking may depend on votes: tracking.private; true for
    tracking=none.
    """
    return bool(OmegaConf.select(cfg, "tracking.private", default=True))


class _SearchPath(SearchPathPlugin):
    """Finds `+sweeps=NAME` in sweeps/ and `GROUP=NAME` in conf/, of nzc and of the working
    directory.
    """

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        search_path.append("nzc", f"file://{HOME}")
        here = Path.cwd()
        for folder, path in ((here / "conf", here / "conf"), (here / "sweeps", here)):
            if here != HOME and folder.is_dir():
                search_path.append("nzc-here", f"file://{path}")


def options(folder: str) -> list[str]:
    """Return the options of conf/GROUP, or the sweeps, of nzc and of the working directory."""
    return sorted(
        {path.stem for home in (HOME, Path.cwd()) for path in (home / folder).glob("*.yaml")}
    )


def _option_text(group: str, option: str) -> str:
    """Return the file of an option, of nzc or of the working directory, as Hydra finds it; empty:
    it is elsewhere.
    """
    files = [home / "conf" / group / f"{option}.yaml" for home in (HOME, Path.cwd())]
    return next((file.read_text(encoding="utf-8") for file in files if file.is_file()), "")


def _groups_help() -> str:
    folders = {f"{name}=": f"conf/{name}" for name in sorted(GROUPS)} | {"+sweeps=": "sweeps"}
    return "\n".join(
        f"  {name:15} {', '.join(options(folder))}" for name, folder in folders.items()
    )


def _keys_help(*, _root_: Any) -> str:
    """Return the commented keys of config.yaml and of the chosen options."""
    main = (
        (CONF / "config.yaml")
        .read_text(encoding="utf-8")
        .partition("\nseed:")[2]
        .partition("\nhydra:")[0]
    )
    sections = [f"seed:{main}".rstrip()]
    for group in GROUPS:
        choice = _root_.hydra.runtime.choices[group]
        if choice is None:
            continue
        lines = [f"  {line}" for line in _option_text(group, choice).splitlines() if line.strip()]
        sections.append("\n".join([f"{group}: # {group}={choice}", *lines]))
    return indent("\n\n".join(sections), "  ")


def compose_run(overrides: Sequence[str]) -> DictConfig:
    """Return the configuration of `nzc OVERRIDE…`, with Hydra's own part."""
    register()
    with initialize_config_dir(str(CONF), job_name="nzc", version_base="1.3"):
        return compose("config", [*overrides], return_hydra_config=True)


def register() -> None:
    """Register schema, search path and the text of `nzc --help` with Hydra. Calling it again
    changes nothing.
    """
    ConfigStore.instance().store(name="spine", node=Config)
    Plugins.instance().register(_SearchPath)
    OmegaConf.register_new_resolver("groups_help", _groups_help, replace=True)
    OmegaConf.register_new_resolver("keys_help", _keys_help, replace=True)
