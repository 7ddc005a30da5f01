"""A sweep as one page, an HTML file that loads nothing; and as its tracker describes it."""

import math
import shlex
from base64 import b64encode
from operator import itemgetter
from pathlib import Path

import pandas
from jinja2 import StrictUndefined, Template

from nzc.privacy.ledger import now
from nzc.runs.formatting import heading, number
from nzc.runs.layout import FIGURES, PAGE, as_typed
from nzc.runs.metrics import Shares
from nzc.runs.quantities import EPSILONS
from nzc.runs.result import RunResult
from nzc.runs.summary import in_words
from nzc.storage.files import write_private
from nzc.sweeps.figures import caption_of, points_of
from nzc.sweeps.jobs import job_name
from nzc.sweeps.table import Sweep
from nzc.validation import Tree, masked
from nzc.version import __version__

_MOST = 8000  # characters of a description; MLflow accepts no more


def write_page(sweep: Sweep) -> Path:
    """Write report.html into the folder of a sweep. It is private, because it shows exact ε."""
    typed = sweep.config.hydra.overrides
    command = shlex.join(["nzc", *map(masked, [*as_typed(typed.hydra), *as_typed(typed.task)])])
    images = {}
    for figure in sweep.spec.figures:
        path = sweep.folder / FIGURES / f"{figure.name}.svg"
        if path.is_file() and len(sweep.done):
            caption = caption_of(figure, sweep.done, points_of(figure, sweep.done))
            images[caption] = b64encode(path.read_bytes()).decode()
    template = Template(
        (Path(__file__).parent / "page.html").read_text(encoding="utf-8"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: masked(value) if type(value) is str else value,
    )
    page = template.render(
        sweep=sweep,
        spec=sweep.spec,
        table=sweep.table,
        command=command.replace("hydra.mode=MULTIRUN", "--multirun"),
        done=sweep.done.where(sweep.done.notna(), None).to_dict("records"),
        epsilons=EPSILONS,
        heading=heading,
        images=images,
        number=number,
        written=f"{now()[:16].replace('T', ' ')} UTC by nzc {__version__}",
    )
    return write_private(sweep.folder / PAGE, page)


def summarise(
    sweep: Sweep, run: str, question: str, private: bool
) -> tuple[str, Shares, dict[str, str]]:
    """Return description, numbers and tags of a sweep.

    The description in Markdown has the question and the best job; where `private`, also the table
    and the figures, which are artifacts of MLflow's run `run`.
    """
    folder = sweep.folder
    done = sweep.done.to_dict("records")
    jobs = len(sweep.jobs)
    values: Shares = {"jobs": jobs, "jobs_failed": jobs - len(done)}
    tags = {}
    finished = f"{len(done)} of {jobs} jobs finished."
    best = _best(done)
    if best is not None:
        values["accuracy"] = best.get("accuracy")
        values["label_accuracy"] = best.get("label_accuracy")
        values["epsilon"] = best["epsilon.published"]
        tags["best"] = masked(job_name(folder, best["job"], best["overrides"]) or best["name"])
        finished += f" Best: **{tags['best']}** ({in_words(RunResult.read(best['folder']))})."
    lines = [question, finished]
    if private:
        for path in sorted((folder / FIGURES).glob("*.svg")):
            address = f"get-artifact?run_uuid={run}&path={FIGURES}/{path.name}"
            lines.append(f"![{path.name}]({address})")
        lines.append(sweep.table.markdown())
    return masked("\n\n".join(filter(None, lines)))[:_MOST], values, tags


def _best(done: list[Tree]) -> Tree | None:
    """Return the job of the highest accuracy; one without a finite ε only where all are without."""
    finite = [job for job in done if math.isfinite(job["epsilon.published"] or math.inf)]
    for key in ("accuracy", "label_accuracy"):
        measured = [job for job in finite or done if pandas.notna(job.get(key))]
        if measured:
            return max(measured, key=itemgetter(key))
    return None
