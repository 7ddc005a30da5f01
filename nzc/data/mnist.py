"""MNIST and Fashion-MNIST, divided as in the papers."""

from dataclasses import dataclass
from typing import Literal

from nzc.data.torchvision import Torchvision
from nzc.settings import Count


@dataclass(frozen=True)
class MNIST(Torchvision):
    """60,000 private records; t10k[0:9000] is public, t10k[9000:10000] is the test split (PATE 2017, section 3.2)."""

    kind: Literal["MNIST", "FashionMNIST"] = "MNIST"
    public: Count = 9000
