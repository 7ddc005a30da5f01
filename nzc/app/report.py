"""The subcommand nzc report: the page of a sweep, the table of a run."""

from pathlib import Path

from nzc.app.errors import Parser
from nzc.runs.formatting import show
from nzc.runs.layout import SWEEP
from nzc.runs.result import RunResult
from nzc.runs.summary import result_table
from nzc.validation import InputError, in_a_line


def report(arguments: list[str]) -> int:
    """Write the pages of sweeps, and print the tables of runs."""
    parser = Parser(
        "nzc report",
        description="Write report.html into the folder of a sweep; print the table of a run.",
    )
    parser.add_argument(
        "folders", nargs="+", metavar="FOLDER", type=Path, help="outputs/… of a run or a sweep"
    )
    for folder in parser.parse_args(arguments).folders:
        try:
            show(_report_of(folder))
        except Exception as error:  # of missing or damaged files
            raise InputError(
                "FOLDER",
                folder,
                f"must be the folder of a finished run or a sweep, with whole files "
                f"({in_a_line(error, 200)})",
            ) from error
    return 0


def _report_of(folder: Path) -> object:
    """Return the table of a run; of a sweep write the page, and return its path."""
    if not (folder / SWEEP).is_file():
        return result_table(RunResult.read(folder))
    from nzc.sweeps.page import write_page  # imports pandas
    from nzc.sweeps.table import Sweep

    return str(write_page(Sweep(folder)))
