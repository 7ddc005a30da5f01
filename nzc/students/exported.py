"""Predict with a student: python predict.py NEW.csv > predictions.csv. It needs requirements.txt,
and no nzc.

The folder of this file has student.pt2 (the student) and student.json (what it takes, and the names
of the classes).
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from nzc.data.table_encoder import TableEncoder, is_utf8, read_table

#: Rows that are predicted at a time.
CHUNK = 10_000


class Student:
    """The student in a folder."""

    def __init__(self, folder: str | Path) -> None:
        self.about: dict[str, Any] = json.loads(
            (Path(folder) / "student.json").read_text(encoding="utf-8")
        )
        self.network = torch.export.load(Path(folder) / "student.pt2").module()
        self.weights = np.array(
            self.about.get("weights") or 1
        )  # of probabilities, before one class is chosen
        columns = self.about["columns"]
        self.encoder = None if columns is None else TableEncoder.from_dict(columns)

    def predict(self, records: Any) -> pd.DataFrame:
        """Return a row for each record: label, its probability, and the probability of every class
        by name.

        records  a table with columns of student.json, or a list of mappings; a value, and a column,
                 may be missing. Or an array [rows, ...] as student.json has it

        ValueError: there is no known column, a value is no number or no date, or the array has
        another shape.
        """
        if self.encoder is not None:
            if not isinstance(records, pd.DataFrame):
                records = pd.DataFrame(
                    records, dtype=object
                )  # other records do not decide the type of a value
            names = [column.name for column in self.encoder.columns]
            if not set(names) & set(records.columns):
                raise ValueError(f"there must be columns such as {', '.join(names[:5])}")
            records, at_once = records.reindex(columns=names), CHUNK
        else:
            at_once = 100  # a pretrained encoder takes no more
        starts, labels = (
            range(0, len(records), at_once),
            np.array(self.about["labels"], dtype=object),
        )
        parts = [self._probabilities(records[start : start + at_once]) for start in starts]
        probabilities = np.concatenate([np.zeros((0, len(labels))), *parts])
        best = (probabilities * self.weights).argmax(axis=1)
        named = {
            f"p({label})": column for label, column in zip(labels, probabilities.T, strict=True)
        }
        return pd.DataFrame(
            {
                "label": labels[best],
                "probability": probabilities[np.arange(len(best)), best],
                **named,
            }
        )

    def _probabilities(self, records: Any) -> np.ndarray[Any, Any]:
        """Return float64 [rows, classes]."""
        rows = (
            self._array(np.asarray(records))
            if self.encoder is None
            else self.encoder.encode(records)
        )
        with torch.no_grad():
            return np.asarray(self.network(torch.from_numpy(rows)).double().softmax(dim=1))

    def _array(self, records: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return rows of the student's own type. ValueError: they have another shape, or mean
        something else in it.
        """
        array = self.about["array"]
        if list(records.shape[1:]) != array["shape"]:
            raise ValueError(
                f"rows must have the shape {array['shape']}, not {list(records.shape[1:])}"
            )
        with np.errstate(invalid="ignore"):
            rows = records.astype(array["dtype"])
        if rows.dtype.kind != "f" and not np.array_equal(rows, records):
            raise ValueError(
                f"values must be {array['dtype']}, as in the run; {records.dtype} has others"
            )
        if "range" in array:
            least, most = sorted(array["range"])  # black and white
            if not ((rows >= least) & (rows <= most)).all():
                raise ValueError(
                    f"values of images must be from {least:g} to {most:g}, as in the run"
                )
        return rows


def write(student: Student, path: str | Path) -> None:
    """Print a CSV line for each record of the file `path`: its id, if the student knows that
    column, or its number.

    The file is a table (CSV, Parquet, Arrow) or an array (.npy).
    """
    first, encoder, column = 0, student.encoder, student.about["id"]
    for records in _records(path, encoder, column):
        if first == 0 and encoder is not None and (absent := encoder.absent(records)):
            print(
                f"these columns are absent, and count as missing: {', '.join(absent)}",
                file=sys.stderr,
            )
        predicted, names = student.predict(records), np.arange(first, first + len(records))
        if encoder is not None and column in records:
            names = np.asarray(records[column])
        predicted.insert(
            0, column if column and column not in predicted else "id" if column else "row", names
        )
        predicted.to_csv(sys.stdout, index=False, header=first == 0)
        first += len(predicted)


def _records(path: str | Path, encoder: TableEncoder | None, column: str | None) -> Iterable[Any]:
    """Return the records of a file, some at a time; `column` has their ids."""
    if encoder is None:
        return [np.load(path, allow_pickle=False)]
    columns = [column.name for column in encoder.columns]
    encoding = None if encoder.encoding is None or is_utf8(path) else encoder.encoding
    return read_table(
        path, CHUNK, expected=columns, names=[column], encoding=encoding, skip=encoder.skip
    )


def describe(
    labels: list[str],
    encoder: TableEncoder | None,
    array: dict[str, Any],
    name: str | None,
    weights: list[float] | None = None,
) -> str:
    """Return student.json.

    array  shape and dtype of a row such as the student takes, and of images the values of black and
           white (range)
    name   the column of ids
    """
    about: dict[str, Any] = {
        "labels": labels,
        "id": name,
        "array": None,
        "columns": None,
        "weights": weights,
    }
    if encoder is None:
        about["array"] = array
    else:
        about["columns"] = encoder.as_dict()
    return json.dumps(about, indent=1, ensure_ascii=False, default=str) + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(
            "usage: python predict.py FILE > predictions.csv (FILE: records in CSV, Parquet or Arrow; or .npy)"
        )
    try:
        write(Student(Path(__file__).parent), sys.argv[1])
    except (OSError, ValueError) as error:
        sys.exit(f"python predict.py: {sys.argv[1]}: {error}")
