"""Do public places fall into clusters? Only then can a few rows stand for all others."""

import warnings

import numpy as np

from nzc.types import Floats

#: Clear clusters have this much or more: a row is twice as near to its own middle as to the next one.
CLEAR = 0.5
UNCLEAR = (
    "nzc: representation: the public rows form no clear clusters ({:.2f}; clear ones have 0.5 or more), so a few "
    "rows cannot stand for all: try representation=pretrained for images, or recipe=papers, which trains teachers"
)


def clarity(public: Floats, classes: int) -> float:
    """Return how clearly public places [rows, dimensions] fall into clusters: from 0, not at all, to 1.

    It is the mean over rows of 1 − a/b, a and b being the distances to the nearest and the second nearest k-means
    middle (the simplified silhouette): the largest for as many cells as classes, twice as many, and four times as many
    but 20 at least.
    """
    from sklearn.cluster import KMeans

    def clear(cells: int) -> float:
        with warnings.catch_warnings(action="ignore"):  # fewer places differ than there are cells
            distances = KMeans(cells, n_init=1, random_state=0).fit_transform(public)
        nearest, next_ = np.partition(distances, 1)[:, :2].T
        return float(np.mean(1 - nearest / np.maximum(next_, 1e-12)))

    several = (classes, 2 * classes, max(4 * classes, 20))
    return max((clear(cells) for cells in several if 2 * cells <= len(public)), default=1.0)
