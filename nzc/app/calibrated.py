"""Noise that spends a budget: a noise parameter that is null is found from `budget.epsilon` and the queries."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

from omegaconf import DictConfig, OmegaConf

from nzc.accounting.calibration import calibrate
from nzc.accounting.epsilon import SANITISED
from nzc.mechanisms import NoisyArgmax
from nzc.validation import InputError, within

#: The noise parameters of aggregators. Without a budget, `scale` follows from the number of teachers.
_NOISE = ("sigma", "gamma", "sigma1", "scale")


@dataclass(frozen=True)
class _Promise:
    """A mechanism of whose queries at most `answers` are answered; None: all."""

    mechanism: NoisyArgmax
    answers: int | None

    def worst_case_epsilon(self, queries: int, delta: float, rough: bool = False) -> float:
        return self.mechanism.worst_case_epsilon(queries, delta, rough, self.answers)


def fill_in_noise(cfg: DictConfig, build: Callable[[DictConfig], NoisyArgmax]) -> None:
    """Replace the noise of the aggregator that is null by the one that spends `budget.epsilon`, and say so.

    build  makes a mechanism from a whole configuration
    InputError: several are null, or there is no budget or no number of queries, or no noise is enough.
    """
    node = cfg.aggregator
    free = [key for key in _NOISE if OmegaConf.is_dict(node) and key in node and node[key] is None]
    epsilon, queries = cfg.budget.epsilon, cfg.queries
    if not free or (epsilon is None and free == ["scale"]):
        return
    key = f"aggregator.{free[0]}"
    if epsilon is None or len(free) > 1:
        raise InputError(key, None, "must be a number, or the only noise that is null where budget.epsilon is given")
    if queries is None and OmegaConf.is_list(cfg.rounds):
        queries = sum(cfg.rounds)
    if queries is None:
        raise InputError("queries", None, f"must be a number where {key} is null: the noise depends on it")
    if cfg.publish == SANITISED:
        raise InputError(key, None, f"must be a number where publish={SANITISED}")

    def mechanism(**noise: float) -> _Promise:
        node[free[0]] = noise[free[0]]
        return _Promise(build(cfg), cfg.answers)

    with within("budget"):
        found = calibrate(mechanism, epsilon, cfg.delta, queries, free[0])
    node[free[0]] = found
    print(f"nzc: {key}={found:.6g}: {queries} queries then cost at most ε = {epsilon:g}", file=sys.stderr)
