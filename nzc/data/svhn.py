"""SVHN, digits of house numbers, divided as in the papers."""

from dataclasses import dataclass
from typing import Literal

from nzc.data.torchvision import Torchvision
from nzc.settings import Count


@dataclass(frozen=True)
class SVHN(Torchvision):
    """Colour crops of 32 × 32 pixels (Netzer et al. 2011): test[0:10000] is public (PATE 2017, section 3.2)."""

    kind: Literal["SVHN"] = "SVHN"
    public: Count = 10_000
