"""The subcommand nzc sync: send runs that could not be tracked when they ran."""

from contextlib import chdir
from pathlib import Path

from filelock import Timeout
from omegaconf import OmegaConf

from nzc.app.errors import Parser
from nzc.runs.layout import SWEEP, unresolved
from nzc.saying import say
from nzc.tracking import MLflow, cause, send, unsent, wait_at_most
from nzc.validation import InputError, positive

#: The settings of the tracker that are read from a stored configuration.
_SETTINGS = ("uri", "artifacts", "model", "register", "private")


def sync(arguments: list[str]) -> int:
    """Send runs that were not tracked. Exit code 1: something could still not be sent."""
    parser = Parser("nzc sync", description="Send runs that could not be tracked when they ran.")
    parser.add_argument(
        "folders", nargs="*", default=["outputs"], metavar="FOLDER", help="where to look (outputs)"
    )
    parser.add_argument("--uri", help="tracking.uri, where not that of each run")
    parser.add_argument(
        "--wait", type=float, default=60, help="seconds to wait for a server (default 60)"
    )
    chosen = parser.parse_args(arguments)
    positive("--wait", chosen.wait)
    wait_at_most(chosen.wait)
    sent = 0
    failed = 0
    running = 0
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
                say(f"{folder}: {cause(error)}")
    print(f"{sent} sent, {failed} not, {running} under way")
    return int(failed > 0)


def _stored_tracker(folder: Path, uri: str | None) -> MLflow:
    """Return the tracker of the run or sweep in `folder`, which may be a stranger's.

    Its values are plain ones, and never name a class. `uri` of the command line replaces that of
    the folder; only in it, ${oc.env:NAME} is resolved.
    """
    files = [folder / ".hydra/config.yaml", folder / ".hydra/hydra.yaml"]
    if (folder / SWEEP).is_file():
        files = [folder / SWEEP]
    tree = unresolved(OmegaConf.merge(*map(OmegaConf.load, files)))
    values = {key: tree["tracking"][key] for key in _SETTINGS}
    if uri is not None:
        values["uri"] = OmegaConf.create({"uri": uri}).uri
    for key, value in values.items():
        if "${" in str(value):
            raise InputError(
                f"tracking.{key}", value, "must be a plain value in a stored run, or given by --uri"
            )
    home = Path(tree["hydra"]["runtime"]["cwd"])  # relative paths of the configuration start here
    with chdir(home if uri is None and home.is_dir() else "."):
        return MLflow(**values, system_metrics=False)  # they would be this machine's
