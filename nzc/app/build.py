"""Build the objects that a composed configuration describes. Errors name the whole key, as it is typed."""

import inspect
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pkgutil import resolve_name
from typing import Any, get_type_hints

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from pydantic import ConfigDict, TypeAdapter, ValidationError

from nzc.app.keys import unknown_key
from nzc.data import Dataset
from nzc.mechanisms import NoisyArgmax
from nzc.representation import Representation
from nzc.runs.layout import flatten
from nzc.students import Student
from nzc.teachers import Teachers
from nzc.tracking import Tracker
from nzc.training.trainer import TrainerSettings
from nzc.validation import InputError, from_pydantic, in_a_line

#: What each group makes.
KINDS: dict[str, type] = {
    "dataset": Dataset, "representation": Representation, "teachers": Teachers, "aggregator": NoisyArgmax,
    "student": Student, "trainer": TrainerSettings, "tracking": Tracker,
}  # fmt: skip
#: Groups that may make nothing.
_OPTIONAL = ("dataset", "representation", "student", "tracking")
#: Keys whose `_target_` is called later, with further arguments, also without `_partial_: true`.
_FACTORIES = ("network", "optimizer", "schedule")


def run_params(cfg: DictConfig, choices: Mapping[str, str]) -> dict[str, Any]:
    """Return the composed configuration with dotted keys, for the tracker."""
    tree: Any = OmegaConf.to_container(without_hydra(cfg), resolve=True)
    del tree["sweep"]
    groups = {group: choices[group] for group in ("dataset", "teachers", "aggregator", "student")}
    return groups | {key: value for key, value in flatten(tree).items() if not key.endswith("_target_")}


def without_hydra(cfg: DictConfig) -> DictConfig:
    """Return the configuration without Hydra's own part."""
    return OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])


def build(cfg: DictConfig, group: str, chosen: str = "none") -> Any:
    """Return the object that a group describes; None for an empty group.

    chosen  the group's option: only `none` may have settings without a class, such as those of a recipe
    """
    kind, node = KINDS[group], cfg[group]
    if OmegaConf.is_config(node):
        node = OmegaConf.to_container(node, resolve=True, throw_on_missing=True)
    if not isinstance(node, dict) or "_target_" not in node:
        if group in _OPTIONAL and (not node or chosen == "none"):
            return None
        or_none = f"; or {group}=none" if group in _OPTIONAL else ""
        raise InputError(f"{group}._target_", None, f"must name a class derived from {kind.__name__}{or_none}")
    _find_own_modules()
    try:  # plain containers, because the keys of stored predictions describe them
        built = instantiate({group: _described(node, group)}, _convert_="all")[group]
    except InstantiationException as error:
        key, cause = (re.findall(r"full_key: (\S+)", str(error)) or [group])[-1], error.__cause__ or error
        if isinstance(cause, InputError):
            raise cause.within(key) from error
        must = f"must be a class or function that takes the settings beside it ({in_a_line(cause)})"
        raise InputError(f"{key}._target_", OmegaConf.select(cfg, f"{key}._target_"), must) from error
    if not isinstance(built, kind):
        must = f"must be a class derived from {kind.__name__}, or a function that returns one"
        raise InputError(f"{group}._target_", node["_target_"], must)
    _check_fields(built, node, group)
    return built


def check_own_parts(cfg: DictConfig) -> None:
    """Raise InputError where a part of the user's own cannot be imported: before data are read."""
    _find_own_modules()
    for group in KINDS:
        tree: Any = OmegaConf.to_container(cfg[group], resolve=True) if OmegaConf.is_config(cfg[group]) else {}
        for key, target in flatten({group: tree}).items():
            if key.endswith("._target_") and not str(target).startswith(("nzc.", "sklearn.")):  # slow to import
                try:
                    resolve_name(target)
                except Exception as error:  # a module may raise anything
                    must = f"must be a class or function that can be imported ({in_a_line(error)})"
                    raise InputError(key, target, must) from error


def _find_own_modules() -> None:
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)


def _described(node: Any, key: str) -> Any:
    """Return a node with the `_partial_` that keys imply. InputError: a class or function has no such argument."""
    if isinstance(node, list):
        return [_described(item, f"{key}.{at}") for at, item in enumerate(node)]
    if not isinstance(node, dict):
        return node
    described = {name: _described(value, f"{key}.{name}") for name, value in node.items()}
    if "_target_" in node:
        if key.rpartition(".")[2] in _FACTORIES:
            described.setdefault("_partial_", True)
        known = _arguments(node["_target_"]) or list(node)
        for name in [name for name in node if name not in known and not name.startswith("_")]:  # _args_ is Hydra's
            raise unknown_key(f"{key}.{name}", node[name], dict.fromkeys(known), node["_target_"])
    return described


def _arguments(target: str) -> list[str]:
    """Return the names of what a class or function takes; []: any name, or Hydra will say what is wrong with it."""
    try:
        parameters = inspect.signature(resolve_name(target)).parameters
    except Exception:  # the module may fail to import; some built-in functions have no signature
        return []
    return [] if any(one.kind is one.VAR_KEYWORD for one in parameters.values()) else list(parameters)


def _check_fields(built: Any, node: dict[str, Any], key: str) -> None:
    """Raise InputError where a field of a dataclass, or of one inside it, is not what its annotation says."""
    if not is_dataclass(built):
        return
    hints = get_type_hints(type(built), include_extras=True)
    for name in [field.name for field in fields(built) if field.init and field.name in node]:
        adapter: Any = TypeAdapter(dict[str, hints[name]], config=ConfigDict(arbitrary_types_allowed=True))  # type: ignore[valid-type]
        try:
            adapter.validate_python({name: getattr(built, name)})
        except ValidationError as error:
            raise from_pydantic(error, key) from error
        if isinstance(node[name], dict):
            _check_fields(getattr(built, name), node[name], f"{key}.{name}")
