"""The page of a run or a sweep: one HTML file that contains all it shows and loads nothing."""

import re
import shlex
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas
from jinja2 import StrictUndefined, Template
from markupsafe import Markup, escape

from nzc import __version__
from nzc.data.files import write_private
from nzc.data.own_folder import MARKER
from nzc.runs.curves import AXES
from nzc.runs.formatting import EPSILONS, RECALL, heading, interval, number
from nzc.runs.layout import (
    FIGURES,
    PAGE,
    RUN_FIGURES,
    SWEEP,
    Job,
    read_config,
    read_jobs,
    read_overrides,
    sweep_overrides,
)
from nzc.runs.metrics import Metrics
from nzc.runs.provenance import now
from nzc.runs.sweep_lines import lines_of, notes_of
from nzc.runs.sweep_spec import SweepFigure, figures_of, header_of, name_of
from nzc.runs.sweep_table import SweepTable, grouped_failures
from nzc.validation import InputError, masked

#: What the page of a run shows of its teachers; and of its student, with the meaning of each.
_TEACHERS = [f"teachers.{name}" for name in ("count", "mean_accuracy", "ensemble_accuracy")]
_STUDENT = {
    "metrics.balanced_accuracy": "mean recall of the classes",
    "metrics.majority": "always answering the most frequent class",
    "metrics.auc": "area under the ROC curve",
}


def write_page(folder: Path) -> Path:
    """Write report.html into the folder of a run or a sweep. It is private, because it shows exact ε."""
    if (folder / SWEEP).is_file():
        about = _sweep(folder)
    elif (folder / ".hydra" / "hydra.yaml").is_file():
        about = _run(folder)
    else:
        raise InputError("FOLDER", folder, "must be the folder of a run or a sweep, below outputs/")
    if (folder / PAGE).exists() and not (folder / MARKER).is_file():
        raise InputError("FOLDER", folder, f"must have no {PAGE} that nzc did not write; rename it")
    jobs, captions = about["jobs"], about["captions"]
    done = [job for job in jobs if job.result]
    template = Template(
        (Path(__file__).parent / "page.html").read_text(encoding="utf-8"),
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        finalize=lambda shown: masked(shown) if type(shown) is str else shown,
    )  # fmt: skip
    page = template.render(
        about,
        done=done,
        table=SweepTable(done, about["keys"]),
        failed=grouped_failures(jobs),
        figures=[
            (captions.get(path.stem, path.stem), b64encode(path.read_bytes()).decode())
            for path in sorted((folder / FIGURES).glob("*.svg"))
        ],
        interval=interval,
        span=_span,
        breakable=_breakable,
        written=f"{now()[:16].replace('T', ' ')} UTC by nzc {__version__}",
        **_together(done),
    )
    return write_private(folder / PAGE, page)


def _sweep(folder: Path) -> dict[str, Any]:
    config = read_config(folder / SWEEP)
    figures, jobs = figures_of(config), read_jobs(folder)
    done = [job for job in jobs if job.result]
    single = ["hydra.mode=RUN"] if config.hydra.runtime.choices.get("sweeps") else []  # the file says MULTIRUN
    overrides = sweep_overrides(folder)
    typed = [*overrides["hydra"], *overrides["task"]]
    typed = ["--multirun" if each == "hydra.mode=MULTIRUN" else each for each in typed]
    return {
        "kind": "sweep",
        "title": name_of(config),
        "header": header_of(config),
        "command": _command(typed),
        "commands": [_command([*job.overrides, *single]) for job in jobs],
        "jobs": jobs,
        "keys": [key for figure in figures for key in figure.y],
        "captions": {figure.name: _caption(figure, done) for figure in figures if done},
        "undrawn": _undrawn(config, figures, done),
    }


def _run(folder: Path) -> dict[str, Any]:
    choices, job = read_config(folder / ".hydra" / "hydra.yaml").hydra.runtime.choices, Job(folder, name="run")
    recall = {key.removeprefix(RECALL): job.result[key] for key in job.result if key.startswith(RECALL)}
    lowest = [RECALL + name for name, _ in Metrics(recall=recall).lowest]
    meanings = _STUDENT | dict.fromkeys(lowest[:1], f"the lowest of {len(recall)} classes")
    return {
        "kind": "run",
        "title": " · ".join(
            str(job.result.get(group, choices[group])) for group in ("dataset", "aggregator", "student")
        ),
        "header": {},
        "command": _command(read_overrides(folder)),
        "commands": [],
        "jobs": [job],
        "keys": [*_TEACHERS, *_STUDENT, *lowest],
        "meanings": {heading(key): meaning for key, meaning in meanings.items()},
        "captions": RUN_FIGURES,
        "undrawn": [],
    }


def _command(overrides: Sequence[str]) -> str:
    return shlex.join(["nzc", *map(masked, overrides)])


def _caption(figure: SweepFigure, done: Sequence[Job]) -> str:
    """Return what a figure shows of the finished runs, how it shows several seeds, and what it leaves out."""

    def names(keys: Sequence[str]) -> str:
        return " and ".join(heading(done[0].whole_key(key)) for key in keys)

    if figure.curve is not None:
        x, y = AXES.get(figure.curve, ("", figure.curve))
        said = f"{y} against {x}, one line per run"
    else:
        lines = f", one line per {names(figure.by)}" if figure.by else ""
        said = f"{names(figure.y)} against {names([str(figure.x)])}{lines}"
        said += f"; {spread}" if (spread := lines_of(figure, done).spread) else ""
    notes, _ = notes_of(figure, done)
    return f"{said}. {' '.join(notes)}" if notes else said


def _undrawn(config: Any, figures: Sequence[SweepFigure], done: Sequence[Job]) -> list[str]:
    """Return a sentence for each figure of the sweep file that was not drawn."""
    if config.figures is False:
        return ["No figure was drawn: figures=false."] if figures else []
    why = {figure.name: notes_of(figure, done)[1] for figure in figures} if done else {}
    return [f"Figure {name} was not drawn: {reason}." for name, reason in why.items() if reason]


def _breakable(text: object) -> Markup:
    """Return text for HTML that may be broken after punctuation, but not within a number or before one."""
    return Markup(re.sub(r"(?<=[/=:,.])(?=[^\s\d])|(?<=\d,)(?!\d{3}(?!\d))", "<wbr>", str(escape(masked(text)))))


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
