"""torchvision's classification datasets, divided as in the papers."""

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from filecmp import cmp
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np

from nzc.data.images import channels_first
from nzc.data.splits import Dataset, DataSplits, Split
from nzc.settings import Count
from nzc.types import AnyArray, Ints
from nzc.validation import InputError, in_a_line


@dataclass(frozen=True)
class Torchvision(Dataset):
    """The training part is private. The first `public` rows of the test part are public, the rest
    is the test split.
    """

    root: str  # folder of torchvision's files, which are downloaded where they are missing
    kind: Literal["CIFAR10", "CIFAR100", "FashionMNIST", "KMNIST", "MNIST", "STL10", "SVHN", "USPS"]
    public: Count
    extra: bool = False  # whether the part `extra` is private too; SVHN has one

    def load(self) -> DataSplits:
        parts = [self._read(part) for part in ("train", *["extra"] * self.extra)]
        private = Split(*map(np.concatenate, zip(*parts, strict=True)))
        u, v = self._read("test")
        if len(v) <= self.public:
            raise InputError(
                "public", self.public, f"must leave rows to test on: at most {len(v) - 1:,}"
            )
        public, test = (
            Split(u[: self.public], v[: self.public]),
            Split(u[self.public :], v[self.public :]),
        )
        return DataSplits(private, public, test, classes=int(private.y.max()) + 1)

    def _read(self, part: str) -> tuple[AnyArray, Ints]:
        """Return images, uint8 [rows, channels, height, width], and labels [rows]."""
        from torchvision import datasets

        which: dict[str, Any] = (
            {"split": part} if self.kind in ("SVHN", "STL10") else {"train": part == "train"}
        )
        reader = partial(getattr(datasets, self.kind), **which)
        try:
            images = reader(self.root)
        except Exception:  # torchvision, SciPy and their decoders raise many types
            images = self._download(reader)
        y = images.targets if hasattr(images, "targets") else images.labels
        return np.ascontiguousarray(channels_first(np.asarray(images.data))), np.asarray(
            y, np.int64
        )

    def _download(self, reader: partial[Any]) -> Any:
        """Return what `reader` makes of downloaded files, and move those into `root` that it does
        not have.
        """
        # torchvision takes a half written file for a whole one where it checks no digest. So it
        # writes into a folder that is removed whatever happens, and a file of `root` is never
        # replaced: another program may have made it.
        root = Path(self.root).expanduser().absolute()
        must = f"must hold the files of {self.kind}, whole; "
        try:
            above = next(folder for folder in (root, *root.parents) if folder.exists())
            with TemporaryDirectory(prefix=".nzc-", dir=above) as name:
                folder = Path(name)
                archives = getattr(
                    reader.func, "filename", f"{self.kind}/raw/*.gz"
                )  # downloaded by hand, perhaps
                _add_files(root.glob(archives), root, folder, shutil.copyfile)
                images = reader(name, download=True)
                damaged = _add_files(list(folder.rglob("*")), folder, root, shutil.move)
        except Exception as error:
            why = f"they could not be downloaded either ({in_a_line(error, 300)})"
            raise InputError("root", self.root, must + why) from error
        if damaged:
            raise InputError(
                "root",
                self.root,
                f"{must}delete {damaged[0]}: it is damaged, and nzc downloads it again",
            )
        return images


def _add_files(
    files: Iterable[Path], source: Path, target: Path, put: Callable[[Path, Path], Any]
) -> list[Path]:
    """Put files of a folder into another one, which keeps its own; return those of its own that are
    different.
    """
    different = []
    for file in files:
        place = target / file.relative_to(source)
        if file.is_file() and not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            put(file, place)
        elif file.is_file() and not cmp(file, place, shallow=False):
            different.append(place)
    return different


@dataclass(frozen=True)
class MNIST(Torchvision):
    """60,000 private records; t10k[0:9000] is public, t10k[9000:10000] is the test split (PATE
    2017, section 3.2).
    """

    kind: Literal["MNIST", "FashionMNIST"] = "MNIST"
    public: Count = 9000


@dataclass(frozen=True)
class SVHN(Torchvision):
    """Colour crops of 32 × 32 pixels (Netzer et al. 2011): test[0:10000] is public (PATE 2017,
    section 3.2).
    """

    kind: Literal["SVHN"] = "SVHN"
    public: Count = 10_000
