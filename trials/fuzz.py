"""Wrong and hostile input, made up by chance: configurations and data files.

Every one must end in one line `nzc: …` and exit code 2, or in a run with a whole result.json: no traceback, no hang, no
payload that ran, no file but in the run's folder and the store.

    python trials/fuzz.py --count 1000                 # all kinds in turn
    python trials/fuzz.py --only npz --first 17        # of one kind; from one input on

Everything is imported once; each input gets a fork of that process, an empty folder and a limit of time and memory.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import fuzz_files  # noqa: F401  (registers its kinds)
from fuzz_inputs import KINDS
from fuzz_run import run

from nzc.runs.formatting import Report

#: What a run may leave where it is started, besides its input.
OURS = {"outputs", ".nzc", "mlflow.db", "mlartifacts"}
WHOLE = {field.name for field in fields(Report)}
TALLIES = ("ran", "one-line errors", "tracebacks", "hangs", "stray files", "other")


@dataclass
class Ended:
    """How an input ended: one of TALLIES, and what was wrong where it is a finding."""

    tally: str
    said: str = ""


def judge(code: int | None, said: str, folder: Path, before: set[str], given: list[str]) -> Ended:
    """What the run was."""
    shows = {"--cfg", "--help", "--info", "--version"} & set(given)
    if code is None:
        return Ended("hangs", said[-500:])
    if "Traceback" in said:
        return Ended("tracebacks", said[-1500:])
    stray = {path.name for path in folder.iterdir()} - before - OURS
    if lost := before - {path.name for path in folder.iterdir()}:
        return Ended("stray files", f"lost {sorted(lost)}: {said[-300:]}")
    if stray and not any(argument.startswith(("hydra.run.dir=", "paths.output=")) for argument in given):
        return Ended("stray files", f"{sorted(stray)} (exit {code}, {said[-300:]})")
    if code == 2:
        one = said.startswith("nzc: ") and said.count("\n") == 1 and len(said.splitlines()) == 1
        results = list(folder.glob("outputs/*/*/*"))
        if results:
            return Ended("other", f"left {results[:3]} after {said[:300]}")
        return Ended("one-line errors", said) if one else Ended("other", f"exit 2, not one line: {said[:800]!r}")
    if code == 1 and "paths.store=.nzc" in given and said.startswith("nzc: ") and said.count("\n") == 1:
        return Ended("one-line errors", said)  # a store whose files are folders is no input: it failed while running
    if code:
        return Ended("other", f"exit {code}: {said[-800:]}")
    if shows:
        return Ended("ran")
    results = list(folder.glob("**/result.json"))
    try:
        whole = bool(results) and all(json.loads(path.read_text()).keys() >= WHOLE for path in results)
    except ValueError:
        whole = False
    return Ended("ran", said) if whole else Ended("other", f"exit 0 without a whole result.json: {said[-500:]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", default="", help="kinds whose name begins so")
    parser.add_argument("--limit", type=float, default=60, help="seconds that an input may take")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no further input after these")
    parser.add_argument("--verbose", action="store_true", help="also say how good inputs and good complaints ended")
    asked = parser.parse_args()
    kinds = [kind for kind in KINDS if kind.startswith(asked.only)]
    tallies: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
    home = Path(tempfile.mkdtemp(prefix="nzc-fuzz-"))
    start = time.monotonic()
    before_all = {path.name for path in Path.cwd().iterdir()}
    for number in range(asked.first, asked.first + asked.count):
        if time.monotonic() > start + 60 * asked.minutes:
            break
        kind = kinds[number % len(kinds)]
        folder = home / str(number)
        folder.mkdir()
        given = KINDS[kind](random.Random(f"{asked.seed} {kind} {number}"), folder)
        before = {path.name for path in folder.iterdir()}
        began = time.monotonic()
        ended = judge(*run(given, folder, asked.limit), folder, before, given)
        tallies[kind][ended.tally] += 1
        if asked.verbose or ended.tally not in TALLIES[:2]:
            shown = " ".join(argument[:200] for argument in given)
            print(f"{number} {kind} {ended.tally} {time.monotonic() - began:.1f} s: {shown!r}")
            print(f"    {ended.said.strip()[:1500]}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(home, ignore_errors=True)
    if made := {path.name for path in Path.cwd().iterdir()} - before_all - {"__pycache__"}:
        print(f"stray in the working directory: {sorted(made)}")
    print("kind | inputs | " + " | ".join(TALLIES))
    for kind, tally in [*tallies.items(), ("all", sum(tallies.values(), Counter()))]:
        print(f"{kind} | {tally.total()} | " + " | ".join(str(tally[name]) for name in TALLIES))
    found = sum(tally.total() - tally["ran"] - tally["one-line errors"] for tally in tallies.values())
    sys.exit(1 if found or made else 0)


if __name__ == "__main__":
    main()
