"""A run or a sweep as one HTML page that holds all it shows: nothing is fetched, nothing is run."""

import math
import re
import shlex
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from omegaconf import DictConfig, OmegaConf

from nzc import __version__, config, curves
from nzc._files import written
from nzc.errors import InputError, masked
from nzc.question import SweepFigure, figures_of, name_of, rows_of
from nzc.report.folder import FIGURES, RESULT, SWEEP, Job, jobs_of
from nzc.report.origin import now
from nzc.report.results import Results, mean
from nzc.report.words import EPSILONS, between, heading, is_share, number, percent

#: In the folder that it is about.
FILE = "report.html"
#: What a run says of its teachers, beside what every run of a sweep shows.
_TEACHERS = [f"teachers.{name}" for name in ("count", "mean_accuracy", "ensemble_accuracy")]
#: What a run draws of itself (nzc/figures.py).
DRAWN = {
    "gaps": "How many queries have which gap between first and second count; dark: those answered",
    "cost": "ε from label to label",
    "confusion": "The released labels against the true classes",
}
#: The paper's number as a sweep file gives it: 2.04, or "> 8.03". The difference of a measured number from a bound is a
#: bound too, and on the other side.
_BOUND = re.compile(r"([<>≈]?) ?(\d+(?:\.\d*)?(?:e-?\d+)?)")
_TURNED = {"": "", "≈": "≈ ", ">": "< ", "<": "> "}


def write(folder: Path) -> Path:
    """FILE in `folder`, whole or not at all. Only its owner may read it: what it shows depends on the votes."""
    return written(folder / FILE, masked(_page(folder)).encode())


def _page(folder: Path) -> str:
    if (folder / SWEEP).is_file():
        about = _sweep(folder)
    elif (folder / ".hydra" / "hydra.yaml").is_file():
        about = _run(folder)
    else:
        raise InputError("FOLDER", folder, "must be what a run or a sweep left: a folder below outputs/")
    done = [job for job in about["jobs"] if job.result is not None]
    results = Results(done, about["keys"])
    shown = {key: column for key, column in results.keys.items() if any(cell != "–" for cell in column.measured)}
    page = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return page.from_string((Path(__file__).parent / "page.html").read_text()).render(
        about,
        runs=list(results.runs),
        seeds=sorted(map(len, results.runs.values())),
        comparisons=_comparisons(results),
        columns=[(heading(key), column.measured) for key, column in shown.items()],
        epsilons={heading(f"epsilon.{name}"): EPSILONS[name] for name in EPSILONS if f"epsilon.{name}" in shown},
        sure=_sure(done),
        rounds=_rounds(done),
        deltas=sorted({f"{job.value('delta'):g}" for job in done}),
        done=done,
        failed=Counter((job.name, job.failure) for job in about["jobs"] if job.result is None),
        figures=[_figure(path, about["drawn"]) for path in sorted((folder / FIGURES).glob("*.svg"))],
        versions=_versions(done),
        span=_span,
        written=f"{now()[:16].replace('T', ' ')} UTC by nzc {__version__}",
        **_when(done),
    )


def _sweep(folder: Path) -> dict[str, Any]:
    asked = OmegaConf.load(folder / SWEEP)
    assert isinstance(asked, DictConfig)
    figures, jobs = figures_of(asked), jobs_of(folder, rows_of(asked))
    drawn = {figure.name: _described(figure, job) for figure in figures for job in jobs if job.result is not None}
    single = ["hydra.mode=RUN"] if asked.hydra.runtime.choices.get("sweeps") else []  # of a file that says MULTIRUN
    return {
        "kind": "sweep",
        "title": name_of(asked),
        "header": _header(asked),
        "command": _command(asked.hydra.overrides),
        "commands": [shlex.join(["nzc", *job.overrides, *single]) for job in jobs],
        "jobs": jobs,
        "keys": [key for figure in figures for key in figure.y],
        "drawn": drawn,
    }


def _run(folder: Path) -> dict[str, Any]:
    settings = OmegaConf.load(folder / ".hydra" / "hydra.yaml").hydra
    job = Job(folder, {}, "run")
    return {
        "kind": "run",
        "title": " · ".join(settings.runtime.choices[group] for group in ("dataset", "aggregator", "student")),
        "header": {},
        "command": shlex.join(["nzc", *job.overrides]),
        "commands": [],
        "jobs": [job],
        "keys": _TEACHERS,
        "drawn": DRAWN,
    }


def _command(overrides: DictConfig) -> str:
    """As it was typed: what Hydra keeps of --multirun is a mode."""
    typed = [*overrides.hydra, *overrides.task]
    return shlex.join(["nzc", *("--multirun" if each == "hydra.mode=MULTIRUN" else each for each in typed)])


def _header(asked: DictConfig) -> dict[str, str]:
    """The comments that a sweep file begins with: Question, Expected, Time, Command, and any other."""
    sources = [source.path for source in asked.hydra.runtime.config_sources if source.schema == "file"]
    files = [Path(home) / "sweeps" / f"{name_of(asked)}.yaml" for home in [*sources, config.HOME]]
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


