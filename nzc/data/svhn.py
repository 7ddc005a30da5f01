"""SVHN, digits of house numbers, divided as in the papers."""

from dataclasses import dataclass

import numpy as np

from nzc.data.download import obtain
from nzc.data.splits import Dataset, DataSplits, Split
from nzc.types import AnyArray, Ints
from nzc.validation import InputError

#: Images in each of the official files.
ROWS = {"train": 73_257, "extra": 531_131, "test": 26_032}
#: The first rows of the test file are public, the rest is the test split (PATE 2017, section 3.2).
PUBLIC = 10_000


@dataclass(frozen=True)
class SVHN(Dataset):
    """Colour crops of 32 × 32 pixels (Netzer et al. 2011). The train file is private; so is the extra file, if used."""

    root: str
    extra: bool

    def load(self) -> DataSplits:
        parts = [self._read(name) for name in ("train", *["extra"] * self.extra)]
        private = Split(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
        u, v = self._read("test")
        return DataSplits(private, Split(u[:PUBLIC], v[:PUBLIC]), Split(u[PUBLIC:], v[PUBLIC:]), classes=10)

    def _read(self, name: str) -> tuple[AnyArray, Ints]:
        from torchvision.datasets import SVHN as Torchvision

        file = f"{name}_32x32.mat"
        part = obtain(self.root, file, lambda: Torchvision(self.root, split=name, download=True))
        x, y = np.ascontiguousarray(part.data), np.atleast_1d(part.labels)
        if x.dtype != np.uint8 or x.shape != (ROWS[name], 3, 32, 32) or y.shape != (ROWS[name],):
            raise InputError("root", self.root, f"must hold {ROWS[name]:,} images of 32 × 32 × 3 bytes and labels in "
                             f"{file}, not {x.dtype} {list(x.shape)} and {list(y.shape)}")  # fmt: skip
        return x, y
