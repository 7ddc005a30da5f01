"""The subcommands nzc report and nzc sync, for the folders of runs and sweeps."""

import sys
from contextlib import chdir
from pathlib import Path
from typing import Any

from filelock import Timeout
from omegaconf import OmegaConf

from nzc.app.errors import Parser
from nzc.runs.formatting import show
from nzc.runs.layout import SWEEP
from nzc.runs.result import RunResult
from nzc.runs.summary import result_table
from nzc.tracking import Tracker, cause, send, unsent, wait_at_most
from nzc.validation import InputError, in_a_line, positive


def report(arguments: list[str]) -> int:
    """Write the pages of sweeps, and print the tables of runs."""
    from nzc.sweeps.page import write_page
    from nzc.sweeps.table import Sweep

    parser = Parser("nzc report", description="Write report.html into the folder of a sweep; print the table of a run.")
    parser.add_argument("folders", nargs="+", metavar="FOLDER", type=Path, help="outputs/… of a run or a sweep")
    for folder in parser.parse_args(arguments).folders:
        try:
            if (folder / SWEEP).is_file():
                show(str(write_page(Sweep(folder))))
            else:
                show(result_table(RunResult.read(folder)))
        except Exception as error:  # of missing or damaged files
            allowed = f"must be the folder of a finished run or a sweep, with whole files ({in_a_line(error, 200)})"
            raise InputError("FOLDER", folder, allowed) from error
    return 0


def sync(arguments: list[str]) -> int:
    """Send runs that could not be tracked when they ran. Exit code 1: something could still not be sent."""
    parser = Parser("nzc sync", description="Send runs that could not be tracked when they ran.")
    parser.add_argument("folders", nargs="*", default=["outputs"], metavar="FOLDER", help="where to look (outputs)")
    parser.add_argument("--uri", help="tracking.uri, where not that of each run")
    parser.add_argument("--wait", type=float, default=60, help="seconds to wait for a server (default 60)")
    chosen = parser.parse_args(arguments)
    positive(**{"--wait": chosen.wait})
    wait_at_most(chosen.wait)
    sent = failed = running = 0
    for root in map(Path, chosen.folders):
        if not root.is_dir():
            raise InputError("FOLDER", root, "must be a folder with runs in it")
        for folder in unsent(root):
            try:
                send(folder, _stored_tracker(folder, chosen.uri))
                sent += 1
            except Timeout:
                running += 1
            except Exception as error:
                failed += 1
                print(f"nzc: {folder}: {cause(error)}", file=sys.stderr)
    print(f"{sent} sent, {failed} not, {running} under way")
    return 1 if failed else 0


def _stored_tracker(folder: Path, uri: str | None) -> Tracker:
    """Return the tracker of a run or sweep in `folder`, which may be a stranger's: plain values, never a class.

    `uri` of the command line replaces that of the folder; only in it, ${oc.env:NAME} is resolved.
    """
    from nzc.tracking.mlflow import MLflow

    files = [SWEEP] if (folder / SWEEP).is_file() else [".hydra/config.yaml", ".hydra/hydra.yaml"]
    stored = OmegaConf.merge(*(OmegaConf.load(folder / file) for file in files))
    tree: Any = OmegaConf.to_container(stored, resolve=False)
    values = {key: tree["tracking"][key] for key in ("uri", "artifacts", "model", "register", "private")}
    values |= {} if uri is None else {"uri": OmegaConf.create({"uri": uri}).uri}
    for key, value in values.items():
        if "${" in str(value):
            raise InputError(f"tracking.{key}", value, "must be a plain value in a stored run, or given by --uri")
    home = Path(tree["hydra"]["runtime"]["cwd"])  # relative paths of the configuration start here
    with chdir(home if uri is None and home.is_dir() else "."):
        return MLflow(**values, system_metrics=False)  # they would be this machine's
