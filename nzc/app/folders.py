"""The subcommands nzc report and nzc sync, for folders of runs and sweeps, and nzc store, for what
runs have stored.
"""

import os
import sys
from collections.abc import Collection, Iterable
from contextlib import chdir
from pathlib import Path
from typing import Any

from filelock import Timeout
from omegaconf import OmegaConf
from rich.filesize import decimal
from rich.table import Table

from nzc.app.errors import Parser
from nzc.labeling.ledger import Ledger
from nzc.labeling.ledger_entry import RELEASE, TRIAL, LedgerEntry, protect_the_same, total_epsilon
from nzc.runs.formatting import number, short_mechanism, show
from nzc.runs.layout import SWEEP
from nzc.runs.result import RunResult
from nzc.runs.summary import result_table
from nzc.storage.predictions import Entry, PredictionStore
from nzc.tracking import MLflow, Tracker, cause, send, unsent, wait_at_most
from nzc.validation import InputError, between_0_and_1, in_a_line, positive


def report(arguments: list[str]) -> int:
    """Write the pages of sweeps, and print the tables of runs."""
    from nzc.sweeps.page import write_page
    from nzc.sweeps.table import Sweep

    parser = Parser(
        "nzc report",
        description="Write report.html into the folder of a sweep; print the table of a run.",
    )
    parser.add_argument(
        "folders", nargs="+", metavar="FOLDER", type=Path, help="outputs/… of a run or a sweep"
    )
    for folder in parser.parse_args(arguments).folders:
        try:
            is_sweep = (folder / SWEEP).is_file()
            show(
                str(write_page(Sweep(folder))) if is_sweep else result_table(RunResult.read(folder))
            )
        except Exception as error:  # of missing or damaged files
            allowed = f"must be the folder of a finished run or a sweep, with whole files ({in_a_line(error, 200)})"
            raise InputError("FOLDER", folder, allowed) from error
    return 0


def sync(arguments: list[str]) -> int:
    """Send runs that could not be tracked when they ran. Exit code 1: something could still not be
    sent.
    """
    parser = Parser("nzc sync", description="Send runs that could not be tracked when they ran.")
    parser.add_argument(
        "folders", nargs="*", default=["outputs"], metavar="FOLDER", help="where to look (outputs)"
    )
    parser.add_argument("--uri", help="tracking.uri, where not that of each run")
    parser.add_argument(
        "--wait", type=float, default=60, help="seconds to wait for a server (default 60)"
    )
    chosen = parser.parse_args(arguments)
    positive("--wait", chosen.wait)
    wait_at_most(chosen.wait)
    sent = failed = running = 0
    for root in map(Path, chosen.folders):
        if not root.is_dir():
            raise InputError("FOLDER", root, "must be a folder with runs in it")
        for folder in unsent(root):
            try:
                send(folder, _stored_tracker(folder, chosen.uri))
                sent += 1
            except Timeout:
                running += 1
            except Exception as error:
                failed += 1
                print(f"nzc: {folder}: {cause(error)}", file=sys.stderr)
    print(f"{sent} sent, {failed} not, {running} under way")
    return 1 if failed else 0


def _stored_tracker(folder: Path, uri: str | None) -> Tracker:
    """Return the tracker of a run or sweep in `folder`, which may be a stranger's: plain values,
    never a class.

    `uri` of the command line replaces that of the folder; only in it, ${oc.env:NAME} is resolved.
    """
    files = [SWEEP] if (folder / SWEEP).is_file() else [".hydra/config.yaml", ".hydra/hydra.yaml"]
    stored = OmegaConf.merge(*(OmegaConf.load(folder / file) for file in files))
    tree: Any = OmegaConf.to_container(stored, resolve=False)
    values = {
        key: tree["tracking"][key] for key in ("uri", "artifacts", "model", "register", "private")
    }
    values |= {} if uri is None else {"uri": OmegaConf.create({"uri": uri}).uri}
    for key, value in values.items():
        if "${" in str(value):
            raise InputError(
                f"tracking.{key}", value, "must be a plain value in a stored run, or given by --uri"
            )
    home = Path(tree["hydra"]["runtime"]["cwd"])  # relative paths of the configuration start here
    with chdir(home if uri is None and home.is_dir() else "."):
        return MLflow(**values, system_metrics=False)  # they would be this machine's


