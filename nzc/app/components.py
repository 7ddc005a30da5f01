"""Build the objects that a composed configuration describes. Errors name the whole key, as it is typed."""

import inspect
from collections.abc import Mapping
from contextlib import chdir
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

from omegaconf import DictConfig, OmegaConf
from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError

from nzc.accounting import sanitised
from nzc.app.calibrated import fill_in_noise
from nzc.app.config import RENAMED, check_values
from nzc.app.targets import Wanted, derived, resolve, wanted_inside
from nzc.data import Dataset
from nzc.labeling.policy import LabelingPolicy
from nzc.labeling.query_selection import QuerySelection
from nzc.mechanisms import NoisyArgmax
from nzc.representation import Representation
from nzc.runs.layout import SWEEP, flatten
from nzc.runs.names import name_of
from nzc.runs.pipeline import RunComponents
from nzc.students import Student
from nzc.teachers import Teachers
from nzc.teachers.prediction_store import PredictionStore
from nzc.tracking import Tracker
from nzc.tracking.time_limit import TimeLimited
from nzc.training.trainer import TrainerSettings
from nzc.validation import InputError, from_pydantic, in_a_line, positive

#: What the class named by a group must be, and whether the group may be empty.
KINDS: dict[str, tuple[type, bool]] = {
    "dataset": (Dataset, True),
    "representation": (Representation, True),
    "teachers": (Teachers, False),
    "aggregator": (NoisyArgmax, False),
    "student": (Student, True),
    "trainer": (TrainerSettings, False),
    "tracking": (Tracker, True),
}
#: Keys whose `_target_` is called later, with further arguments, also without `_partial_: true`.
_FACTORIES = ("network", "optimizer", "schedule")
_SPECIAL = ("_target_", "_partial_", "_args_", "_convert_", "_recursive_")


def build_components(cfg: DictConfig, choices: Mapping[str, str], figures: bool) -> RunComponents:
    """Return everything that a run needs, built and checked. `choices` are the chosen options of the groups."""
    check_values(cfg)
    teachers: Teachers = build(cfg, "teachers")
    return RunComponents(
        dataset=build(cfg, "dataset", choices["dataset"]),
        representation=build(cfg, "representation", choices["representation"]),
        teachers=teachers,
        policy=build_policy(cfg, teachers.moved_queries),
        queries=cfg.queries,
        student=build(cfg, "student", choices["student"]),
        trainer=build(cfg, "trainer"),
        store=PredictionStore(Path(cfg.paths.store).absolute(), cfg.wait),
        data_name=_data_name(cfg),
        figures=figures if cfg.figures is None else cfg.figures,
    )


def build_policy(cfg: DictConfig, moved: int | None) -> LabelingPolicy:
    """Return the rules of labeling, of which ε follows, built and checked; `moved`: `Teachers.moved_queries`."""

    def mechanism(tried: DictConfig) -> NoisyArgmax:
        built: NoisyArgmax = build(tried, "aggregator")
        return built.moving(moved)

    fill_in_noise(cfg, mechanism)
    rounds: Any = list(cfg.rounds) if OmegaConf.is_list(cfg.rounds) else cfg.rounds
    return LabelingPolicy(
        mechanism=(built := mechanism(cfg)),
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
    )


def build_tracker(cfg: DictConfig, each_answer: bool = False) -> Tracker | None:
    """Return the tracker with its time limit, as `TimeLimited` explains; None for tracking=none."""
    tracker: Tracker | None = build(cfg, "tracking")
    return None if tracker is None else TimeLimited(tracker, cfg.wait, each_answer)


def build(cfg: DictConfig, group: str, chosen: str = "none") -> Any:
    """Return the object that a group describes; None for an empty group.

    chosen  the group's option: only `none` may have settings without a class, such as those of a recipe
    """
    node, (kind, may_be_empty) = cfg[group], KINDS[group]
    wanted = derived(kind)
    if not (node is None or OmegaConf.is_dict(node)):
        raise InputError(group, node, "must be a mapping whose _target_ is a class")
    if not node or "_target_" not in node:
        if may_be_empty and (not node or chosen == "none"):
            return None
        raise InputError(f"{group}._target_", None, f"must be {wanted.said}" + f"; or {group}=none" * may_be_empty)
    built = instantiate(node, group, wanted)
    if not isinstance(built, kind):  # as of a function without annotation
        raise InputError(f"{group}._target_", node._target_, f"must be {wanted.said}")
    return built


