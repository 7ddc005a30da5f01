"""Spread released labels over the pool: rows that lie close together in a public representation are mostly alike."""

from dataclasses import replace

import numpy as np

from nzc.students.config import StudentData
from nzc.types import Floats


def spread_labels(data: StudentData, embedding: Floats, share: float) -> StudentData:
    """Return the data in which the surest `share` of each class's rows has the label of the nearest released row.

    A row is the surer, the closer it is to the nearest row of its class than to the nearest of another one. Released
    labels stay. Only released labels and public rows are used.

    embedding  places of the pool's rows, [pool, dimensions], of length 1
    """
    asked = np.flatnonzero(data.labelled)
    alike = embedding @ embedding[asked].T
    closest = np.full((len(data.labels), data.classes), -2.0)
    for label in np.unique(data.labels[asked]):
        closest[:, label] = alike[:, data.labels[asked] == label].max(axis=1)
    ordered, nearest = np.sort(closest, axis=1), closest.argmax(axis=1)
    margin, labels = ordered[:, -1] - ordered[:, -2], data.labels.copy()
    for label in np.unique(data.labels[asked]):
        rows = np.flatnonzero(nearest == label)
        surest = rows[np.argsort(-margin[rows], kind="stable")][: int(np.ceil(share * len(rows)))]
        labels[surest] = label
    labels[asked] = data.labels[asked]
    return replace(data, labels=labels)
