"""What is stored, how large it is, and what was released: `python -m nzc.store`; and its prune."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from nzc._command import Parser, end
from nzc.errors import InputError, not_negative, share
from nzc.report import number, show
from nzc.store import Ledger, Store
from nzc.store.store import Entry, age


def main() -> None:
    """Exit code 0; 1 where the person says no; 2 for wrong input."""
    end(_run)


def _run(arguments: list[str]) -> int:
    parser = Parser("python -m nzc.store", description="List what is stored, or remove some of it.")
    parser.add_argument("--root", default=".nzc", help="the store (default .nzc): what paths.store names")
    parser.add_argument("--delta", type=float, default=1e-5, help="δ of the ledger's ε (default 1e-5)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--prune", nargs="+", metavar="KEY", help="remove these entries; the beginning of a key will do")
    what.add_argument("--older", type=float, metavar="DAYS", help="remove what was made more than so many days ago")
    what.add_argument("--all", action="store_true", help="remove every entry; the ledger always stays")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    chosen = parser.parse_args(arguments)
    share(**{"--delta": chosen.delta})
    if not Path(chosen.root).is_dir():
        raise InputError("--root", chosen.root, "must be a folder that a run has stored in")
    store = Store(chosen.root)
    entries = store.entries()
    if chosen.prune is None and chosen.older is None and not chosen.all:
        for table in (_table(entries), *_ledger(store, chosen.delta)):
            show(table)
        return 0
    return _prune(store, _choose(entries, chosen.prune, chosen.older), chosen.yes)


def _choose(entries: list[Entry], keys: list[str] | None, older: float | None) -> list[Entry]:
    if older is not None:
        not_negative(**{"--older": older})
        return [entry for entry in entries if age(entry) > older]
    if keys is None:
        return entries
    chosen: dict[Path, Entry] = {}
    for key in keys:
        exact = [entry for entry in entries if entry.key == key]
        found = exact or [entry for entry in entries if entry.key.startswith(key)]
        if len(found) != 1:
            raise InputError("--prune", key, f"must begin one stored key, not {len(found)}")
        chosen[found[0].folder] = found[0]
    return list(chosen.values())


def _prune(store: Store, entries: list[Entry], yes: bool) -> int:
    if not entries:
        print("nothing to remove")
        return 0
    show(_table(entries))
    if not yes:
        if not sys.stdin.isatty():
            raise InputError("--yes", False, "must be given where nobody can be asked")
        if input(f"remove {_counted(entries)}? [y/N] ").strip().lower() not in ("y", "yes"):
            return 1
    for entry in entries:
        store.remove(entry)
    print(f"removed {_counted(entries)}; the ledger stays")
    return 0


def _table(entries: list[Entry]) -> Table:
    table = Table(title=_counted(entries), title_style="bold")
    for name in ("kind", "key", "digest, all rows", "made from"):
        table.add_column(name, overflow="fold" if name == "made from" else "ellipsis", no_wrap=name != "made from")
    for name in ("size", "age", "state"):
        table.add_column(name, justify="right", no_wrap=True)
    for entry in entries:
        data, facts = entry.request.get("data"), _facts(entry.request)
        cells = (
            entry.kind,
            entry.key,
            str(data or "–")[:8],
            facts,
            _size(entry.bytes),
            f"{age(entry):.1f} d",
            entry.state,
        )
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _ledger(store: Store, delta: float) -> Iterable[Table]:
    """A line for each dataset that anything was released from."""
    path = store.root / "ledger.db"
    if not path.is_file():
        return
    ledger = Ledger(path)
    table = Table(title="released, and never pruned: the ledger", title_style="bold")
    for name in ("digest, private rows", "releases", "last, UTC", f"ε of all at δ = {delta:g}"):
        table.add_column(name)
    releases = ledger.releases()
    for dataset in dict.fromkeys(release.dataset for release in releases):
        of = [release for release in releases if release.dataset == dataset]
        total = ledger.total(dataset, delta)
        table.add_row(dataset[:8], str(len(of)), max(release.recorded for release in of), number(total))
    yield table


def _facts(request: dict[str, Any]) -> str:
    """What a request says of teachers; not fingerprints, nor what nobody set."""
    told = {key: value for key, value in request.items() if key not in ("data", "code") and value is not None}
    return " ".join(
        f"{key}={_short(value)}" for key, value in sorted(told.items(), key=lambda item: item[0] != "count")
    )


def _short(value: Any) -> str:
    if isinstance(value, dict):
        name = str(value.get("class", "")).rpartition(".")[2]
        inside = (f"{key}={_short(item)}" for key, item in value.items() if key != "class" and item is not None)
        return f"{name}({', '.join(inside)})"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _counted(entries: list[Entry]) -> str:
    plural = "entry" if len(entries) == 1 else "entries"
    return f"{len(entries)} {plural}, {_size(sum(entry.bytes for entry in entries))}"


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


if __name__ == "__main__":
    main()
