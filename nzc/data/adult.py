"""UCI Adult: does a person in the 1994 census earn more than 50,000 dollars?"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nzc.data.splits import Dataset, DataSplits, Split
from nzc.data.standardizer import Standardizer
from nzc.types import AnyArray, Ints
from nzc.validation import whole

ROWS = {"adult.data": 32_561, "adult.test": 16_281}  # of each of the official files
#: age, fnlwgt, education-num, capital-gain, capital-loss, hours-per-week
NUMBERS = [0, 2, 4, 10, 11, 12]
WORDS = [1, 3, 5, 6, 7, 8, 9, 13]  # the columns of categories; the next one has the label
LABELS = ("<=50K", ">50K")


@dataclass(frozen=True)
class Adult(Dataset):
    """adult.data is private; the first `public` rows of adult.test are public, others for testing.

    So row i of the votes that the PATE papers published is public row i. Categories are one-hot
    encoded and numbers standardised, both by the public rows only: a category that no public row
    has becomes zeros (Becker, Kohavi 1996).
    """

    root: str
    public: int

    def __post_init__(self) -> None:
        whole("public", self.public, 2, ROWS["adult.test"] - 1)

    def load(self) -> DataSplits:
        records, private_y = self._read("adult.data")
        rows, y = self._read("adult.test")
        x = _features(rows, rows[: self.public])
        private = Split(_features(records, rows[: self.public]), private_y)
        public, test = map(Split, np.split(x, [self.public]), np.split(y, [self.public]))
        return DataSplits(private, public, test, len(LABELS), labels=LABELS)

    def _read(self, name: str) -> tuple[AnyArray, Ints]:
        """Return the 14 columns as text, [rows, 14], and the labels [rows]."""
        import pandas as pd

        try:
            records = pd.read_csv(
                Path(self.root, "adult", name),
                header=None,
                comment="|",
                dtype=str,
                na_filter=False,
                skipinitialspace=True,
                encoding="ascii",
            )
            labels = records[14].str.rstrip(".").map(LABELS.index)
            table = records.iloc[:, :14].to_numpy(str)
            if len(table[:, NUMBERS].astype(float)) != ROWS[name]:
                raise ValueError
        except (OSError, ValueError, LookupError):  # no byte of a record is quoted
            raise self.refused(
                "root",
                f"must have {ROWS[name]:,} whole records in adult/{name}, of "
                "archive.ics.uci.edu/dataset/2; or set NZC_DATA to their folder",
            ) from None
        return table, labels.to_numpy(np.int64)


def _features(table: AnyArray, public: AnyArray) -> AnyArray:
    """Return float32 features [rows, features] of a table, encoded by the table `public` only."""
    standardizer = Standardizer.fit(public[:, NUMBERS].astype(float))
    numbers = standardizer(table[:, NUMBERS].astype(float))
    one_hot = [table[:, word, None] == np.unique(public[:, word]) for word in WORDS]
    return np.concatenate([numbers, *one_hot], axis=1).astype(np.float32)
