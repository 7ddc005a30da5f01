"""Do processes that share a store and a ledger disturb each other?

at once     all processes start together in an empty folder. Half of them have the same overrides, the others have
            another aggregator each; all of them need the same teachers
with kills  the same, while processes are killed at random moments and started again
damages     a stored entry is damaged; then two processes ask for it at once

No teacher may be trained twice, no release may be lost or recorded twice, every result must be that of an undisturbed
run, and damage must be reported, renamed and repaired.
"""

import argparse
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _nzc import BASE, ERR, SMALL, Trap, progress, run, start, wait, warm_up
from _traces import releases, result, run_states, store_files, trained
from crowd_damage import DAMAGES, WORK
from rich.table import Table

from nzc.runs.formatting import show

TEACHERS = 6
#: The overrides of the first half of the processes, and in turn those of the others.
SAME = [*SMALL, "tracking.model=false", "aggregator=gnmax"]
OTHERS = [
    [*BASE, "tracking.model=false", "student=none", f"aggregator={name}"]
    for name in ("lnmax", "gumbel", "confident", "nzc")
]


@dataclass
class Outcome:
    """The figures of one part of the trial, and its problems in words.

    reported  how often damage was reported
    twice     how many trainings were not needed
    doubled   releases in the ledger that undisturbed runs do not record
    lost      releases that are missing in the ledger
    """

    name: str
    processes: int
    kills: int = 0
    damaged: int = 0
    reported: int = 0
    twice: int = 0
    releases: int = 0
    doubled: int = 0
    lost: int = 0
    problems: list[str] = field(default_factory=list)


class Undisturbed:
    """What commands leave when they run one after the other: results, releases, and files of the store."""

    def __init__(self, folder: Path, commands: list[list[str]]) -> None:
        for command in commands:
            if run(folder, command):
                raise RuntimeError((folder / ERR).read_text())
        self.results, self.releases = _results(folder), releases(folder / ".nzc")
        self.store = store_files(folder)


def _results(folder: Path) -> list[dict[str, Any]]:
    """Return every result below outputs/ without what the ledger adds up: it depends on the order of the processes."""
    found = [result(path) for path in sorted(folder.glob("outputs/*/*/result.json"))]
    for each in found:
        del each["epsilon"]["ledger_total"], each["ledger_trials"]
    return found


def run_together(
    name: str, folder: Path, expected: Undisturbed, commands: list[list[str]], kills: int, rng: random.Random
) -> Outcome:
    """Run all commands at once. Kill `kills` of their processes at random moments, and start them again."""
    outcome = Outcome(name, len(commands))
    folder.mkdir()
    alive = {start(folder, command, name=f"{number}-"): number for number, command in enumerate(commands)}
    next_kill = time.monotonic() + rng.uniform(0, 3)
    while alive:
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended:
            number, code = alive.pop(ended), os.waitstatus_to_exitcode(status)
            if code == -signal.SIGKILL:
                alive[start(folder, commands[number], name=f"{number}-")] = number
            elif code:
                outcome.problems.append(f"exit code {code}: {(folder / f'{number}-{ERR}').read_text().strip()[-300:]}")
        elif outcome.kills < kills and time.monotonic() > next_kill:
            os.kill(rng.choice(list(alive)), signal.SIGKILL)
            outcome.kills += 1
            next_kill = time.monotonic() + rng.uniform(0, 3)
            progress(f"{name}: {outcome.kills} of {kills} kills, {len(alive)} processes")
        else:
            time.sleep(0.01)
    if kills and run(folder, commands[-1]):  # the next run closes the tracked runs of killed processes
        outcome.problems.append(f"the next run: {(folder / ERR).read_text().strip()[-300:]}")
    _compare(outcome, folder, expected, results=len(commands))
    if extra := store_files(folder) - expected.store:
        outcome.problems.append(f"left in the store: {', '.join(sorted(extra))}")
    return outcome


def _compare(outcome: Outcome, folder: Path, expected: Undisturbed, results: int, trainings: int = TEACHERS) -> None:
    """Compare teachers, releases and results with those of undisturbed runs.

    results    how many there must be at least
    trainings  how many trainings were needed
    """
    counts, recorded, found = trained(folder), releases(folder / ".nzc"), _results(folder)
    outcome.twice = max(0, sum(counts.values()) - trainings)
    outcome.releases, outcome.lost = len(recorded), len(expected.releases - recorded)
    outcome.doubled = len(recorded - expected.releases)
    if sum(counts.values()) != trainings or len(counts) != TEACHERS:
        outcome.problems.append(f"trained {dict(counts)}")
    if len(found) < results:
        outcome.problems.append(f"{len(found)} results of {results}")
    outcome.problems += [f"another result: {each}" for each in found if each not in expected.results]
    with closing(sqlite3.connect(folder / ".nzc" / "ledger.db")) as connection:
        integrity = connection.execute("PRAGMA integrity_check").fetchone()[0]
    if integrity != "ok":
        outcome.problems.append(f"ledger: {integrity}")
    if (states := run_states(folder)) and set(states) - {"FINISHED", "KILLED"}:
        outcome.problems.append(f"tracked runs {dict(states)}")


