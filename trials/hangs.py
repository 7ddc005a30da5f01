"""Does a run end in time when another does not answer? Servers, databases, and a stopped process with a lock.

A run waits for a server or another process at most `wait` seconds: for a tracker when it starts and when it ends. A run
must end within three times the limit, and its own time. A tracker that does not answer costs
a line: exit code 0 and a whole result.json; a tracker that answers wrongly may also be refused. A file that is no
database is refused in one line with exit code 2, within 10 seconds. A run behind a stopped one ends in one line with
exit code 1. Pipes and devices as data are inputs of trials/fuzz.py.
"""

import argparse
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path

import numpy as np
from _cases import Case, refusal, show_cases, shown
from _nzc import ERR, Trap, in_own_process, progress, run, start, warm_up
from _server import SERVERS, delayed, server
from fuzz_inputs import waiting
from fuzz_tables import VOTES
from mlflow import MlflowClient

TRACKED = [*VOTES[:-2], VOTES[-1], "tracking=mlflow", "tracking.system_metrics=false"]
#: Teachers in a second, for the lock of their predictions.
TEACHERS = ["teachers=logistic", "teachers.count=6", "teachers.parallel=1", "student=none", "recipe=papers"]
TEACHERS += ["tracking=none", "figures=false", "trainer.accelerator=cpu", "trainer.progress=false"]
#: Seconds that a run may take by itself on a busy machine; those until a refusal.
OWN, REFUSED = 20, 10


