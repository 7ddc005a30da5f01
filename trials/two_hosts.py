"""Do processes of two hosts that share a folder on a network file system disturb each other?

ledger  writers on both hosts add entries of their own, and entries that all of them add; some
        writers are killed
half    a writer of one host is killed in a transaction that is half on disk; the other host must
        not read it
runs    runs on both hosts need the same teachers, all at once; some runs are killed and started
        again

A host is a command to which a command line is added, such as "ssh host". tests/nfs.sh starts a
server and two hosts:

    python trials/two_hosts.py /nfs/mnt "tests/nfs.sh on /nfs a" "tests/nfs.sh on /nfs b"
    python trials/two_hosts.py FOLDER "bash -c" "bash -c"      this machine alone

A release is lost if a writer was told that it is stored, and the ledger does not have it with the
same labels. The results of runs must be those of undisturbed runs of this machine, and each teacher
must be trained once.
"""

import argparse
import os
import random
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import _nzc as trial
import numpy as np

#: What each host does in a part.
PARTS = {"ledger": ("ledger", "ledger"), "half": ("read", "die"), "runs": ("runs", "runs")}
#: Runs of one host: two alike, and two with another aggregator each. All need the same teachers.
QUIET = [*trial.SMALL, "tracking=none", "student=none"]
RUNS = [[*QUIET, f"aggregator={name}"] for name in ("gnmax", "gnmax", "lnmax", "confident")]
#: Processes of a host that write, and how many entries a writer adds twice: its own, and those that
#: all add.
WRITERS, ENTRIES = 4, 25
#: Seconds for which a host reads.
SECONDS = 15
Said = defaultdict[str, list[str]]


def say(line: str) -> None:
    """Print a line in one write, because processes share standard output."""
    os.write(1, f"{line}\n".encode())


def forked(task: Callable[[], object]) -> int:
    """Do a task in a process of its own, and return the process number."""
    from nzc.validation import InputError

    sys.stdout.flush()
    if process := os.fork():
        return process
    try:
        task()
    except (
        RuntimeError,
        InputError,
    ) as error:  # the ledger could not be used, as after a fault of the server
        say(f"said {error}")
        os._exit(trial.AGAIN)
    except BaseException as error:
        say(f"problem {type(error).__name__}: {error}")
    os._exit(0)


def write_entries(folder: Path, name: str) -> None:
    """Add entries to the ledger.

    Say each key, and the labels that are stored for it, once the entry is on disk.
    """
    import nzc

    ledger = nzc.Ledger(folder / "ledger.db", wait=120)
    cost = nzc.GNMax(sigma=40.0).cost(np.array([[5, 1]]), np.array([0]))
    for at in range(ENTRIES):
        for key in f"{name}-{at}", f"all-{at}":
            entry = ledger.add("data", cost, key=key, labels=f"of-{name}".encode())
            say(f"stored {key} {entry.labels.decode()}")


def read_entries(folder: Path) -> None:
    """Read and write a ledger for some seconds.

    It must not have what a killed process of the other host began.
    """
    import nzc

    ledger, cost = (
        nzc.Ledger(folder / "ledger.db"),
        nzc.GNMax(sigma=40.0).cost(np.array([[5, 1]]), np.array([0])),
    )
    keys = [ledger.add("data", cost, labels=bytes(1000)).key for _ in range(40)]
    (folder / "written").touch()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        ledger.name("data", f"{time.monotonic()}")
        entries = ledger.entries()
        half = [entry.key for entry in entries if entry.labels != bytes(1000)]
        if half or [entry.key for entry in entries] != keys:
            return say(
                f"problem {len(half)} of {len(entries)} entries have what was never committed"
            )
        time.sleep(0.2)


