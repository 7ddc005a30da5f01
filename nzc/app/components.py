"""Everything that a composed configuration describes: the parts of a run, its tracker, its parameters."""

from collections.abc import Mapping
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

from omegaconf import DictConfig, OmegaConf
from pydantic import TypeAdapter, ValidationError

from nzc.accounting import sanitised
from nzc.app.build import build
from nzc.app.calibrated import fill_in_noise
from nzc.app.config import check_values
from nzc.labeling.policy import LabelingPolicy
from nzc.labeling.query_selection import QuerySelection
from nzc.mechanisms import NoisyArgmax
from nzc.runs.layout import SWEEP, flatten
from nzc.runs.names import name_of
from nzc.runs.pipeline import RunComponents
from nzc.teachers import Teachers
from nzc.teachers.prediction_store import PredictionStore
from nzc.tracking import Tracker
from nzc.tracking.time_limit import TimeLimited
from nzc.validation import InputError, from_pydantic, positive


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
