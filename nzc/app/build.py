"""Build the objects that a composed configuration describes. Errors name the whole key, as it is typed."""

import inspect
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any, get_type_hints

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from pydantic import ConfigDict, TypeAdapter, ValidationError

from nzc.accounting import sanitised
from nzc.accounting.calibration import calibrate
from nzc.accounting.epsilon import SANITISED
from nzc.app.config import check_values, name_of_people, refuse_unknown_keys
from nzc.app.errors import unknown_key
from nzc.data import LABEL, Dataset
from nzc.labeling.individual import shares
from nzc.labeling.promise import LabelingPolicy
from nzc.labeling.query_selection import QuerySelection
from nzc.mechanisms import Adjacency, NoisyArgmax
from nzc.representation import Representation
from nzc.runs.layout import flatten
from nzc.runs.names import name_of
from nzc.runs.prepare import RunComponents, check_data
from nzc.storage.predictions import PredictionStore
from nzc.students import Student
from nzc.teachers import Teachers
from nzc.tracking import Tracker
from nzc.training.trainer import TrainerSettings
from nzc.validation import InputError, from_pydantic, in_a_line, within

#: What each group makes.
KINDS: dict[str, type] = {
    "dataset": Dataset, "representation": Representation, "teachers": Teachers, "aggregator": NoisyArgmax,
    "student": Student, "trainer": TrainerSettings, "tracking": Tracker,
}  # fmt: skip
#: Groups that may make nothing.
_OPTIONAL = ("dataset", "representation", "student", "tracking")
#: Keys whose `_target_` is called later, with further arguments, also without `_partial_: true`.
_FACTORIES = ("network", "optimizer", "schedule")
#: The noise parameters of aggregators. Without a budget, `scale` follows from the number of teachers.
_NOISE = ("sigma", "gamma", "sigma1", "scale")


def build_components(cfg: DictConfig, choices: Mapping[str, str], figures: bool) -> RunComponents:
    """Return everything that a run needs, built and checked. `choices` are the chosen options of the groups."""
    refuse_unknown_keys(cfg)
    check_values(cfg)
    _find_own_modules()
    for group in KINDS:  # parts of the user's own, before data are read
        if OmegaConf.is_config(cfg[group]):
            _described(OmegaConf.to_container(cfg[group], resolve=True), group, own=True)
    if (dataset := build(cfg, "dataset", choices["dataset"])) is not None:
        check_data(dataset, cfg.queries)
    teachers: Teachers = build(cfg, "teachers")
    if (ledger := cfg.paths.ledger) is not None and Path(ledger).is_dir():
        raise InputError("paths.ledger", ledger, f"must be a file, such as {Path(ledger, 'ledger.db')}")
    return RunComponents(
        dataset=dataset,
        representation=build(cfg, "representation", choices["representation"]),
        teachers=teachers,
        policy=build_policy(cfg, teachers),
        queries=cfg.queries,
        student=build(cfg, "student", choices["student"]),
        trainer=build(cfg, "trainer"),
        store=PredictionStore(Path(cfg.paths.store).absolute(), cfg.wait, ledger),
        data_name=name_of_people(cfg),
        figures=figures if cfg.figures is None else cfg.figures,
        baseline=cfg.baseline,
    )


def build_policy(cfg: DictConfig, teachers: Teachers) -> LabelingPolicy:
    """Return the rules of labeling, of which ε follows, built and checked.

    The noise of the aggregator that is null is set in `cfg`: it spends `budget.epsilon`.
    """
    with within("teachers"):
        adjacency = teachers.adjacency(OmegaConf.select(cfg, "dataset.unit") == LABEL)
    groups, of_record = OmegaConf.select(cfg, "budget.groups"), {}
    if groups is not None:
        of_record = shares(OmegaConf.to_object(groups) if OmegaConf.is_config(groups) else groups, adjacency)
        largest = max(share.budget for share in of_record.values())
        if cfg.budget.epsilon not in (None, largest):  # a run stores the largest
            raise InputError("budget.epsilon", cfg.budget.epsilon, "must be null where budget.groups gives every ε")
        cfg.budget.epsilon = largest
        adjacency = adjacency.times(max(share.weight for share in of_record.values()))

    def mechanism() -> NoisyArgmax:
        built: NoisyArgmax = build(cfg, "aggregator")
        with within("aggregator"):
            return built.between(adjacency)

    def tried(**noise: float) -> Any:  # of its queries at most cfg.answers are answered
        cfg.aggregator.update(noise)
        return SimpleNamespace(worst_case_epsilon=partial(mechanism().worst_case_epsilon, answers=cfg.answers))

    if (free := _free_noise(cfg, adjacency)) is not None:
        queries = sum(cfg.rounds or [1]) if cfg.queries is None else cfg.queries
        with within("budget"):
            cfg.aggregator[free] = noise = calibrate(tried, cfg.budget.epsilon, cfg.delta, queries, free)
        labels = f"{queries} queries" if adjacency.everywhere else "all labels"
        spent = f"{labels} then cost at most ε = {cfg.budget.epsilon:g}"
        if not OmegaConf.select(cfg, "baseline"):
            print(f"nzc: aggregator.{free}={noise:.6g}: {spent}", file=sys.stderr)
    rounds: Any = list(cfg.rounds) if OmegaConf.is_list(cfg.rounds) else cfg.rounds
    return LabelingPolicy(
        mechanism=(built := mechanism()),
        selection=QuerySelection(cfg.query_choice, rounds),
        seed=cfg.seed,
        delta=cfg.delta,
        budget=cfg.budget.epsilon,
        plan=partial(sanitised.plan, order=cfg.sanitise.order, beta=cfg.sanitise.beta),
        audit_trials=cfg.audit_trials if cfg.audit else None,
        name=name_of(built),
        rng=cfg.rng,
        answers=cfg.answers,
        publish=cfg.publish,
        total=OmegaConf.select(cfg, "budget.total"),  # stored configurations of older versions have none
        shares=of_record,
    )