def stored_tracker(
    folder: Path, uri: str | None = None, artifacts: str | None = None, wait: float | None = None
) -> Tracker:
    """Return the tracker of a run or sweep that is stored in `folder`, which may be a stranger's.

    The folder gives values, never a class: its tracker must be nzc's MLflow, each value must have its type, and no
    interpolation is resolved. InputError: a value does not do.

    uri, artifacts, wait  instead of those of the folder; as on the command line, so ${oc.env:NAME} is resolved
    """
    from nzc.tracking.mlflow import MLflow

    files = [SWEEP] if (folder / SWEEP).is_file() else [".hydra/config.yaml", ".hydra/hydra.yaml"]
    trees: list[Any] = [OmegaConf.to_container(OmegaConf.load(folder / file), resolve=False) for file in files]
    stored = {key: value for tree in trees for key, value in tree.items()}
    settings = dict(stored["tracking"])
    if (target := settings.pop("_target_", None)) != (wanted := f"{MLflow.__module__}.{MLflow.__name__}"):
        raise InputError("tracking._target_", target, f"must be {wanted} in a stored run")
    given = {"uri": uri, "artifacts": artifacts and str(Path(artifacts).absolute())}
    typed = OmegaConf.create({key: value for key, value in given.items() if value is not None})
    settings |= {str(key): value for key, value in typed.items()}
    settings["system_metrics"] = False  # they would be this machine's
    hints = get_type_hints(MLflow.__init__)
    for key, value in settings.items():
        if key not in hints:
            raise InputError(f"tracking.{key}", value, f"must be one of the settings of {wanted}: {', '.join(hints)}")
        if isinstance(value, str) and "${" in value:
            raise InputError(
                f"tracking.{key}", value, "must be a plain value in a stored run; --uri gives another address"
            )
        try:
            TypeAdapter(hints[key]).validate_python(value, strict=True)
        except ValidationError as error:
            raise from_pydantic(error, f"tracking.{key}") from error
    positive(wait=(limit := wait or stored.get("wait", 60)))  # older runs have no such key
    home = Path(stored["hydra"]["runtime"]["cwd"])  # relative paths of the configuration start here
    with chdir(home if uri is None and home.is_dir() else "."):
        return TimeLimited(MLflow(**settings), limit, each_answer=True)


def instantiate(node: Any, key: str, wanted: Wanted) -> Any:
    """Return the object that a configuration node describes: `_target_` called with the other keys, recursively.

    Each `_target_` is checked before anything is called; `wanted` is what `key` wants.
    """
    if OmegaConf.is_list(node):
        return [instantiate(each, f"{key}.{at}", wanted) for at, each in enumerate(node)]
    if not OmegaConf.is_dict(node):
        return node
    later = bool(node.get("_partial_", key.rpartition(".")[2] in _FACTORIES))
    target = resolve(node._target_, key, wanted, later) if "_target_" in node else None
    inside = wanted_inside(target, wanted)
    settings: dict[str, Any] = {}
    for name in map(str, node):
        if OmegaConf.is_missing(node, name):
            raise InputError(f"{key}.{name}", "???", "must be given")
        if name not in _SPECIAL:
            value = node[name]
            settings[name] = instantiate(value, f"{key}.{name}", inside(name)) if OmegaConf.is_config(value) else value
    if target is None:
        return settings
    if not OmegaConf.is_list(listed := node.get("_args_", OmegaConf.create([]))):
        raise InputError(f"{key}._args_", listed, "must be a list")
    args = [instantiate(each, f"{key}._args_.{at}", inside(at)) for at, each in enumerate(listed)]
    _check_arguments(node, key, target, args, settings, later)
    if later:
        return partial(target, *args, **settings)
    try:
        built = target(*args, **settings)
    except InputError as error:
        raise error.within(key) from error
    except Exception as error:  # whatever a user's class raises
        allowed = f"must be a class that accepts the settings beside it ({in_a_line(error)})"
        raise InputError(f"{key}._target_", node._target_, allowed) from error
    _check_types(key, built)
    return built


def _check_arguments(node: Any, key: str, target: Any, args: list[Any], settings: dict[str, Any], later: bool) -> None:
    """Raise InputError where `target` has no such argument, or misses one."""
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):  # some built-in functions have none
        return
    takes_any = any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values())
    for name, value in settings.items():
        if not takes_any and name not in signature.parameters:
            allowed = f"must be one of the settings of {node._target_}: {', '.join(signature.parameters)}"
            if name in RENAMED:
                allowed = f"is called {key}.{RENAMED[name]} now"
            raise InputError(f"{key}.{name}", value, allowed)
    try:
        (signature.bind_partial if later else signature.bind)(*args, **settings)
    except TypeError as error:
        raise InputError(f"{key}._target_", node._target_, f"must be given all its settings ({error})") from error


def _check_types(key: str, built: Any) -> None:
    """Raise InputError where a field of a dataclass is not what its annotation says."""
    if not is_dataclass(built):
        return
    hints = get_type_hints(type(built))
    for name in (each.name for each in fields(built) if each.init):
        if isinstance(hints[name], type) and issubclass(hints[name], float | int):
            continue  # its class has checked the number
        try:
            try:
                adapter: Any = TypeAdapter(hints[name], config=ConfigDict(arbitrary_types_allowed=True))
            except PydanticUserError:  # a dataclass takes no configuration from outside
                adapter = TypeAdapter(hints[name])
            adapter.validate_python(getattr(built, name))
        except ValidationError as error:
            raise from_pydantic(error, f"{key}.{name}") from error


def _data_name(cfg: DictConfig) -> str | None:
    """Return dataset.name, by which the ledger counts several datasets together."""
    name = (cfg.dataset or {}).get("name")
    if name is not None and not str(name).strip():
        raise InputError("dataset.name", name, "must be a name, or null")
    return None if name is None else str(name)


def run_params(cfg: DictConfig, choices: Mapping[str, str]) -> dict[str, Any]:
    """Return the composed configuration with dotted keys, for the tracker."""
    tree: Any = OmegaConf.to_container(without_hydra(cfg), resolve=True)
    del tree["sweep"]
    groups = {group: choices[group] for group in ("dataset", "teachers", "aggregator", "student")}
    return groups | {key: value for key, value in flatten(tree).items() if not key.endswith("_target_")}


def without_hydra(cfg: DictConfig) -> DictConfig:
    """Return the configuration without Hydra's own part."""
    return OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
