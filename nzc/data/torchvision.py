"""torchvision's classification datasets, divided as in the papers."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nzc.data.images import channels_first
from nzc.data.splits import Dataset, DataSplits, Split
from nzc.ranges import Count
from nzc.types import AnyArray, Ints
from nzc.validation import in_a_line


@dataclass(frozen=True)
class Torchvision(Dataset):
    """The training part is private, the first `public` rows of the test part are public."""

    root: str  # folder of torchvision's files, which are downloaded where they are missing
    kind: Literal["CIFAR10", "CIFAR100", "FashionMNIST", "KMNIST", "MNIST", "STL10", "SVHN", "USPS"]
    public: Count
    extra: bool = False  # whether the part `extra` is private too; SVHN has one

    def load(self) -> DataSplits:
        x, y = self._read("train")
        if self.extra:
            more_x, more_y = self._read("extra")
            x = np.concatenate([x, more_x])
            y = np.concatenate([y, more_y])
        test_x, test_y = self._read("test")
        if len(test_y) <= self.public:
            raise self.refused("public", f"must leave rows to test on: at most {len(test_y) - 1:,}")
        parts = (np.split(array, [self.public]) for array in (test_x, test_y))
        public, test = map(Split, *parts)
        return DataSplits(Split(x, y), public, test, classes=int(y.max()) + 1)

    def _read(self, part: str) -> tuple[AnyArray, Ints]:
        """Return images, uint8 [rows, channels, height, width], and labels [rows].

        Files are downloaded where they are missing.
        """
        from torchvision import datasets

        which: dict[str, Any] = {"train": part == "train"}
        if self.kind in ("SVHN", "STL10"):
            which = {"split": part}
        try:
            images = getattr(datasets, self.kind)(self.root, download=True, **which)
        except Exception as error:  # torchvision, SciPy and their decoders raise many types
            raise self.refused(
                "root",
                f"must hold the files of {self.kind}, whole; or set NZC_DATA to their folder. "
                f"Damaged files, once deleted, are downloaded again ({in_a_line(error, 300)})",
            ) from error
        labels = images.targets if hasattr(images, "targets") else images.labels
        pixels = channels_first(np.asarray(images.data))
        return np.ascontiguousarray(pixels), np.asarray(labels, np.int64)


@dataclass(frozen=True)
class MNIST(Torchvision):
    """60,000 private records; t10k[0:9000] is public, the rest for testing (PATE 2017, 3.2)."""

    kind: Literal["MNIST", "FashionMNIST"] = "MNIST"
    public: Count = 9000


@dataclass(frozen=True)
class SVHN(Torchvision):
    """Colour crops of 32 × 32 pixels (Netzer et al. 2011); test[0:10000] is public (PATE 2017)."""

    kind: Literal["SVHN"] = "SVHN"
    public: Count = 10_000
