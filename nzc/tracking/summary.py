"""Summaries for the page of a run or a sweep at its tracker: a description in Markdown, and a sweep's numbers."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from nzc.runs.formatting import number, percent
from nzc.runs.layout import FIGURES, SWEEP, Job, flatten, job_name, read_config, read_jobs, with_infinity
from nzc.runs.metrics import unequal_classes
from nzc.runs.result import RunResult
from nzc.runs.sweep_spec import figures_of
from nzc.runs.sweep_table import SweepTable
from nzc.validation import masked

_MOST = 8000  # characters of a description; MLflow accepts no more
_CELL_END = re.compile(r"(?<![-:]) \| ")  # of a table in Markdown. MLflow shows no space between the columns


@dataclass(frozen=True)
class SweepSummary:
    """What is recorded of a sweep itself.

    description  the question, the best job, the table and the figures
    values       jobs, jobs_failed (how many did not finish), and ε and accuracy of the best job
    tags         best: name of the best job
    """

    description: str
    values: dict[str, float | None]
    tags: dict[str, str]


class _PublicJob(Job):
    """A job, of which only what may be published is known."""

    @property
    def failure(self) -> str:
        return "did not finish"  # the message of an error may say more

    @cached_property
    def result(self) -> dict[str, Any]:
        whole = Job(self.folder).result
        return with_infinity(flatten(RunResult.read(self.folder).public.as_dict())) if whole else {}


def describe(result: RunResult) -> str:
    """Return one line that describes a finished run: its accuracies, and what its labels cost."""
    shares = {"student accuracy": result.accuracy, "label accuracy": result.label_accuracy}
    accuracies = [f"{of} {percent(share)}" for of, share in shares.items() if share is not None]
    cost = f"ε published {number(result.epsilon.published)} at δ = {result.delta:g}, unit of privacy: {result.unit}"
    return "; ".join([*accuracies, f"{result.answered:,} labels released", cost])


def describe_student(result: RunResult) -> tuple[str, dict[str, str]]:
    """Return description and tags of a student as a model: what it learned from, and what may be said of its cost."""
    facts = {"dataset": result.dataset, "unit": result.unit, "epsilon": number(result.epsilon.published)}
    said = (
        f"Learned from {result.answered:,} labels that {result.teachers['count']:,} teachers released by "
        f"{result.aggregator}, and from public rows of {result.dataset}. The labels are (ε, δ)-differentially private "
        f"with ε = {facts['epsilon']}, δ = {result.delta:g}, where one private {result.unit} changes."
    )
    return said, facts | {"delta": f"{result.delta:g}", "aggregator": result.aggregator}


def summarise(folder: Path, run: str, question: str, private: bool) -> SweepSummary:
    """Return the summary of the sweep in `folder`, whose figures are artifacts of MLflow's run `run`.

    private  whether it may depend on votes; otherwise it has no figures, and only ε that may be published
    """
    jobs = read_jobs(folder)
    if not private:
        jobs = [_PublicJob(job.folder, job.row, job.name, job.overrides) for job in jobs]
    config = read_config(folder / SWEEP)
    done, figures = [job for job in jobs if job.result], figures_of(config)
    values: dict[str, float | None] = {"jobs": len(jobs), "jobs_failed": len(jobs) - len(done)}
    said, tags = [question, f"{len(done)} of {len(jobs)} jobs finished."], {}
    if best := _best(done):
        keys = {"accuracy": "accuracy", "label_accuracy": "label_accuracy", "epsilon": "epsilon.published"}
        values |= {name: best.result.get(key) for name, key in keys.items()}
        tags["best"] = masked(job_name(folder, int(best.folder.name), best.overrides) or best.name)
        said[1] += f" Best: **{tags['best']}** ({describe(RunResult.read(best.folder))})."
    names = [f"{figure.name}.svg" for figure in figures]
    files = [name for name in names if private and (folder / FIGURES / name).is_file()]
    drawn = [f"![{name}](get-artifact?run_uuid={run}&path={FIGURES}/{name})" for name in files]
    table = SweepTable(jobs, [key for figure in figures for key in figure.y])
    room = max(0, _MOST - sum(len(each) + 2 for each in [*said, *drawn]))
    said += [_shortened(_CELL_END.sub("&ensp; | ", table.markdown().partition("\n\n")[2]), room), *drawn]
    return SweepSummary(masked("\n\n".join(filter(None, said)))[:_MOST], values, tags)


def _best(done: Sequence[Job]) -> Job | None:
    """Return the job of the highest accuracy (of the labels where no student learns), then of the smallest ε published.

    Where one class is much more frequent than others, it is the balanced accuracy.

    A job without a finite ε is the best only where all are without.
    """
    finite = [job for job in done if math.isfinite(_epsilon(job))] or done
    fair = "metrics.balanced_accuracy" if any(unequal_classes(job.result) for job in finite) else "accuracy"
    for key in (fair, "label_accuracy"):
        if known := [job for job in finite if job.result.get(key) is not None]:
            return max(known, key=lambda job: (job.result[key], -_epsilon(job)))
    return None


def _epsilon(job: Job) -> float:
    epsilon = job.result["epsilon.published"]
    return math.inf if epsilon is None else float(epsilon)


def _shortened(table: str, most: int) -> str:
    """Return a Markdown table without the last lines that do not fit into `most` characters."""
    if len(table) <= most:
        return table
    kept = table[: max(0, most - 30)].rpartition("\n")[0] + "\n"
    left_out = table.count("\n") - kept.count("\n")
    return f"{kept}\n… and {left_out} more lines."
