"""Learn from private data with teacher ensembles, and say truthfully what it cost.

    >>> import numpy as np, nzc
    >>> votes = np.array([[230, 20], [140, 110]])             # [queries, classes] of 250 teachers
    >>> mechanism = nzc.GNMax(sigma=40)
    >>> labels = mechanism.release(votes, rng=np.random.default_rng(0))
    >>> cost = mechanism.cost(votes, labels)
    >>> round(cost.epsilon(delta=1e-5).data_independent, 3)
    0.158

A name is imported when it is first used. So `import nzc` is cheap, and mechanisms and accounting
never import torch, Hydra or MLflow.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nzc.accounting import Cost as Cost
    from nzc.accounting import Delta as Delta
    from nzc.accounting import Epsilon as Epsilon
    from nzc.accounting.calibration import calibrate as calibrate
    from nzc.app.library import run as run
    from nzc.app.library import sweep as sweep
    from nzc.mechanisms import *  # noqa: F403
    from nzc.planning.budget import Plan as Plan
    from nzc.planning.budget import PlannedRun as PlannedRun
    from nzc.privacy.ledger import Ledger as Ledger
    from nzc.privacy.ledger_entry import LedgerEntry as LedgerEntry
    from nzc.privacy.randomness import system_rng as system_rng
    from nzc.runs.result import RunResult as RunResult
    from nzc.sweeps.table import read_sweep as read_sweep
    from nzc.validation import InputError as InputError
    from nzc.version import __version__ as __version__

#: The modules of public names, but for those of nzc.mechanisms.
_MODULES = {
    "Cost": "accounting",
    "Delta": "accounting",
    "Epsilon": "accounting",
    "InputError": "validation",
    "Ledger": "privacy.ledger",
    "LedgerEntry": "privacy.ledger_entry",
    "Plan": "planning.budget",
    "PlannedRun": "planning.budget",
    "RunResult": "runs.result",
    "__version__": "version",
    "calibrate": "accounting.calibration",
    "read_sweep": "sweeps.table",
    "run": "app.library",
    "sweep": "app.library",
    "system_rng": "privacy.randomness",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"nzc.{_MODULES[name]}"), name)
    if name == "__all__":
        return [*_MODULES, *import_module("nzc.mechanisms").__all__]
    if not name.startswith("__") and name in import_module("nzc.mechanisms").__all__:
        return getattr(import_module("nzc.mechanisms"), name)
    raise AttributeError(f"module 'nzc' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__getattr__("__all__")]
