"""Your own arrays in an .npz file."""

from dataclasses import dataclass

import numpy as np

from nzc.data.splits import UNKNOWN, Dataset, DataSplits, Split, Standardizer, by_share, check_shares
from nzc.types import AnyArray, Bools, Ints
from nzc.validation import InputError, reason, whole

#: The values of the array role.
ROLES = ("private", "public", "test")


@dataclass(frozen=True)
class Npz(Dataset):
    """Arrays x [rows, ...], y [rows] with classes 0, 1, …, and optionally role [rows] or group [rows].

    role     private, public or test (may be absent); the public rows of unknown class have y = −1
    group    without role, splits are shares of the groups (of the rows, without groups): a group's rows stay together
    x        uint8 is an image; anything else is features, standardised by the public rows' mean and deviation
    classes  by default the largest y plus 1, which reveals the largest label, private rows included
    """

    path: str
    seed: int
    private: float
    public: float
    classes: int | None = None

    def __post_init__(self) -> None:
        check_shares(self.seed, self.private, self.public)
        if self.classes is not None:
            whole(2, classes=self.classes)

    def load(self) -> DataSplits:
        x, y, arrays = self._read()
        chosen = self._given(arrays["role"], y) if "role" in arrays else self._drawn(arrays.get("group"), y)
        standardizer = None if x.dtype == np.uint8 else Standardizer.fit(x[chosen[1]])
        x = _images(x) if standardizer is None else standardizer(x)
        private, public, test = (Split(x[rows], y[rows]) for rows in chosen)
        classes = self.classes or int(y.max()) + 1
        return DataSplits(private, public, test, classes, np.flatnonzero(chosen[1]), standardizer)

    def _given(self, role: AnyArray, y: Ints) -> list[Bools]:
        """Return the masks of the three splits as the array role says."""
        names = np.unique(role)
        if role.shape != y.shape or not set(names.tolist()) <= set(ROLES) or "public" not in names:
            raise InputError("path", self.path, f"must have one role per row ({', '.join(ROLES)}), some of them public")
        private, public, test = (role == name for name in ROLES)
        if (y[~public] < 0).any():
            raise InputError("path", self.path, "must have y = -1 in public rows only")
        return [private, public, test]

    def _drawn(self, group: AnyArray | None, y: Ints) -> list[Bools]:
        group = np.arange(len(y)) if group is None else group
        if group.shape != y.shape or (y < 0).any():
            raise InputError("path", self.path, "must have y of 0 or more, one group per row, or else a role for each")
        chosen = by_share(group, self.private, self.public, self.seed)
        if chosen is None:
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
            raise InputError(
                "path", self.path, f"must be a readable .npz file without pickles ({reason(error)})"
            ) from error
        if missing := {"x", "y"} - arrays.keys():
            raise InputError(
                "path", self.path, f"must hold the arrays x and y; {', '.join(sorted(missing))} is missing"
            )
        x, y = arrays["x"], arrays["y"]
        if y.ndim != 1 or x.ndim < 2 or len(x) != len(y):
            raise InputError("path", self.path, f"must have one y per row of x, not {x.shape} and {y.shape}")
        if len(y) == 0:
            raise InputError("path", self.path, "must hold at least one row; it is empty")
        if y.dtype.kind not in "iu" or y.min() < UNKNOWN or y.max() >= len(y):
            allowed = f"must have y in whole numbers 0, 1, ... below the number of rows, as integers, not {y.dtype}"
            raise InputError("path", self.path, allowed)
        if self.classes is not None and y.max() >= self.classes:
            raise InputError("classes", self.classes, "must be more than every y of the file")
        if len(np.unique(y[y >= 0])) < 2:
            raise InputError("path", self.path, "must have at least two classes; every y is the same")
        if x.dtype.kind not in "iuf" or not np.isfinite(x).all():
            raise InputError("path", self.path, f"must have finite numbers in x (it is of type {x.dtype})")
        return x, y.astype(np.int64), arrays


def _images(x: AnyArray) -> AnyArray:
    """Return uint8 images as [rows, channels, height, width]; rows of one dimension stay as they are."""
    if x.ndim == 3:
        return x[:, None]
    if x.ndim == 4 and x.shape[-1] in (1, 3) and x.shape[1] not in (1, 3):
        return np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    return x