def _sure(done: Sequence[Job]) -> str:
    """The interval of a single run's accuracy."""
    interval = (done[0].result or {}).get("accuracy_interval") if len(done) == 1 else None
    return "" if interval is None else between(interval)


def _rounds(done: Sequence[Job]) -> list[dict[str, str]]:
    """What a run asked round by round, where there was more than one round."""
    rounds = (done[0].result or {}).get("rounds") or [] if len(done) == 1 else []
    return [
        {
            "round": str(at),
            **{key: f"{each[key]:,}" for key in ("asked", "answered", "reinforced")},
            "label accuracy": percent(each["label_accuracy"]),
            "ε exact": number(each.get("epsilon")),
        }
        for at, each in enumerate(rounds, 1)
        if len(rounds) > 1
    ]


def _comparisons(results: Results) -> list[tuple[str, str, list[tuple[str, str, str, str]]]]:
    """For every key that the paper has a value of: what both columns are called, and (paper, measured, difference,
    verdict) for every line. Where the paper does not say which ε it means, the exact one is compared."""
    found = []
    for key, column in results.keys.items():
        if column.compared:
            against = "epsilon.exact" if key == "epsilon" else key
            differences = [
                _difference(against, jobs[0].paper.get(key), mean([(job.result or {}).get(against) for job in jobs]))
                for jobs in results.runs.values()
            ]
            cells = zip(column.paper, results.keys[against].measured, differences, strict=True)
            name = "measured" if against == key else heading(against)
            found.append((heading(key), name, [(paper, measured, *less) for paper, measured, less in cells]))
    return found


def _difference(key: str, paper: Any, measured: float | None) -> tuple[str, str]:
    """Measured less the paper's, in percentage points or as a number; and whether that is better or worse."""
    bound = _BOUND.fullmatch(str(paper))
    if bound is None or measured is None:
        return "–", ""
    scale, digits = (100, 1) if is_share(key) else (1, 3) if key.startswith("epsilon") else (1, 0)
    less = round(scale * (measured - float(bound[2])), digits)
    if math.isinf(less):
        return "+∞", "worse"
    sign = "−" if less < 0 else "+" if less > 0 else ""
    shown = f"{_TURNED[bound[1]]}{sign}{abs(less):,.{digits}f}"
    unsure = (bound[1] == ">" and less > 0) or (bound[1] == "<" and less < 0)
    if unsure or key in ("epsilon.claimed", "epsilon.audited") or digits == 0:
        return shown, ""
    return shown, "equal" if less == 0 else "better" if (less > 0) == is_share(key) else "worse"


def _figure(path: Path, drawn: dict[str, str]) -> tuple[str, str]:
    """What it shows, and its data."""
    return drawn.get(path.stem, path.stem), f"data:image/svg+xml;base64,{b64encode(path.read_bytes()).decode()}"


def _described(figure: SweepFigure, job: Job) -> str:
    if figure.curve is not None:
        x, y = curves.AXES.get(figure.curve, ("", figure.curve))
        return f"{y} against {x}, a line for each run"
    apart = " and ".join(heading(job.whole(key)) for key in figure.by)
    each = f", a line for each {apart}" if apart else ""
    return (
        f"{' and '.join(heading(job.whole(key)) for key in figure.y)} against {heading(job.whole(str(figure.x)))}{each}"
    )


def _versions(done: Sequence[Job]) -> dict[str, str]:
    """As the runs recorded them; several where they differ."""
    found: dict[str, list[str]] = {}
    for job in done:
        for key, value in (job.result or {}).items():
            if key.startswith("versions.") and value not in found.setdefault(key.removeprefix("versions."), []):
                found[key.removeprefix("versions.")].append(value)
    return {name: " and ".join(values) for name, values in found.items()}


def _when(done: Sequence[Job]) -> dict[str, Any]:
    """When the first of the finished runs began, how long it was to the end of the last, and what the ledger held after
    the last of those that asked teachers."""
    if not done:
        return {"begin": None, "lasted": 0.0, "ledger": None}
    begin = min(_ended(job) - timedelta(seconds=job.value("seconds.total")) for job in done)
    totals = [(job.result or {}).get("epsilon.ledger_total") for job in sorted(done, key=_ended)]
    ledger = next((number(total) for total in reversed(totals) if total is not None), None)
    return {"begin": begin, "lasted": (max(map(_ended, done)) - begin).total_seconds(), "ledger": ledger}


def _ended(job: Job) -> datetime:
    """As recorded; of runs that did not record it, when the result was written."""
    recorded = (job.result or {}).get("finished")
    written = (job.folder / RESULT).stat().st_mtime
    return datetime.fromisoformat(recorded) if recorded else datetime.fromtimestamp(written, UTC)


def _span(seconds: float) -> str:
    """12 s, 25 min, 1 h 35 min."""
    if seconds < 100:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02} min"
