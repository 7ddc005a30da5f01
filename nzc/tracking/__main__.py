"""`python -m nzc.tracking [FOLDER…]`: send what could not be sent when it was made."""

import json
import sys
from contextlib import chdir
from datetime import datetime
from pathlib import Path
from typing import Any

from filelock import Timeout
from omegaconf import OmegaConf

from nzc._command import Parser, end
from nzc.config import build
from nzc.errors import InputError, in_a_line
from nzc.question import name_of
from nzc.report.folder import RESULT, SWEEP
from nzc.tracking.tracked import NOTE, PARENT, alone, dead, described, leave_parent, note, parent
from nzc.tracking.tracker import Tracker


def main() -> None:
    """Exit code 0; 1 where something could still not be sent; 2 for wrong input."""
    end(_run)


def _run(arguments: list[str]) -> int:
    parser = Parser("python -m nzc.tracking", description="Send what could not be tracked when it was made.")
    parser.add_argument("folders", nargs="*", default=["outputs"], metavar="FOLDER", help="where to look (outputs)")
    parser.add_argument("--uri", help="of the tracker, where not the one that each run was to be sent to")
    parser.add_argument("--artifacts", help="where a local database keeps them, where not as each run said")
    chosen = parser.parse_args(arguments)
    found: list[Path] = []
    for folder in map(Path, chosen.folders):
        if not folder.is_dir():
            raise InputError("FOLDER", folder, "must be a folder that runs left something in")
        found += [path.parent for path in folder.rglob(NOTE)]
    failed = running = 0
    for folder in sorted(set(found), key=lambda path: (len(path.parts), path)):  # sweeps before their jobs
        try:
            with alone(folder):
                if not (folder / NOTE).is_file():  # somebody else was faster
                    continue
                told = note(folder)
                if told["ended"] is None and not dead(told["process"]):
                    running += 1
                else:
                    _send(folder, told, chosen.uri, chosen.artifacts)
        except Timeout:
            running += 1
        except Exception as error:
            failed += 1
            print(f"nzc: {folder}: {in_a_line(error, 200)}", file=sys.stderr)
    print(f"{len(set(found)) - failed - running} sent, {failed} not, {running} under way")
    return 1 if failed else 0


def _send(folder: Path, told: dict[str, Any], uri: str | None, artifacts: str | None) -> None:
    sweep = (folder / SWEEP).is_file()
    cfg: Any = OmegaConf.load(folder / SWEEP if sweep else folder / ".hydra" / "config.yaml")
    settings = cfg if sweep else OmegaConf.load(folder / ".hydra" / "hydra.yaml")
    choices = settings.hydra.runtime.choices
    asked = (choices.dataset, name_of(cfg), {}) if sweep else described(cfg, choices)
    if uri is not None:
        cfg.tracking.uri = uri
    if artifacts is not None:
        cfg.tracking.artifacts = str(Path(artifacts).absolute())
    if "system_metrics" in cfg.tracking:
        cfg.tracking.system_metrics = False  # of this machine
    there = Path(settings.hydra.runtime.cwd)  # where a relative path of the configuration begins
    with chdir(there if uri is None and there.is_dir() else "."):
        tracker = build(cfg, "tracking", Tracker)
    above = folder.parent if (folder.parent / PARENT).is_file() else None
    if above is not None and parent(above) is None:
        raise InputError("FOLDER", above, "must be sent before its jobs")
    ended = told["until"] or _last(folder, told["begun"])
    run = tracker.start(*asked, parent(above), told["begun"], told["key"])
    note(folder, run=run)
    if sweep:
        leave_parent(folder, run)
    if _finished(folder, told):
        tracker.finish(run, folder, ended)
    else:
        tracker.fail(run, told["ended"] != "FAILED", ended)
    (folder / NOTE).unlink()


def _finished(folder: Path, told: dict[str, Any]) -> bool:
    """Whether the run that the note is about came to its end: a result may be an earlier run's, in the same folder."""
    if told["ended"] == "FINISHED" or not (folder / RESULT).is_file():
        return bool(told["ended"] == "FINISHED")
    finished = datetime.fromisoformat(json.loads((folder / RESULT).read_text())["finished"])
    return bool(finished.timestamp() >= told["begun"] // 1000)


def _last(folder: Path, begun: int) -> int:
    """When a run that was killed outright last wrote, in milliseconds since 1970."""
    return max(begun, *(int(1000 * path.stat().st_mtime) for path in folder.iterdir() if path.name != NOTE))


if __name__ == "__main__":
    main()
