"""The components of a run, from a composed configuration: all objects, and the rules of labeling."""

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from omegaconf import DictConfig, OmegaConf

from nzc.accounting import sanitised
from nzc.accounting.calibration import calibrate
from nzc.accounting.epsilon import BOUNDS, SANITISED
from nzc.app.build import build, build_metrics, check_own_parts
from nzc.app.config import name_of_people, names_of, refuse_unknown_keys
from nzc.data import LABEL
from nzc.labeling.individual import shares
from nzc.labeling.promise import LabelingPolicy
from nzc.labeling.query_selection import QuerySelection
from nzc.labeling.randomness import KINDS as RNGS
from nzc.mechanisms import Adjacency, NoisyArgmax
from nzc.runs.prepare import RunComponents, check_data
from nzc.storage.predictions import PredictionStore
from nzc.teachers import Teachers
from nzc.validation import InputError, between_0_and_1, one_of, positive, whole, within

#: How often audit=true runs the mechanism.
AUDIT_TRIALS = 20_000
#: The noise parameters of aggregators. Without a budget, `scale` follows from the number of teachers.
_NOISE = ("sigma", "gamma", "sigma1", "scale")


def _check_values(cfg: DictConfig) -> None:
    """Raise InputError where a value of `Config` is out of range."""
    whole(0, 2**32 - 1, seed=cfg.seed)
    one_of(RNGS, rng=cfg.rng)
    between_0_and_1(delta=cfg.delta)
    one_of(BOUNDS, bound=cfg.bound)
    if not isinstance(cfg.audit, bool) and (not isinstance(cfg.audit, int) or cfg.audit < 100):
        raise InputError("audit", cfg.audit, "must be true, false, or a whole number of trials, 100 or more")
    whole(1, **{key: cfg[key] for key in ("queries", "answers") if cfg[key] is not None})
    keys = ("wait", "budget.epsilon", "budget.total", "sanitise.beta", "sanitise.order")
    positive(**{key: value for key in keys if (value := OmegaConf.select(cfg, key)) is not None})
    if cfg.sanitise.order is not None and cfg.sanitise.order <= 1:
        raise InputError("sanitise.order", cfg.sanitise.order, "must be above 1")


def build_components(cfg: DictConfig, choices: Mapping[str, str], figures: bool) -> RunComponents:
    """Return everything that a run needs, built and checked. `choices` are the chosen options of the groups."""
    refuse_unknown_keys(cfg)
    _check_values(cfg)
    check_own_parts(cfg)
    metrics = build_metrics(cfg)
    if (dataset := build(cfg, "dataset", choices["dataset"])) is not None:
        check_data(dataset, cfg.queries)
    teachers: Teachers = build(cfg, "teachers")
    if (ledger := cfg.paths.ledger) is not None and Path(ledger).is_dir():
        raise InputError("paths.ledger", ledger, f"must be a file, such as {Path(ledger, 'ledger.db')}")
    return RunComponents(
        names=names_of(cfg, choices),
        dataset=dataset,
        representation=None if dataset is None else build(cfg, "representation", choices["representation"]),
        teachers=teachers,
        policy=build_policy(cfg, teachers),
        queries=cfg.queries,
        student=build(cfg, "student", choices["student"]),
        trainer=build(cfg, "trainer"),
        store=PredictionStore(Path(cfg.paths.store).absolute(), cfg.wait, ledger),
        data_name=name_of_people(cfg),
        figures=figures if cfg.figures is None else cfg.figures,
        metrics=metrics,
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
        mechanism=mechanism(),
        selection=QuerySelection(cfg.query_choice, rounds),
        seed=cfg.seed,
        delta=cfg.delta,
        budget=cfg.budget.epsilon,
        plan=partial(sanitised.plan, order=cfg.sanitise.order, beta=cfg.sanitise.beta),
        audit_trials=AUDIT_TRIALS if cfg.audit is True else cfg.audit or None,
        rng=cfg.rng,
        answers=cfg.answers,
        bound=cfg.bound,
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
    if cfg.bound == SANITISED:
        raise InputError(key, None, f"must be a number where bound={SANITISED}")
    return free[0]
