"""Build the objects that a composed configuration describes. Errors name the whole key, as it is
typed.
"""

import inspect
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pkgutil import resolve_name
from typing import Any, get_args, get_type_hints

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import MISSING, DictConfig, OmegaConf
from pydantic import ConfigDict, TypeAdapter, ValidationError

from nzc.app.config import names_of
from nzc.app.keys import unknown_key
from nzc.data import Dataset
from nzc.mechanisms import NoisyArgmax
from nzc.representation import Representation
from nzc.runs.layout import flatten
from nzc.runs.own_metric import TAKES, OwnMetric
from nzc.runs.result import is_taken
from nzc.students import Student
from nzc.teachers import Teachers
from nzc.tracking import Tracker
from nzc.training.trainer import TrainerSettings
from nzc.validation import InputError, among, from_pydantic, in_a_line, one_of

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
    return names_of(cfg, choices) | {
        key: value for key, value in flatten(tree).items() if not key.endswith("_target_")
    }


def without_hydra(cfg: DictConfig) -> DictConfig:
    """Return the configuration without Hydra's own part."""
    return OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])


def build(cfg: DictConfig, group: str, chosen: str = "none") -> Any:
    """Return the object that a group describes; None for an empty group.

    chosen  the group's option: only `none` may have settings without a class, such as those of a
            recipe
    """
    kind, node = KINDS[group], cfg[group]
    if OmegaConf.is_config(node):
        node = OmegaConf.to_container(node, resolve=True)
    if not isinstance(node, dict) or "_target_" not in node:
        if group in _OPTIONAL and (not node or chosen == "none"):
            return None
        or_none = f"; or {group}=none" if group in _OPTIONAL else ""
        raise InputError(
            f"{group}._target_", None, f"must name a class derived from {kind.__name__}{or_none}"
        )
    built = _instantiated(cfg, node, group)
    if not isinstance(built, kind):
        must = f"must be a class derived from {kind.__name__}, or a function that returns one"
        raise InputError(f"{group}._target_", node["_target_"], must)
    _check_fields(built, node, group)
    return built


def build_metrics(cfg: DictConfig) -> tuple[OwnMetric, ...]:
    """Return the user's own metrics. Nothing is imported where there are none."""
    nodes: Any = (
        OmegaConf.to_container(cfg.metrics, resolve=True)
        if OmegaConf.is_config(cfg.metrics)
        else cfg.metrics
    )
    example = "as in metrics.f1={_target_: sklearn.metrics.f1_score, average: macro}"
    if not isinstance(nodes or {}, dict):
        raise InputError("metrics", nodes, f"must have a name for each metric, {example}")
    metrics = []
    for name, node in (nodes or {}).items():
        key = f"metrics.{name}"
        if not re.fullmatch(r"[\w-]+", str(name)) or is_taken(str(name)):
            allowed = (
                "must have another name: of letters, digits, _ and -, and none of nzc's figures"
            )
            raise InputError(key, node, allowed)
        if isinstance(node, str):
            node = {"_target_": node}
        if node is None:  # as for a metric of a sweep file that a job does without
            continue
        if not isinstance(node, dict) or not isinstance(node.get("_target_"), str):
            raise InputError(
                key, node, f"must name a function of true labels and predictions, {example}"
            )
        takes = node.pop("_takes_", None)
        if takes is not None:
            one_of(f"{key}._takes_", takes, TAKES)
        part = _instantiated(cfg, node | {"_partial_": True}, key)
        metrics.append(OwnMetric(str(name), node["_target_"], part, takes))
    return tuple(metrics)


