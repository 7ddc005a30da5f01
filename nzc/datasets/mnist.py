"""MNIST, with the roles of the papers."""

from dataclasses import dataclass

from nzc.datasets.augment import Affine
from nzc.datasets.roles import Dataset, Roles, Split
from nzc.errors import InputError


@dataclass(frozen=True)
class MNIST(Dataset):
    """60,000 private records, t10k[0:9000] public, t10k[9000:10000] to test on (PATE 2017, section 3.2)."""

    root: str
    network: str | None = None
    augment: Affine | None = None

    def load(self) -> Roles:
        from torchvision.datasets import MNIST as Torchvision

        try:
            train, t10k = (Torchvision(self.root, train=train, download=True) for train in (True, False))
        except (OSError, RuntimeError, ValueError) as error:
            raise InputError(
                "root", self.root, f"must hold MNIST/raw/*-ubyte, which could not be downloaded either ({_line(error)})"
            ) from error
        (x, y), (u, v) = ((part.data.numpy()[:, None], part.targets.numpy()) for part in (train, t10k))
        if (len(x), len(u)) != (60_000, 10_000):
            raise InputError("root", self.root, f"must hold 60,000 and 10,000 images, not {len(x):,} and {len(u):,}")
        return Roles(Split(x, y), Split(u[:9000], v[:9000]), Split(u[9000:], v[9000:]), classes=10)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
