"""The components of a run, from a composed configuration: all objects, and the rules of labeling."""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from omegaconf import DictConfig, OmegaConf

from nzc.accounting import sanitised
from nzc.accounting.calibration import calibrate
from nzc.accounting.data_independent import FREE, gaussian_cost
from nzc.accounting.epsilon import BOUNDS, SANITISED
from nzc.app.build import build, build_metrics, check_own_parts
from nzc.app.config import name_of_people, names_of
from nzc.app.keys import refuse_unknown_keys
from nzc.data import LABEL
from nzc.labeling.bound import LabelingPolicy
from nzc.labeling.group_budgets import shares
from nzc.labeling.query_selection import QuerySelection
from nzc.labeling.randomness import KINDS as RNGS
from nzc.mechanisms import NoisyArgmax
from nzc.runs.checks import RunComponents, check_data, load_for
from nzc.storage.predictions import PredictionStore
from nzc.teachers import Teachers
from nzc.validation import InputError, between_0_and_1, one_of, positive, whole, within

#: How often audit=true runs the mechanism.
AUDIT_TRIALS = 20_000
#: The noise parameters of aggregators. Without a budget, `scale` follows from the number of
#: teachers.
_NOISE = ("sigma", "gamma", "sigma1", "scale")


def _check_values(cfg: DictConfig) -> None:
    """Raise InputError where a value of `Config` is out of range."""
    whole("seed", cfg.seed, 0, 2**32 - 1)
    one_of("rng", cfg.rng, RNGS)
    between_0_and_1("delta", cfg.delta)
    one_of("bound", cfg.bound, BOUNDS)
    if not isinstance(cfg.audit, bool) and (not isinstance(cfg.audit, int) or cfg.audit < 100):
        raise InputError(
            "audit", cfg.audit, "must be true, false, or a whole number of trials, 100 or more"
        )
    for key in ("queries", "answers"):
        if cfg[key] is not None:
            whole(key, cfg[key], 1)
    keys = ("wait", "budget.epsilon", "budget.total", "sanitise.beta", "sanitise.order")
    for key in keys:
        value = OmegaConf.select(cfg, key)
        if value is not None:
            positive(key, value)
    if cfg.sanitise.order is not None and cfg.sanitise.order <= 1:
        raise InputError("sanitise.order", cfg.sanitise.order, "must be above 1")


def build_components(cfg: DictConfig, choices: Mapping[str, str], figures: bool) -> RunComponents:
    """Return everything that a run needs, built and checked. `choices` are the chosen options of
    the groups.
    """
    refuse_unknown_keys(cfg)
    _check_values(cfg)
    check_own_parts(cfg)
    metrics = build_metrics(cfg)
    if (dataset := build(cfg, "dataset", choices["dataset"])) is not None:
        check_data(dataset, cfg.queries)
    teachers: Teachers = build(cfg, "teachers")
    if (ledger := cfg.paths.ledger) is not None and Path(ledger).is_dir():
        raise InputError(
            "paths.ledger", ledger, f"must be a file, such as {Path(ledger, 'ledger.db')}"
        )

    def rows() -> int:
        splits = load_for(dataset, teachers, choices["dataset"])
        with within("teachers"):
            return teachers.check(splits).rows

    return RunComponents(
        names=names_of(cfg, choices),
        dataset=dataset,
        representation=None
        if dataset is None
        else build(cfg, "representation", choices["representation"]),
        teachers=teachers,
        policy=build_policy(cfg, teachers, rows),
        queries=cfg.queries,
        student=build(cfg, "student", choices["student"]),
        trainer=build(cfg, "trainer"),
        store=PredictionStore(Path(cfg.paths.store).absolute(), cfg.wait, ledger),
        data_name=name_of_people(cfg),
        figures=figures if cfg.figures is None else cfg.figures,
        metrics=metrics,
        baseline=cfg.baseline,
    )


