"""The page of a run or a sweep: one HTML file that contains all it shows and loads nothing."""

import shlex
from base64 import b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, Template
from omegaconf import OmegaConf
from pandas import DataFrame

from nzc.runs.clock import now
from nzc.runs.formatting import EPSILONS, RECALL, heading, interval, number
from nzc.runs.layout import FIGURES, PAGE, RUN_FIGURES, SWEEP, as_typed, read_overrides
from nzc.runs.metrics import Metrics
from nzc.storage.files import write_private
from nzc.sweeps.frame import read_job
from nzc.sweeps.spec import header_of
from nzc.sweeps.table import Sweep, SweepTable, failure_lines
from nzc.validation import InputError, masked
from nzc.version import __version__

#: What the page of a run shows of its teachers; and of its student, with the meaning of each.
_TEACHERS = [f"teachers.{name}" for name in ("count", "mean_accuracy", "ensemble_accuracy")]
_STUDENT = {
    "metrics.balanced_accuracy": "mean recall of the classes",
    "metrics.majority": "always answering the most frequent class",
    "metrics.auc": "area under the ROC curve",
}


def write_page(folder: Path, sweep: Sweep | None = None) -> Path:
    """Write report.html into the folder of a run, or of a sweep, which is `sweep` if that has been read already.

    It is private, because it shows exact ε.
    """
    if sweep or (folder / SWEEP).is_file():
        about = _of_sweep(sweep or Sweep(folder))
    elif (folder / ".hydra" / "hydra.yaml").is_file():
        about = _of_run(folder)
    else:
        raise InputError("FOLDER", folder, "must be the folder of a run or a sweep, below outputs/")
    jobs, captions = about["jobs"], about["captions"]
    records: list[dict[str, Any]] = jobs.where(jobs.notna(), None).to_dict("records")
    done = sorted((job for job in records if job["error"] is None), key=lambda job: str(job["finished"]))
    known = {key for job in done for key, value in job.items() if value is not None}
    template = Template(
        (Path(__file__).parent / "page.html").read_text(encoding="utf-8"),
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        finalize=lambda shown: masked(shown) if type(shown) is str else shown,
    )  # fmt: skip
    page = template.render(
        about | {"jobs": records, "done": done},
        failed=failure_lines(jobs),
        epsilons={heading(f"epsilon.{name}"): EPSILONS[name] for name in EPSILONS if f"epsilon.{name}" in known},
        deltas=sorted({f"{job['delta']:g}" for job in done}),
        figures=[
            (captions.get(path.stem, path.stem), b64encode(path.read_bytes()).decode())
            for path in sorted((folder / FIGURES).glob("*.svg"))
        ],
        interval=interval,
        number=number,
        written=f"{now()[:16].replace('T', ' ')} UTC by nzc {__version__}",
    )
    return write_private(folder / PAGE, page)


def _of_sweep(sweep: Sweep) -> dict[str, Any]:
    recorded = sweep.config.hydra.overrides
    overrides = [*as_typed(recorded.hydra), *as_typed(recorded.task)]
    single = ["hydra.mode=RUN"] if sweep.config.hydra.runtime.choices.get("sweeps") else []  # the file says MULTIRUN
    undrawn = [f"{drawing.figure.name} ({drawing.empty})" for drawing in sweep.drawings if drawing.empty]
    if sweep.config.figures is False and sweep.figures:
        undrawn = ["any figure (figures=false)"]
    return {
        "kind": "sweep",
        "title": sweep.name,
        "header": header_of(sweep.config),
        "command": _command("--multirun" if text == "hydra.mode=MULTIRUN" else text for text in overrides),
        "commands": [_command([*own, *single]) for own in sweep.jobs.get("overrides", [])],
        "jobs": sweep.jobs,
        "table": sweep.table(sweep.done),
        "captions": {drawing.figure.name: drawing.caption for drawing in sweep.drawings},
        "undrawn": undrawn,
    }


def _of_run(folder: Path) -> dict[str, Any]:
    choices, job = OmegaConf.load(folder / ".hydra" / "hydra.yaml").hydra.runtime.choices, read_job(folder, "run")
    recall = {key.removeprefix(RECALL): job[key] for key in job if key.startswith(RECALL)}
    lowest = [RECALL + name for name, _ in Metrics(recall=recall).lowest]
    meanings = _STUDENT | dict.fromkeys(lowest[:1], f"the lowest of {len(recall)} classes")
    jobs = DataFrame([job], dtype=object)
    return {
        "kind": "run",
        "title": " · ".join(str(job.get(group, choices[group])) for group in ("dataset", "aggregator", "student")),
        "header": {},
        "command": _command(read_overrides(folder)),
        "commands": [],
        "jobs": jobs,
        "table": SweepTable(jobs, [*_TEACHERS, *_STUDENT, *lowest]),
        "meanings": {heading(key): meaning for key, meaning in meanings.items()},
        "captions": RUN_FIGURES,
        "undrawn": [],
    }


def _command(overrides: Iterable[str]) -> str:
    return shlex.join(["nzc", *map(masked, overrides)])
