"""A host's share of trials/two_hosts.py, which starts this on each of two hosts. It prints what it did and found."""

import argparse
import os
import random
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
from _nzc import BASE, ERR, TRAINED, exit_code_within, start, warm_up
from _traces import result
from filelock import FileLock

import nzc
from nzc.data.files import refresh, write_private
from nzc.validation import InputError

#: Runs of one host: two alike, and two with another aggregator each. All need the same teachers.
RUNS = [
    [*BASE, "tracking=none", "student=none", f"aggregator={name}"] for name in ("gnmax", "gnmax", "lnmax", "confident")
]
TEACHERS = 6
#: Processes of a host that count or write, and how many entries a writer adds twice: its own, and those that all add.
WRITERS, ENTRIES = 4, 25
#: The exit code of a process that failed with one line, as after a fault of the server; how often it starts again.
_FAILED, _FAILURES = 1, 20
#: Seconds for which processes count.
COUNTING = 15


def together(starts: Sequence[Callable[[], int]], kills: int, rng: random.Random) -> None:
    """Start processes, and kill some at random moments. What was killed, or failed as it should, is started again."""
    alive, killed, failed = {each(): each for each in starts}, 0, 0
    next_kill = time.monotonic() + rng.uniform(0, 4)
    while alive:
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended:
            begin = alive.pop(ended)
            code = os.waitstatus_to_exitcode(status)
            failed += code == _FAILED
            if code == -signal.SIGKILL or (code == _FAILED and failed <= _FAILURES):
                alive[begin()] = begin
        elif killed < kills and time.monotonic() > next_kill:
            os.kill(rng.choice(list(alive)), signal.SIGKILL)
            killed, next_kill = killed + 1, time.monotonic() + rng.uniform(0, 4)
        else:
            time.sleep(0.01)
    print("killed", killed)


def forked(task: Callable[[], None]) -> int:
    """Do a task in a process of its own, and return the process number."""
    sys.stdout.flush()
    if process := os.fork():
        return process
    try:
        task()
    except (RuntimeError, InputError) as error:  # the ledger could not be used, or read
        say(f"said {error}")
        os._exit(_FAILED)
    except BaseException as error:
        say(f"problem {type(error).__name__}: {error}")
    os._exit(0)


def say(line: str) -> None:
    """Print a line in one write, because processes share standard output."""
    os.write(1, f"{line}\n".encode())


def count(folder: Path) -> None:
    """Add one to the number in a file, which is replaced under a lock as nzc replaces files. Say how often."""
    end, added, file = time.monotonic() + COUNTING, 0, folder / "count"
    while time.monotonic() < end:
        with FileLock(folder / "count.lock"):
            refresh(folder)
            number = int(file.read_text()) if file.exists() else 0
            write_private(file, str(number + 1))
            added += 1
    say(f"added {added}")


def write_entries(folder: Path, name: str) -> None:
    """Add entries to the ledger. Say each key, and the labels that are stored for it, once the entry is on disk."""
    ledger = nzc.Ledger(folder / "ledger.db", wait=120)
    cost = nzc.GNMax(sigma=40.0).cost(np.array([[5, 1]]), np.array([0]))
    for at in range(ENTRIES):
        for key in f"{name}-{at}", f"all-{at}":
            entry = ledger.add("data", cost, key=key, labels=f"of-{name}".encode())
            say(f"stored {key} {entry.labels.decode()}")


def read_entries(folder: Path) -> None:
    """Read and write a ledger for some seconds. It must not have what a killed process of the other host began."""
    ledger, cost = nzc.Ledger(folder / "ledger.db"), nzc.GNMax(sigma=40.0).cost(np.array([[5, 1]]), np.array([0]))
    keys = [ledger.add("data", cost, labels=bytes(1000)).key for _ in range(40)]
    (folder / "written").touch()
    end = time.monotonic() + COUNTING
    while time.monotonic() < end:
        ledger.name("data", f"{time.monotonic()}")
        entries = ledger.entries()
        half = [entry.key for entry in entries if entry.labels != bytes(1000)]
        if half or [entry.key for entry in entries] != keys:
            print(f"problem {len(half)} of {len(entries)} entries have what was never committed")
            return
        time.sleep(0.2)


