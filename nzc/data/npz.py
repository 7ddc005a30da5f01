"""Your own arrays in an .npz file."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from nzc.data.arrays import load_arrays
from nzc.data.npz_checks import complaints
from nzc.data.splits import SPLITS, Dataset, DataSplits, Split, by_share, check_shares
from nzc.data.standardizer import ALIKE, Standardizer, look_alike
from nzc.types import AnyArray, Bools, Ints
from nzc.validation import InputError, fits_memory, one_of, whole

_BY_RECORD = "dataset.unit=record: rows of one group go to several teachers, so ε protects a record, not a group"


@dataclass(frozen=True)
class Npz(Dataset):
    """Arrays x [rows, ...], y [rows] with classes 0, 1, …, and optionally role [rows] and group [rows].

    role     private, public or test (may be absent); the public rows of unknown class have y = −1
    group    whom a row is about, as numbers or text: one teacher learns from all private rows of a group. Without role,
             splits are shares of the groups (of the rows, without groups): a group's rows share a split
    unit     what ε protects: group or record; None: group where the file has groups
    x        uint8 is an image; other numbers, true and false are features, standardised by the public rows' mean and
             deviation
    classes  by default the largest y plus 1, which reveals the largest label, private rows included; then every class
             must occur
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
        group = self._grouped(arrays.get("group"), y)
        role = arrays.get("role")
        chosen = self._drawn(group, y) if role is None else [role == name for name in SPLITS]
        standardizer = None if x.dtype == np.uint8 else Standardizer.fit(x[chosen[1]])
        if standardizer is not None:
            self._tell(look_alike(x[chosen[1]], standardizer.spread))
        x = _images(x) if standardizer is None else standardizer(x)
        private, public, test = (Split(x[rows], y[rows]) for rows in chosen)
        classes = self.classes or int(y.max()) + 1
        fits_memory(8 * len(public) * classes, classes=classes)  # votes
        groups = None if group is None or self.unit == "record" else group[chosen[0]]
        return DataSplits(private, public, test, classes, np.flatnonzero(chosen[1]), standardizer, groups)

    def _grouped(self, group: AnyArray | None, y: Ints) -> Ints | None:
        """Return the groups as numbers from 0, [rows], in the order of their names."""
        if group is None:
            if self.unit == "group":
                raise InputError("unit", self.unit, "must be record or null where the file has no array group")
            return None
        if self.unit == "record":
            print(f"nzc: {_BY_RECORD}", file=sys.stderr)
        return np.unique(group, return_inverse=True)[1].astype(np.int64)

    def _drawn(self, group: Ints | None, y: Ints) -> list[Bools]:
        units = np.arange(len(y)) if group is None else group
        if (chosen := by_share(units, self.private, self.public, self.seed)) is None:
            few = f"{len(np.unique(units)):,} {'rows' if group is None else 'groups'}"
            shares = f"dataset.private={self.private} and dataset.public={self.public}"
            raise InputError("path", self.path, f"{few} are too few for {shares} and a test split; save a role per row")
        return chosen

    def _read(self) -> tuple[AnyArray, Ints, dict[str, AnyArray]]:
        arrays = load_arrays(self.path, "path", ("x", "y"), ("role", "group"))
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
