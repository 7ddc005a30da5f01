"""Random invalid and hostile input for `nzc`: configurations, data files, stores and subcommands.

Every input must end in one line `nzc: …` with exit code 2, or in a run with a whole result.json: no traceback, no hang,
no payload that ran, no file outside the run's folder and the store.

    python trials/fuzz.py --count 1500 --jobs 2        # all kinds of input in turn, two at once
    python trials/fuzz.py --only npz --first 17        # one kind, from one input on

Everything is imported once. Each input gets a fork of that process, an empty folder, and limits of time and memory.
"""

import argparse
import json
import multiprocessing
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path

import fuzz_arrays  # noqa: F401  (registers its kinds of input)
import fuzz_commands  # noqa: F401
import fuzz_files  # noqa: F401
import fuzz_special  # noqa: F401
import fuzz_targets  # noqa: F401
from fuzz_inputs import KINDS
from fuzz_run import run

from nzc.app.commands import COMMANDS
from nzc.runs.result import RunResult

#: Files and folders that a run may leave where it is started, besides its input.
ALLOWED = {"outputs", ".nzc", "mlflow.db", "mlartifacts"}
#: The keys of a whole result.json.
WHOLE = {field.name for field in fields(RunResult)} - {"folder"}
#: How an input may end. All but the first two are findings.
CATEGORIES = ("ran", "one-line errors", "tracebacks", "hangs", "stray files", "other")


@dataclass
class Verdict:
    """How an input ended: one of CATEGORIES, and the message of nzc or what is wrong."""

    category: str
    message: str = ""


@dataclass(frozen=True)
class Fuzzer:
    """Tries inputs by their number. Each process that does so has its own folder in `home`.

    limit  seconds that an input may take
    """

    kinds: list[str]
    seed: int
    limit: float
    home: Path

    def __call__(self, number: int) -> tuple[int, str, Verdict, float, list[str]]:
        """Return number, kind, verdict, seconds and arguments of an input."""
        kind = self.kinds[number % len(self.kinds)]
        folder = self.home / str(os.getpid()) / str(number)
        folder.mkdir(parents=True)
        given = KINDS[kind](random.Random(f"{self.seed} {kind} {number}"), folder)
        before = {path.name for path in folder.iterdir()}
        began = time.monotonic()
        verdict = judge(*run(given, folder, self.limit), folder, before, given)
        shutil.rmtree(folder, ignore_errors=True)
        return number, kind, verdict, time.monotonic() - began, given


_TOLD = re.compile("^nzc: .*(make [0-9]+ features, fitted on|they only measure accuracy$)")


def judge(code: int | None, errors: str, folder: Path, before: set[str], given: list[str]) -> Verdict:
    """Judge a run by its exit code, its standard error and the files that it left.

    code    None: it did not end in time
    before  names of the files in `folder` before the run
    given   the arguments of nzc
    """
    after = {path.name for path in folder.iterdir()}
    lines = errors.splitlines()
    lines = [line for line in lines if not _TOLD.search(line)]  # how a table's columns are used
    one_line = errors.startswith("nzc: ") and len(lines) == 1
    if code is None:
        return Verdict("hangs", errors[-500:])
    if "Traceback" in errors:
        return Verdict("tracebacks", errors[-1500:])
    if lost := before - after:
        return Verdict("stray files", f"lost {sorted(lost)}: {errors[-300:]}")
    chosen_folder = any(argument.startswith(("hydra.run.dir=", "paths.output=")) for argument in given)
    if (stray := after - before - ALLOWED) and not chosen_folder:
        return Verdict("stray files", f"{sorted(stray)} (exit {code}, {errors[-300:]})")
    if given and given[0] in COMMANDS:
        return _judge_subcommand(code, errors, lines)
    if code == 2:
        if list(folder.glob("outputs/sweeps/*/*/*/error.txt")):  # the jobs of a sweep failed, with a line for each
            good = all(line.startswith("nzc: ") for line in lines)
            return Verdict("one-line errors" if good else "other", errors)
        if results := list(folder.glob("outputs/*/*/*")):
            return Verdict("other", f"left {results[:3]} after {errors[:300]}")
        return Verdict("one-line errors", errors) if one_line else Verdict("other", f"exit 2, lines: {errors[:800]!r}")
    # A store whose files are folders fails while the run is under way, and so does a function that suits nothing.
    late = "paths.store=.nzc" in given or (folder / "payload.pkl").is_file()
    if code == 1 and late and one_line:
        return Verdict("one-line errors", errors)
    if code:
        return Verdict("other", f"exit {code}: {errors[-800:]}")
    if {"--cfg", "--help", "--info", "--version"} & set(given):
        return Verdict("ran")
    results = list(folder.glob("**/result.json"))
    try:
        whole = bool(results) and all(json.loads(path.read_text()).keys() >= WHOLE for path in results)
    except ValueError:
        whole = False
    return Verdict("ran", errors) if whole else Verdict("other", f"exit 0, no whole result.json: {errors[-500:]}")


