"""Everything that a composed configuration describes: the parts of a run, its noise, its parameters."""

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from omegaconf import DictConfig, OmegaConf

from nzc.accounting import sanitised
from nzc.accounting.calibration import calibrate
from nzc.accounting.epsilon import SANITISED
from nzc.app.build import build
from nzc.app.config import check_values, refuse_unknown_keys
from nzc.labeling.promise import LabelingPolicy
from nzc.labeling.query_selection import QuerySelection
from nzc.mechanisms import Adjacency, NoisyArgmax
from nzc.runs.layout import flatten
from nzc.runs.names import name_of
from nzc.runs.prepare import RunComponents
from nzc.storage.predictions import PredictionStore
from nzc.teachers import Teachers
from nzc.validation import InputError, within

#: The noise parameters of aggregators. Without a budget, `scale` follows from the number of teachers.
_NOISE = ("sigma", "gamma", "sigma1", "scale")


def build_components(cfg: DictConfig, choices: Mapping[str, str], figures: bool) -> RunComponents:
    """Return everything that a run needs, built and checked. `choices` are the chosen options of the groups."""
    refuse_unknown_keys(cfg)
    check_values(cfg)
    teachers: Teachers = build(cfg, "teachers")
    name = (cfg.dataset or {}).get("name")
    if name is not None and not str(name).strip():
        raise InputError("dataset.name", name, "must be a name, or null")
    return RunComponents(
        dataset=build(cfg, "dataset", choices["dataset"]),
        representation=build(cfg, "representation", choices["representation"]),
        teachers=teachers,
        policy=build_policy(cfg, teachers.moved_queries),
        queries=cfg.queries,
        student=build(cfg, "student", choices["student"]),
        trainer=build(cfg, "trainer"),
        store=PredictionStore(Path(cfg.paths.store).absolute(), cfg.wait),
        data_name=None if name is None else str(name),
        figures=figures if cfg.figures is None else cfg.figures,
    )


def build_policy(cfg: DictConfig, moved: int | None) -> LabelingPolicy:
    """Return the rules of labeling, of which ε follows, built and checked; `moved`: `Teachers.moved_queries`.

    The noise of the aggregator that is null is set in `cfg`: it spends `budget.epsilon`.
    """

    def mechanism() -> NoisyArgmax:
        built: NoisyArgmax = build(cfg, "aggregator")
        return built.between(Adjacency(moved))

    def tried(**noise: float) -> Any:  # of its queries at most cfg.answers are answered
        cfg.aggregator.update(noise)
        return SimpleNamespace(worst_case_epsilon=partial(mechanism().worst_case_epsilon, answers=cfg.answers))

    if (free := _free_noise(cfg)) is not None:
        queries = sum(cfg.rounds) if cfg.queries is None else cfg.queries
        with within("budget"):
            cfg.aggregator[free] = noise = calibrate(tried, cfg.budget.epsilon, cfg.delta, queries, free)
        spent = f"{queries} queries then cost at most ε = {cfg.budget.epsilon:g}"
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
    )


def _free_noise(cfg: DictConfig) -> str | None:
    """Return the noise parameter that is null, which a budget is to decide. InputError: nothing can decide it."""
    node = cfg.aggregator
    free = [key for key in _NOISE if OmegaConf.is_dict(node) and key in node and node[key] is None]
    if not free or (cfg.budget.epsilon is None and free == ["scale"]):
        return None
    key = f"aggregator.{free[0]}"
    if cfg.budget.epsilon is None or len(free) > 1:
        raise InputError(key, None, "must be a number, or the only noise that is null where budget.epsilon is given")
    if cfg.queries is None and not OmegaConf.is_list(cfg.rounds):
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
