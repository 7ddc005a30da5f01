"""What a sweep's record at its tracker says: a description in Markdown, its numbers, and its best job."""

import math
import re
from pathlib import Path
from typing import Any

from pandas import DataFrame

from nzc.runs.layout import FIGURES, flatten, with_infinity
from nzc.runs.metrics import unequal_classes
from nzc.runs.result import RunResult
from nzc.runs.summary import describe
from nzc.sweeps.frame import job_name
from nzc.sweeps.table import Sweep
from nzc.validation import masked

_MOST = 8000  # characters of a description; MLflow accepts no more
_CELL_END = re.compile(r"(?<![-:]) \| ")  # of a table in Markdown. MLflow shows no space between the columns


def summarise(
    folder: Path, run: str, question: str, private: bool
) -> tuple[str, dict[str, float | None], dict[str, str]]:
    """Return description, numbers and tags of the sweep in `folder`, whose figures are artifacts of MLflow's run `run`.

    The description in Markdown has the question, the best job, the table and the figures. The numbers are jobs,
    jobs_failed (how many did not finish), and ε and accuracy of the best job, which the tag `best` names.

    private  whether it may depend on votes; otherwise it has no figures, and only ε that may be published
    """
    sweep = Sweep(folder)
    jobs = sweep.jobs if private else DataFrame([_public(job) for job in sweep.jobs.to_dict("records")], dtype=object)
    done = jobs[jobs["error"].isna()].to_dict("records")
    values: dict[str, float | None] = {"jobs": len(jobs), "jobs_failed": len(jobs) - len(done)}
    lines, tags = [question, f"{len(done)} of {len(jobs)} jobs finished."], {}
    if best := _best(done):
        values |= {key: best.get(key) for key in ("accuracy", "label_accuracy")}
        values["epsilon"] = best["epsilon.published"]
        tags["best"] = masked(job_name(folder, best["job"], best["overrides"]) or best["name"])
        lines[1] += f" Best: **{tags['best']}** ({describe(RunResult.read(best['folder']))})."
    names = [f"{figure.name}.svg" for figure in sweep.figures if private]
    names = [name for name in names if (folder / FIGURES / name).is_file()]
    drawn = [f"![{name}](get-artifact?run_uuid={run}&path={FIGURES}/{name})" for name in names]
    room = _MOST - sum(len(line) + 2 for line in [*lines, *drawn])
    table = _CELL_END.sub("&ensp; | ", sweep.table(jobs).markdown().partition("\n\n")[2])
    if len(table) > room:
        table = table[: max(0, room - 30)].rpartition("\n")[0] + "\n… and more lines."
    return masked("\n\n".join(filter(None, [*lines, table, *drawn])))[:_MOST], values, tags


def _public(job: dict[str, Any]) -> dict[str, Any]:
    """Return a job with what may be published of it; the message of an error may say more."""
    facts = {key: job[key] for key in ("folder", "job", "run", "name", "row", "overrides")}
    if job["error"] is not None:
        return facts | {"error": "did not finish"}
    paper = {key: value for key, value in job.items() if key.startswith("paper.")}
    result = with_infinity(flatten(RunResult.read(job["folder"]).public.as_dict()))
    return facts | {"error": None} | result | paper


def _best(done: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the job of the highest accuracy (of the labels where no student learns), then of the smallest ε published.

    Where one class is much more frequent than others, it is the balanced accuracy. A job without a finite ε is the best
    only where all are without.
    """
    epsilon = {job["job"]: math.inf if (e := job["epsilon.published"]) is None else float(e) for job in done}
    finite = [job for job in done if math.isfinite(epsilon[job["job"]])] or done
    fair = "metrics.balanced_accuracy" if any(unequal_classes(job) for job in finite) else "accuracy"
    for key in (fair, "label_accuracy"):
        if known := [job for job in finite if job.get(key) is not None and not math.isnan(job[key])]:
            return max(known, key=lambda job: (job[key], -epsilon[job["job"]]))
    return None
