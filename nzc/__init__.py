"""Learn from private data with teacher ensembles, and say truthfully what it cost.

    >>> import numpy as np, nzc
    >>> votes = np.array([[230, 20], [140, 110]])             # vote histograms (queries, classes) of 250 teachers
    >>> mechanism = nzc.GNMax(sigma=40)
    >>> labels = mechanism.release(votes, rng=np.random.default_rng(0))
    >>> cost = mechanism.cost(votes, labels)
    >>> round(cost.epsilon(delta=1e-5).data_independent, 3)
    0.158

A name is imported when it is first used. So `import nzc` is cheap, and mechanisms and accounting never import torch,
Hydra or MLflow.
"""
# isort: skip_file

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from nzc.accounting import Cost, Epsilon
    from nzc.accounting.calibration import calibrate
    from nzc.app.library import run, sweep
    from nzc.labeling.ledger import Ledger
    from nzc.labeling.ledger_entry import LedgerEntry
    from nzc.labeling.randomness import system_rng
    from nzc.mechanisms import (
        ABSTAIN, NZC, Abstentions, Boost, Confident, ContinuousNoise, Counts, CountsGaussian, GaussianNoise, GNMax,
        GroundTruth,
        Gumbel, GumbelNoise, Interactive, InteractiveScreen, LaplaceNoise, LNMax, Noise, NoisyArgmax, NoNoise,
        NZCGaussian, OwnCells, Plurality, Screen, SparseScreen, SparseStable, StabilityScreen, Stable, ThresholdScreen,
        audit, count_votes, ExponentialNoise, PermuteAndFlip,
    )  # fmt: skip
    from nzc.planning.budget import Plan, PlannedRun
    from nzc.runs.result import RunResult
    from nzc.sweeps.table import read_sweep
    from nzc.validation import InputError

__all__ = [
    "ABSTAIN", "NZC", "Abstentions", "Boost", "Confident", "ContinuousNoise", "Cost", "Counts", "CountsGaussian",
    "Epsilon", "ExponentialNoise", "GNMax", "GaussianNoise", "GroundTruth", "Gumbel", "GumbelNoise", "InputError",
    "Interactive", "InteractiveScreen", "LNMax", "LaplaceNoise", "Ledger", "LedgerEntry", "NZCGaussian", "NoNoise",
    "Noise", "NoisyArgmax", "OwnCells", "PermuteAndFlip", "Plan", "PlannedRun", "Plurality", "RunResult", "Screen",
    "SparseScreen", "SparseStable", "StabilityScreen", "Stable", "ThresholdScreen", "audit", "calibrate", "count_votes",
    "read_sweep", "run", "sweep", "system_rng",
]  # fmt: skip
#: The modules of names that are not in nzc.mechanisms.
_ELSEWHERE = {
    "accounting": ("Cost", "Epsilon"), "accounting.calibration": ("calibrate",), "app.library": ("run", "sweep"),
    "labeling.ledger": ("Ledger",), "labeling.ledger_entry": ("LedgerEntry",), "labeling.randomness": ("system_rng",),
    "mechanisms.plan": ("Plan", "PlannedRun"), "runs.result": ("RunResult",), "sweeps.table": ("read_sweep",),
    "validation": ("InputError",),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("nzc.version").__version__  # slow to import
    if name not in __all__:
        raise AttributeError(f"module 'nzc' has no attribute {name!r}")
    module = next((module for module, names in _ELSEWHERE.items() if name in names), "mechanisms")
    return getattr(import_module(f"nzc.{module}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