def _judge_subcommand(code: int, errors: str, lines: list[str]) -> Verdict:
    """Judge a subcommand. Exit code 1: some of its folders failed, with one line for each."""
    if code == 0:
        return Verdict("ran", errors)
    good = all(line.startswith("nzc: ") for line in lines) and (len(lines) == 1 if code == 2 else code == 1 and lines)
    return Verdict("one-line errors", errors) if good else Verdict("other", f"exit {code}: {errors[-800:]!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100, help="how many inputs (default 100)")
    parser.add_argument("--first", type=int, default=0, help="number of the first input (default 0)")
    parser.add_argument("--only", default="", help="only kinds whose name begins with this text")
    parser.add_argument("--limit", type=float, default=60, help="seconds that an input may take (default 60)")
    parser.add_argument("--minutes", type=float, default=1e9, help="start no input after so many minutes")
    parser.add_argument("--verbose", action="store_true", help="also show inputs that are no findings")
    parser.add_argument("--jobs", type=int, default=1, help="how many are tried at once (default 1)")
    asked = parser.parse_args()
    kinds = [kind for kind in KINDS if kind.startswith(asked.only)]
    tallies: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
    home = Path(tempfile.mkdtemp(prefix="nzc-fuzz-"))
    start = time.monotonic()
    before_all = {path.name for path in Path.cwd().iterdir()}
    with multiprocessing.get_context("fork").Pool(asked.jobs) as pool:
        numbers = range(asked.first, asked.first + asked.count)
        for number, kind, verdict, seconds, given in pool.imap(Fuzzer(kinds, asked.seed, asked.limit, home), numbers):
            tallies[kind][verdict.category] += 1
            if asked.verbose or verdict.category not in CATEGORIES[:2]:
                shown = " ".join(argument[:200] for argument in given)
                print(f"{number} {kind} {verdict.category} {seconds:.1f} s: {shown!r}")
                print(f"    {verdict.message.strip()[:1500]}", flush=True)
            if time.monotonic() > start + 60 * asked.minutes:
                break
    shutil.rmtree(home, ignore_errors=True)
    if stray := {path.name for path in Path.cwd().iterdir()} - before_all - {"__pycache__"}:
        print(f"stray in the working directory: {sorted(stray)}")
    print("kind | inputs | " + " | ".join(CATEGORIES))
    for kind, tally in [*tallies.items(), ("all", sum(tallies.values(), Counter()))]:
        print(f"{kind} | {tally.total()} | " + " | ".join(str(tally[name]) for name in CATEGORIES))
    findings = sum(tally.total() - tally["ran"] - tally["one-line errors"] for tally in tallies.values())
    sys.exit(1 if findings or stray else 0)


if __name__ == "__main__":
    main()
