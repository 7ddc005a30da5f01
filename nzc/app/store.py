"""The subcommand nzc store: stored predictions, and the releases and trials of the ledger."""

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from rich.filesize import decimal
from rich.table import Table

from nzc.app.errors import Parser
from nzc.labeling.ledger import Ledger
from nzc.labeling.ledger_entry import RELEASE, TRIAL, LedgerEntry, protect_the_same, total_epsilon
from nzc.runs.formatting import number, short_mechanism, show
from nzc.storage.predictions import Entry, PredictionStore
from nzc.validation import InputError, between_0_and_1


def store(arguments: list[str]) -> int:
    """List what is stored; or remove predictions, forget trials, or name datasets."""
    chosen = _parser().parse_args(arguments)
    between_0_and_1("--delta", chosen.delta)
    if not Path(chosen.root).is_dir():
        raise InputError("--root", chosen.root, "must be a folder that a run has stored in")
    predictions = PredictionStore(chosen.root, ledger=chosen.ledger)
    ledger = Ledger(predictions.ledger) if predictions.ledger.is_file() else None
    entries = ledger.entries() if ledger else []
    if chosen.name is not None:
        _name(ledger, entries, *chosen.name)
    elif chosen.forget is not None:
        _forget(ledger, [entry for entry in entries if entry.kind == TRIAL], chosen)
    elif chosen.prune is not None or chosen.all:
        _prune(predictions, chosen)
    else:
        _show_predictions(predictions.entries())
        if ledger is not None:
            _show_ledger(ledger, entries, chosen.delta)
    return 0


def _parser() -> Parser:
    about = "List stored predictions and the ledger's releases and trials; or change some of them."
    parser = Parser("nzc store", description=about)
    root = "the store (default .nzc): the value of paths.store"
    parser.add_argument("--root", default=".nzc", help=root)
    ledger = "the ledger's file, the value of paths.ledger (default: NZC_LEDGER, or in the store)"
    parser.add_argument("--ledger", default=os.environ.get("NZC_LEDGER"), help=ledger)
    delta = "δ of the ledger's ε (default 1e-5)"
    parser.add_argument("--delta", type=float, default=1e-5, help=delta)
    what = parser.add_mutually_exclusive_group()
    pruned = "remove these entries; the start of a key is enough"
    what.add_argument("--prune", nargs="+", metavar="KEY", help=pruned)
    everything = "remove every entry; the ledger always stays"
    what.add_argument("--all", action="store_true", help=everything)
    forgotten = "forget these trials, without KEY all; do so only if nobody has seen their labels"
    what.add_argument("--forget", nargs="*", metavar="KEY", help=forgotten)
    named = "name the people whom these private datasets are about: costs under one name add up"
    what.add_argument("--name", nargs="+", metavar=("NAME", "DATASET"), help=named)
    confirmed = "do it: without, --prune, --all and --forget only list"
    parser.add_argument("--yes", action="store_true", help=confirmed)
    return parser


def _name(ledger: Ledger | None, entries: list[LedgerEntry], name: str, *starts: str) -> None:
    """Give a name to the private datasets whose digests begin so."""
    digests = {entry.dataset for entry in entries}
    datasets = _whole_keys("--name", starts, digests, "private dataset")
    if ledger is None or not datasets:
        allowed = "must be given with the start of a private dataset that the ledger lists"
        raise InputError("--name", name, allowed)
    for dataset in datasets:
        ledger.name(dataset, name)
    together = sorted(digest[:8] for digest in ledger.counted_with(datasets[0]))
    print(f"{name}: {', '.join(together)} count together")


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


def _prune(predictions: PredictionStore, chosen: Any) -> None:
    """Remove stored predictions: those whose keys begin as chosen, or all."""
    entries = {entry.path.name: entry for entry in predictions.entries()}
    keys = [*entries]
    if not chosen.all:
        keys = _whole_keys("--prune", chosen.prune, entries, "stored key")
    _show_predictions([entries[key] for key in keys])
    _require(chosen.yes)
    for key in keys:
        predictions.remove(entries[key])
    print(f"removed {len(keys)} entries; the ledger stays")


