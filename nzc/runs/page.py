"""The page of a run or a sweep: one HTML file that contains all it shows and loads nothing."""

import shlex
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas
from jinja2 import StrictUndefined, Template
from omegaconf import OmegaConf

from nzc import __version__
from nzc.data.files import write_private
from nzc.runs.curves import AXES
from nzc.runs.formatting import EPSILONS, heading, interval, number
from nzc.runs.layout import FIGURES, PAGE, RUN_FIGURES, SWEEP, Job, read_jobs, read_overrides
from nzc.runs.provenance import now
from nzc.runs.sweep_spec import SweepFigure, figures_of, header_of, name_of
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
    jobs, captions = about["jobs"], about["captions"]
    done = [job for job in jobs if job.result]
    template = Template(
        (Path(__file__).parent / "page.html").read_text(),
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    page = template.render(
        about,
        done=done,
        table=SweepTable(done, about["keys"]),
        failed=Counter((job.name, job.failure) for job in jobs if not job.result),
        figures=[
            (captions.get(path.stem, path.stem), b64encode(path.read_bytes()).decode())
            for path in sorted((folder / FIGURES).glob("*.svg"))
        ],
        interval=interval,
        span=_span,
        written=f"{now()[:16].replace('T', ' ')} UTC by nzc {__version__}",
        **_together(done),
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
        "header": header_of(config),
        "command": shlex.join(["nzc", *typed]),
        "commands": [shlex.join(["nzc", *job.overrides, *single]) for job in jobs],
        "jobs": jobs,
        "keys": [key for figure in figures for key in figure.y],
        "captions": {figure.name: _caption(figure, job) for figure in figures for job in jobs if job.result},
    }


def _run(folder: Path) -> dict[str, Any]:
    choices = OmegaConf.load(folder / ".hydra" / "hydra.yaml").hydra.runtime.choices
    return {
        "kind": "run",
        "title": " · ".join(choices[group] for group in ("dataset", "aggregator", "student")),
        "header": {},
        "command": shlex.join(["nzc", *read_overrides(folder)]),
        "commands": [],
        "jobs": [Job(folder, name="run")],
        "keys": _TEACHERS,
        "captions": RUN_FIGURES,
    }


def _caption(figure: SweepFigure, job: Job) -> str:
    def names(keys: Sequence[str]) -> str:
        return " and ".join(heading(job.whole_key(key)) for key in keys)

    if figure.curve is not None:
        x, y = AXES.get(figure.curve, ("", figure.curve))
        return f"{y} against {x}, one line per run"
    lines = f", one line per {names(figure.by)}" if figure.by else ""
    return f"{names(figure.y)} against {names([str(figure.x)])}{lines}"


def _together(done: Sequence[Job]) -> dict[str, Any]:
    """Return what the page says of all finished runs together."""
    if not done:
        return {"begin": None, "versions": {}}
    table = pandas.DataFrame([job.result for job in done]).dropna(axis="columns", how="all")
    ends = pandas.to_datetime(table["finished"])
    begin = (ends - pandas.to_timedelta(table["seconds.total"], unit="s")).min()
    totals = table.sort_values("finished", kind="stable").get("epsilon.ledger_total", pandas.Series()).dropna()
    versions = table.filter(regex=r"^versions\.")
    return {
        "begin": begin,
        "lasted": (ends.max() - begin).total_seconds(),
        "ledger": number(totals.iloc[-1]) if len(totals) else None,  # at the end of the last run
        "deltas": sorted({f"{delta:g}" for delta in table["delta"]}),
        "epsilons": {heading(f"epsilon.{name}"): EPSILONS[name] for name in EPSILONS if f"epsilon.{name}" in table},
        "versions": {key.removeprefix("versions."): " and ".join(versions[key].dropna().unique()) for key in versions},
    }


def _span(seconds: float) -> str:
    """Return 12 s, 25 min, or 1 h 35 min."""
    if seconds < 100:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02} min"
