"""The subcommand nzc publish: check a run against the ledger, and copy what may be published of it."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf.errors import OmegaConfBaseException

from nzc.accounting.epsilon import SANITISED
from nzc.app.components import build_policy
from nzc.app.errors import Parser
from nzc.labeling.ledger import Ledger
from nzc.labeling.ledger_entry import RELEASE, LedgerEntry
from nzc.labeling.promise import Promise
from nzc.runs import publish as runs
from nzc.storage.predictions import PredictionStore
from nzc.validation import InputError


def publish(arguments: list[str]) -> int:
    """Create a folder with what may be published of a run."""
    parser = Parser("nzc publish", description="Create a folder with what may be published of a finished run.")
    parser.add_argument("run", metavar="RUN", type=Path, help="outputs/… of a run with rng=system")
    parser.add_argument("dest", metavar="DEST", type=Path, help="a folder that does not exist yet")
    known = "the store whose ledger knows the run (default: that of the run's configuration)"
    parser.add_argument("--store", type=Path, help=known)
    chosen = parser.parse_args(arguments)
    publish_run(chosen.run, chosen.dest, chosen.store)
    print(chosen.dest)
    return 0


def publish_run(folder: Path, dest: Path, store: Path | None = None) -> None:
    """Create the folder `dest` with what may be published of the run in `folder`.

    store  the one whose ledger knows the run; None: that of the run's configuration
    InputError: the run may not be published, is not as it was written, or `dest` exists.
    """
    run = runs.read_run(folder)
    if folder.resolve() in dest.resolve().parents:
        raise InputError("DEST", dest, "must be a new folder outside the run's")
    cfg = run.config
    try:
        store = store or Path(cfg.hydra.runtime.cwd) / cfg.paths.store
    except OmegaConfBaseException as error:  # it is not known yet whether the run wrote these files
        raise InputError("RUN", folder, "must have the configuration that the run wrote") from error
    facts, entries = _recorded(run, PredictionStore(store).ledger)
    policy, stated = build_policy(cfg, facts["moved"]), run.result["epsilon"]["published"]
    drawn = policy.publish == SANITISED  # then the ledger knows the ε; otherwise it follows from the configuration
    promised = float(np.frombuffer(entries[-1].labels)[0]) if drawn else Promise(policy, facts["sizes"]).epsilon
    if not stated >= promised * (1 - 1e-9) or not math.isfinite(stated):
        allowed = f"must be at least {promised:.6g}, which follows from the configuration"
        raise InputError("epsilon.published", stated, allowed)
    run.publish(dest.absolute(), cfg.budget.epsilon)


def _recorded(run: runs.PublishableRun, path: Path) -> tuple[dict[str, Any], list[LedgerEntry]]:
    """Return what the ledger knows of the run. InputError: it does not know the run, its files, or its releases."""
    if not path.is_file():
        raise InputError("--store", path.parent, "must be the store whose ledger.db knows this run")
    if (recorded := Ledger(path).run(run.digest)) is None:
        unknown = "it is not finished, has been changed, or is of a version that recorded none: run it again"
        raise InputError("RUN", run.folder, f"must have the result.json that {path} has recorded; {unknown}")
    facts, entries = recorded
    run.require_files(facts["files"])
    if len(entries) < len(facts["entries"]) or any(entry.kind != RELEASE for entry in entries):
        raise InputError("RUN", run.folder, f"must have its releases in {path}, where one is missing")
    return facts, entries
