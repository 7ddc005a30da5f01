"""The subcommand nzc predict: labels of new records, by the student of a run. It needs torch."""

import logging
import os
import sys
from pathlib import Path

from nzc.app.errors import Parser
from nzc.validation import InputError, in_a_line


def predict(arguments: list[str]) -> int:
    """Print the predictions of a run's student for new records."""
    parser = Parser(
        "nzc predict", description="Print a label and its probability for each record of a file."
    )
    parser.add_argument(
        "folder", metavar="FOLDER", type=Path, help="outputs/… of a run, or a published folder"
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        help="records as the run's public ones: CSV, Parquet, .npy",
    )
    chosen = parser.parse_args(arguments)
    logging.disable(logging.WARNING)  # torch would say in many lines why it cannot read a file
    try:
        from nzc.students.exported import ExportedStudent, write

        student = ExportedStudent(chosen.folder)
    except Exception as error:  # torch and json raise many types
        allowed = f"must have a student that can be read ({in_a_line(error, 200)})"
        raise InputError("FOLDER", chosen.folder, allowed) from error
    try:
        write(student, str(chosen.file))
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError) as error:
        allowed = f"must have records such as the student takes ({in_a_line(error, 200)})"
        raise InputError("FILE", chosen.file, allowed) from error
    return 0
