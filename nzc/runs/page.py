"""The page of a run or a sweep: one HTML file that contains all it shows and loads nothing."""

import re
import shlex
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from omegaconf import OmegaConf

from nzc import __version__
from nzc.data.files import write_private
from nzc.runs.curves import AXES
from nzc.runs.formatting import EPSILONS, heading, interval, number
from nzc.runs.layout import FIGURES, PAGE, RUN_FIGURES, SWEEP, Job, read_jobs
from nzc.runs.provenance import now
from nzc.runs.sweep_spec import SweepFigure, figures_of, name_of
from nzc.runs.sweep_table import SweepTable
from nzc.validation import InputError, masked

#: What the page of a run shows of its teachers.
_TEACHERS = [f"teachers.{name}" for name in ("count", "mean_accuracy", "ensemble_accuracy")]


def write_page(folder: Path) -> Path:
    """Write report.html into the folder of a run or a sweep. It is private, because it shows exact ε."""
    if (folder / SWEEP).is_file():
        about = _sweep(folder)
    elif (folder / ".hydra" / "hydra.yaml").is_file():
        about = _run(folder)
    else:
        raise InputError("FOLDER", folder, "must be the folder of a run or a sweep, below outputs/")
    jobs = about["jobs"]
    done = [job for job in jobs if job.result is not None]
    known = {key for job in done for key, value in (job.result or {}).items() if value is not None}
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((Path(__file__).parent / "page.html").read_text())
    page = template.render(
        about,
        done=done,
        table=SweepTable(done, about["keys"]),
        interval=_interval(done),
        epsilons={heading(f"epsilon.{name}"): EPSILONS[name] for name in EPSILONS if f"epsilon.{name}" in known},
        deltas=sorted({f"{job.value('delta'):g}" for job in done}),
        failed=Counter((job.name, job.failure) for job in jobs if job.result is None),
        figures=[_figure(path, about["captions"]) for path in sorted((folder / FIGURES).glob("*.svg"))],
        versions=_versions(done),
        span=_span,
        written=f"{now()[:16].replace('T', ' ')} UTC by nzc {__version__}",
        **_times(done),
    )
    return write_private(folder / PAGE, masked(page))


def _sweep(folder: Path) -> dict[str, Any]:
    config: Any = OmegaConf.load(folder / SWEEP)
    figures, jobs = figures_of(config), read_jobs(folder)
    single = ["hydra.mode=RUN"] if config.hydra.runtime.choices.get("sweeps") else []  # the file says MULTIRUN
    typed = [*config.hydra.overrides.hydra, *config.hydra.overrides.task]
    typed = ["--multirun" if each == "hydra.mode=MULTIRUN" else each for each in typed]
    return {
        "kind": "sweep",
        "title": name_of(config),
        "header": _header(config),
        "command": shlex.join(["nzc", *typed]),
        "commands": [shlex.join(["nzc", *job.overrides, *single]) for job in jobs],
        "jobs": jobs,
        "keys": [key for figure in figures for key in figure.y],
        "captions": {figure.name: _caption(figure, job) for figure in figures for job in jobs if job.result},
    }


def _run(folder: Path) -> dict[str, Any]:
    choices = OmegaConf.load(folder / ".hydra" / "hydra.yaml").hydra.runtime.choices
    job = Job(folder, name="run")
    return {
        "kind": "run",
        "title": " · ".join(choices[group] for group in ("dataset", "aggregator", "student")),
        "header": {},
        "command": shlex.join(["nzc", *job.overrides]),
        "commands": [],
        "jobs": [job],
        "keys": _TEACHERS,
        "captions": RUN_FIGURES,
    }


def _header(config: Any) -> dict[str, str]:
    """Return the comments at the top of a sweep file by name: Question, Expected, Time, Command."""
    sources = [Path(source.path) for source in config.hydra.runtime.config_sources if source.schema == "file"]
    files = [home / "sweeps" / f"{name_of(config)}.yaml" for home in sources]
    file = next(filter(Path.is_file, files), None)
    found: dict[str, str] = {}
    for line in [] if file is None else file.read_text().splitlines():
        if first := re.match(r"# (\w[\w ]*): +(.*)", line):
            found[first[1]] = first[2]
        elif found and (more := re.match(r"# {2,}(.*)", line)):
            found[[*found][-1]] += f" {more[1]}"
        elif not line.startswith("#"):
            break
    return found


def _interval(done: Sequence[Job]) -> str:
    ends = (done[0].result or {}).get("accuracy_interval") if len(done) == 1 else None
    return "" if ends is None else interval(ends)


def _figure(path: Path, captions: dict[str, str]) -> tuple[str, str]:
    """Return caption and data URI."""
    data = b64encode(path.read_bytes()).decode()
    return captions.get(path.stem, path.stem), f"data:image/svg+xml;base64,{data}"


def _caption(figure: SweepFigure, job: Job) -> str:
    if figure.curve is not None:
        x, y = AXES.get(figure.curve, ("", figure.curve))
        return f"{y} against {x}, one line per run"
    by = " and ".join(heading(job.whole_key(key)) for key in figure.by)
    y = " and ".join(heading(job.whole_key(key)) for key in figure.y)
    return f"{y} against {heading(job.whole_key(str(figure.x)))}{f', one line per {by}' if by else ''}"


def _versions(done: Sequence[Job]) -> dict[str, str]:
    """Return the versions that the runs recorded; several where they differ."""
    found: dict[str, list[str]] = {}
    for job in done:
        for key, value in (job.result or {}).items():
            if key.startswith("versions.") and value not in found.setdefault(key.removeprefix("versions."), []):
                found[key.removeprefix("versions.")].append(value)
    return {name: " and ".join(values) for name, values in found.items()}


def _times(done: Sequence[Job]) -> dict[str, Any]:
    """Return when the first run began, the seconds to the end of the last, and the ledger's total at that time."""
    if not done:
        return {"begin": None, "lasted": 0.0, "ledger": None}

    def end(job: Job) -> datetime:
        return datetime.fromisoformat(job.value("finished"))

    begin = min(end(job) - timedelta(seconds=job.value("seconds.total")) for job in done)
    totals = [(job.result or {}).get("epsilon.ledger_total") for job in sorted(done, key=end)]
    ledger = next((number(total) for total in reversed(totals) if total is not None), None)
    return {"begin": begin, "lasted": (max(map(end, done)) - begin).total_seconds(), "ledger": ledger}


def _span(seconds: float) -> str:
    """Return 12 s, 25 min, or 1 h 35 min."""
    if seconds < 100:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02} min"
