"""torchvision's classification datasets, divided as in the papers."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nzc.data.images import channels_first
from nzc.data.splits import Dataset, DataSplits, Split
from nzc.settings import Count
from nzc.types import AnyArray, Ints
from nzc.validation import InputError, in_a_line


@dataclass(frozen=True)
class Torchvision(Dataset):
    """The training part is private. The first `public` rows of the test part are public, the rest is the test split."""

    root: str  # folder of torchvision's files, which are downloaded where they are missing
    kind: Literal["CIFAR10", "CIFAR100", "FashionMNIST", "KMNIST", "MNIST", "STL10", "SVHN", "USPS"]
    public: Count
    extra: bool = False  # whether the part `extra` is private too; SVHN has one

    def load(self) -> DataSplits:
        parts = [self._read(part) for part in ("train", *["extra"] * self.extra)]
        private = Split(*map(np.concatenate, zip(*parts, strict=True)))
        u, v = self._read("test")
        if len(v) <= self.public:
            raise InputError("public", self.public, f"must leave rows to test on: at most {len(v) - 1:,}")
        public, test = Split(u[: self.public], v[: self.public]), Split(u[self.public :], v[self.public :])
        return DataSplits(private, public, test, classes=int(private.y.max()) + 1)

    def _read(self, part: str) -> tuple[AnyArray, Ints]:
        """Return images, uint8 [rows, channels, height, width], and labels [rows]."""
        from torchvision import datasets

        which: dict[str, Any] = {"split": part} if self.kind in ("SVHN", "STL10") else {"train": part == "train"}
        try:
            images = getattr(datasets, self.kind)(self.root, download=True, **which)
        except Exception as error:  # torchvision, SciPy and their decoders raise many types
            why = f"they could not be downloaded either ({in_a_line(error, 300)})"
            raise InputError("root", self.root, f"must hold the files of {self.kind}, whole; {why}") from error
        y = images.targets if hasattr(images, "targets") else images.labels
        return np.ascontiguousarray(channels_first(np.asarray(images.data))), np.asarray(y, np.int64)


@dataclass(frozen=True)
class MNIST(Torchvision):
    """60,000 private records; t10k[0:9000] is public, t10k[9000:10000] is the test split (PATE 2017, section 3.2)."""

    kind: Literal["MNIST", "FashionMNIST"] = "MNIST"
    public: Count = 9000


@dataclass(frozen=True)
class SVHN(Torchvision):
    """Colour crops of 32 × 32 pixels (Netzer et al. 2011): test[0:10000] is public (PATE 2017, section 3.2)."""

    kind: Literal["SVHN"] = "SVHN"
    public: Count = 10_000
