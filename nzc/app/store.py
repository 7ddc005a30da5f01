"""The subcommand nzc store: list, remove or name what runs have stored, and forget trials."""

import sys
from pathlib import Path
from typing import Any

from rich.table import Table

from nzc.app.errors import Parser
from nzc.labeling.ledger import Ledger
from nzc.labeling.ledger_entry import RELEASE, TRIAL, LedgerEntry, total_epsilon
from nzc.runs.formatting import number, show
from nzc.storage.predictions import Entry, PredictionStore
from nzc.validation import InputError, between_0_and_1, not_negative


def store(arguments: list[str]) -> int:
    """List stored predictions, releases and trials; or remove predictions, forget trials, or name datasets."""
    about = "List stored predictions, and the ledger's releases and trials; or remove predictions, or forget trials."
    parser = Parser("nzc store", description=about)
    parser.add_argument("--root", default=".nzc", help="the store (default .nzc): the value of paths.store")
    parser.add_argument("--delta", type=float, default=1e-5, help="δ of the ledger's ε (default 1e-5)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--prune", nargs="+", metavar="KEY", help="remove these entries; the start of a key is enough")
    what.add_argument("--older", type=float, metavar="DAYS", help="remove entries written more than so many days ago")
    what.add_argument("--all", action="store_true", help="remove every entry; the ledger always stays")
    forgotten = "forget these trials on seeded noise, without KEY all; honest only if nobody saw their labels"
    what.add_argument("--forget", nargs="*", metavar="KEY", help=forgotten)
    named = "name these private datasets: the ledger counts all of one name together"
    what.add_argument("--name", nargs="+", metavar=("NAME", "DATASET"), help=named)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    chosen = parser.parse_args(arguments)
    between_0_and_1(**{"--delta": chosen.delta})
    if not Path(chosen.root).is_dir():
        raise InputError("--root", chosen.root, "must be a folder that a run has stored in")
    kept = PredictionStore(chosen.root)
    ledger = Ledger(path) if (path := kept.ledger).is_file() else None
    if chosen.name is not None:
        return _name(ledger, *chosen.name)
    if chosen.forget is not None:
        return _forget(ledger, chosen.forget, chosen.delta, chosen.yes)
    listing = chosen.prune is None and chosen.older is None and not chosen.all
    entries = _choose(kept.entries(), chosen.prune, chosen.older)
    if not (entries or listing):
        print("nothing to remove")
        return 0
    _show_entries(entries)
    if listing:
        if ledger is not None:
            _show_ledger(ledger, chosen.delta)
        return 0
    if not (chosen.yes or _agreed(f"remove {len(entries)} entries?")):
        return 1
    for entry in entries:
        kept.remove(entry)
    print(f"removed {len(entries)} entries; the ledger stays")
    return 0


def _choose(entries: list[Entry], keys: list[str] | None, older: float | None) -> list[Entry]:
    if older is not None:
        not_negative(**{"--older": older})
        return [entry for entry in entries if entry.days > older]
    if keys is None:
        return entries
    chosen = _whole_keys("--prune", keys, [entry.path.name for entry in entries], "stored key")
    return [entry for entry in entries if entry.path.name in chosen]


def _name(ledger: Ledger | None, name: str, *datasets: str) -> int:
    """Give a name to the private datasets whose digests begin so."""
    known = [] if ledger is None else list(dict.fromkeys(entry.dataset for entry in ledger.entries()))
    chosen = _whole_keys("--name", list(datasets), known, "private dataset")
    if ledger is None or not chosen:
        raise InputError("--name", name, "must be given with the start of a private dataset that the ledger lists")
    for dataset in sorted(chosen):
        ledger.name(dataset, name)
    print(f"{name}: {', '.join(sorted(each[:8] for each in ledger.counted_with(min(chosen))))} count together")
    return 0


