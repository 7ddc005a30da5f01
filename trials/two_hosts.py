"""Do processes of two hosts that share a folder on a network file system disturb each other?

count    processes of both hosts add to a number in a file, under the lock (flock) of nzc's store
ledger   writers on both hosts add entries of their own, and entries that all of them add; some writers are killed
half     a writer of one host is killed in a transaction that is half on disk; the other host must not read it
runs     runs on both hosts need the same teachers, all at once; some runs are killed and started again
removed  a host removes the store under a run of the other one, which must end in one line

A host is a command to which a command line is added, such as "ssh host". tests/nfs.sh starts a server and two hosts:

    python trials/two_hosts.py /nfs/mnt "tests/nfs.sh on /nfs a" "tests/nfs.sh on /nfs b"

A release is lost if a writer was told that it is stored, and the ledger does not have it with the same labels. The
results of runs must be those of undisturbed runs of this machine, and each teacher must be trained once.
"""

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from _nzc import ERR, progress, run, warm_up
from rich.table import Table
from two_hosts_inside import ENTRIES, RUNS, TEACHERS, WRITERS, comparable

from nzc.runs.formatting import show

PARTS = {"count": "count", "ledger": "ledger", "half": "die", "runs": "runs", "removed": "remove"}


class Outcome(NamedTuple):
    """What a part printed on both hosts and left in their folder, by first word; how long it took."""

    seconds: float
    said: dict[str, list[str]]

    def problems(self, part: str) -> list[str]:
        """Return in words what is wrong."""
        check = {"count": self._count, "ledger": self._ledger, "runs": self._runs}.get(part, list)
        return [*self.said.get("problem", []), *check()]

    def tried(self, part: str) -> str:
        """Return how much of it there was."""
        if part == "count":
            return f"{sum(map(int, self.said['added']))} additions"
        entries = f"{len(self.said.get('entry', []))} entries"
        return {"ledger": entries, "runs": f"{2 * len(RUNS)} runs", "half": "1 kill"}.get(part, "1 run")

    def _count(self) -> list[str]:
        added, found = sum(map(int, self.said.get("added", []))), int(self.said.get("count", ["0"])[0])
        return [f"{added - found} of {added} additions lost"] if added != found else []

    def _ledger(self) -> list[str]:
        entries = [line.split() for line in self.said.get("entry", [])]
        stored = {key: labels for key, labels in entries}
        expected = {f"{host}-{writer}-{at}" for host in "ab" for writer in range(WRITERS) for at in range(ENTRIES)}
        expected |= {f"all-{at}" for at in range(ENTRIES)}
        wrong = {line for line in self.said.get("stored", []) if stored.get(line.split()[0]) != line.split()[1]}
        sets = {"lost": expected - stored.keys(), "unknown": stored.keys() - expected, "told otherwise": wrong}
        sets["doubled"] = {key for key, count in Counter(key for key, _ in entries).items() if count > 1}
        return [f"{len(keys)} {name}: {sorted(keys)[:5]}" for name, keys in sets.items() if keys]

    def _runs(self) -> list[str]:
        with tempfile.TemporaryDirectory(prefix="nzc-hosts-") as home:
            for command in RUNS[1:]:
                if run(Path(home), command):
                    raise RuntimeError((Path(home) / ERR).read_text())
            expected = {comparable(path) for path in Path(home).glob("outputs/*/*/result.json")}
        results, trained = self.said.get("result", []), Counter(self.said.get("trained", []))
        problems = [f"another result: {each}" for each in results if each not in expected]
        if len(results) < 2 * len(RUNS):
            problems.append(f"{len(results)} results of {2 * len(RUNS)}")
        if len(trained) != TEACHERS or set(trained.values()) != {1}:
            problems.append(f"trained: {dict(trained)}")
        left = [each for each in self.said.get("left", []) if each.split()[0] not in (".npz", ".lock")]
        return problems + [f"left in the store: {each}" for each in left]


def on_host(command: str, host: str, part: str, folder: Path, *options: str) -> list[str]:
    """Do a part on a host, and return the lines that it prints."""
    kept = [f"{name}={os.environ[name]}" for name in ("PYTHONPATH", "OMP_NUM_THREADS") if name in os.environ]
    line = ["env", *kept, sys.executable, str(Path(__file__).with_name("two_hosts_inside.py").absolute())]
    words = [*shlex.split(command), shlex.join([*line, part, str(folder), host, *options])]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    lines = [each for each in done.stdout.splitlines() if each]
    if done.returncode:
        lines.append(f"problem exit code {done.returncode}: {' '.join(done.stdout.split())[-300:]}")
    return lines


def both(part: str, folder: Path, hosts: list[str], options: list[str], fault: str, after: float) -> Outcome:
    """Do a part on both hosts at once, and the fault after some seconds; then remove the folder."""
    begun = time.monotonic()
    with ThreadPoolExecutor() as pool:
        shares = zip(hosts, "ab", (part, PARTS[part]), strict=True)
        working = [pool.submit(on_host, command, host, share, folder, *options) for command, host, share in shares]
        if fault:
            time.sleep(after)
            subprocess.run(fault, shell=True, check=True)
        lines = [line for each in working for line in each.result()]
    seconds = time.monotonic() - begun
    said: dict[str, list[str]] = {}
    for line in [*lines, *on_host(hosts[0], "a", "show", folder), *on_host(hosts[0], "a", "clear", folder)]:
        first, _, rest = line.partition(" ")
        said.setdefault(first, []).append(rest)
    return Outcome(seconds, said)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a folder that both hosts see by this name, and may fill")
    parser.add_argument("hosts", nargs=2, metavar="HOST", help="the command of a host")
    parser.add_argument("--only", nargs="+", default=list(PARTS), choices=PARTS, help="parts (default: all)")
    parser.add_argument("--kills", type=int, default=10, help="kills per host in `ledger` and `runs` (default 10)")
    parser.add_argument("--fault", default="", help="a command for the middle of `ledger` and `runs`")
    parser.add_argument("--after", type=float, default=20, help="seconds after which it is run (default 20)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments of the kills")
    chosen = parser.parse_args()
    warm_up()
    table, failed = Table(title="two hosts, one folder", title_style="bold"), False
    for name in ("part", "tried", "kills", "seconds", "problems"):
        table.add_column(name, justify="left" if name in ("part", "tried") else "right")
    for at, part in enumerate(chosen.only):
        within = part in ("ledger", "runs")
        options = ["--kills", str(chosen.kills if within else 0), "--seed", str(chosen.seed)]
        folder = chosen.folder / f"nzc-{os.getpid()}-{at}"
        outcome = both(part, folder, chosen.hosts, options, chosen.fault if within else "", chosen.after)
        problems = outcome.problems(part)
        for problem in [*problems, *outcome.said.get("said", [])]:
            progress(f"{part}: {problem}")
        kills = sum(map(int, outcome.said.get("killed", [])))
        progress(f"{part}: {outcome.seconds:.0f} s, {len(problems)} problems")
        table.add_row(part, outcome.tried(part), str(kills), f"{outcome.seconds:.0f}", str(len(problems)))
        failed |= bool(problems)
    show(table)
    sys.exit(failed)


if __name__ == "__main__":
    main()