@contextmanager
def locked(database: Path) -> Iterator[None]:
    """Hold the write lock of an SQLite database, in this process."""
    connection = sqlite3.connect(database, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        connection.close()


class Workshop:
    """A folder of trials.

    wait   the limit that runs are given
    limit  seconds after which a run counts as one that hangs, and is killed
    """

    def __init__(self, folder: Path, wait: int, limit: int) -> None:
        self.folder, self.wait, self.limit, self.database = folder, wait, limit, folder / "mlflow.db"
        in_own_process(lambda: MlflowClient(f"sqlite:///{self.database}").search_experiments())

    def new_folder(self, name: str = "home") -> Path:
        """Return an empty folder with votes and an MLflow database."""
        home = self.folder / name
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        shutil.copy(self.database, home)
        np.save(home / "votes.npy", np.random.default_rng(0).multinomial(20, [0.5, 0.3, 0.2], 30))
        return home

    def timed(self, home: Path, command: list[str], allowed: float) -> tuple[int, str]:
        """Run a command, and return its exit code, and what is wrong with the time it took."""
        begun = time.monotonic()
        code = run(home, [*command, *waiting(self.wait)], seconds=self.limit)
        spent = time.monotonic() - begun
        progress(f"    {spent:.1f} s, exit code {code}: {(home / ERR).read_text(errors='replace').strip()[:200]}")
        return code, f"took {spent:.0f} s, not {allowed:.0f}" if spent > allowed else ""

    def ends(self, kind: str, name: str, home: Path, options: list[str]) -> Case:
        """A run whose tracker does not answer must end well, or be refused in one line."""
        code, problem = self.timed(home, [*TRACKED, *options], 3 * self.wait + OWN)
        whole = code == 0 and list(home.glob("outputs/*/*/result.json"))
        if not problem and not whole and refusal(code, home):
            problem = f"exit code {code}: {(home / ERR).read_text(errors='replace').strip()[-300:]}"
        return shown(Case(kind, name, problem))

    def refused(self, name: str, make: Callable[[Path], object]) -> Case:
        """A run whose database can be none must be refused at once."""
        home = self.new_folder()
        make(home / "made")
        code, problem = self.timed(home, [*TRACKED, "tracking.uri=sqlite:///made"], REFUSED)
        return shown(Case("databases that are none", name, problem or refusal(code, home)))

    def named(self, name: str) -> Case:
        """The local database must be in the working folder, whatever that is called."""
        home = self.new_folder(name)
        (home / "mlflow.db").unlink()
        before = set(self.folder.rglob("*"))
        case = self.ends("names of folders", name, home, [])
        strange = [path for path in set(self.folder.rglob("*")) - before if home not in path.parents]
        there = (home / "mlflow.db").is_file()
        return case if there and not strange else shown(case._replace(problem=f"no mlflow.db there, but {strange}"))

    def behind_a_stopped_run(self) -> Case:
        """A run that needs the predictions which a stopped one computes must end in one line."""
        home = self.new_folder()
        first = start(home, TEACHERS, Trap("nzc.teachers.sklearn:save", call=3, signal=signal.SIGSTOP), name="first.")
        os.waitpid(first, os.WUNTRACED)
        code, problem = self.timed(home, TEACHERS, self.wait + OWN)
        said = (home / ERR).read_text(errors="replace")
        if not problem and (code != 1 or not said.splitlines()[-1:] or "Traceback" in said):
            problem = f"exit code {code}: {said[-300:]!r}"
        os.kill(first, signal.SIGKILL)
        os.waitpid(first, 0)
        return shown(Case("teachers of a stopped run", "waits", problem))


@contextmanager
def slow_server(folder: Path) -> Iterator[str]:
    """Start MLflow's server and one before it that answers each request a second later; yield the latter's address."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{folder}/server.db"]
    with (folder / "server.txt").open("w") as said, subprocess.Popen(command, cwd=folder, stderr=said, stdout=said,
                                                                   start_new_session=True) as process:  # fmt: skip
        try:
            for _ in range(120):
                time.sleep(1)
                with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                    break
            with server(delayed(port, 1.0)) as address:
                yield address
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wait", type=int, default=10, help="the limit of the runs in seconds (default 10)")
    parser.add_argument("--limit", type=int, default=300, help="seconds after which a run is killed (default 300)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases with this text in `kind: name`")
    chosen = parser.parse_args()
    warm_up()
    folder = Path(tempfile.mkdtemp(prefix="nzc-hangs-"))
    workshop = Workshop(folder, chosen.wait, chosen.limit)

    def with_slow_server() -> Case:
        home = workshop.new_folder()
        shutil.copy(workshop.database, home / "server.db")
        with slow_server(home) as address:
            return workshop.ends("servers", "answers after 1 s", home, [f"tracking.uri={address}"])

    def with_server(kind: str, name: str, healthy: bool) -> Case:
        with server(SERVERS[name], healthy) as address:
            return workshop.ends(kind, name, workshop.new_folder(), [f"tracking.uri={address}"])

    def with_lock(name: str) -> Case:
        home = workshop.new_folder()
        with locked(home / "mlflow.db") if name == "locked" else nullcontext():
            return workshop.ends("databases", name, home, [])

    trials: dict[tuple[str, str], Callable[[], Case]] = {
        (kind, name): lambda kind=kind, name=name, healthy=healthy: with_server(kind, name, healthy)  # type: ignore[misc]
        for kind, healthy in (("servers", True), ("servers without a health check", False))
        for name in SERVERS
        if healthy or name in ("hangs", "drips", "closes")
    }
    trials["servers", "answers after 1 s"] = with_slow_server
    for name in ("locked", "free"):
        trials["databases", name] = lambda name=name: with_lock(name)  # type: ignore[misc]
    made: dict[str, Callable[[Path], object]] = {
        "a folder": Path.mkdir, "a FIFO": os.mkfifo, "no SQLite database": lambda path: path.write_bytes(b"x" * 5000),
        "a link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
        "below a file": lambda path: path.symlink_to("votes.npy/x"),
    }  # fmt: skip
    for name, make in made.items():
        trials["databases that are none", name] = lambda name=name, make=make: workshop.refused(name, make)  # type: ignore[misc]
    for name in ("%20", "q?x", "a b", "a#b", "a;b=c", "שלום", "a:b@c"):
        trials["names of folders", name] = lambda name=name: workshop.named(name)  # type: ignore[misc]
    trials["teachers of a stopped run", "waits"] = workshop.behind_a_stopped_run
    cases = []
    for (kind, name), attempt in trials.items():
        if chosen.only in f"{kind}: {name}":
            progress(f"{kind}: {name}")
            cases.append(attempt())
    shutil.rmtree(folder)
    sys.exit(show_cases("others that do not answer", cases, wrong="hang or fail"))


if __name__ == "__main__":
    main()
