"""Do processes that share a store and a ledger disturb each other? All start at once, and some are
killed meanwhile.

Half of the processes have the same overrides, the others have another aggregator each; all need the
same teachers. A killed process is started again. No teacher may be trained twice, no release may be
lost or recorded twice, no tracked run may stay open, and every result must be that of an
undisturbed run.
"""

import argparse
import os
import random
import shutil
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import _nzc as trial

#: The overrides of the first half of the processes, and in turn those of the others.
SAME = [*trial.STUDENT, "aggregator=gnmax"]
OTHERS = [
    [*trial.SMALL, "student=none", f"aggregator={name}"]
    for name in ("lnmax", "gumbel", "confident", "nzc")
]


def results(folder: Path) -> list[dict[str, Any]]:
    return [trial.result(path) for path in sorted(folder.glob("outputs/**/result.json"))]


def crowd(
    folder: Path, expected: Path, commands: list[list[str]], kills: int, rng: random.Random
) -> list[str]:
    """Run all commands at once, with kills.

    Return the cells of a row of the table; the last one is the problems.
    """
    folder.mkdir()
    logs = [folder / f"writes-{at}.txt" for at in range(len(commands))]
    starts = [
        partial(
            trial.start, folder, command, trial.Watch(folder / ".nzc", logs[at]), f"err-{at}.txt"
        )
        for at, command in enumerate(commands)
    ]
    begun = time.monotonic()
    killed, codes = trial.together(starts, kills, rng)
    problems = [
        f"exit code {code}: {trial.error_of(folder, f'err-{at}.txt')}"
        for at, code in enumerate(codes)
        if code
    ]
    if trial.run(folder, ["sync"]):
        problems.append(f"sync: {trial.error_of(folder)}")
    store, right, counts = folder / ".nzc", trial.entries(expected / ".nzc"), trial.trained(logs)
    recorded = trial.entries(store)
    lost, doubled = len(set(right) - set(recorded)), len(recorded) - len(set(recorded) & set(right))
    twice = counts.total() - len(counts)
    known, there = results(expected), results(folder)
    problems += [f"another result: {content}" for content in there if content not in known]
    if len(there) < len(commands) or len(counts) != trial.TEACHERS:
        problems.append(f"{len(there)} results of {len(commands)}, teachers {dict(counts)}")
    if extra := trial.names(store) - trial.names(expected / ".nzc"):
        problems.append(f"left in the store: {', '.join(sorted(extra))}")
    if states := trial.open_runs(folder):
        problems.append(f"tracked runs {states}")
    with closing(sqlite3.connect(store / "ledger.db")) as ledger:
        if (integrity := ledger.execute("PRAGMA integrity_check").fetchone()[0]) != "ok":
            problems.append(f"the ledger: {integrity}")
    for problem in problems:
        trial.progress(f"WRONG: {problem[:400]}")
    trial.progress(f"{killed} kills: {time.monotonic() - begun:.0f} s")
    figures = (len(commands), killed, twice, len(recorded), doubled, lost)
    return [*map(str, figures), str(len(problems) + bool(twice or doubled or lost))]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processes", type=int, default=8, help="how many at once (default 8)")
    parser.add_argument(
        "--kills", type=int, default=20, help="how many of them are killed (default 20)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments of the kills")
    parser.add_argument("--keep", help="folder to work in, which is kept")
    chosen = parser.parse_args()
    trial.warm_up()
    root = Path(chosen.keep or tempfile.mkdtemp(prefix="nzc-crowd-")).absolute()
    root.mkdir(exist_ok=True)
    half = chosen.processes - chosen.processes // 2
    commands = [SAME] * half + [OTHERS[at % len(OTHERS)] for at in range(chosen.processes - half)]
    os.umask(0o077)
    for command in (command for command in [SAME, *OTHERS] if command in commands):
        trial.must_run(root / "expected", command)
    rows = {}
    for name, kills in {"at once": 0, "with kills": chosen.kills}.items():
        rows[name] = crowd(
            root / name, root / "expected", commands, kills, random.Random(chosen.seed)
        )
    if chosen.keep is None:
        shutil.rmtree(root)
    columns = (
        "part",
        "processes",
        "kills",
        "trained twice",
        "entries",
        "doubled",
        "lost",
        "problems",
    )
    trial.show_table("one store, one ledger", columns, [(name, *row) for name, row in rows.items()])
    sys.exit(any(row[-1] != "0" for row in rows.values()))


if __name__ == "__main__":
    main()
