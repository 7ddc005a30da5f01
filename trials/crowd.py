"""Do processes that share a store and a ledger get in each other's way?

at once     all processes begin together in an empty folder: half of them with one request, the others with another
            aggregator each, all on the same teachers
with kills  the same, while processes are killed at random moments and their commands given again
damaged     between runs a store entry is damaged; then two processes ask for it at once

No teacher may be trained twice, no release may be lost or doubled, every result must be that of a run alone, and damage
must be seen, set aside and made good.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _nzc import BASE, ERR, SMALL, Trap, files, progress, releases, result, run, start, states, trained, wait, warm
from rich.table import Table

from nzc.runs.formatting import show

TEACHERS = 6
#: What the first half of the processes is told, and what the others are, in turn.
SAME = [*SMALL, "tracking.model=false", "aggregator=gnmax"]
OTHERS = [
    [*BASE, "tracking.model=false", "student=none", f"aggregator={name}"]
    for name in ("lnmax", "gumbel", "confident", "nzc")
]


@dataclass
class Found:
    """What a part of the trial came to; `wrong` says in words what must not be."""

    name: str
    processes: int
    kills: int = 0
    damaged: int = 0
    seen: int = 0
    twice: int = 0
    releases: int = 0
    doubled: int = 0
    lost: int = 0
    wrong: list[str] = field(default_factory=list)


class Alone:
    """What each command gives where nobody else is: results, and the releases of all of them together."""

    def __init__(self, folder: Path, commands: list[list[str]]) -> None:
        for command in commands:
            if run(folder, command):
                raise RuntimeError((folder / ERR).read_text())
        self.results, self.releases = _results(folder), releases(folder / ".nzc")
        self.store = files(folder)


def _results(folder: Path) -> list[dict[str, Any]]:
    """Every result below outputs/. What the ledger held at that time depends on who came first: that is left out."""
    found = [result(path) for path in sorted(folder.glob("outputs/*/*/result.json"))]
    for each in found:
        del each["epsilon"]["ledger_total"]
    return found


def crowd(name: str, folder: Path, alone: Alone, commands: list[list[str]], kills: int, rng: random.Random) -> Found:
    """All commands at once; `kills` of their processes are killed on the way, and begun again."""
    found = Found(name, len(commands))
    folder.mkdir()
    alive = {start(folder, command, name=f"{number}-"): number for number, command in enumerate(commands)}
    strike = time.monotonic() + rng.uniform(0, 3)
    while alive:
        done, status = os.waitpid(-1, os.WNOHANG)
        if done:
            number, code = alive.pop(done), os.waitstatus_to_exitcode(status)
            if code == -signal.SIGKILL:
                alive[start(folder, commands[number], name=f"{number}-")] = number
            elif code:
                found.wrong.append(f"exit code {code}: {(folder / f'{number}-{ERR}').read_text().strip()[-300:]}")
        elif found.kills < kills and time.monotonic() > strike:
            os.kill(rng.choice(list(alive)), signal.SIGKILL)
            found.kills += 1
            strike = time.monotonic() + rng.uniform(0, 3)
            progress(f"{name}: {found.kills} of {kills} kills, {len(alive)} processes")
        else:
            time.sleep(0.01)
    if kills and run(folder, commands[-1]):  # the next start closes the tracked runs of the killed
        found.wrong.append(f"the run after: {(folder / ERR).read_text().strip()[-300:]}")
    _count(found, folder, alone, least=len(commands))
    if extra := files(folder) - alone.store:
        found.wrong.append(f"left in the store: {', '.join(sorted(extra))}")
    return found


def _count(found: Found, folder: Path, alone: Alone, least: int, trainings: int = TEACHERS) -> None:
    """Teachers, releases and results against those of runs alone; `trainings` is how many were needed."""
    counts, kept, results = trained(folder), releases(folder / ".nzc"), _results(folder)
    found.twice = max(0, sum(counts.values()) - trainings)
    found.releases, found.lost = len(kept), len(alone.releases - kept)
    found.doubled = len(kept - alone.releases)
    if sum(counts.values()) != trainings or len(counts) != TEACHERS:
        found.wrong.append(f"trained {dict(counts)}")
    if len(results) < least:
        found.wrong.append(f"{len(results)} results of {least}")
    found.wrong += [f"another result: {each}" for each in results if each not in alone.results]
    with closing(sqlite3.connect(folder / ".nzc" / "ledger.db")) as connection:
        said = connection.execute("PRAGMA integrity_check").fetchone()[0]
    if said != "ok":
        found.wrong.append(f"ledger: {said}")
    if (runs := states(folder)) and set(runs) - {"FINISHED", "KILLED"}:
        found.wrong.append(f"tracked runs {dict(runs)}")


def _cut(name: str, share: float) -> Callable[[Path], None]:
    def cut(entry: Path) -> None:
        data = (entry / name).read_bytes()
        (entry / name).write_bytes(data[: int(share * len(data))])

    return cut


def _flip(name: str, share: float) -> Callable[[Path], None]:
    def flip(entry: Path) -> None:
        data = bytearray((entry / name).read_bytes())
        data[int(share * len(data))] ^= 1
        (entry / name).write_bytes(data)

    return flip


def _drop(name: str) -> Callable[[Path], None]:
    return lambda entry: (entry / name).unlink()


def _edit(name: str, change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Still whole as JSON, but not what was written."""

    def edit(entry: Path) -> None:
        told = json.loads((entry / name).read_text())
        change(told)
        (entry / name).write_text(json.dumps(told))

    return edit


def _empty(entry: Path) -> None:
    for path in entry.iterdir():
        path.unlink()


