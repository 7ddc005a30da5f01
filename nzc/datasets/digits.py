"""scikit-learn's digits: ships with the package, so that a first run needs no download."""

from dataclasses import dataclass

import numpy as np

from nzc.datasets.augment import Affine
from nzc.datasets.roles import Dataset, Roles, Split, choose
from nzc.errors import whole


@dataclass(frozen=True)
class Digits(Dataset):
    """1,797 grey digits of 8 × 8 (UCI, Alpaydin and Kaynak 1998), split at random."""

    seed: int
    private: int
    public: int
    network: str | None = None
    augment: Affine | None = None

    def __post_init__(self) -> None:
        whole(1, private=self.private, public=self.public)

    def load(self) -> Roles:
        from sklearn.datasets import load_digits

        bunch = load_digits()
        x = np.rint(bunch.images * (255 / 16)).astype(np.uint8)[:, None]
        y = bunch.target.astype(np.int64)
        roles = choose(len(y), self.private, self.public, self.seed)
        private, public, test = (Split(x[rows], y[rows]) for rows in roles)
        return Roles(private, public, test, 10)
