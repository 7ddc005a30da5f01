"""A sweep as one page, an HTML file that contains all it shows and loads nothing; and as its
tracker describes it.
"""

import math
import re
import shlex
from base64 import b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, Template

from nzc.runs.formatting import EPSILONS, heading, number
from nzc.runs.layout import FIGURES, PAGE, as_typed
from nzc.runs.metrics import unequal_classes
from nzc.runs.result import RunResult, now
from nzc.runs.summary import describe
from nzc.storage.files import write_private
from nzc.sweeps.jobs import header_of, job_name
from nzc.sweeps.table import Sweep, failure_lines
from nzc.validation import masked
from nzc.version import __version__

_MOST = 8000  # characters of a description; MLflow accepts no more
_CELL_END = re.compile(
    r"(?<![-:]) \| "
)  # of a table in Markdown. MLflow shows no space between the columns


def write_page(sweep: Sweep) -> Path:
    """Write report.html into the folder of a sweep. It is private, because it shows exact ε."""
    records: list[dict[str, Any]] = sweep.jobs.where(sweep.jobs.notna(), None).to_dict("records")
    done = sorted(
        (job for job in records if job["error"] is None), key=lambda job: str(job["finished"])
    )
    shown = {text.partition(":")[0] for text in sweep.table.headings}
    overrides = [
        *as_typed(sweep.config.hydra.overrides.hydra),
        *as_typed(sweep.config.hydra.overrides.task),
    ]
    single = (
        ["hydra.mode=RUN"] if sweep.config.hydra.runtime.choices.get("sweeps") else []
    )  # the file says MULTIRUN
    undrawn = [
        f"{drawing.figure.name} ({drawing.empty})" for drawing in sweep.drawings if drawing.empty
    ]
    if sweep.config.figures is False and sweep.figures:
        undrawn = ["any figure (figures=false)"]
    template = Template(
        (Path(__file__).parent / "page.html").read_text(encoding="utf-8"),
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        finalize=lambda shown: masked(shown) if type(shown) is str else shown,
    )  # fmt: skip
    page = template.render(
        title=sweep.name,
        header=header_of(sweep.config),
        command=_command(
            "--multirun" if text == "hydra.mode=MULTIRUN" else text for text in overrides
        ),
        commands=[_command([*job["overrides"], *single]) for job in records],
        jobs=records,
        done=done,
        failed=failure_lines(sweep.jobs),
        table=sweep.table,
        epsilons={
            name: means
            for key, means in EPSILONS.items()
            if (name := heading(f"epsilon.{key}")) in shown
        },
        deltas=sorted({f"{job['delta']:g}" for job in done}),
        figures=[
            (drawing.caption, b64encode(path.read_bytes()).decode())
            for drawing in sweep.drawings
            if (path := sweep.folder / FIGURES / f"{drawing.figure.name}.svg").is_file()
        ],
        undrawn=undrawn,
        number=number,
        written=f"{now()[:16].replace('T', ' ')} UTC by nzc {__version__}",
    )
    return write_private(sweep.folder / PAGE, page)


def _command(overrides: Iterable[str]) -> str:
    return shlex.join(["nzc", *map(masked, overrides)])


def summarise(
    folder: Path, run: str, question: str, private: bool
) -> tuple[str, dict[str, float | None], dict[str, str]]:
    """Return description, numbers and tags of the sweep in `folder`, whose figures are artifacts of
    MLflow's run `run`.

    The description in Markdown has the question and the best job; where `private`, the table and
    the figures too.
    """
    sweep = Sweep(folder)
    count, done = len(sweep.jobs), sweep.done.to_dict("records")
    values: dict[str, float | None] = {"jobs": count, "jobs_failed": count - len(done)}
    lines, tags = [question, f"{len(done)} of {count} jobs finished."], {}
    if best := _best(done):
        values |= {key: best.get(key) for key in ("accuracy", "label_accuracy")}
        values["epsilon"] = best["epsilon.published"]
        tags["best"] = masked(job_name(folder, best["job"], best["overrides"]) or best["name"])
        lines[1] += f" Best: **{tags['best']}** ({describe(RunResult.read(best['folder']))})."
    if not private:
        return masked("\n\n".join(filter(None, lines))), values, tags
    names = [
        f"{figure.name}.svg"
        for figure in sweep.figures
        if (folder / FIGURES / f"{figure.name}.svg").is_file()
    ]
    drawn = [f"![{name}](get-artifact?run_uuid={run}&path={FIGURES}/{name})" for name in names]
    room = _MOST - sum(len(line) + 2 for line in [*lines, *drawn])
    table = _CELL_END.sub("&ensp; | ", sweep.table.markdown().partition("\n\n")[2])
    if len(table) > room:
        table = table[: max(0, room - 30)].rpartition("\n")[0] + "\n… and more lines."
    return masked("\n\n".join(filter(None, [*lines, table, *drawn])))[:_MOST], values, tags


def _best(done: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the job of the highest accuracy (of unequal classes: balanced), then of the smallest ε
    published.

    A job without a finite ε is the best only where all are without.
    """
    epsilon = {
        job["job"]: math.inf if (e := job["epsilon.published"]) is None else float(e)
        for job in done
    }
    finite = [job for job in done if math.isfinite(epsilon[job["job"]])] or done
    fair = (
        "metrics.balanced_accuracy" if any(unequal_classes(job) for job in finite) else "accuracy"
    )
    for key in (fair, "label_accuracy"):
        if known := [
            job for job in finite if job.get(key) is not None and not math.isnan(job[key])
        ]:
            return max(known, key=lambda job: (job[key], -epsilon[job["job"]]))
    return None