def store(arguments: list[str]) -> int:
    """List stored predictions, releases and trials; or remove predictions, forget trials, or name
    datasets.
    """
    about = "List stored predictions and the ledger's releases and trials; or remove, forget or name some of them."
    parser = Parser("nzc store", description=about)
    parser.add_argument(
        "--root", default=".nzc", help="the store (default .nzc): the value of paths.store"
    )
    ledgers = "the ledger's file (default: that of NZC_LEDGER, or else in the store): the value of paths.ledger"
    parser.add_argument("--ledger", default=os.environ.get("NZC_LEDGER"), help=ledgers)
    parser.add_argument(
        "--delta", type=float, default=1e-5, help="δ of the ledger's ε (default 1e-5)"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--prune",
        nargs="+",
        metavar="KEY",
        help="remove these entries; the start of a key is enough",
    )
    what.add_argument(
        "--all", action="store_true", help="remove every entry; the ledger always stays"
    )
    forgotten = "forget these trials, without KEY all; do so only if nobody has seen their labels"
    what.add_argument("--forget", nargs="*", metavar="KEY", help=forgotten)
    named = "name the people whom these private datasets are about: costs under one name add up"
    what.add_argument("--name", nargs="+", metavar=("NAME", "DATASET"), help=named)
    parser.add_argument(
        "--yes", action="store_true", help="do it: without, --prune, --all and --forget only list"
    )
    chosen = parser.parse_args(arguments)
    between_0_and_1("--delta", chosen.delta)
    if not Path(chosen.root).is_dir():
        raise InputError("--root", chosen.root, "must be a folder that a run has stored in")
    kept = PredictionStore(chosen.root, ledger=chosen.ledger)
    ledger = Ledger(kept.ledger) if kept.ledger.is_file() else None
    entries = ledger.entries() if ledger else []
    if chosen.name is not None:
        _name(ledger, entries, *chosen.name)
    elif chosen.forget is not None:
        _forget(ledger, [entry for entry in entries if entry.kind == TRIAL], chosen)
    elif chosen.prune is not None or chosen.all:
        stored = {entry.path.name: entry for entry in kept.entries()}
        keys = stored if chosen.all else _whole_keys("--prune", chosen.prune, stored, "stored key")
        _show_entries([stored[key] for key in keys])
        _require(chosen.yes)
        for key in keys:
            kept.remove(stored[key])
        print(f"removed {len(keys)} entries; the ledger stays")
    else:
        _show_entries(kept.entries())
        if ledger is not None:
            _show_ledger(ledger, entries, chosen.delta)
    return 0


def _name(ledger: Ledger | None, entries: list[LedgerEntry], name: str, *starts: str) -> None:
    """Give a name to the private datasets whose digests begin so."""
    datasets = _whole_keys(
        "--name", starts, {entry.dataset for entry in entries}, "private dataset"
    )
    if ledger is None or not datasets:
        raise InputError(
            "--name",
            name,
            "must be given with the start of a private dataset that the ledger lists",
        )
    for dataset in datasets:
        ledger.name(dataset, name)
    print(
        f"{name}: {', '.join(sorted(digest[:8] for digest in ledger.counted_with(datasets[0])))} count together"
    )


def _forget(ledger: Ledger | None, trials: list[LedgerEntry], chosen: Any) -> None:
    """Forget trials: those whose keys begin as chosen, or all where none is given."""
    if chosen.forget:
        what = "key of a trial (a release is never forgotten)"
        keys = _whole_keys("--forget", chosen.forget, [entry.key for entry in trials], what)
        trials = [entry for entry in trials if entry.key in keys]
    if ledger is None or not trials:
        print("nothing to forget")
        return
    _show_trials(trials, chosen.delta)
    print("Forget a trial only if nobody has seen its labels, or made a choice by them.")
    _require(chosen.yes)
    ledger.forget(trials)
    print(f"forgot {len(trials)} trials; releases stay, and so do the folders of the runs")


