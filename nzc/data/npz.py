"""Your own arrays in an .npz file."""

import sys
from dataclasses import dataclass

import numpy as np

from nzc.data.splits import SPLITS, UNKNOWN, Dataset, DataSplits, Split, Standardizer, by_share, check_shares
from nzc.types import AnyArray, Bools, Ints
from nzc.validation import InputError, one_of, reason, whole

_BY_RECORD = "dataset.unit=record: rows of one group go to several teachers, so ε protects a record, not a group"


@dataclass(frozen=True)
class Npz(Dataset):
    """Arrays x [rows, ...], y [rows] with classes 0, 1, …, and optionally role [rows] and group [rows].

    role     private, public or test (may be absent); the public rows of unknown class have y = −1
    group    whom a row is about, as numbers or text: one teacher learns from all private rows of a group. Without role,
             splits are shares of the groups (of the rows, without groups): a group's rows share a split
    unit     what ε protects: group or record; None: group where the file has groups
    x        uint8 is an image; anything else is features, standardised by the public rows' mean and deviation
    classes  by default the largest y plus 1, which reveals the largest label, private rows included
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
        chosen = self._given(arrays["role"], y) if "role" in arrays else self._drawn(group, y)
        standardizer = None if x.dtype == np.uint8 else Standardizer.fit(x[chosen[1]])
        x = _images(x) if standardizer is None else standardizer(x)
        private, public, test = (Split(x[rows], y[rows]) for rows in chosen)
        classes = self.classes or int(y.max()) + 1
        groups = None if group is None or self.unit == "record" else group[chosen[0]]
        return DataSplits(private, public, test, classes, np.flatnonzero(chosen[1]), standardizer, groups)

    def _grouped(self, group: AnyArray | None, y: Ints) -> Ints | None:
        """Return the groups as numbers from 0, [rows], in the order of their names."""
        if group is None:
            if self.unit == "group":
                raise InputError("unit", self.unit, "must be record or null where the file has no array group")
            return None
        self._require(group.shape == y.shape, f"one group per row, {list(y.shape)}, not {list(group.shape)}")
        if self.unit == "record":
            print(f"nzc: {_BY_RECORD}", file=sys.stderr)
        return np.unique(group, return_inverse=True)[1].astype(np.int64)

    def _given(self, role: AnyArray, y: Ints) -> list[Bools]:
        """Return the masks of the three splits as the array role says."""
        names = np.unique(role)
        good = role.shape == y.shape and set(names.tolist()) <= set(SPLITS) and "public" in names
        self._require(good, f"one role per row ({', '.join(SPLITS)}), some of them public")
        self._require((y[role != "public"] >= 0).all(), "y = -1 in public rows only")
        return [role == name for name in SPLITS]

    def _drawn(self, group: Ints | None, y: Ints) -> list[Bools]:
        group = np.arange(len(y)) if group is None else group
        self._require((y >= 0).all(), "y of 0 or more, or else a role for each row")
        if (chosen := by_share(group, self.private, self.public, self.seed)) is None:
            few = len(np.unique(group))
            raise InputError("path", self.path, f"must have enough rows or groups for three splits, not {few}")
        return chosen

    def _read(self) -> tuple[AnyArray, Ints, dict[str, AnyArray]]:
        try:
            with open(self.path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
                arrays = {name: file[name] for name in ("x", "y", "role", "group") if name in file}
            if odd := [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]:
                raise ValueError(f"{odd[0]} is no array")
        except Exception as error:  # NumPy, zipfile and their decoders raise many types
            allowed = f"must be a readable .npz file without pickles ({reason(error)})"
            raise InputError("path", self.path, allowed) from error
        if missing := ", ".join(sorted({"x", "y"} - arrays.keys())):
            raise InputError("path", self.path, f"must hold the arrays x and y; {missing} is missing")
        x, y = arrays["x"], arrays["y"]
        good = y.ndim == 1 and x.ndim >= 2 and len(x) == len(y)
        self._require(good, f"one y per row of x, not {x.shape} and {y.shape}")
        self._require(len(y) > 0, "at least one row; it is empty")
        good = y.dtype.kind in "iu" and y.min() >= UNKNOWN and y.max() < len(y)
        self._require(good, f"y in whole numbers 0, 1, ... below the number of rows, as integers, not {y.dtype}")
        if self.classes is not None and y.max() >= self.classes:
            raise InputError("classes", self.classes, "must be more than every y of the file")
        self._require(len(np.unique(y[y >= 0])) >= 2, "at least two classes; every y is the same")
        good = x.dtype.kind in "iuf" and np.isfinite(x).all()
        self._require(good, f"finite numbers in x (it is of type {x.dtype})")
        return x, y.astype(np.int64), arrays

    def _require(self, good: bool | np.bool, what: str) -> None:
        if not good:
            raise InputError("path", self.path, f"must have {what}")


def _images(x: AnyArray) -> AnyArray:
    """Return uint8 images as [rows, channels, height, width]; rows of one dimension stay as they are."""
    if x.ndim == 3:
        return x[:, None]
    if x.ndim == 4 and x.shape[-1] in (1, 3) and x.shape[1] not in (1, 3):
        return np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    return x
