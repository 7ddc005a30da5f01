"""scikit-learn's digits. They ship with the package, so a first run needs no download."""

from dataclasses import dataclass

import numpy as np

from nzc.data.splits import Dataset, DataSplits, Split, choose
from nzc.settings import Count, CountOrZero


@dataclass(frozen=True)
class Digits(Dataset):
    """1,797 grey digits of 8 × 8 pixels (UCI, Alpaydin and Kaynak 1998), divided at random; the rest is for testing."""

    seed: CountOrZero
    private: Count
    public: Count

    def load(self) -> DataSplits:
        from sklearn.datasets import load_digits

        bunch = load_digits()
        x = np.rint(bunch.images * (255 / 16)).astype(np.uint8)[:, None]
        y = bunch.target.astype(np.int64)
        chosen = choose(len(y), self.private, self.public, self.seed)
        private, public, test = (Split(x[rows], y[rows]) for rows in chosen)
        return DataSplits(private, public, test, classes=10)