def _instantiated(cfg: DictConfig, node: dict[str, Any], key: str) -> Any:
    """Return the object that a node describes; InputError: its class or function cannot make it."""
    _find_own_modules()
    try:  # plain containers, because the keys of stored predictions describe them
        return instantiate({key: _described(node, key)}, _convert_="all")[key]
    except InstantiationException as error:
        place = (re.findall(r"full_key: (\S+)", str(error)) or [key])[-1]
        if OmegaConf.select(cfg, place) is None:
            place = re.sub(r"(\d+)$", r".\1", place)  # Hydra writes callbacks0
        cause = error.__cause__ or error
        if isinstance(cause, InputError):
            raise cause.within(place) from error
        must = f"must be a class or function that takes the settings beside it ({in_a_line(cause)})"
        target = node["_target_"] if place == key else OmegaConf.select(cfg, f"{place}._target_")
        raise InputError(f"{place}._target_", target, must) from error


def check_own_parts(cfg: DictConfig) -> None:
    """Raise InputError where a part of the user's own cannot be imported: before data are read."""
    _find_own_modules()
    for section in (*KINDS, "metrics"):
        tree = (
            OmegaConf.to_container(cfg[section], resolve=True)
            if OmegaConf.is_config(cfg[section])
            else {}
        )
        for key, target in _targets(tree, section):
            if not str(target).startswith(("nzc.", "sklearn.")):  # slow to import
                try:
                    resolve_name(target)
                except Exception as error:  # a module may raise anything
                    must = f"must be a class or function that can be imported ({in_a_line(error)})"
                    raise InputError(key, target, must) from error


def _targets(node: Any, key: str) -> Iterator[tuple[str, Any]]:
    """Yield every `_target_` in a tree of mappings and lists, with its dotted key."""
    if isinstance(node, dict | list):
        for name, inner in node.items() if isinstance(node, dict) else enumerate(node):
            yield from _targets(inner, f"{key}.{name}")
    elif key.endswith("._target_"):
        yield key, node


def _find_own_modules() -> None:
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)


def _described(node: Any, key: str, annotation: Any = None) -> Any:
    """Return a node with the `_partial_` that keys imply. `annotation`: of the argument that the
    node is for.

    InputError: a class or function has no such argument, or a value is missing.
    """
    if node == MISSING:
        raise _missing(key, annotation)
    if isinstance(node, list):
        return [_described(item, f"{key}.{at}") for at, item in enumerate(node)]
    if not isinstance(node, dict):
        return node
    known = _arguments(node["_target_"]) if "_target_" in node else {}
    described = {
        name: _described(value, f"{key}.{name}", known.get(name)) for name, value in node.items()
    }
    if "_target_" in node and key.rpartition(".")[2] in _FACTORIES:
        described.setdefault("_partial_", True)
    for name in node:
        if known and name not in known and not name.startswith("_"):  # _args_ is Hydra's
            raise unknown_key(f"{key}.{name}", node[name], dict.fromkeys(known), node["_target_"])
    return described


def _missing(key: str, annotation: Any) -> InputError:
    """Return the error for a value that must be given: it names the words that an annotation
    allows.
    """
    words = [word for word in get_args(annotation) if isinstance(word, str)]
    return InputError(key, MISSING, among(words, MISSING) if words else "must be given")


def _arguments(target: str) -> dict[str, Any]:
    """Return the arguments of a class or function, with annotations; {}: any, or Hydra will say
    what is wrong.
    """
    try:
        parameters = inspect.signature(resolve_name(target)).parameters
    except Exception:  # the module may fail to import; some built-in functions have no signature
        return {}
    if any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        return {}
    return {name: one.annotation for name, one in parameters.items()}


def _check_fields(built: Any, node: dict[str, Any], key: str) -> None:
    """Raise InputError where a field of a dataclass, or of one inside it, is not what its
    annotation says.
    """
    if not is_dataclass(built):
        return
    hints = get_type_hints(type(built), include_extras=True)
    for name in [field.name for field in fields(built) if field.init and field.name in node]:
        kind: Any = dict.__class_getitem__((str, hints[name]))
        adapter = TypeAdapter(kind, config=ConfigDict(arbitrary_types_allowed=True))
        try:
            adapter.validate_python({name: getattr(built, name)})
        except ValidationError as error:
            raise from_pydantic(error, key) from error
        if isinstance(node[name], dict):
            _check_fields(getattr(built, name), node[name], f"{key}.{name}")