def die_writing(folder: Path) -> None:
    """End with SIGKILL in a transaction that is on disk in part."""
    while "written" not in os.listdir(folder):
        time.sleep(0.2)

    def write() -> None:
        with nzc.Ledger(folder / "ledger.db")._transaction() as connection:
            connection.execute("PRAGMA cache_size = 5")
            connection.execute("UPDATE releases SET labels = randomblob(1000)")
            os.kill(os.getpid(), signal.SIGKILL)

    os.waitpid(forked(write), 0)


def run_all(folder: Path, host: str, kills: int, rng: random.Random) -> None:
    """Start all runs at once, each in a folder of its own."""
    warm_up()
    homes, store = [folder / f"{host}-{at}" for at in range(len(RUNS))], f"paths.store={folder / 'store'}"
    together([partial(start, home, [*run, store]) for home, run in zip(homes, RUNS, strict=True)], kills, rng)
    for home in homes:
        if not list(home.glob("outputs/*/*/result.json")):
            print("problem", " ".join((home / ERR).read_text().split())[-400:])


def run_long(folder: Path, host: str) -> None:
    """Start one run, whose store the other host removes, and say how it ends."""
    warm_up()
    home, store = folder / host, f"paths.store={folder / 'store'}"
    process = start(home, [*RUNS[0], "teachers.epochs=400", store, "wait=10"])
    if (code := exit_code_within(process, 240)) is None:
        os.kill(process, signal.SIGKILL)
    said = (home / ERR).read_text()
    print("said", " ".join(said.split())[-300:])
    if code != 1 or said.count("\n") != 1:
        print(f"problem exit code {code}, {said.count(chr(10))} lines")


def remove_store(folder: Path) -> None:
    """Remove the store once a teacher is in it."""
    while not list(folder.glob("store/predictions/*.work/*.npz")):
        time.sleep(0.2)
    shutil.rmtree(folder / "store")


def show_found(folder: Path) -> None:
    """Print what lies in the folder: the count, entries of the ledger, results and teachers of all runs."""
    if (folder / "count").exists():
        print("count", (folder / "count").read_text())
    for ledger in folder.glob("ledger.db"):
        for entry in nzc.Ledger(ledger).entries():
            print("entry", entry.key, entry.labels.decode(errors="replace"))
        with closing(sqlite3.connect(ledger)) as connection:
            if (said := connection.execute("PRAGMA integrity_check").fetchone()[0]) != "ok":
                print("problem ledger:", said)
    for path in folder.glob("?-?/outputs/*/*/result.json"):
        print("result", comparable(path))
    for path in folder.glob(f"?-?/{TRAINED}"):
        for teacher in path.read_text().split():
            print("trained", teacher)
    for path in folder.glob("store/predictions/*"):
        print("left", path.suffix, path.name)


def comparable(path: Path) -> str:
    """Return a result without times, and without what depends on the order of the runs."""
    found = result(path)
    del found["epsilon"]["ledger_total"], found["ledger_trials"]
    return repr(sorted(found.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "part", choices=("count", "ledger", "runs", "removed", "remove", "half", "die", "show", "clear")
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("host", choices="ab")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    folder, host, rng = chosen.folder, chosen.host, random.Random(f"{chosen.seed} {chosen.host}")
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"{host}-{at}" for at in range(WRITERS)]
    if chosen.part == "count":
        together([partial(forked, partial(count, folder)) for _ in names], 0, rng)
    elif chosen.part == "ledger":
        writers = [partial(forked, partial(write_entries, folder, name)) for name in names]
        together(writers, chosen.kills, rng)
    elif chosen.part == "runs":
        run_all(folder, host, chosen.kills, rng)
    elif chosen.part == "removed":
        run_long(folder, host)
    elif chosen.part == "half":
        read_entries(folder)
    elif chosen.part == "die":
        die_writing(folder)
    elif chosen.part == "remove":
        remove_store(folder)
    elif chosen.part == "show":
        show_found(folder)
    else:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
