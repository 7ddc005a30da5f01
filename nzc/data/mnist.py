"""MNIST and Fashion-MNIST, divided as in the papers."""

from dataclasses import dataclass

from nzc.data.download import obtain
from nzc.data.splits import Dataset, DataSplits, Split
from nzc.validation import InputError, one_of


@dataclass(frozen=True)
class MNIST(Dataset):
    """60,000 private records; t10k[0:9000] is public, t10k[9000:10000] is the test split (PATE 2017, section 3.2).

    `kind` is torchvision's name: MNIST (LeCun, Cortes, Burges) or FashionMNIST (Xiao, Rasul, Vollgraf 2017).
    """

    root: str
    kind: str = "MNIST"

    def __post_init__(self) -> None:
        one_of(("MNIST", "FashionMNIST"), kind=self.kind)

    def load(self) -> DataSplits:
        from torchvision import datasets

        read = getattr(datasets, self.kind)
        files = f"{self.kind}/raw/*-ubyte"
        parts = obtain(self.root, files, lambda: [read(self.root, train=part, download=True) for part in (True, False)])
        (x, y), (u, v) = ((part.data.numpy()[:, None], part.targets.numpy()) for part in parts)
        if (x.shape, u.shape, len(y), len(v)) != ((60_000, 1, 28, 28), (10_000, 1, 28, 28), 60_000, 10_000):
            raise InputError("root", self.root, f"must hold 60,000 and 10,000 images, not {len(x):,} and {len(u):,}, "
                             f"of 28 × 28 in {files}, and as many labels")  # fmt: skip
        return DataSplits(Split(x, y), Split(u[:9000], v[:9000]), Split(u[9000:], v[9000:]), classes=10)
