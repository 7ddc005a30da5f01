"""The typed spine of the configuration, where conf/ and sweeps/ lie, and how a group becomes an object."""

import inspect
import re
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import hydra
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.errors import InstantiationException
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import MISSING, DictConfig, OmegaConf

from nzc.errors import GROUPS, InputError, in_a_line, one_of, positive, share, whole
from nzc.randomness import KINDS

_PACKAGE = Path(__file__).parent
#: The folder that holds conf/ and sweeps/: the package itself in a wheel, the folder above it in a checkout.
HOME = _PACKAGE if (_PACKAGE / "conf").is_dir() else _PACKAGE.parent
CONF = HOME / "conf"


@dataclass
class Paths:
    """Where things are kept; relative paths start at the working directory."""

    store: str = MISSING
    output: str = MISSING


@dataclass
class Budget:
    """`budget.epsilon`: stop answering before the data-independent ε would pass it."""

    epsilon: float | None = None


@dataclass
class Sanitise:
    """Order and β of the sanitised release, fixed before a vote is seen; null: chosen from public facts."""

    order: float | None = None
    beta: float | None = None


@dataclass
class Config:
    """The scalars are typed here; each group's YAML names a class whose fields are its schema."""

    seed: int = MISSING
    rng: str = MISSING
    delta: float = MISSING
    queries: int | None = None
    query_choice: str = MISSING
    rounds: Any = None  # null, a number, or a list of sizes
    budget: Budget = field(default_factory=Budget)
    sanitise: Sanitise = field(default_factory=Sanitise)
    audit: bool = False
    audit_trials: int = MISSING
    figures: bool | None = None
    paths: Paths = field(default_factory=Paths)
    dataset: Any = MISSING
    teachers: Any = MISSING
    aggregator: Any = MISSING
    student: Any = MISSING
    trainer: Any = MISSING
    tracking: Any = MISSING
    objective: Any = None  # a key of result.json, or several
    sweep: Any = None  # what a file of sweeps/ asks: rows, figures


def check(cfg: Any) -> None:
    """The ranges of the spine's scalars."""
    whole(0, 2**32 - 1, seed=cfg.seed)
    one_of(KINDS, rng=cfg.rng)
    share(delta=cfg.delta)
    if cfg.queries is not None:
        whole(1, queries=cfg.queries)
    whole(100, audit_trials=cfg.audit_trials)
    for key, value in {"budget.epsilon": cfg.budget.epsilon, "sanitise.beta": cfg.sanitise.beta}.items():
        if value is not None:
            positive(**{key: value})
    if cfg.sanitise.order is not None:
        positive(**{"sanitise.order": cfg.sanitise.order})
        if cfg.sanitise.order <= 1:
            raise InputError("sanitise.order", cfg.sanitise.order, "must be above 1")


def shows_private(cfg: DictConfig) -> bool:
    """Whether what is said and recorded of a run may follow from votes: tracking.private; yes for tracking=none."""
    return bool((cfg.tracking or {}).get("private", True))


def build(cfg: DictConfig, group: str, kind: type) -> Any:
    """The object of this kind that a group's YAML names; None where it names none. The only instantiate there is.

    Input errors get the group's name.
    """
    node, key = cfg[group], group
    if OmegaConf.is_dict(node) and "mechanism" in node:
        node, key = node.mechanism, f"{group}.mechanism"
    if not (node is None or OmegaConf.is_dict(node)):
        raise InputError(key, node, "must be a mapping whose _target_ is a class")
    wanted = f"must be a {kind.__name__} of nzc, or a class derived from it"
    if not node or ("_target_" not in node and not OmegaConf.is_missing(node, "_target_")):
        if group in ("teachers", "aggregator", "trainer"):
            raise InputError(f"{key}._target_", None, wanted)
        return None
    if missing := OmegaConf.missing_keys(node):
        raise InputError(sorted(missing)[0], "???", "must be given")
    try:
        built = hydra.utils.instantiate(node, _convert_="all")
    except InstantiationException as error:
        if isinstance(error.__cause__, InputError):
            raise error.__cause__.within(group) from error
        raise _unusable(cfg, group, error) from error
    if not isinstance(built, kind):
        raise InputError(f"{key}._target_", node._target_, wanted)
    _check_types(key, built)
    return built


def _check_types(key: str, built: Any) -> None:
    """InputError where a field of a dataclass is not what its annotation says. Numbers are checked by their classes."""
    if not is_dataclass(built):
        return
    hints = get_type_hints(type(built))
    for name in (each.name for each in fields(built) if each.init):
        value, allowed = getattr(built, name), get_args(hints[name]) or (hints[name],)
        named = all(isinstance(kind, type) for kind in allowed) and not {int, float, Any} & set(allowed)
        unsaid = value is None and name == "network"  # dataset=none suggests none
        if named and not unsaid and not isinstance(value, allowed):
            names = " or ".join("null" if kind is type(None) else kind.__name__ for kind in allowed)
            raise InputError(f"{key}.{name}", value, f"must be of type {names}")
        _check_types(f"{key}.{name}", value)


def _unusable(cfg: DictConfig, group: str, error: InstantiationException) -> InputError:
    """What is wrong with a `_target_` that somebody chose: it does not exist, or does not take these settings."""
    found = re.search(r"full_key: (\S+)", str(error))
    key = found.group(1) if found else group
    target = OmegaConf.select(cfg, f"{key}._target_")
    said = str(error).split(", set env var")[0] if error.__cause__ is None else str(error.__cause__)
    if unknown := re.search(r"unexpected keyword argument '(\w+)'", said):
        names = [name for name in inspect.signature(hydra.utils.get_class(target)).parameters if name != "self"]
        key = f"{key}.{unknown.group(1)}"
        return InputError(key, OmegaConf.select(cfg, key), f"must be one of the settings of {target}: "
                          f"{', '.join(names)}")  # fmt: skip
    allowed = f"must be a class that takes the settings beside it ({in_a_line(said)})"
    return InputError(f"{key}._target_", target, allowed)


class _Home(SearchPathPlugin):
    """Makes `+sweeps=NAME` find sweeps/NAME.yaml, and GROUP=NAME conf/GROUP/NAME.yaml, of the working directory too."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        search_path.append("nzc", f"file://{HOME}")
        here = Path.cwd()
        if here != HOME:
            for folder, path in ((here / "conf", here / "conf"), (here / "sweeps", here)):
                if folder.is_dir():
                    search_path.append("nzc-here", f"file://{path}")


def options(folder: str) -> str:
    """What there is to choose from in conf/GROUP, or sweeps, and in that of the working directory."""
    return ", ".join(sorted({path.stem for home in (HOME, Path.cwd()) for path in (home / folder).glob("*.yaml")}))


def groups() -> str:
    """The groups and their options, a line each, as --help shows them."""
    folders = {f"{name}=": f"conf/{name}" for name in sorted(GROUPS)} | {"+sweeps=": "sweeps"}
    return "\n".join(f"  {name:12} {options(folder)}" for name, folder in folders.items())


def register() -> None:
    """Tell Hydra of the spine, the groups and the search path; harmless when repeated."""
    OmegaConf.register_new_resolver("groups", groups, replace=True)
    ConfigStore.instance().store(name="spine", node=Config)
    Plugins.instance().register(_Home)
