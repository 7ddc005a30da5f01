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
from pandas import DataFrame

from nzc.runs.formatting import EPSILONS, RECALL, heading, interval, number
from nzc.runs.layout import FIGURES, PAGE, RUN_FIGURES, SWEEP, read_config, read_overrides
from nzc.runs.metrics import Metrics
from nzc.runs.provenance import now
from nzc.storage.claim import MARKER
from nzc.storage.files import write_private
from nzc.sweeps.frame import read_job, read_jobs, sweep_overrides
from nzc.sweeps.points import caption_of, notes_of
from nzc.sweeps.spec import changed_settings, figures_of, header_of, keys_of, name_of
from nzc.sweeps.table import SweepTable, failures
from nzc.validation import InputError, masked
from nzc.version import __version__

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
    done = jobs[jobs["error"].isna()]
    template = Template(
        (Path(__file__).parent / "page.html").read_text(encoding="utf-8"),
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        finalize=lambda shown: masked(shown) if type(shown) is str else shown,
    )  # fmt: skip
    page = template.render(
        about | {"jobs": jobs.to_dict("records"), "done": done.to_dict("records")},
        table=SweepTable(done, about["keys"], changed=about["changed"]),
        failed=failures(jobs),
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
    figures, jobs = figures_of(config), read_jobs(folder, keys_of(figures_of(config)))
    done = jobs[jobs["error"].isna()]
    single = ["hydra.mode=RUN"] if config.hydra.runtime.choices.get("sweeps") else []  # the file says MULTIRUN
    overrides = sweep_overrides(folder)
    typed = [*overrides["hydra"], *overrides["task"]]
    typed = ["--multirun" if text == "hydra.mode=MULTIRUN" else text for text in typed]
    undrawn = {figure.name: notes_of(figure, done)[1] for figure in figures if len(done)}
    sentences = [f"Figure {name} was not drawn: {reason}." for name, reason in undrawn.items() if reason]
    if config.figures is False:
        sentences = ["No figure was drawn: figures=false."] if figures else []
    return {
        "kind": "sweep",
        "title": name_of(config),
        "header": header_of(config),
        "command": _command(typed),
        "commands": [_command([*own, *single]) for own in jobs.get("overrides", [])],
        "jobs": jobs,
        "keys": [key for figure in figures for key in figure.y],
        "changed": changed_settings(config),
        "captions": {figure.name: caption_of(figure, done) for figure in figures if len(done)},
        "undrawn": sentences,
    }


def _run(folder: Path) -> dict[str, Any]:
    choices, job = read_config(folder / ".hydra" / "hydra.yaml").hydra.runtime.choices, read_job(folder, "run")
    recall = {key.removeprefix(RECALL): job[key] for key in job if key.startswith(RECALL)}
    lowest = [RECALL + name for name, _ in Metrics(recall=recall).lowest]
    meanings = _STUDENT | dict.fromkeys(lowest[:1], f"the lowest of {len(recall)} classes")
    return {
        "kind": "run",
        "title": " · ".join(str(job.get(group, choices[group])) for group in ("dataset", "aggregator", "student")),
        "header": {},
        "command": _command(read_overrides(folder)),
        "commands": [],
        "jobs": DataFrame([job], dtype=object),
        "keys": [*_TEACHERS, *_STUDENT, *lowest],
        "changed": [],
        "meanings": {heading(key): meaning for key, meaning in meanings.items()},
        "captions": RUN_FIGURES,
        "undrawn": [],
    }


def _command(overrides: Sequence[str]) -> str:
    return shlex.join(["nzc", *map(masked, overrides)])


def _breakable(text: object) -> Markup:
    """Return text for HTML that may be broken after punctuation, but not within a number or before one."""
    return Markup(re.sub(r"(?<=[/=:,.])(?=[^\s\d])|(?<=\d,)(?!\d{3}(?!\d))", "<wbr>", str(escape(masked(text)))))


def _together(done: DataFrame) -> dict[str, Any]:
    """Return what the page says of all finished runs together."""
    if not len(done):
        return {"begin": None, "versions": {}}
    table = done.dropna(axis="columns", how="all")
    ends = pandas.to_datetime(table["finished"])
    begin = (ends - pandas.to_timedelta(table["seconds.total"].astype(float), unit="s")).min()
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