def _free_noise(cfg: DictConfig, adjacency: Adjacency) -> str | None:
    """Return the noise parameter that is null, which a budget is to decide. InputError: nothing can decide it."""
    node = cfg.aggregator
    free = [key for key in _NOISE if OmegaConf.is_dict(node) and key in node and node[key] is None]
    if not free or (cfg.budget.epsilon is None and free == ["scale"]):
        return None
    key = f"aggregator.{free[0]}"
    if cfg.budget.epsilon is None or len(free) > 1:
        raise InputError(key, None, "must be a number, or the only noise that is null where budget.epsilon is given")
    if cfg.queries is None and not OmegaConf.is_list(cfg.rounds) and adjacency.everywhere:
        raise InputError("queries", None, f"must be a number where {key} is null: the noise depends on it")
    if cfg.publish == SANITISED:
        raise InputError(key, None, f"must be a number where publish={SANITISED}")
    return free[0]


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
        raise _wrong_target(error, cfg, group) from error
    if not isinstance(built, kind):
        must = f"must be a class derived from {kind.__name__}, or a function that returns one"
        raise InputError(f"{group}._target_", node["_target_"], must)
    _check_fields(built, node, group)
    return built


def _find_own_modules() -> None:
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)


def _is_own(target: object) -> bool:
    return not str(target).startswith("nzc.")


def _described(node: Any, key: str, own: bool = False) -> Any:
    """Return a node with the `_partial_` that keys imply. InputError: a class or function has no such argument.

    own  looks at the user's own classes and functions only, and requires that they exist; those of nzc import torch
    """
    if isinstance(node, list):
        return [_described(item, f"{key}.{at}", own) for at, item in enumerate(node)]
    if not isinstance(node, dict):
        return node
    described = {name: _described(value, f"{key}.{name}", own) for name, value in node.items()}
    if "_target_" in node and not (own and not _is_own(node["_target_"])):
        if own:
            try:
                resolve_name(node["_target_"])
            except Exception as error:  # a module may raise anything
                must = f"must be a class or function that can be imported ({in_a_line(error)})"
                raise InputError(f"{key}._target_", node["_target_"], must) from error
        if key.rpartition(".")[2] in _FACTORIES:
            described.setdefault("_partial_", True)
        known = _arguments(node["_target_"]) or list(node)
        for name in [name for name in node if name not in known and not name.startswith("_")]:  # _args_ is Hydra's
            raise unknown_key(f"{key}.{name}", node[name], known, node["_target_"])
    return described


def _arguments(target: str) -> list[str] | None:
    """Return the names of what a class or function takes; None: any name, or Hydra will say what is wrong with it."""
    try:
        parameters = inspect.signature(resolve_name(target)).parameters
    except Exception:  # the module may fail to import; some built-in functions have no signature
        return None
    return None if any(one.kind is one.VAR_KEYWORD for one in parameters.values()) else list(parameters)


def _wrong_target(error: InstantiationException, cfg: DictConfig, group: str) -> InputError:
    key = (re.findall(r"full_key: (\S+)", str(error)) or [group])[-1]
    cause = error.__cause__ or error
    if isinstance(cause, InputError):
        return cause.within(key)
    target, node = OmegaConf.select(cfg, f"{key}._target_"), OmegaConf.select(cfg, key)
    tree: Any = OmegaConf.to_container(node, resolve=True) if OmegaConf.is_dict(node) else {}
    parts = {name: part.get("_target_", "nzc.") for name, part in tree.items() if isinstance(part, dict)}
    if len(own := [name for name, made in parts.items() if _is_own(made)]) == 1 and not _is_own(target):
        must = f"must make what {target} can use ({in_a_line(cause)})"
        return InputError(f"{key}.{own[0]}._target_", parts[own[0]], must)
    must = f"must be a class or function that takes the settings beside it ({in_a_line(cause)})"
    return InputError(f"{key}._target_", target, must)


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
