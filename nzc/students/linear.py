"""Logistic regression as student: for tables, and wherever labels are few."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from nzc.students.config import Student, StudentData
from nzc.students.fitted import LEAST, FittedNetwork, features
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray, CurveLog
from nzc.validation import not_negative, positive, share, whole


@dataclass(frozen=True, kw_only=True)
class Linear(Student):
    """scikit-learn's LogisticRegression; it learns from labelled rows only.

    strength  of the L2 penalty: 1/C of scikit-learn
    balance   rows weigh like the frequency of their class to the power −balance; 1: all classes weigh the same
    """

    strength: float
    balance: float
    folds: int
    spread: float

    def __post_init__(self) -> None:
        whole(1, folds=self.folds)
        positive(strength=self.strength)
        not_negative(balance=self.balance)
        share(spread=self.spread)

    def check(self, shape: tuple[int, ...], classes: int, trainer: TrainerSettings) -> None:
        """It learns from rows of any shape."""

    def fit(
        self, data: StudentData, seed: int, trainer: TrainerSettings, name: str, log: CurveLog | None = None
    ) -> FittedNetwork:
        from sklearn.linear_model import LogisticRegression

        x, y = features(torch.from_numpy(data.x[data.labelled])).numpy(), data.labels[data.labelled]
        found, y = np.unique(y, return_inverse=True)
        weight, bias = np.zeros((len(found), x.shape[1])), np.zeros(len(found))
        if len(found) > 1:
            regression = LogisticRegression(C=1 / self.strength, max_iter=1000)
            regression.fit(x, y, np.bincount(y)[y] ** -float(self.balance))
            weight, bias = regression.coef_, regression.intercept_
        if len(found) == 2:  # scikit-learn has one line for two classes
            weight, bias = np.concatenate([0 * weight, weight]), np.concatenate([0 * bias, bias])
        whole_weight, whole_bias = np.zeros((data.classes, x.shape[1])), np.full(data.classes, np.log(LEAST))
        whole_weight[found], whole_bias[found] = weight, bias
        return FittedNetwork(LinearNetwork(whole_weight, whole_bias))


class LinearNetwork(nn.Module):
    """Rows as networks take them → logits [rows, classes], float64. It learns no more."""

    def __init__(self, weight: AnyArray, bias: AnyArray) -> None:
        super().__init__()
        self.weight, self.bias = nn.Buffer(torch.from_numpy(weight)), nn.Buffer(torch.from_numpy(bias))

    def forward(self, x: Tensor) -> Tensor:
        """Return logits [rows, classes] of x [rows, ...]."""
        return features(x).double() @ self.weight.T + self.bias