_VOTES, _TOLD = "predictions.npy", "arrays.json"
#: What becomes of the whole entry of the predictions.
DAMAGES: dict[str, Callable[[Path], object]] = {
    "array: last byte gone": _cut(_VOTES, 0.9999),
    "array: half of it": _cut(_VOTES, 0.5),
    "array: empty": _cut(_VOTES, 0),
    "array: gone": _drop(_VOTES),
    "array: a bit of the header": _flip(_VOTES, 0.004),
    "array: a bit in the middle": _flip(_VOTES, 0.5),
    "array: a bit at the end": _flip(_VOTES, 0.9999),
    "request.json: gone": _drop("request.json"),
    "request.json: half of it": _cut("request.json", 0.5),
    "request.json: another request": _edit("request.json", lambda told: told.update(epochs=1)),
    "arrays.json: gone": _drop(_TOLD),
    "arrays.json: half of it": _cut(_TOLD, 0.5),
    "arrays.json: no array": _edit(_TOLD, dict.clear),
    "arrays.json: another name": _edit(_TOLD, lambda told: told.update(votes=told.pop("predictions"))),
    "arrays.json: another digest": _edit(_TOLD, lambda told: told["predictions"].update(sha256="0" * 64)),
    "arrays.json: no type": _edit(_TOLD, lambda told: told["predictions"].pop("dtype")),
    "arrays.json: no such type": _edit(_TOLD, lambda told: told["predictions"].update(dtype="<i9")),
    "arrays.json: type of another kind": _edit(_TOLD, lambda told: told["predictions"].update(dtype="<f4")),
    "arrays.json: a list": lambda entry: (entry / _TOLD).write_text("[1]"),
    "folder: empty": _empty,
}
#: And of the unfinished work that a kill left.
WORK: dict[str, Callable[[Path], object]] = {
    "work: a teacher cut": _cut("1.npy", 0.5),
    "work: a teacher empty": _cut("1.npy", 0),
    "work: a bit of a teacher": _flip("1.npy", 0.9),
}


def damaged(name: str, folder: Path, alone: Alone, whole: Path) -> Found:
    """A copy of what a run left, or a killed run's work, is damaged; two processes then ask for it at once."""
    found = Found(name, 2, damaged=1)
    if name in WORK:
        found.kills = 1
        run(folder, OTHERS[0], Trap("nzc.teachers.engine:save", call=4))
        (entry,) = folder.glob(".nzc/predictions/*.work")
    else:
        moved = shutil.ignore_patterns("mlflow.db*", "mlartifacts")  # these know where they were made
        shutil.copytree(whole, folder, ignore=moved)
        (entry,) = (path.parent for path in folder.glob(f".nzc/predictions/*/{_VOTES}"))
    (DAMAGES | WORK)[name](entry)
    pair = [start(folder, OTHERS[0], name=f"{number}-") for number in range(2)]
    if any([wait(process) for process in pair]):
        found.wrong += [(folder / f"{number}-{ERR}").read_text().strip()[-300:] for number in range(2)]
    said = "".join((folder / f"{number}-{ERR}").read_text() for number in range(2))
    found.seen = said.count("was damaged")
    if found.seen != 1:
        found.wrong.append(f"seen {found.seen} times: {said!r}")
    if name in WORK:
        _count(found, folder, alone, 2, trainings=TEACHERS + 1)
    else:
        if not list(folder.glob(".nzc/predictions/*.damaged-0")):
            found.wrong.append("not set aside")
        _count(found, folder, alone, 3, trainings=2 * TEACHERS)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=8, help="how many at once (default 8)")
    parser.add_argument("--kills", type=int, default=20, help="and how many kills among them (default 20)")
    parser.add_argument("--seed", type=int, default=0, help="of who is killed, and when")
    parser.add_argument("--only", default="", metavar="TEXT", help="only the parts with this in their name")
    parser.add_argument("--keep", help="a folder to work in; it stays")
    chosen = parser.parse_args()
    warm()
    root = Path(chosen.keep or tempfile.mkdtemp(prefix="nzc-crowd-")).absolute()
    root.mkdir(exist_ok=True)
    half = chosen.processes - chosen.processes // 2
    commands = [SAME] * half + [OTHERS[i % len(OTHERS)] for i in range(chosen.processes - half)]
    rng, parts = random.Random(chosen.seed), []
    names = [name for name in ("at once", "with kills", *DAMAGES, *WORK) if chosen.only in name]
    everybody = Alone(root / "everybody", [SAME, *OTHERS])
    one = Alone(root / "one", OTHERS[:1])
    for number, name in enumerate(names):
        folder = root / f"{number}"
        if name in DAMAGES or name in WORK:
            part = damaged(name, folder, one, root / "one")
        else:
            part = crowd(name, folder, everybody, commands, chosen.kills if name == "with kills" else 0, rng)
        parts.append(part)
        for word in part.wrong:
            progress(f"WRONG {name}: {word}")
        progress(f"{number + 1} of {len(names)}: {name}")
    if chosen.keep is None:
        shutil.rmtree(root)
    sys.exit(_tell(parts))


def _tell(parts: list[Found]) -> int:
    columns = ("processes", "kills", "damaged", "seen", "twice", "releases", "doubled", "lost")
    table = Table(title="one store, one ledger", title_style="bold")
    table.add_column("part")
    for name in columns:
        table.add_column("trained twice" if name == "twice" else name, justify="right")
    table.add_column("wrong", justify="right")
    for part in parts:
        table.add_row(part.name, *(str(getattr(part, name)) for name in columns), str(len(part.wrong)))
    show(table)
    return int(any(part.wrong or part.twice or part.doubled or part.lost for part in parts))


if __name__ == "__main__":
    main()
