"""Your own arrays in an .npz file, or in a folder of .npy files."""

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from nzc.data.arrays import load_arrays, read_folder
from nzc.data.hashing import keys_of, texts_of
from nzc.data.npz_checks import complaints
from nzc.data.rows import FileRows
from nzc.data.splits import SPLITS, Dataset, DataSplits, Records, Split, by_share, check_shares
from nzc.data.standardizer import ALIKE, Standardizer, look_alike
from nzc.types import AnyArray, Bools, Ints
from nzc.validation import InputError, fits_memory, one_of, whole

_BY_RECORD = "dataset.unit=record: rows of one group go to several teachers, so ε protects a record, not a group"


@dataclass(frozen=True)
class Npz(Dataset):
    """Arrays x [rows, ...], y [rows] with classes 0, 1, …, and optionally role, group and id, each [rows].

    path     an .npz file; or a folder with x.npy, y.npy and so on: each teacher then reads its own rows of x.npy, and
             the private rows are never in memory all at once
    role     private, public or test (may be absent); the public rows of unknown class have y = −1
    group    whom a row is about, as numbers or text: one teacher learns from all private rows of a group
    id       the row's own name, as a number or text, by which nzc and the user know it again. Without group and id it
             is known by its row number
             Without role, splits are shares of the groups, or else of the rows. The name of a group or row alone
             decides its split and its teacher; shares of names hold on average
    unit     what ε protects: group or record; None: group where the file has groups
    x        uint8 is an image; other numbers, true and false are features, standardised by the public rows' mean and
             deviation
    classes  by default the largest y plus 1, private rows included; then every class must occur
    """

    path: str
    seed: int
    private: float
    public: float
    classes: int | None = None
    unit: str | None = None

    def __post_init__(self) -> None:
        check_shares(self.seed, self.private, self.public)
        if self.unit is not None:
            one_of(("group", "record"), unit=self.unit)
        if self.classes is not None:
            whole(2, classes=self.classes)

    def load(self) -> DataSplits:
        x, y, arrays = self._read()
        group, keys = (keys_of(arrays[name]) if name in arrays else None for name in ("group", "id"))
        self._check_unit(group)
        role = arrays.get("role")
        names = keys if group is None else group
        chosen = self._drawn(arrays, names) if role is None else [role == name for name in SPLITS]
        if self.unit == "record" and group is not None and role is None and keys is None:
            keys = keys_of(np.arange(len(y)))  # a record that changes its group may change its split, and no other's
        where = [np.flatnonzero(rows) for rows in chosen]
        others = [x[rows] for rows in where[1:]]
        standardizer = None if x.dtype == np.uint8 else Standardizer.fit(others[0])
        if standardizer is not None:
            self._tell(look_alike(others[0], standardizer.spread))
        prepare = standardizer or _images
        private = Records(x.of(where[0], prepare) if isinstance(x, FileRows) else prepare(x[where[0]]), y[where[0]])
        public, test = (Split(prepare(part), y[rows]) for part, rows in zip(others, where[1:], strict=True))
        classes = self.classes or int(y.max()) + 1
        fits_memory(8 * len(public) * classes, classes=classes)  # votes
        ids = texts_of(arrays["id"][chosen[1]]) if "id" in arrays else None
        splits = DataSplits(
            private, public, test, classes, where[1], standardizer, ids=ids, declared=self.classes is not None
        )
        if group is not None and self.unit != "record":
            return replace(splits, groups=group[chosen[0]], grouped_by="array `group`")
        return splits if keys is None else replace(splits, keys=keys[chosen[0]])

    def _check_unit(self, group: Ints | None) -> None:
        if group is None and self.unit == "group":
            raise InputError("unit", self.unit, "must be record or null where the file has no array group")
        if group is not None and self.unit == "record":
            print(f"nzc: {_BY_RECORD}", file=sys.stderr)

    def _drawn(self, arrays: dict[str, AnyArray], names: Ints | None) -> list[Bools]:
        units, grouped = np.arange(len(arrays["y"])), "group" in arrays
        if names is not None:  # where nothing is private, the order of the names themselves decides
            units = names if self.private else arrays["group" if grouped else "id"]
        if (chosen := by_share(units, names is not None, self.private, self.public, self.seed)) is None:
            few = f"{len(np.unique(units)):,} {'groups' if grouped else 'rows'}"
            shares = f"dataset.private={self.private} and dataset.public={self.public}"
            raise InputError("path", self.path, f"{few} are too few for {shares} and a test split; save a role per row")
        return chosen

    def _read(self) -> tuple[AnyArray | FileRows, Ints, dict[str, AnyArray]]:
        """Return x, y and all arrays by name. They are sound; x stays in its file where each array has its own."""
        read = read_folder if os.path.isdir(self.path) else load_arrays
        arrays = read(self.path, "path", ("x", "y"), ("role", "group", "id"))
        self._refuse(complaints(arrays, self.classes))
        x, y = arrays["x"], arrays["y"]
        if self.classes is not None and y.max() >= self.classes:
            raise InputError("classes", self.classes, "must be more than every y of the file")
        return x, y.astype(np.int64), arrays

    def _tell(self, alike: Bools) -> None:
        """Say where public rows can hardly be told apart; alike [features]."""
        if alike.any():
            where = f"{alike.sum():,} columns, first x[:, {', '.join(map(str, np.argwhere(alike)[0]))}]"
            told = f"nzc: dataset.path={self.path}: 90 % of the public rows look alike in {where}; {ALIKE}"
            print(told, file=sys.stderr)

    def _refuse(self, complaints: Iterable[str]) -> None:
        """Raise InputError with the first complaint, if there is any."""
        for complaint in complaints:
            raise InputError("path", self.path, complaint)


def _images(x: AnyArray) -> AnyArray:
    """Return uint8 images as [rows, channels, height, width]; rows of one dimension stay as they are."""
    if x.ndim == 3:
        return x[:, None]
    if x.ndim == 4 and x.shape[-1] in (1, 3) and x.shape[1] not in (1, 3):
        return np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    return x