def run_with_damage(name: str, folder: Path, expected: Undisturbed, whole: Path) -> Outcome:
    """Damage a copy of the entry that a run in `whole` left, or a killed run's work; two processes then ask for it."""
    outcome = Outcome(name, 2, damaged=1)
    if name in WORK:
        outcome.kills = 1
        run(folder, OTHERS[0], Trap("nzc.teachers.engine:save", call=4))
        (entry,) = folder.glob(".nzc/predictions/*.work")
    else:
        # The tracked runs are not copied: their database knows the folder in which it was made.
        shutil.copytree(whole, folder, ignore=shutil.ignore_patterns("mlflow.db*", "mlartifacts"))
        (entry,) = folder.glob(".nzc/predictions/*.npz")
    (DAMAGES | WORK)[name](entry)
    pair = [start(folder, OTHERS[0], name=f"{number}-") for number in range(2)]
    if any([wait(process) for process in pair]):
        outcome.problems += [(folder / f"{number}-{ERR}").read_text().strip()[-300:] for number in range(2)]
    messages = "".join((folder / f"{number}-{ERR}").read_text() for number in range(2))
    outcome.reported = messages.count("was damaged")
    if name in WORK:  # the damaged teacher is trained again, as a missing one would be
        _compare(outcome, folder, expected, 2, trainings=TEACHERS + 1)
        return outcome
    if outcome.reported != 1:
        outcome.problems.append(f"reported {outcome.reported} times: {messages!r}")
    if not list(folder.glob(".nzc/predictions/*.damaged-0")):
        outcome.problems.append("was not renamed")
    _compare(outcome, folder, expected, 3, trainings=2 * TEACHERS)
    return outcome


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=8, help="how many at once (default 8)")
    parser.add_argument("--kills", type=int, default=20, help="how many of them are killed (default 20)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments of the kills")
    parser.add_argument("--only", default="", metavar="TEXT", help="only the parts with this text in their name")
    parser.add_argument("--keep", help="folder to work in, which is kept")
    chosen = parser.parse_args()
    warm_up()
    root = Path(chosen.keep or tempfile.mkdtemp(prefix="nzc-crowd-")).absolute()
    root.mkdir(exist_ok=True)
    half = chosen.processes - chosen.processes // 2
    commands = [SAME] * half + [OTHERS[i % len(OTHERS)] for i in range(chosen.processes - half)]
    rng, outcomes = random.Random(chosen.seed), []
    names = [name for name in ("at once", "with kills", *DAMAGES, *WORK) if chosen.only in name]
    used = [command for command in [SAME, *OTHERS] if command in commands]
    everybody = Undisturbed(root / "everybody", used)
    single = Undisturbed(root / "single", OTHERS[:1])
    for number, name in enumerate(names):
        folder = root / f"{number}"
        if name in DAMAGES or name in WORK:
            outcome = run_with_damage(name, folder, single, root / "single")
        else:
            kills = chosen.kills if name == "with kills" else 0
            outcome = run_together(name, folder, everybody, commands, kills, rng)
        outcomes.append(outcome)
        for problem in outcome.problems:
            progress(f"WRONG {name}: {problem}")
        progress(f"{number + 1} of {len(names)}: {name}")
    if chosen.keep is None:
        shutil.rmtree(root)
    sys.exit(_show_table(outcomes))


def _show_table(outcomes: list[Outcome]) -> int:
    """Show the figures of all parts. Return 1 where something is wrong, else 0."""
    columns = ("processes", "kills", "damaged", "reported", "twice", "releases", "doubled", "lost")
    table = Table(title="one store, one ledger", title_style="bold")
    table.add_column("part")
    for name in columns:
        table.add_column("trained twice" if name == "twice" else name, justify="right")
    table.add_column("problems", justify="right")
    for each in outcomes:
        table.add_row(each.name, *(str(getattr(each, name)) for name in columns), str(len(each.problems)))
    show(table)
    return int(any(each.problems or each.twice or each.doubled or each.lost for each in outcomes))


if __name__ == "__main__":
    main()
