"""Everything that a composed configuration describes: the parts of a run, its tracker, its parameters."""

from collections.abc import Mapping
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from nzc.accounting import sanitised
from nzc.app.build import build
from nzc.app.calibrated import fill_in_noise
from nzc.app.config import check_values
from nzc.labeling.policy import LabelingPolicy
from nzc.labeling.query_selection import QuerySelection
from nzc.mechanisms import NoisyArgmax
from nzc.runs.layout import SWEEP, flatten
from nzc.runs.names import name_of
from nzc.runs.prepare import RunComponents
from nzc.storage.predictions import PredictionStore
from nzc.teachers import Teachers
from nzc.tracking import Tracker, wait_at_most
from nzc.validation import InputError


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


def build_tracker(cfg: DictConfig) -> Tracker | None:
    """Return the tracker; None for tracking=none."""
    wait_at_most(cfg.wait)
    tracker: Tracker | None = build(cfg, "tracking")
    return tracker


def stored_tracker(folder: Path, uri: str | None = None, artifacts: str | None = None) -> Tracker:
    """Return the tracker of a run or sweep that is stored in `folder`, which may be a stranger's.

    The folder gives plain values, never a class, and no interpolation is resolved. `uri` and `artifacts` are used
    instead of those of the folder; as on the command line, so ${oc.env:NAME} is resolved. InputError: a wrong value.
    """
    files = [SWEEP] if (folder / SWEEP).is_file() else [".hydra/config.yaml", ".hydra/hydra.yaml"]
    tree: Any = OmegaConf.to_container(
        OmegaConf.merge(*(OmegaConf.load(folder / file) for file in files)), resolve=False
    )
    settings, target = tree["tracking"], "nzc.tracking.mlflow.MLflow"
    if settings.get("_target_") != target:
        raise InputError("tracking._target_", settings.get("_target_"), f"must be {target} in a stored run")
    given = {"uri": uri, "artifacts": artifacts and str(Path(artifacts).absolute())}
    given = {key: value for key, value in given.items() if value is not None}
    for key in settings.keys() - given.keys():
        if isinstance(value := settings[key], dict | list) or "${" in str(value):
            allowed = "must be a plain value in a stored run; --uri gives another address"
            raise InputError(f"tracking.{key}", value, allowed)
    settings |= given | {"system_metrics": False}  # they would be this machine's
    home = Path(tree["hydra"]["runtime"]["cwd"])  # relative paths of the configuration start here
    with chdir(home if uri is None and home.is_dir() else "."):
        tracker: Tracker = build(OmegaConf.create({"tracking": settings}), "tracking")
    return tracker


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
