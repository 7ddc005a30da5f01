"""The components of a run, from a composed configuration: all objects, the rules of labeling."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from nzc.accounting import sanitised
from nzc.accounting.calibration import calibrate_noise
from nzc.accounting.data_independent import FREE
from nzc.accounting.epsilon import SANITISED
from nzc.app.build import build, build_key, build_metrics, check_config, plain
from nzc.app.config import name_of_people, names_of
from nzc.app.keys import refuse_unknown_keys
from nzc.data import LABEL, Dataset
from nzc.data.cache import check_data
from nzc.mechanisms import Adjacency, GroundTruth, Mechanism
from nzc.privacy.promise import Policy
from nzc.protocols import Protocol
from nzc.protocols.query_selection import QuerySelection
from nzc.protocols.truth import Truth
from nzc.runs.prepare import Parts, load_for
from nzc.runs.publishable import own_names
from nzc.saying import say
from nzc.storage.predictions import PredictionStore
from nzc.training.trainer import TrainerSettings
from nzc.validation import InputError, Tree, typed, within

#: How often audit=true runs the mechanism.
AUDIT_TRIALS = 20_000
#: The noise parameters of aggregators.
_NOISE = ("sigma", "gamma", "sigma1", "scale")


def build_components(cfg: DictConfig, choices: Tree, figures: bool) -> Parts:
    """Return everything that a run needs, built and checked.

    choices  the chosen options of the groups
    figures  whether to draw figures where the key `figures` is null
    """
    refuse_unknown_keys(cfg)
    check_config(cfg)
    metrics = build_metrics(cfg)
    store = PredictionStore(Path(cfg.paths.store).absolute(), cfg.wait, cfg.paths.ledger)
    trainer = build(cfg, "trainer")
    dataset = build(cfg, "dataset", choices["dataset"])
    representation = None
    if dataset is not None:
        dataset, rest = in_public_space(cfg, dataset, store, trainer)
        check_data(dataset, cfg.queries)
        representation = build(rest, "representation", choices["representation"])
    protocol = build(cfg, "teachers")
    if dataset is not None and rest is not cfg and "representation" in protocol.unused:
        representation = None  # its encoder is used, by the dataset
    if cfg.figures is not None:
        figures = cfg.figures

    def rows() -> int:
        splits = load_for(dataset, protocol, choices["dataset"])
        with within("teachers"):
            return protocol.check(splits).rows

    names = names_of(cfg, choices)
    selection = QuerySelection(cfg.query_choice, _rounds(cfg), cfg.queries)
    policy = build_policy(cfg, protocol, rows)
    if isinstance(policy.mechanism, GroundTruth):
        protocol = Truth(protocol, names["aggregator"])
    if cfg.baseline:
        from nzc.protocols.dp_sgd import Baseline  # imports torch

        protocol = Baseline(protocol, representation)
    return Parts(
        names=names,
        dataset=dataset,
        representation=representation,
        protocol=protocol,
        policy=policy,
        selection=selection,
        student=build(cfg, "student", choices["student"]),
        trainer=trainer,
        store=store,
        data_name=name_of_people(cfg),
        own_names=own_names(cfg.dataset, names["dataset"]),
        figures=figures,
        metrics=metrics,
    )


def in_public_space(
    cfg: DictConfig, dataset: Dataset, store: PredictionStore, trainer: TrainerSettings
) -> tuple[Dataset, DictConfig]:
    """Return the dataset in the space of a pretrained encoder, if there is one, and what is left.

    The encoder then is the dataset's, and no longer the representation's: all learn in its space.
    """
    if OmegaConf.select(cfg, "representation.encoder.model") is None:
        return dataset, cfg
    from nzc.data.table import Table
    from nzc.representation.pretrained import EncodedDataset, Pretrained, StoredSentences

    encoded: Dataset
    if isinstance(dataset, Table):
        model = build_key(cfg, "representation.encoder.model")
        with within("representation.encoder"):
            encoded = replace(dataset, texts=StoredSentences(model, store))
    else:
        encoder = build_key(cfg, "representation.encoder")
        if not isinstance(encoder, Pretrained):
            return dataset, cfg
        encoded = EncodedDataset(
            rows=dataset, encoder=encoder, store=store, trainer=trainer, unit=dataset.unit
        )
    rest = OmegaConf.merge(cfg, {"representation": {"encoder": None}})
    assert isinstance(rest, DictConfig)
    return encoded, rest


def build_policy(cfg: DictConfig, protocol: Protocol, rows: Callable[[], int]) -> Policy:
    """Return the rules of labeling, of which ε follows, built and checked.

    The noise of the aggregator that is null is set in `cfg`: it spends `budget.epsilon`. `rows`
    returns how many rows can be asked, where the noise depends on that.
    """
    plan = partial(sanitised.plan_bound, **cfg.sanitise)
    with within("teachers"):
        adjacency = protocol.adjacency(OmegaConf.select(cfg, "dataset.unit") == LABEL)
    noise = _free_noise(cfg)
    if noise is not None:
        queries = cfg.queries
        rounds = _rounds(cfg)
        if queries is None and isinstance(rounds, list):
            queries = sum(rounds)
        elif queries is None:
            queries = rows() if adjacency.everywhere else 1  # all labels cost as much as one
        found = _noise_for_budget(cfg, noise, adjacency, queries, plan)
        cfg.aggregator[noise] = found[noise]
        if not OmegaConf.select(cfg, "baseline"):
            _say_noise(cfg, found, f"{queries} queries" if adjacency.everywhere else "all labels")
    return Policy(
        mechanism=_mechanism(cfg, adjacency),
        seed=cfg.seed,
        delta=cfg.delta,
        budget=cfg.budget.epsilon,
        plan=plan,
        audit_trials=AUDIT_TRIALS if cfg.audit is True else typed(cfg.audit) or None,
        rng=cfg.rng,
        answers=cfg.answers,
        bound=cfg.bound,
        total=OmegaConf.select(cfg, "budget.total"),  # configurations of older runs have none
    )


def _rounds(cfg: DictConfig) -> Any:
    """Return the number of rounds, or the size of each, as numbers."""
    rounds = typed(plain(cfg.rounds))
    if isinstance(rounds, list):
        return list(map(typed, rounds))
    return rounds


def _mechanism(cfg: DictConfig, adjacency: Adjacency) -> Mechanism:
    built: Mechanism = build(cfg, "aggregator")
    with within("aggregator"):
        return built.between(adjacency)


def _free_noise(cfg: DictConfig) -> str | None:
    """Return the noise parameter that is null, which a budget is to decide.

    InputError: there is no budget, or more than one noise is left to it.
    """
    node = cfg.aggregator
    free = [key for key in _NOISE if OmegaConf.is_dict(node) and key in node and node[key] is None]
    if free and cfg.budget.epsilon is None:
        raise InputError(
            f"aggregator.{free[0]}", None, "must be a number where budget.epsilon is null"
        )
    for key in free[1:]:
        if not OmegaConf.is_interpolation(node, key):
            allowed = "must be a number, or be left out: the budget decides one noise, here "
            raise InputError(f"aggregator.{key}", None, f"{allowed}aggregator.{free[0]}")
    return next(iter(free), None)


def _noise_for_budget(
    cfg: DictConfig,
    noise: str,
    adjacency: Adjacency,
    queries: int,
    plan: Callable[..., sanitised.SanitisedPlan],
) -> dict[str, float]:
    """Return the parameters of the aggregator that are null, at which the queries spend the budget.

    noise  the one that decides the others
    """
    trial = deepcopy(cfg)
    unknown = [str(key) for key, value in cfg.aggregator.items() if value is None]

    def epsilon_of(value: float, rough: bool) -> float:
        trial.aggregator[noise] = value
        mechanism = _mechanism(trial, adjacency)
        bound_cost = FREE
        if cfg.bound == SANITISED and mechanism.bounds:  # the bound is a release with noise too
            planned = [(queries, bound) for bound in mechanism.bounds]
            bound_cost = plan(planned, cfg.delta).worst_case
        return mechanism.worst_case_epsilon(
            queries, cfg.delta, rough, answers=cfg.answers, other=bound_cost
        )

    with within("budget"):
        value = calibrate_noise(epsilon_of, cfg.budget.epsilon, noise, queries)
    trial.aggregator[noise] = value
    return {key: trial.aggregator[key] for key in unknown if trial.aggregator[key] is not None}


def _say_noise(cfg: DictConfig, found: dict[str, float], labels: str) -> None:
    words = [f"aggregator.{key}={value:.6g}" for key, value in found.items()]
    say(f"{' '.join(words)}: {labels} then cost at most ε = {cfg.budget.epsilon:g}")