def build_policy(cfg: DictConfig, teachers: Teachers, rows: Callable[[], int]) -> LabelingPolicy:
    """Return the rules of labeling, of which ε follows, built and checked.

    The noise of the aggregator that is null is set in `cfg`: it spends `budget.epsilon`. `rows`
    returns how many rows can be asked, where the noise depends on that.
    """
    rounds: Any = list(cfg.rounds) if OmegaConf.is_list(cfg.rounds) else cfg.rounds
    selection = QuerySelection(cfg.query_choice, rounds)
    plan = partial(sanitised.plan, order=cfg.sanitise.order, beta=cfg.sanitise.beta)
    with within("teachers"):
        adjacency = teachers.adjacency(OmegaConf.select(cfg, "dataset.unit") == LABEL)
    groups, of_record = OmegaConf.select(cfg, "budget.groups"), {}
    if groups is not None:
        of_record = shares(
            OmegaConf.to_object(groups) if OmegaConf.is_config(groups) else groups, adjacency
        )
        largest = max(share.budget for share in of_record.values())
        if cfg.budget.epsilon not in (None, largest):  # a run stores the largest
            raise InputError(
                "budget.epsilon",
                cfg.budget.epsilon,
                "must be null where budget.groups gives every ε",
            )
        cfg.budget.epsilon = largest
        adjacency = adjacency.times(max(share.weight for share in of_record.values()))

    def mechanism() -> NoisyArgmax:
        built: NoisyArgmax = build(cfg, "aggregator")
        with within("aggregator"):
            return built.between(adjacency)

    if free := _free_noise(cfg):
        queries = cfg.queries
        if queries is None and isinstance(rounds, list):
            queries = sum(rounds)
        elif queries is None:
            queries = rows() if adjacency.everywhere else 1  # all labels cost as much as one

        def tried(**noise: float) -> Any:  # of its queries at most cfg.answers are answered
            cfg.aggregator.update(noise)
            built, other = mechanism(), FREE
            if (
                cfg.bound == SANITISED and built.bounds
            ):  # the bound is a release too, and follows from the noise
                planned = [(queries, bound) for bound in built.bounds]
                other = gaussian_cost(1 / plan(planned, cfg.delta).noise)
            cost = partial(built.worst_case_epsilon, answers=cfg.answers, other=other)
            return SimpleNamespace(worst_case_epsilon=cost)

        unknown = [str(key) for key, value in cfg.aggregator.items() if value is None]
        with within("budget"):
            cfg.aggregator[free] = calibrate(tried, cfg.budget.epsilon, cfg.delta, queries, free)
        known = [
            f"aggregator.{key}={value:.6g}"
            for key in unknown
            if (value := cfg.aggregator[key]) is not None
        ]
        labels = f"{queries} queries" if adjacency.everywhere else "all labels"
        if not OmegaConf.select(cfg, "baseline"):
            spent = f"{labels} then cost at most ε = {cfg.budget.epsilon:g}"
            print(f"nzc: {' '.join(known)}: {spent}", file=sys.stderr)
    return LabelingPolicy(
        mechanism=mechanism(),
        selection=selection,
        seed=cfg.seed,
        delta=cfg.delta,
        budget=cfg.budget.epsilon,
        plan=plan,
        audit_trials=AUDIT_TRIALS if cfg.audit is True else cfg.audit or None,
        rng=cfg.rng,
        answers=cfg.answers,
        bound=cfg.bound,
        total=OmegaConf.select(
            cfg, "budget.total"
        ),  # stored configurations of older versions have none
        shares=of_record,
    )


def _free_noise(cfg: DictConfig) -> str | None:
    """Return the noise parameter that is null, which a budget is to decide. InputError: there is no
    budget.
    """
    node = cfg.aggregator
    free = [key for key in _NOISE if OmegaConf.is_dict(node) and key in node and node[key] is None]
    if not free or (cfg.budget.epsilon is None and free == ["scale"]):
        return None
    if cfg.budget.epsilon is None:
        raise InputError(
            f"aggregator.{free[0]}", None, "must be a number where budget.epsilon is null"
        )
    if typed := [key for key in free[1:] if not OmegaConf.is_interpolation(node, key)]:
        allowed = f"must be a number, or be left out, where aggregator.{free[0]} is null: the budget decides one noise"
        raise InputError(f"aggregator.{typed[0]}", None, allowed)
    return free[0]