def _whole_keys(option: str, starts: Iterable[str], known: Collection[str], what: str) -> list[str]:
    """Return the known keys that begin with `starts`, one each."""
    keys: dict[str, None] = {}
    for start in starts:
        match = [key for key in known if key.startswith(start)]
        if len(match) != 1:
            raise InputError(option, start, f"must be the start of one {what}, not of {len(match)}")
        keys[match[0]] = None
    return list(keys)


def _require(yes: bool) -> None:
    if not yes:
        raise InputError("--yes", False, "must be given to do so with what is listed above")


def _show_entries(entries: list[Entry]) -> None:
    table = Table(
        title=f"{len(entries)} stored, {decimal(sum(entry.bytes for entry in entries))}",
        title_style="bold",
    )
    for name in ("key", "data", "settings", "size", "days", "state"):
        table.add_column(
            name, overflow="fold", justify="right" if name in ("size", "days") else "left"
        )
    for entry in entries:
        request = {"count": None, **entry.request}  # count first
        data = str(request.pop("data", "–"))[:8]
        settings = " ".join(
            f"{k}={_short(v)}" for k, v in request.items() if v is not None and k != "code"
        )
        table.add_row(
            entry.path.name, data, settings, decimal(entry.bytes), f"{entry.days:.1f}", entry.state
        )
    show(table)


def _show_ledger(ledger: Ledger, entries: list[LedgerEntry], delta: float) -> None:
    """Show a line for each private dataset, or for several that a name connects, and below them
    every trial.
    """
    totals = f"ε of all releases, δ = {delta:g}", "trials", "ε with all trials"
    title = (
        "what was released from private data about the same people, whether it was published or not"
    )
    table = Table(
        "data, and names", "releases", "last, UTC", *totals, title=title, title_style="bold"
    )
    names = ledger.names()
    for same in dict.fromkeys(frozenset(ledger.counted_with(entry.dataset)) for entry in entries):
        own = [entry for entry in entries if entry.dataset in same]
        titles = sorted(digest[:8] for digest in same) + sorted(
            {name for key in same for name in names.get(key, ())}
        )
        releases = [entry for entry in own if entry.kind == RELEASE]
        last = max((entry.recorded for entry in releases), default="–")
        seeded = str(len(own) - len(releases))
        table.add_row(
            ", ".join(titles),
            str(len(releases)),
            last,
            _total(releases, delta),
            seeded,
            _total(own, delta),
        )
    show(table)
    if trials := [entry for entry in entries if entry.kind == TRIAL]:
        _show_trials(trials, delta)


def _total(entries: list[LedgerEntry], delta: float) -> str:
    """Return ε of entries together, as it is shown, and why it is ∞ where their costs have no sum."""
    total = number(total_epsilon(entries, delta))
    return total if protect_the_same(entries) else f"{total}: they protect different things"


def _show_trials(trials: list[LedgerEntry], delta: float) -> None:
    columns = (
        "key",
        "private dataset",
        "mechanism",
        "labels",
        "recorded, UTC",
        f"ε at δ = {delta:g}",
    )
    title = "trials, whose noise has a seed: their cost counts if somebody used their labels or passed them on"
    table = Table(*columns, title=title, title_style="bold")
    for entry in trials:
        mechanism = short_mechanism(entry.description)
        labels = str((entry.facts or {}).get("answered", "–"))
        epsilon = number(total_epsilon([entry], delta))
        table.add_row(entry.key[:12], entry.dataset[:8], mechanism, labels, entry.recorded, epsilon)
    show(table)


def _short(value: Any) -> str:
    """Return a setting of a stored request in few words: Tree(max_depth=3)."""
    if isinstance(value, dict):
        inside = (
            f"{key}={_short(item)}"
            for key, item in value.items()
            if key not in ("class", "source", "version")
        )
        return f"{str(value.get('class', '')).rpartition('.')[2]}({', '.join(inside)})"
    return f"{value:g}" if isinstance(value, float) else str(value)