def _whole_keys(option: str, starts: Iterable[str], keys: Collection[str], what: str) -> list[str]:
    """Return the keys that begin with `starts`, one each."""
    found: dict[str, None] = {}
    for start in starts:
        matches = [key for key in keys if key.startswith(start)]
        if len(matches) != 1:
            allowed = f"must be the start of one {what}, not of {len(matches)}"
            raise InputError(option, start, allowed)
        found[matches[0]] = None
    return [*found]


def _require(yes: bool) -> None:
    if not yes:
        raise InputError("--yes", False, "must be given to do so with what is listed above")


def _show_predictions(entries: list[Entry]) -> None:
    size = decimal(sum(entry.bytes for entry in entries))
    table = Table(title=f"{len(entries)} stored, {size}", title_style="bold")
    for name in ("key", "data", "settings", "size", "days", "state"):
        is_number = name in ("size", "days")
        table.add_column(name, overflow="fold", justify="right" if is_number else "left")
    for entry in entries:
        table.add_row(
            entry.path.name,
            str(entry.request.get("data", "–"))[:8],
            _settings(entry.request),
            decimal(entry.bytes),
            f"{entry.days:.1f}",
            entry.state,
        )
    show(table)


def _settings(request: Mapping[str, Any]) -> str:
    """Return the settings of stored predictions in few words, their count first."""
    request = {"count": None, **request}
    words = [
        f"{key}={_short(value)}"
        for key, value in request.items()
        if value is not None and key not in ("data", "code")
    ]
    return " ".join(words)


def _short(value: Any) -> str:
    """Return a setting of a stored request in few words: Tree(max_depth=3)."""
    if isinstance(value, dict):
        left_out = ("class", "source", "version")
        inside = [f"{key}={_short(item)}" for key, item in value.items() if key not in left_out]
        return f"{str(value.get('class', '')).rpartition('.')[2]}({', '.join(inside)})"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _show_ledger(ledger: Ledger, entries: list[LedgerEntry], delta: float) -> None:
    """Show each private dataset, or several that a name connects, in a line; then every trial."""
    table = Table(
        "data, and names",
        "releases",
        "last, UTC",
        f"ε of all releases, δ = {delta:g}",
        "trials",
        "ε with all trials",
        title="what was released from private data about the same people, published or not",
        title_style="bold",
    )
    names = ledger.names()
    populations = dict.fromkeys(frozenset(ledger.counted_with(entry.dataset)) for entry in entries)
    for datasets in populations:
        titles = sorted(digest[:8] for digest in datasets)
        titles += sorted(set().union(*(names.get(digest, ()) for digest in datasets)))
        costs = [entry for entry in entries if entry.dataset in datasets]
        releases = [entry for entry in costs if entry.kind == RELEASE]
        table.add_row(
            ", ".join(titles),
            str(len(releases)),
            max((entry.recorded for entry in releases), default="–"),
            _total(releases, delta),
            str(len(costs) - len(releases)),
            _total(costs, delta),
        )
    show(table)
    trials = [entry for entry in entries if entry.kind == TRIAL]
    if trials:
        _show_trials(trials, delta)


def _total(entries: list[LedgerEntry], delta: float) -> str:
    """Return ε of entries together, as it is shown; where their costs have no sum, with the why."""
    total = number(total_epsilon(entries, delta))
    return total if protect_the_same(entries) else f"{total}: they protect different things"


def _show_trials(trials: list[LedgerEntry], delta: float) -> None:
    table = Table(
        "key",
        "private dataset",
        "mechanism",
        "labels",
        "recorded, UTC",
        f"ε at δ = {delta:g}",
        title="trials, whose noise has a seed: they count if somebody used or passed on labels",
        title_style="bold",
    )
    for entry in trials:
        table.add_row(
            entry.key[:12],
            entry.dataset[:8],
            short_mechanism(entry.description),
            str((entry.facts or {}).get("answered", "–")),
            entry.recorded,
            number(total_epsilon([entry], delta)),
        )
    show(table)
