"""Build the objects that a composed configuration describes. Errors name the key as it is typed."""

import inspect
import os
import re
import sys
from dataclasses import is_dataclass
from functools import partial
from pkgutil import resolve_name
from typing import Any, get_args, get_type_hints

from omegaconf import MISSING, DictConfig, OmegaConf
from pydantic import ConfigDict, TypeAdapter, ValidationError

from nzc.app.config import Config, names_of
from nzc.app.keys import unknown_key
from nzc.data import Dataset
from nzc.mechanisms import Mechanism
from nzc.protocols import Protocol
from nzc.representation import Representation
from nzc.runs.layout import flatten
from nzc.runs.own_metric import OwnMetric
from nzc.runs.result import is_taken
from nzc.students import Student
from nzc.teachers import Teachers
from nzc.tracking import MLflow
from nzc.training.trainer import TrainerSettings
from nzc.validation import InputError, Tree, from_pydantic, in_a_line, one_of

#: What each group makes.
KINDS: dict[str, tuple[type, ...]] = {
    "dataset": (Dataset,),
    "representation": (Representation,),
    "teachers": (Teachers, Protocol),
    "aggregator": (Mechanism,),
    "student": (Student,),
    "trainer": (TrainerSettings,),
    "tracking": (MLflow,),
}
#: Groups that may make nothing.
_OPTIONAL = ("dataset", "representation", "student", "tracking")
#: Keys whose `_target_` is called later, with further arguments, also without `_partial_: true`.
_FACTORIES = ("network", "optimizer", "schedule")
#: Where classes are now that stored configurations of older versions name.
_MOVED = {
    "nzc.teachers.cells.Cells": "nzc.protocols.cells.Cells",
    "nzc.teachers.sums.Sums": "nzc.protocols.sums.RecordSums",
}
#: An example of the key `metrics`.
_METRIC = "as in metrics.f1={_target_: sklearn.metrics.f1_score, average: macro}"


def run_params(cfg: DictConfig, choices: Tree) -> Tree:
    """Return the composed configuration with dotted keys, for the tracker."""
    tree = plain(without_hydra(cfg))
    del tree["sweep"]
    values = {key: value for key, value in flatten(tree).items() if not key.endswith("_target_")}
    return names_of(cfg, choices) | values


def without_hydra(cfg: DictConfig) -> DictConfig:
    """Return the configuration without Hydra's own part."""
    return OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])


def plain(node: Any) -> Any:
    """Return a node with its values resolved, as dictionaries and lists."""
    if OmegaConf.is_config(node):
        return OmegaConf.to_container(node, resolve=True)
    return node


def check_config(cfg: DictConfig) -> None:
    """Raise InputError where a value outside of the groups is not what `Config` says."""
    _check_values(Config, plain(without_hydra(cfg)), "")


def build(cfg: DictConfig, group: str, chosen: str = "none") -> Any:
    """Return the object that a group describes; None for an empty group.

    chosen  the group's option: only `none` may have settings without a class, those of a recipe
    """
    kinds = KINDS[group]
    derived = f"must be a class derived from {' or '.join(kind.__name__ for kind in kinds)}"
    node = plain(cfg[group])
    if not isinstance(node, dict) or "_target_" not in node:
        if group in _OPTIONAL and (not node or chosen == "none"):
            return None
        if group in _OPTIONAL:
            derived += f"; or {group}=none"
        raise InputError(f"{group}._target_", None, derived)
    built = _built(node, group)
    if not isinstance(built, kinds):
        allowed = f"{derived}, or a function that returns one"
        raise InputError(f"{group}._target_", node["_target_"], allowed)
    return built


def build_key(cfg: DictConfig, key: str) -> Any:
    """Return the object that the value of a key describes."""
    return _built(plain(OmegaConf.select(cfg, key)), key)


def build_metrics(cfg: DictConfig) -> tuple[OwnMetric, ...]:
    """Return the user's own metrics. Nothing is imported where there are none."""
    nodes = plain(cfg.metrics) or {}
    if not isinstance(nodes, dict):
        raise InputError("metrics", nodes, f"must have a name for each metric, {_METRIC}")
    metrics = []
    for name, node in nodes.items():
        if node is not None:  # as of a sweep file's metric that a job does without
            metrics.append(_metric(str(name), node))
    return tuple(metrics)