def _forget(ledger: Ledger | None, keys: list[str], delta: float, yes: bool) -> int:
    """Forget trials: those of these keys, or all where there is none."""
    trials = [] if ledger is None else [entry for entry in ledger.entries() if entry.kind == TRIAL]
    if keys:
        what = "key of a trial (a release is never forgotten)"
        chosen = _whole_keys("--forget", keys, [entry.key for entry in trials], what)
        trials = [entry for entry in trials if entry.key in chosen]
    if ledger is None or not trials:
        print("nothing to forget")
        return 0
    _show_trials(trials, delta)
    print("To forget a trial is honest only if nobody saw its labels, or chose anything by them.")
    if not (yes or _agreed(f"forget {len(trials)} trials?")):
        return 1
    ledger.forget(trials)
    print(f"forgot {len(trials)} trials; releases stay, and so do the folders of the runs")
    return 0


def _whole_keys(option: str, starts: list[str], known: list[str], what: str) -> set[str]:
    """Return the known keys that begin with `starts`, one each."""
    chosen = set()
    for start in starts:
        found = [start] if start in known else [key for key in known if key.startswith(start)]
        if len(found) != 1:
            raise InputError(option, start, f"must be the start of one {what}, not of {len(found)}")
        chosen.update(found)
    return chosen


def _agreed(question: str) -> bool:
    if not sys.stdin.isatty():
        raise InputError("--yes", False, "must be given where no one can be asked")
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")


def _show_entries(entries: list[Entry]) -> None:
    table = Table(title=f"{len(entries)} stored, {_size(sum(entry.bytes for entry in entries))}", title_style="bold")
    for name in ("key", "data", "settings", "size", "days", "state"):
        table.add_column(name, overflow="fold", justify="right" if name in ("size", "days") else "left")
    for entry in entries:
        told = {"count": None, **entry.request, "data": None, "code": None}  # count first
        settings = " ".join(f"{key}={_short(value)}" for key, value in told.items() if value is not None)
        data = str(entry.request.get("data", "–"))[:8]
        table.add_row(entry.path.name, data, settings, _size(entry.bytes), f"{entry.days:.1f}", entry.state)
    show(table)


def _show_ledger(ledger: Ledger, delta: float) -> None:
    """Show a line for each private dataset, or for several that a name connects, and below them every trial."""
    columns = ("private dataset", "releases", "last, UTC", f"ε of releases at δ = {delta:g}", "trials", "ε with trials")
    table = Table(*columns, title="the ledger: releases are never forgotten", title_style="bold")
    entries, names = ledger.entries(), ledger.names()
    datasets = dict.fromkeys(entry.dataset for entry in entries)
    for same in dict.fromkeys(frozenset(ledger.counted_with(dataset)) for dataset in datasets):
        of = [entry for entry in entries if entry.dataset in same]
        called = [*sorted(each[:8] for each in same), *sorted({name for each in same for name in names.get(each, ())})]
        releases = [entry for entry in of if entry.kind == RELEASE]
        last = max((entry.recorded for entry in releases), default="–")
        total, with_trials = (number(total_epsilon(some, delta)) for some in (releases, of))
        table.add_row(", ".join(called), str(len(releases)), last, total, str(len(of) - len(releases)), with_trials)
    show(table)
    if trials := [entry for entry in entries if entry.kind == TRIAL]:
        _show_trials(trials, delta)


def _show_trials(trials: list[LedgerEntry], delta: float) -> None:
    columns = ("key", "private dataset", "aggregator", "labels", "recorded, UTC", f"ε at δ = {delta:g}")
    title = "trials on seeded noise: they count if anyone acted on their labels or passed them on"
    table = Table(*columns, title=title, title_style="bold")
    for entry in trials:
        labels, epsilon = str((entry.facts or {}).get("answered", "–")), number(total_epsilon([entry], delta))
        table.add_row(entry.key[:12], entry.dataset[:8], entry.description, labels, entry.recorded, epsilon)
    show(table)


def _short(value: Any) -> str:
    if isinstance(value, dict):
        inside = (f"{key}={_short(item)}" for key, item in value.items() if key not in ("class", "source", "version"))
        return f"{str(value.get('class', '')).rpartition('.')[2]}({', '.join(inside)})"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
