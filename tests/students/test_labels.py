"""What happens to released labels before a student learns."""

import numpy as np
from conftest import parametrize
from numpy.random import default_rng

from nzc.mechanisms import ABSTAIN
from nzc.students import StudentData
from nzc.students.labels import spread_labels


@parametrize("share", [0.3, 1.0])
def test_labels_spread_to_the_surest_rows(share: float) -> None:
    """Nearest label, margin to the next class, the surest of each class; places may move."""
    places = default_rng(0).normal(size=(60, 4))
    places /= np.linalg.norm(places, axis=1, keepdims=True)
    labels = np.full(60, ABSTAIN)
    labels[[3, 8, 20, 41, 50]] = [0, 2, 2, 0, 3]
    classes = np.array([0, 2, 3])
    alike = np.stack([(places @ places[labels == label].T).max(axis=1) for label in classes])
    nearest = classes[alike.argmax(axis=0)]
    _, second, first = np.sort(alike, axis=0)
    expected = labels.copy()
    for label in classes:
        rows = np.flatnonzero(nearest == label)
        surest = rows[np.argsort(second[rows] - first[rows])]
        expected[surest[: int(np.ceil(share * len(rows)))]] = label
    expected[labels != ABSTAIN] = labels[labels != ABSTAIN]
    for moved in (places, places + 3):
        spread = spread_labels(StudentData(places, labels, 4), moved, share)
        assert np.array_equal(spread.labels, expected)
