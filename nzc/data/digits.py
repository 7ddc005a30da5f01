"""scikit-learn's digits. They ship with the package, so a first run needs no download."""

from dataclasses import dataclass

import numpy as np

from nzc.data.splits import Dataset, DataSplits, Split
from nzc.ranges import Count, CountOrZero


@dataclass(frozen=True)
class Digits(Dataset):
    """1,797 grey digits of 8 × 8 pixels (UCI, Alpaydin and Kaynak 1998), divided at random."""

    seed: CountOrZero
    private: Count
    public: Count

    def load(self) -> DataSplits:
        from sklearn.datasets import load_digits

        bunch = load_digits()
        x = np.rint(bunch.images * (255 / 16)).astype(np.uint8)[:, None]
        most = len(x) - self.public - 1
        if self.private > most:
            raise self.refused(
                "private", f"private + public must leave rows to test on: at most {most}"
            )
        rows = np.random.default_rng(self.seed).permutation(len(x))
        parts = np.split(rows, [self.private, self.private + self.public])
        y = bunch.target.astype(np.int64)
        private, public, test = (Split(x[part], y[part]) for part in parts)
        return DataSplits(private, public, test, classes=10)
