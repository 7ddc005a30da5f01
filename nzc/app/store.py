"""The subcommand nzc store: list, remove or name what runs have stored, and forget trials."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.filesize import decimal
from rich.table import Table

from nzc.app.errors import Parser
from nzc.labeling.ledger import Ledger
from nzc.labeling.ledger_entry import RELEASE, TRIAL, LedgerEntry, total_epsilon
from nzc.runs.formatting import number, show
from nzc.storage.predictions import Entry, PredictionStore
from nzc.validation import InputError, between_0_and_1


def store(arguments: list[str]) -> int:
    """List stored predictions, releases and trials; or remove predictions, forget trials, or name datasets."""
    about = "List stored predictions and the ledger's releases and trials; or remove, forget or name some of them."
    parser = Parser("nzc store", description=about)
    parser.add_argument("--root", default=".nzc", help="the store (default .nzc): the value of paths.store")
    ledgers = "the ledger's file (default: that of NZC_LEDGER, or else in the store): the value of paths.ledger"
    parser.add_argument("--ledger", default=os.environ.get("NZC_LEDGER"), help=ledgers)
    parser.add_argument("--delta", type=float, default=1e-5, help="δ of the ledger's ε (default 1e-5)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--prune", nargs="+", metavar="KEY", help="remove these entries; the start of a key is enough")
    what.add_argument("--all", action="store_true", help="remove every entry; the ledger always stays")
    forgotten = "forget these trials, without KEY all; do so only if nobody has seen their labels"
    what.add_argument("--forget", nargs="*", metavar="KEY", help=forgotten)
    named = "name the people whom these private datasets are about: costs under one name add up"
    what.add_argument("--name", nargs="+", metavar=("NAME", "DATASET"), help=named)
    parser.add_argument("--yes", action="store_true", help="do it: without, --prune, --all and --forget only list")
    chosen = parser.parse_args(arguments)
    between_0_and_1(**{"--delta": chosen.delta})
    if not Path(chosen.root).is_dir():
        raise InputError("--root", chosen.root, "must be a folder that a run has stored in")
    kept = PredictionStore(chosen.root, ledger=chosen.ledger)
    ledger = Ledger(kept.ledger) if kept.ledger.is_file() else None
    if chosen.name is not None:
        _name(ledger, *chosen.name)
    elif chosen.forget is not None:
        _forget(ledger, chosen.forget, chosen.delta, chosen.yes)
    elif chosen.prune is not None or chosen.all:
        _prune(kept, chosen.prune, chosen.yes)
    else:
        _show_entries(kept.entries())
        if ledger is not None:
            _show_ledger(ledger, chosen.delta)
    return 0


def _prune(kept: PredictionStore, starts: list[str] | None, yes: bool) -> None:
    """Remove entries: those whose keys begin so, or all."""
    entries = {entry.path.name: entry for entry in kept.entries()}
    keys = entries if starts is None else _whole_keys("--prune", starts, entries, "stored key")
    _show_entries([entries[key] for key in keys])
    _require(yes)
    for key in keys:
        kept.remove(entries[key])
    print(f"removed {len(keys)} entries; the ledger stays")


def _name(ledger: Ledger | None, name: str, *starts: str) -> None:
    """Give a name to the private datasets whose digests begin so."""
    known = [] if ledger is None else [entry.dataset for entry in ledger.entries()]
    datasets = _whole_keys("--name", starts, known, "private dataset")
    if ledger is None or not datasets:
        raise InputError("--name", name, "must be given with the start of a private dataset that the ledger lists")
    for dataset in datasets:
        ledger.name(dataset, name)
    print(f"{name}: {', '.join(sorted(digest[:8] for digest in ledger.counted_with(datasets[0])))} count together")


def _forget(ledger: Ledger | None, starts: list[str], delta: float, yes: bool) -> None:
    """Forget trials: those whose keys begin so, or all where none is given."""
    trials = [] if ledger is None else [entry for entry in ledger.entries() if entry.kind == TRIAL]
    if starts:
        what = "key of a trial (a release is never forgotten)"
        keys = _whole_keys("--forget", starts, [entry.key for entry in trials], what)
        trials = [entry for entry in trials if entry.key in keys]
    if ledger is None or not trials:
        print("nothing to forget")
        return
    _show_trials(trials, delta)
    print("Forget a trial only if nobody has seen its labels, or made a choice by them.")
    _require(yes)
    ledger.forget(trials)
    print(f"forgot {len(trials)} trials; releases stay, and so do the folders of the runs")


def _whole_keys(option: str, starts: Iterable[str], known: Iterable[str], what: str) -> list[str]:
    """Return the known keys that begin with `starts`, one each."""
    keys = []
    for start in starts:
        match = [key for key in dict.fromkeys(known) if key.startswith(start)]
        if len(match) != 1:
            raise InputError(option, start, f"must be the start of one {what}, not of {len(match)}")
        keys += match
    return list(dict.fromkeys(keys))


def _require(yes: bool) -> None:
    if not yes:
        raise InputError("--yes", False, "must be given to do so with what is listed above")


def _show_entries(entries: list[Entry]) -> None:
    table = Table(title=f"{len(entries)} stored, {decimal(sum(entry.bytes for entry in entries))}", title_style="bold")
    for name in ("key", "data", "settings", "size", "days", "state"):
        table.add_column(name, overflow="fold", justify="right" if name in ("size", "days") else "left")
    for entry in entries:
        request = {"count": None, **entry.request}  # count first
        data = str(request.pop("data", "–"))[:8]
        settings = " ".join(f"{k}={_short(v)}" for k, v in request.items() if v is not None and k != "code")
        table.add_row(entry.path.name, data, settings, decimal(entry.bytes), f"{entry.days:.1f}", entry.state)
    show(table)


def _show_ledger(ledger: Ledger, delta: float) -> None:
    """Show a line for each private dataset, or for several that a name connects, and below them every trial."""
    totals = f"ε of all releases, δ = {delta:g}", "trials", "ε with all trials"
    title = "what was released from private data about the same people, whether it was published or not"
    table = Table("data, and names", "releases", "last, UTC", *totals, title=title, title_style="bold")
    entries, names = ledger.entries(), ledger.names()
    for same in dict.fromkeys(frozenset(ledger.counted_with(entry.dataset)) for entry in entries):
        own = [entry for entry in entries if entry.dataset in same]
        titles = sorted(digest[:8] for digest in same) + sorted({name for key in same for name in names.get(key, ())})
        releases = [entry for entry in own if entry.kind == RELEASE]
        last = max((entry.recorded for entry in releases), default="–")
        total, with_trials = (number(total_epsilon(some, delta)) for some in (releases, own))
        table.add_row(", ".join(titles), str(len(releases)), last, total, str(len(own) - len(releases)), with_trials)
    show(table)
    if trials := [entry for entry in entries if entry.kind == TRIAL]:
        _show_trials(trials, delta)


def _show_trials(trials: list[LedgerEntry], delta: float) -> None:
    columns = ("key", "private dataset", "aggregator", "labels", "recorded, UTC", f"ε at δ = {delta:g}")
    title = "trials, whose noise has a seed: their cost counts if somebody used their labels or passed them on"
    table = Table(*columns, title=title, title_style="bold")
    for entry in trials:
        labels, epsilon = str((entry.facts or {}).get("answered", "–")), number(total_epsilon([entry], delta))
        table.add_row(entry.key[:12], entry.dataset[:8], entry.description, labels, entry.recorded, epsilon)
    show(table)


def _short(value: Any) -> str:
    """Return a setting of a stored request in few words: Tree(max_depth=3)."""
    if isinstance(value, dict):
        inside = (f"{key}={_short(item)}" for key, item in value.items() if key not in ("class", "source", "version"))
        return f"{str(value.get('class', '')).rpartition('.')[2]}({', '.join(inside)})"
    return f"{value:g}" if isinstance(value, float) else str(value)
