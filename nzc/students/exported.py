"""Predict with a student: python predict.py NEW.csv > predictions.csv

It needs requirements.txt, and no nzc. The folder of this file has student.pt2 (the student) and
student.json (what it takes, and the names of the classes).
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from nzc.data.table_encoder import Array, TableEncoder, is_utf8, read_table

#: Records of a table that are predicted at a time, and rows of an array: images may be large.
CHUNK = 10_000
ROWS = 100


class ExportedStudent:
    """The student in a folder."""

    def __init__(self, folder: str | Path) -> None:
        about = (Path(folder) / "student.json").read_text(encoding="utf-8")
        self.about: dict[str, Any] = json.loads(about)
        self.network = torch.export.load(Path(folder) / "student.pt2").module()
        self.encoder: TableEncoder | None = None
        if self.about["columns"] is not None:
            self.encoder = TableEncoder.from_dict(self.about["columns"])

    def predict(self, records: Any) -> pd.DataFrame:
        """Return label, its probability, and that of every class by name, for each record.

        records  a table with columns of student.json, or a list of mappings; a value, and a column,
                 may be missing. Or an array [rows, ...] as student.json has it

        ValueError: half of the columns are absent, a value is no number or no date, or the array
        has another shape.
        """
        labels = np.array(self.about["labels"], dtype=object)
        if self.encoder is None:
            chunk = ROWS
        else:
            chunk = CHUNK
            records = self._table(records, self.encoder)
        parts = [np.zeros((0, len(labels)))]
        for start in range(0, len(records), chunk):
            parts.append(self._probabilities(records[start : start + chunk]))
        probabilities = np.concatenate(parts)
        weights = self.about.get("weights") or 1  # of probabilities, before one class is chosen
        best = (probabilities * weights).argmax(axis=1)
        predicted = pd.DataFrame(probabilities, columns=[f"p({label})" for label in labels])
        predicted.insert(0, "label", labels[best])
        predicted.insert(1, "probability", probabilities[np.arange(len(best)), best])
        return predicted

    def _table(self, records: Any, encoder: TableEncoder) -> pd.DataFrame:
        """Return records with the columns that the student takes."""
        if not isinstance(records, pd.DataFrame):
            # Other records must not decide the type of a value.
            records = pd.DataFrame(records, dtype=object)
        encoder.absent(records)
        return records.reindex(columns=[column.name for column in encoder.columns])

    def _probabilities(self, records: Any) -> Array:
        """Return float64 [rows, classes]."""
        if self.encoder is None:
            rows = self._array(np.asarray(records))
        else:
            rows = self.encoder.encode(records)
        with torch.no_grad():
            return np.asarray(self.network(torch.from_numpy(rows)).double().softmax(dim=1))

    def _array(self, records: Array) -> Array:
        """Return rows of the student's own type.

        ValueError: they have another shape, or their numbers mean something else.
        """
        array = self.about["array"]
        if list(records.shape[1:]) != array["shape"]:
            raise ValueError(f"rows must be {array['shape']}, not {list(records.shape[1:])}")
        with np.errstate(invalid="ignore"):
            rows = records.astype(array["dtype"])
        if rows.dtype.kind != "f" and not np.array_equal(rows, records):
            raise ValueError(f"values must be {array['dtype']}, as in the run, not {records.dtype}")
        if "range" in array:
            low, high = sorted(array["range"])  # black and white
            if not ((rows >= low) & (rows <= high)).all():
                raise ValueError(f"values must be from {low:g} to {high:g}, as in the run")
        return rows


def write(student: ExportedStudent, path: str | Path) -> None:
    """Print a CSV line for each record of the file `path`, a table (CSV, Parquet, Arrow) or .npy.

    It begins with the id of the record, if the student knows that column, or its number.
    """
    encoder = student.encoder
    id_column = student.about["id"]
    first = 0
    for records in _records(path, encoder, id_column):
        names = np.arange(first, first + len(records))
        if encoder is not None:
            absent = encoder.absent(records.drop(columns=[id_column], errors="ignore"))
            if absent and first == 0:
                print(f"absent columns, which count as missing: {absent}", file=sys.stderr)
            if id_column in records:
                names = np.asarray(records[id_column])
        predicted = student.predict(records)
        predicted.insert(0, id_column or "row", names, allow_duplicates=True)
        predicted.to_csv(sys.stdout, index=False, header=first == 0)
        first += len(predicted)


def _records(path: str | Path, encoder: TableEncoder | None, column: str | None) -> Iterable[Any]:
    """Return the records of a file, some at a time; `column` has their ids."""
    if encoder is None:
        return [np.load(path, allow_pickle=False)]
    columns = [column.name for column in encoder.columns]
    encoding = None if encoder.encoding is None or is_utf8(path) else encoder.encoding
    return read_table(
        path,
        CHUNK,
        expected=columns,
        names=[column],
        encoding=encoding,
        skip=encoder.skip,
        quoting=encoder.quoting,
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
    about = {"labels": labels, "id": name, "array": array, "columns": None, "weights": weights}
    if encoder is not None:
        about |= {"array": None, "columns": encoder.as_dict()}
    return json.dumps(about, indent=1, ensure_ascii=False, default=str) + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(
            "usage: python predict.py FILE > predictions.csv "
            "(FILE: records in CSV, Parquet or Arrow; or .npy)"
        )
    try:
        write(ExportedStudent(Path(__file__).parent), sys.argv[1])
    except (OSError, ValueError) as error:
        sys.exit(f"python predict.py: {sys.argv[1]}: {error}")
