"""Predict with a student: python predict.py NEW.csv > predictions.csv. It needs torch, NumPy and pandas only.

The folder of this file has student.pt2 (the student) and student.json (what it takes, and the names of the classes).
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from nzc.data.table_encoder import TableEncoder

#: Rows that are predicted at a time.
CHUNK = 10_000


class Student:
    """The student in a folder."""

    def __init__(self, folder: str | Path) -> None:
        self.about: dict[str, Any] = json.loads((Path(folder) / "student.json").read_text())
        self.network = torch.export.load(Path(folder) / "student.pt2").module()
        columns = self.about["columns"]
        self.encoder = None if columns is None else TableEncoder.from_dict(columns)

    def predict(self, records: Any, params: Any = None) -> pd.DataFrame:
        """Return a row for each record: label, its probability, and the probability of every class by name.

        records  a table with the columns of student.json (a missing value may be empty, None or NaN), or an array
                 [rows, ...] as student.json has it

        ValueError: a column is missing, a value is no number or no date, or the array has another shape.
        """
        parts = [self._probabilities(part) for part in _parts(records, self.encoder is not None)]
        probabilities = np.concatenate(parts) if parts else np.zeros((0, len(self.about["labels"])))
        best, labels = probabilities.argmax(axis=1), np.array(self.about["labels"], dtype=object)
        top = np.take_along_axis(probabilities, best[:, None], axis=1)[:, 0]
        named = {f"p({label})": column for label, column in zip(labels, probabilities.T, strict=True)}
        return pd.DataFrame({"label": labels[best], "probability": top, **named})

    def _probabilities(self, records: Any) -> np.ndarray[Any, Any]:
        """Return float64 [rows, classes]."""
        if self.encoder is not None:
            rows = self.encoder.encode(records)
        else:
            shape, dtype = self.about["array"]["shape"], self.about["array"]["dtype"]
            rows = np.asarray(records).astype(dtype)
            if list(rows.shape[1:]) != shape:
                raise ValueError(f"rows must have the shape {shape}, not {list(rows.shape[1:])}")
        with torch.no_grad():
            return np.asarray(self.network(torch.from_numpy(rows)).double().softmax(dim=1))


def read(path: str) -> Iterator[Any]:
    """Yield the records of a file in parts: CSV, Parquet or Arrow, or an array in .npy."""
    ending = Path(path).suffix.lower()
    if ending == ".npy":
        yield np.load(path, allow_pickle=False)
    elif ending in (".parquet", ".pq"):
        yield pd.read_parquet(path)
    elif ending in (".arrow", ".feather", ".ipc"):
        yield pd.read_feather(path)
    else:
        separator = "\t" if ending == ".tsv" else ","
        yield from pd.read_csv(path, dtype=str, sep=separator, skipinitialspace=True, chunksize=CHUNK)


def write(folder: str | Path, path: str, out: Any = sys.stdout) -> None:
    """Write a CSV line for each record of the file `path`: its id, if the student knows that column, or its number."""
    student, first = Student(folder), 0
    for records in read(path):
        found = student.predict(records)
        names: Any = range(first, first + len(found))
        column = student.about["id"]
        if column is not None and column in records:
            names = np.asarray(records[column])
        found.insert(0, column or "row", names)
        found.to_csv(out, index=False, header=first == 0)
        first += len(found)


def describe(labels: list[str], encoder: TableEncoder | None, example: Any, name: str | None) -> str:
    """Return student.json; `example` is an array [rows, ...] such as the student takes, `name` the column of ids."""
    columns = None if encoder is None else encoder.as_dict()
    array = None if encoder is not None else {"shape": list(example.shape[1:]), "dtype": str(example.dtype)}
    about = {"labels": labels, "id": name, "array": array, "columns": columns}
    return json.dumps(about, indent=1, ensure_ascii=False) + "\n"


def _parts(records: Any, table: bool) -> Iterator[Any]:
    for first in range(0, len(records), CHUNK):
        yield records.iloc[first : first + CHUNK] if table else records[first : first + CHUNK]


def _load_pyfunc(path: str) -> Student:
    """Return the student; MLflow calls this."""
    return Student(path)


if __name__ == "__main__":
    write(Path(__file__).parent, sys.argv[1])
