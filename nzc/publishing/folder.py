"""The published folder: check a run against the ledger, and copy what may be published of it.

docs/label.md says what the folder has. Accuracies are not published: the true labels behind them
have no protection.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from omegaconf import OmegaConf

from nzc.privacy.ledger import Ledger
from nzc.privacy.ledger_entry import RELEASE, LedgerEntry
from nzc.privacy.promise import Promise
from nzc.privacy.totals import People, Total
from nzc.publishing.statement import statement
from nzc.runs.formatting import number
from nzc.runs.layout import (
    COUNTS,
    ERROR,
    LABELS,
    PREDICTIONS,
    RESULT,
    STUDENT,
    STUDENT_INPUT,
    SWEEP,
)
from nzc.runs.outputs import student_code
from nzc.runs.publishable import own_names, require_name, require_publishable
from nzc.validation import InputError, Tree, in_a_line

_CONFIGURATION = (".hydra/config.yaml", ".hydra/hydra.yaml")


@dataclass(frozen=True)
class FinishedRun:
    """A finished run, as its folder has it."""

    folder: Path
    records: dict[str, bytes]  # contents of result.json and the configuration, by name
    released: dict[str, bytes]  # of the files that may be published
    result: Tree
    config: Any

    @property
    def promised(self) -> tuple[float, float, str]:
        """ε, δ and neighbours that the run states."""
        epsilon = self.result["epsilon"]
        delta = float(epsilon.get("published_delta", self.result["delta"]))
        return epsilon["published"], delta, self.result["neighbours"]


def write_published(
    run: FinishedRun,
    dest: Path,
    path: Path,
    name: str | None,
    promise_of: Callable[[list[int]], Promise],
) -> list[str]:
    """Create the folder `dest`, whole or not at all, with what may be published of a run.

    Return in lines what it costs, and what all folders about these people cost. InputError: the run
    may not be published, is not as it was written, or `dest` exists or cannot be created.

    path        the ledger's file, which knows the run
    name        whom the private data are about; None: the name in the ledger, if there is one
    promise_of  returns the promise that follows from the run's configuration, by sizes of rounds
    """
    if dest.exists() or run.folder.resolve() in dest.resolve().parents:
        raise InputError("DEST", dest, "must not exist yet, and must not be in the run's folder")
    if not path.is_file():
        raise InputError(
            "--store", path, "must be the ledger that knows this run, or the store with it"
        )
    ledger = Ledger(path)
    digest = sha256(run.records[RESULT]).hexdigest()
    dataset, facts, entries = _recorded(ledger, run, digest)
    _require_enough(run, promise_of(facts["sizes"]), entries)
    own = own_names(run.config.dataset, run.result["dataset"])
    name = require_name("--name", name, ledger.names().get(dataset, own))
    ledger.name(dataset, name)
    given = OmegaConf.select(run.config, "budget.total")
    if given is not None:
        ledger.limit(dataset, given)
    people = People(ledger, dataset, name)
    total = people.total_with(run.promised, people.limit(given), digest)
    _write(dest.absolute(), _contents(run, name, total))
    return _lines(run, name, total)


def read_run(folder: Path) -> FinishedRun:
    """Read once what is published of a run. InputError: it is not one, or may not be published."""
    if not (folder / _CONFIGURATION[0]).is_file() or (folder / SWEEP).is_file():
        raise InputError("RUN", folder, "must be the folder of one run, below outputs/")
    if not (folder / RESULT).is_file() or (folder / ERROR).is_file():  # of an earlier job
        raise InputError(
            "RUN", folder, "must be finished; there is no result.json of its own in it"
        )
    try:
        records = _read(folder, [RESULT, *_CONFIGURATION])
        config: Any = OmegaConf.merge(
            *(OmegaConf.create(records[name].decode()) for name in _CONFIGURATION)
        )
        result = json.loads(records[RESULT])
        require_publishable(
            result["rng"],
            result["epsilon"]["published"],
            (result["data"] or {}).get("undeclared_classes"),
            OmegaConf.select(config, "baseline"),
        )
        names = [LABELS]
        if (folder / COUNTS).exists():
            names.append(COUNTS)
        if result["student"] != "none" and result["answered"]:
            names += [STUDENT, STUDENT_INPUT, PREDICTIONS]
        released = _read(folder, names)
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            "RUN",
            folder,
            "must have the files that the run wrote; one is missing, is changed, or is older "
            f"({in_a_line(error)})",
        ) from error
    return FinishedRun(folder, records, released, result, config)


def _read(folder: Path, names: list[str]) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in names}


def _recorded(ledger: Ledger, run: FinishedRun, digest: str) -> tuple[str, Tree, list[LedgerEntry]]:
    """Return what the ledger has of a run. InputError: the run did not write these files."""
    recorded = ledger.run(digest)
    if recorded is None:
        raise InputError(
            "RUN",
            run.folder,
            f"must have the result.json that {ledger.path} has recorded; the run is not finished, "
            "has been changed, or is in another ledger (--store)",
        )
    _, facts, entries = recorded
    for name, content in (run.records | run.released).items():
        if facts["files"].get(name) != sha256(content).hexdigest():
            raise InputError(
                "RUN",
                run.folder,
                f"must have the {name} that the run wrote; it has been changed",
            )
    releases = [entry for entry in entries if entry.kind == RELEASE]
    if len(releases) < len(facts["entries"]):
        raise InputError(
            "RUN",
            run.folder,
            f"must have its releases in {ledger.path}, where one is missing",
        )
    return recorded


def _require_enough(run: FinishedRun, promise: Promise, entries: list[LedgerEntry]) -> None:
    """Raise InputError where the run states less than its configuration promises."""
    sanitised = None
    if promise.plan is not None:  # then it was drawn, and only the ledger knows it
        sanitised = float(np.frombuffer(entries[-1].labels)[0])
    stated = run.promised[0]
    least = promise.published(sanitised)
    if not least * (1 - 1e-9) <= stated < math.inf:
        raise InputError(
            "epsilon.published",
            stated,
            f"must be at least {least:.6g}, which follows from the configuration",
        )


def _contents(run: FinishedRun, name: str, total: Total) -> dict[str, bytes]:
    """Return the files of the published folder by name; `name` and `total` are of the people."""
    texts = statement(run.result, run.config.budget.epsilon, run.released, name, total)
    if STUDENT in run.released:
        texts |= student_code(json.loads(run.released[STUDENT_INPUT]))
    return run.released | {file: text.encode() for file, text in texts.items()}


def _write(dest: Path, contents: dict[str, bytes]) -> None:
    try:
        dest.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".publish-", dir=dest.parent) as temporary:
            partial = Path(temporary, dest.name)
            partial.mkdir()
            for name, content in contents.items():
                (partial / name).write_bytes(content)
                (partial / name).chmod(0o644)  # unlike the run, it is for others
            partial.chmod(0o755)
            partial.rename(dest)
    except OSError as error:
        raise InputError(
            "DEST", dest, f"must be a folder that can be created ({error.strerror})"
        ) from error


def _lines(run: FinishedRun, name: str, total: Total) -> list[str]:
    """Return what this folder costs, and what all folders about these people cost."""
    epsilon, delta, _ = run.promised
    folders = "only published folder"
    if total.folders > 1:
        folders = f"{total.folders} published folders"
    why = ""
    if math.isinf(total.epsilon):
        why = "; they protect different things, so their ε have no sum"
    elif total.limit is not None:
        why = f"; budget.total allows ε = {total.limit:g}"
    return [
        f"this folder: ε = {number(epsilon)} at δ = {delta:g}, "
        f"unit of privacy: {run.result['unit']}",
        f"the {folders} about {name}: ε = {number(total.epsilon)} at δ = {total.delta:g}{why}",
    ]