def die_writing(folder: Path) -> None:
    """End with SIGKILL in a transaction that is on disk in part."""
    while "written" not in os.listdir(folder):
        time.sleep(0.2)

    def write() -> None:
        connection = sqlite3.connect(folder / "ledger.db", timeout=60, isolation_level=None)
        for command in (
            "PRAGMA journal_mode = PERSIST",
            "PRAGMA cache_size = 5",
            "BEGIN IMMEDIATE",
        ):
            connection.execute(command)
        connection.execute("UPDATE releases SET labels = randomblob(1000)")
        say("killed 1")
        os.kill(os.getpid(), signal.SIGKILL)

    os.waitpid(forked(write), 0)


def inside(part: str, folder: Path, host: str, kills: int, rng: random.Random) -> None:
    """Do a host's share of a part, and print what was done."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"{host}-{at}" for at in range(WRITERS)]
    if part == "read":
        return read_entries(folder)
    if part == "die":
        return die_writing(folder)
    if part == "runs":
        trial.warm_up()
        watches = [trial.Watch(folder / "store", folder / f"{name}.txt") for name in names]
        starts = [
            partial(
                trial.start, folder / name, [*command, f"paths.store={folder / 'store'}"], watch
            )
            for name, command, watch in zip(names, RUNS, watches, strict=True)
        ]
    else:
        starts = [partial(forked, partial(write_entries, folder, name)) for name in names]
    killed, codes = trial.together(starts, kills, rng)
    say(f"killed {killed}")
    for name, code in zip(names, codes, strict=True):
        if part == "runs" and code:
            say(f"problem {trial.error_of(folder / name)}")


def show(folder: Path) -> None:
    """Print what lies in the folder: the count, the ledger's entries, all runs' results, teachers.

    Remove it.
    """
    import nzc

    for ledger in folder.glob("ledger.db"):
        for entry in nzc.Ledger(ledger).entries():
            say(f"entry {entry.key} {entry.labels.decode(errors='replace')}")
        with closing(sqlite3.connect(ledger)) as connection:
            if (integrity := connection.execute("PRAGMA integrity_check").fetchone()[0]) != "ok":
                say(f"problem ledger: {integrity}")
    for path in folder.glob("?-?/outputs/*/*/result.json"):
        say(f"result {sorted(trial.result(path).items())}")
    for teacher, times in trial.trained(folder.glob("?-?.txt")).items():
        say(f"trained {teacher} {times}")
    for path in folder.glob("store/predictions/*"):
        say(f"left {path.suffix} {path.name}")
    shutil.rmtree(folder)


def ledger_problems(said: Said) -> list[str]:
    entries = [line.split() for line in said["entry"]]
    stored = dict(entries)
    expected = {
        f"{host}-{writer}-{at}"
        for host in "ab"
        for writer in range(WRITERS)
        for at in range(ENTRIES)
    }
    expected |= {f"all-{at}" for at in range(ENTRIES)}
    wrong = {line for line in said["stored"] if stored.get(line.split()[0]) != line.split()[1]}
    sets = {
        "lost": expected - stored.keys(),
        "unknown": stored.keys() - expected,
        "told otherwise": wrong,
    }
    sets["doubled"] = {
        key for key, times in Counter(key for key, _ in entries).items() if times > 1
    }
    return [f"{len(keys)} {name}: {sorted(keys)[:5]}" for name, keys in sets.items() if keys]


def run_problems(said: Said) -> list[str]:
    trial.warm_up()
    with tempfile.TemporaryDirectory(prefix="nzc-hosts-") as home:
        for command in RUNS[1:]:
            trial.must_run(Path(home), command)
        expected = {
            str(sorted(trial.result(path).items()))
            for path in Path(home).glob("outputs/*/*/result.json")
        }
    problems = [f"another result: {text}" for text in said["result"] if text not in expected]
    if len(said["result"]) < 2 * len(RUNS):
        problems.append(f"{len(said['result'])} results of {2 * len(RUNS)}")
    if sorted(said["trained"]) != [f"{teacher} 1" for teacher in range(trial.TEACHERS)]:
        problems.append(f"trained: {said['trained']}")
    return problems + [
        f"left in the store: {text}"
        for text in said["left"]
        if text.split()[0] not in (".npz", ".lock")
    ]


def on_host(command: str, host: str, part: str, folder: Path, *options: str) -> list[str]:
    """Do a part on a host, and return the lines that it prints."""
    kept = [
        f"{name}={os.environ[name]}"
        for name in ("PYTHONPATH", "OMP_NUM_THREADS")
        if name in os.environ
    ]
    line = [
        "env",
        *kept,
        sys.executable,
        str(Path(__file__).absolute()),
        str(folder),
        host,
        part,
        *options,
    ]
    words = [*shlex.split(command), shlex.join([*line, "--inside"])]
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    lines = done.stdout.splitlines()
    return (
        [*lines, f"problem exit code {done.returncode}: {lines[-1:]}"] if done.returncode else lines
    )


def both(
    part: str, folder: Path, hosts: list[str], options: list[str], fault: str, after: float
) -> Said:
    """Do a part on both hosts at once, and the fault after some seconds.

    Return what they print, by first word.
    """
    with ThreadPoolExecutor() as pool:
        shares = zip(hosts, "ab", PARTS[part], strict=True)
        working = [
            pool.submit(on_host, command, host, share, folder, *options)
            for command, host, share in shares
        ]
        if fault:
            time.sleep(after)
            subprocess.run(fault, shell=True, check=True)
        lines = [line for future in working for line in future.result()]
    said: Said = defaultdict(list)
    for line in [*lines, *on_host(hosts[0], "a", "show", folder)]:
        first, _, rest = line.partition(" ")
        said[first].append(rest)
    return said


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "folder", type=Path, help="a folder that both hosts see by this name, and may fill"
    )
    parser.add_argument("hosts", nargs=2, metavar="HOST", help="the command of a host")
    parser.add_argument(
        "--only", nargs="+", default=list(PARTS), choices=PARTS, help="parts (default: all)"
    )
    parser.add_argument(
        "--kills", type=int, default=10, help="kills per host in `ledger` and `runs` (default 10)"
    )
    parser.add_argument(
        "--fault", default="", help="a command for the middle of `ledger` and `runs`"
    )
    parser.add_argument(
        "--after", type=float, default=20, help="seconds after which it is run (default 20)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments of the kills")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.inside:
        host, part = chosen.hosts
        rng = random.Random(f"{chosen.seed} {host}")
        return (
            show(chosen.folder)
            if part == "show"
            else inside(part, chosen.folder, host, chosen.kills, rng)
        )
    rows, failed = [], False
    checks: dict[str, Callable[[Said], list[str]]] = {
        "ledger": ledger_problems,
        "runs": run_problems,
    }
    for at, part in enumerate(chosen.only):
        within, begun = part in ("ledger", "runs"), time.monotonic()
        options = ["--kills", str(chosen.kills if within else 0), "--seed", str(chosen.seed)]
        folder, fault = chosen.folder / f"nzc-{os.getpid()}-{at}", chosen.fault if within else ""
        said, seconds = (
            both(part, folder, chosen.hosts, options, fault, chosen.after),
            time.monotonic() - begun,
        )
        problems = [*said["problem"], *(checks[part](said) if part in checks else [])]
        for problem in [*problems, *said["said"]]:
            trial.progress(f"{part}: {problem[:400]}")
        tried = f"{len(said['result'])} runs" if part == "runs" else f"{len(said['entry'])} entries"
        kills = str(sum(map(int, said["killed"])))
        rows.append((part, tried, kills, f"{seconds:.0f}", str(len(problems))))
        failed |= bool(problems)
    trial.show_table(
        "two hosts, one folder", ("part", "tried", "kills", "seconds", "problems"), rows
    )
    sys.exit(failed)


if __name__ == "__main__":
    main()
