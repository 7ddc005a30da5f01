"""What a sweep's record at its tracker says: a description in Markdown, its numbers, and its best job."""

import math
import re
from pathlib import Path
from typing import Any

from nzc.runs.layout import FIGURES, SWEEP, flatten, read_config, with_infinity
from nzc.runs.metrics import unequal_classes
from nzc.runs.result import RunResult
from nzc.runs.summary import describe
from nzc.sweeps.frame import job_name, read_jobs
from nzc.sweeps.spec import changed_settings, figures_of, keys_of
from nzc.sweeps.table import SweepTable
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
    from pandas import DataFrame

    config = read_config(folder / SWEEP)
    figures = figures_of(config)
    jobs = read_jobs(folder, keys_of(figures))
    if not private:
        jobs = DataFrame([_public(job) for job in jobs.to_dict("records")], dtype=object)
    done = jobs[jobs["error"].isna()]
    values: dict[str, float | None] = {"jobs": len(jobs), "jobs_failed": len(jobs) - len(done)}
    lines, tags = [question, f"{len(done)} of {len(jobs)} jobs finished."], {}
    if best := _best(done.to_dict("records")):
        accuracy = {key: best.get(key) for key in ("accuracy", "label_accuracy")}
        values |= accuracy | {"epsilon": best["epsilon.published"]}
        tags["best"] = masked(job_name(folder, best["job"], best["overrides"]) or best["name"])
        lines[1] += f" Best: **{tags['best']}** ({describe(RunResult.read(best['folder']))})."
    table = SweepTable(jobs, [key for figure in figures for key in figure.y], changed=changed_settings(config))
    names = [f"{figure.name}.svg" for figure in figures]
    files = [name for name in names if private and (folder / FIGURES / name).is_file()]
    drawn = [f"![{name}](get-artifact?run_uuid={run}&path={FIGURES}/{name})" for name in files]
    room = _MOST - sum(len(line) + 2 for line in [*lines, *drawn])
    markdown = _CELL_END.sub("&ensp; | ", table.markdown().partition("\n\n")[2])
    if len(markdown) > room:
        markdown = markdown[: max(0, room - 30)].rpartition("\n")[0] + "\n… and more lines."
    return masked("\n\n".join(filter(None, [*lines, markdown, *drawn])))[:_MOST], values, tags


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