def _metric(name: str, node: Any) -> OwnMetric:
    """Return one of the user's metrics: its node is a function's name, or has it as `_target_`."""
    key = f"metrics.{name}"
    if not re.fullmatch(r"[\w-]+", name) or is_taken(name):
        raise InputError(
            key,
            node,
            "must have another name: of letters, digits, _ and -, and none of nzc's figures",
        )
    settings = dict(node) if isinstance(node, dict) else {"_target_": node}
    if not isinstance(settings.get("_target_"), str):
        raise InputError(
            key, node, f"must name a function of true labels and predictions, {_METRIC}"
        )
    return OwnMetric(name, settings["_target_"], _built(settings | {"_partial_": True}, key))


def _built(node: Any, key: str, annotation: Any = None) -> Any:
    """Return the object that a tree of settings describes, its inner parts first, as Hydra does.

    annotation  of the argument that the node is for

    InputError: a class or function has no such argument, or cannot be called with a value.
    """
    if node == MISSING:
        words = [word for word in get_args(annotation) if isinstance(word, str)]
        if words:  # of a Literal
            one_of(key, MISSING, words)
        raise InputError(key, MISSING, "must be given")
    if isinstance(node, list):
        return [_built(item, f"{key}.{place}") for place, item in enumerate(node)]
    if isinstance(node, dict):
        return _built_mapping(node, key)
    return node


def _built_mapping(node: dict[Any, Any], key: str) -> Any:
    """Return the object that a mapping with `_target_` describes, or else the mapping, built."""
    target = node.get("_target_")
    annotations = _annotations(target)
    settings = {}
    for name, value in node.items():
        if annotations and name not in annotations and not str(name).startswith("_"):
            raise unknown_key(f"{key}.{name}", value, dict.fromkeys(annotations), str(target))
        if node.get("_recursive_", True):
            value = _built(value, f"{key}.{name}", annotations.get(name))
        settings[name] = value
    if target is None:
        return settings
    return _called(settings, key)


def _called(settings: Tree, key: str) -> Any:
    """Return what the class or function `_target_` makes of the settings beside it."""
    for special in ("_convert_", "_recursive_"):
        settings.pop(special, None)
    target = settings.pop("_target_")
    positional = settings.pop("_args_", [])
    called_later = settings.pop("_partial_", key.rpartition(".")[2] in _FACTORIES)
    function = _imported(target, f"{key}._target_")
    if is_dataclass(function):
        _check_values(function, settings, key)
    try:
        if called_later:
            return partial(function, *positional, **settings)
        return function(*positional, **settings)
    except InputError as error:
        raise error.within(key) from error
    except Exception as error:  # a class of the user's own may raise anything
        raise InputError(
            f"{key}._target_",
            target,
            f"must be a class or function that takes the settings beside it ({in_a_line(error)})",
        ) from error


def _imported(target: Any, key: str) -> Any:
    """Return the class or function of this name, of a module in the working directory too."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        return resolve_name(_MOVED.get(target, target))
    except Exception as error:  # a module may raise anything
        raise InputError(
            key, target, f"must be a class or function that can be imported ({in_a_line(error)})"
        ) from error


def _annotations(target: Any) -> Tree:
    """Return the arguments of a class or function, with annotations; {}: any, or there is none."""
    try:
        parameters = inspect.signature(_imported(target, "")).parameters.values()
    except (InputError, ValueError, TypeError):  # some built-in functions have no signature
        return {}
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return {}
    return {parameter.name: parameter.annotation for parameter in parameters}


def _check_values(kind: Any, values: Tree, key: str) -> None:
    """Raise InputError where a value is not what the annotation of its field says.

    A text that is to be a number, as of ${oc.env:NAME}, becomes one.

    kind  a dataclass, of which some fields may be dataclasses, with values in a mapping
    """
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if name not in values:
            continue
        value = values[name]
        if is_dataclass(hint) and isinstance(value, dict):
            _check_values(hint, value, name)
            continue
        named: Any = dict.__class_getitem__((str, hint))  # so that an error has the name
        adapter = TypeAdapter(named, config=ConfigDict(arbitrary_types_allowed=True))
        try:
            found = adapter.validate_python({name: value})[name]
        except ValidationError as error:
            raise from_pydantic(error, key) from error
        if isinstance(value, str) and isinstance(found, int | float):
            values[name] = found
