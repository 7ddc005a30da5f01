"""Students of scikit-learn: they learn there, and become networks that map rows to logits."""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from nzc.networks import as_input
from nzc.ranges import NotNegative
from nzc.students.base import FittedStudent, Student, StudentData
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray, CurveLog, Floats, Ints

#: Added to a probability, so that its logarithm is finite.
LEAST = 1e-9


@dataclass(frozen=True, kw_only=True)
class SklearnStudent(Student):
    """Learns from labeled rows of any shape.

    A row with soft labels counts for each class with its probability.
    """

    balance: NotNegative

    @abstractmethod
    def learn(self, x: AnyArray, y: Ints, weights: Floats, classes: int, seed: int) -> nn.Module:
        """Return a network: rows as networks take them → logits [rows, classes].

        x  float32 [rows, features], with labels y [rows] and weights [rows]; soft labels repeat a
           row
        """

    def fit(
        self,
        data: StudentData,
        seed: int,
        trainer: TrainerSettings,
        name: str,
        log: CurveLog | None = None,
    ) -> FittedStudent:
        x = features(torch.from_numpy(data.x[data.labeled])).numpy()
        probabilities = data.probabilities
        rows, y = np.nonzero(probabilities >= 1e-3)  # less probable classes do not count
        weights = data.weights(self.balance)[rows] * probabilities[rows, y]
        return FittedStudent(self.learn(x[rows], y, weights, data.classes, seed))


def features(x: Tensor) -> Tensor:
    """Return rows as features [rows, features]; image bytes become numbers from 0 to 1."""
    return as_input(x).flatten(1)
