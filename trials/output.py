"""Is a run whole when nobody reads what it shows? Closed pipes and streams, full devices, and other encodings.

Each case is a new process. The run must end with exit code 0, leave a whole result.json, and be tracked as FINISHED.
A subcommand that only shows something may end with exit code 1, but without a traceback.
The last cases are a plotting library and a disk that draw no figures.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from _cases import Case, show_cases, shown
from _nzc import in_own_process, progress
from _traces import run_states
from fuzz_tables import VOTES
from mlflow import MlflowClient

#: A tracked run of a few seconds.
RUN = [*VOTES[:-2], "tracking=mlflow", "tracking.system_metrics=false", "figures=false"]
_NZC = f'"{sys.executable}" -m nzc'
#: How the command is started; NZC stands for it and its arguments.
SHELL: dict[str, str] = {
    "| head -c0": "set -o pipefail; NZC | head -c0",
    "2>&1 | head -c0": "set -o pipefail; NZC 2>&1 | head -c0",
    "> /dev/full": "NZC > /dev/full",
    "2> /dev/full": "NZC 2> /dev/full",
    "both > /dev/full": "NZC > /dev/full 2>&1",
    ">&-": "NZC >&-",
    "2>&-": "NZC 2>&-",
    ">&- 2>&- <&-": "NZC >&- 2>&- <&-",
    "latin-1": "PYTHONIOENCODING=latin-1 NZC",
    "ascii": "PYTHONIOENCODING=ascii NZC",
    "ascii:strict": "PYTHONIOENCODING=ascii:strict NZC",
    "LC_ALL=C": "PYTHONCOERCECLOCALE=0 PYTHONUTF8=0 LC_ALL=C NZC",
    "COLUMNS=1": "COLUMNS=1 NZC",
    "MPLBACKEND=foo": "MPLBACKEND=foo NZC figures=true",
}
#: The same for subcommands that show something, in a folder with a finished run.
SUBCOMMANDS: dict[str, str] = {
    f"nzc {what} {how}": f"set -o pipefail; {_NZC} {what} {how}"
    for what in ("store", "plan --teachers 50 --classes 4 --epsilon 1", "--help")
    for how in ("| head -c0", "> /dev/full", ">&-")
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases with this text in their name")
    parser.add_argument("--limit", type=float, default=120, help="seconds that a command may take (default 120)")
    chosen = parser.parse_args()
    folder, cases = Path(tempfile.mkdtemp(prefix="nzc-output-")), []
    database = folder / "mlflow.db"
    in_own_process(lambda: MlflowClient(f"sqlite:///{database}").search_experiments())
    for name, line in [*SHELL.items(), *SUBCOMMANDS.items()]:
        if chosen.only in name:
            cases.append(shown(_try(folder / "home", name, line, database, chosen.limit)))
            progress(f"{len(cases)} cases, {sum(bool(case.problem) for case in cases)} wrong; {name}")
    shutil.rmtree(folder)
    sys.exit(show_cases("output that nobody reads", cases))


def _try(home: Path, name: str, line: str, database: Path, limit: float) -> Case:
    """Start one command, and return what is wrong with its end."""
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    (home / ".nzc").mkdir()
    shutil.copy(database, home)
    np.save(home / "votes.npy", np.random.default_rng(0).multinomial(20, [0.5, 0.3, 0.2], 30))
    is_run, said = name in SHELL, home / "said.txt"
    line = line.replace("NZC", f"{_NZC} {' '.join(RUN)}")
    with said.open("wb") as file:
        process = subprocess.Popen(["bash", "-c", line], cwd=home, stdout=file, stderr=file, stdin=subprocess.DEVNULL)
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            process.kill()
            return Case("run" if is_run else "subcommand", name, "did not end in time")
    code = 0 if code == 1 and not is_run else code  # what shows something, and nothing else, may fail
    problems = [f"exit code {code}: {said.read_text(errors='replace').strip()[-300:]}"] * bool(code)
    if "Traceback" in said.read_text(errors="replace"):
        problems.append("traceback")
    if is_run and not list(home.glob("outputs/*/*/result.json")):
        problems.append("no result.json")
    if is_run and set(states := run_states(home)) != {"FINISHED"}:
        problems.append(f"tracked runs {dict(states)}")
    return Case("run" if is_run else "subcommand", name, "; ".join(problems))


if __name__ == "__main__":
    os.environ.pop("HYDRA_FULL_ERROR", None)
    main()
