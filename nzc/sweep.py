"""A sweep's parent run and its table, paper beside measured. Its rows become jobs in hydra_plugins/nzc.py."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf
from rich.table import Table

from nzc.config import build
from nzc.report import EPSILONS, number, percent, show

#: The ε that are a run's own; the ledger's total counts whatever came before it.
OF_A_RUN = [name for name in EPSILONS if name != "ledger_total"]
#: What a job leaves in its folder when its input was wrong: the line it printed.
ERROR = "error.txt"


def rows_of(config: DictConfig | None) -> list[dict[str, Any]]:
    """The rows of a composed configuration; none where no sweep file was asked for."""
    if config is None or config.get("sweep") is None:
        return []
    rows: Any = OmegaConf.to_container(config.sweep.get("rows", []))
    return list(rows)


class SweepReport(Callback):
    """Opens a parent run before the jobs of a sweep, and closes it with their table after."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        folder = Path(config.hydra.sweep.dir)
        folder.mkdir(parents=True, exist_ok=True)
        self.tracker, self.run = build(config, "tracking"), None
        if self.tracker is not None:
            choices = config.hydra.runtime.choices
            self.run = self.tracker.start(choices.dataset, _name(config), {}, None)
        (folder / "parent.json").write_text(json.dumps({"run": self.run}))

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        folder = Path(config.hydra.sweep.dir)
        jobs = sorted((path for path in folder.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
        table = Results(rows_of(config), jobs)
        (folder / "table.md").write_text(table.markdown(_name(config)))
        show(table.rich(_name(config)))
        if self.tracker is not None and self.run is not None:
            self.tracker.finish(self.run, folder, None)
        if table.failed:
            print(f"{table.failed} of {len(jobs)} jobs did not finish; the others are whole", file=sys.stderr)
            sys.exit(2)


def parent(sweep_dir: str | None) -> str | None:
    """The parent run of a job, as the callback left it in the sweep's folder."""
    path = Path(sweep_dir or "") / "parent.json"
    if sweep_dir is None or not path.is_file():
        return None
    run: str | None = json.loads(path.read_text())["run"]
    return run


def _name(config: DictConfig) -> str:
    choices = config.hydra.runtime.choices
    return str(choices.get("sweeps") or "sweep")


class Results:
    """The jobs of a sweep as one table."""

    def __init__(self, rows: list[dict[str, Any]], jobs: Sequence[Path]) -> None:
        self.failed = 0
        self.lines: list[list[str]] = []
        self.columns = ["run", "answered", "label accuracy", "student: paper", "student: measured", "ε: paper"]
        self.columns += [f"ε {name.replace('_', '-')}" for name in OF_A_RUN]
        for number_of_job, job in enumerate(jobs):
            row = rows[number_of_job % len(rows)] if rows else {}
            self.lines.append(self._line(row, job))
        used = [k for k in range(len(self.columns)) if any(line[k] not in ("", "–") for line in self.lines)]
        self.columns = [self.columns[k] for k in used]
        self.lines = [[line[k] for k in used] for line in self.lines]

    def _line(self, row: dict[str, Any], job: Path) -> list[str]:
        name = row.get("name") or " ".join(OmegaConf.load(job / ".hydra" / "overrides.yaml"))
        if not (job / "result.json").is_file():
            self.failed += 1
            said = (job / ERROR).read_text().strip() if (job / ERROR).is_file() else "did not finish"
            return [f"{name}: {said}", *["–"] * (len(self.columns) - 1)]
        result, paper = json.loads((job / "result.json").read_text()), row.get("paper", {})
        epsilons = [number(_float(result["epsilon"][kind])) for kind in OF_A_RUN]
        return [
            str(name),
            f"{result['answered']:,}",
            percent(result["label_accuracy"]),
            percent(paper.get("accuracy")),
            percent(result["accuracy"]),
            str(paper.get("epsilon", "–")),
            *epsilons,
        ]

    def rich(self, title: str) -> Table:
        """For a terminal."""
        table = Table(title=title, title_style="bold")
        for column in self.columns:
            table.add_column(column, justify="left" if column == "run" else "right")
        for line in self.lines:
            table.add_row(*line)
        return table

    def markdown(self, title: str) -> str:
        """For docs/results.md."""
        rule = ["---", *["---:"] * (len(self.columns) - 1)]
        lines = [self.columns, rule, *self.lines]
        return f"# {title}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _float(value: Any) -> float | None:
    return float("inf") if value == "inf" else value
