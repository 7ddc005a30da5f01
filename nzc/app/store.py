"""The subcommand nzc store: stored predictions, and the releases and trials of the ledger."""

import math
import os
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich.filesize import decimal
from rich.table import Table

from nzc.app.errors import Parser
from nzc.privacy.ledger import Ledger
from nzc.privacy.ledger_entry import RELEASE, TRIAL, LedgerEntry, total_epsilon
from nzc.runs.formatting import number, short_mechanism, show
from nzc.runs.summary import unbounded
from nzc.storage.predictions import Entry, PredictionStore
from nzc.validation import InputError, Tree, between_0_and_1


def store(arguments: list[str]) -> int:
    """List what is stored; or remove predictions, or forget trials."""
    chosen = _parser().parse_args(arguments)
    between_0_and_1("--delta", chosen.delta)
    if not Path(chosen.root).is_dir():
        raise InputError("--root", chosen.root, "must be a folder that a run has stored in")
    predictions = PredictionStore(chosen.root, ledger=chosen.ledger)
    has_ledger = predictions.ledger.is_file()
    if chosen.prune is not None or chosen.all:
        _prune(predictions, chosen)
    elif chosen.forget is not None and has_ledger:
        _forget(Ledger(predictions.ledger), chosen)
    else:
        _show_predictions(predictions.entries())
        if has_ledger:
            _show_ledger(Ledger(predictions.ledger), chosen.delta)
    return 0


def _parser() -> Parser:
    parser = Parser(
        "nzc store",
        description="List stored predictions and the ledger's releases and trials; or change some "
        "of them.",
    )
    parser.add_argument(
        "--root", default=".nzc", help="the store (default .nzc): the value of paths.store"
    )
    parser.add_argument(
        "--ledger",
        default=os.environ.get("NZC_LEDGER"),
        help="the ledger's file, the value of paths.ledger (default: NZC_LEDGER, or in the store)",
    )
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
    what.add_argument(
        "--forget",
        nargs="*",
        metavar="KEY",
        help="forget these trials, without KEY all; do so only if nobody has seen their labels",
    )
    parser.add_argument(
        "--yes", action="store_true", help="do it: without, --prune, --all and --forget only list"
    )
    return parser


def _forget(ledger: Ledger, chosen: Namespace) -> None:
    """Forget trials: those whose keys begin as chosen, or all where none is given."""
    trials = {entry.key: entry for entry in ledger.entries() if entry.kind == TRIAL}
    if chosen.forget:
        trials = _beginning(
            "--forget", chosen.forget, trials, "key of a trial (a release is never forgotten)"
        )
    _show_trials([*trials.values()], chosen.delta)
    print("Forget a trial only if nobody has seen its labels, or made a choice by them.")
    _require(chosen.yes)
    ledger.forget(trials.values())
    print(f"forgot {len(trials)} trials; releases stay, and so do the folders of the runs")


def _prune(predictions: PredictionStore, chosen: Namespace) -> None:
    """Remove stored predictions: those whose keys begin as chosen, or all."""
    entries = {entry.path.name: entry for entry in predictions.entries()}
    if not chosen.all:
        entries = _beginning("--prune", chosen.prune, entries, "stored key")
    _show_predictions([*entries.values()])
    _require(chosen.yes)
    for entry in entries.values():
        predictions.remove(entry)
    print(f"removed {len(entries)} entries; the ledger stays")


def _beginning(option: str, starts: Iterable[str], entries: Tree, what: str) -> Tree:
    """Return the entries whose keys begin with `starts`, one each."""
    found = {}
    for start in starts:
        matches = [key for key in entries if key.startswith(start)]
        if len(matches) != 1:
            raise InputError(
                option, start, f"must be the start of one {what}, not of {len(matches)}"
            )
        found[matches[0]] = entries[matches[0]]
    return found


def _require(yes: bool) -> None:
    if not yes:
        raise InputError("--yes", False, "must be given to do so with what is listed above")


def _show(title: str, rows: Sequence[Mapping[str, object]]) -> None:
    """Show a table with a line for each row, which has its values by the names of the columns."""
    table = Table(title=title, title_style="bold")
    for name in rows[0] if rows else ():
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*map(str, row.values()))
    show(table)


def _show_predictions(entries: list[Entry]) -> None:
    rows = [
        {
            "key": entry.path.name,
            "data": str(entry.request.get("data", "–"))[:8],
            "settings": _settings({"count": None} | entry.request),
            "size": decimal(entry.bytes),
            "days": f"{entry.days:.1f}",
            "state": entry.state,
        }
        for entry in entries
    ]
    _show(f"{len(entries)} stored, {decimal(sum(entry.bytes for entry in entries))}", rows)


def _settings(request: Tree) -> str:
    """Return stored settings in few words: count=50 estimator=Tree(max_depth=3)."""
    words = []
    for key, value in request.items():
        if value is None or key in ("data", "code", "class", "source", "version"):
            continue
        if isinstance(value, dict):
            kind = str(value.get("class", "")).rpartition(".")[2]
            value = f"{kind}({_settings(value).replace(' ', ', ')})"
        words.append(f"{key}={value}")
    return " ".join(words)


def _show_ledger(ledger: Ledger, delta: float) -> None:
    """Show each private dataset, or several that a name connects, in a line; then every trial."""
    entries = ledger.entries()
    names = ledger.names()
    populations = dict.fromkeys(frozenset(ledger.counted_with(entry.dataset)) for entry in entries)
    rows = []
    for datasets in populations:
        costs = [entry for entry in entries if entry.dataset in datasets]
        releases = [entry for entry in costs if entry.kind == RELEASE]
        called = sorted(digest[:8] for digest in datasets)
        for digest in sorted(datasets):
            called += sorted(names.get(digest, ()))
        rows.append(
            {
                "data, and names": ", ".join(dict.fromkeys(called)),
                "releases": len(releases),
                f"ε of all releases, δ = {delta:g}": _epsilon(releases, delta),
                "trials": len(costs) - len(releases),
                "ε with all trials": _epsilon(costs, delta),
            }
        )
    _show("what was released from private data about the same people, published or not", rows)
    _show_trials([entry for entry in entries if entry.kind == TRIAL], delta)


def _epsilon(entries: list[LedgerEntry], delta: float) -> str:
    """Return ε of entries; why there is none; or that a vote changed no label, by chance."""
    total = total_epsilon(entries, delta)
    if total == math.inf:
        return f"∞: {unbounded(entries, delta)}"
    if entries and not total:
        return "0 at these votes alone"
    return number(total)


def _show_trials(trials: list[LedgerEntry], delta: float) -> None:
    rows = [
        {
            "key": entry.key[:12],
            "private dataset": entry.dataset[:8],
            "mechanism": short_mechanism(entry.description),
            "recorded, UTC": entry.recorded,
            f"ε at δ = {delta:g}": _epsilon([entry], delta),
        }
        for entry in trials
    ]
    _show("trials, whose noise has a seed: they count if somebody used or passed on labels", rows)
