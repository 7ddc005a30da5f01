"""Logistic regression as student: for tables, and wherever labels are few."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from nzc.ranges import Positive
from nzc.students.sklearn import LEAST, SklearnStudent, features
from nzc.types import AnyArray, Floats, Ints


@dataclass(frozen=True, kw_only=True)
class Linear(SklearnStudent):
    """scikit-learn's LogisticRegression. `strength` is that of the L2 penalty: its 1/C."""

    strength: Positive

    def learn(self, x: AnyArray, y: Ints, weights: Floats, classes: int, seed: int) -> nn.Module:
        from sklearn.linear_model import LogisticRegression

        seen, y = np.unique(y, return_inverse=True)
        weight = np.zeros((classes, x.shape[1]))
        bias = np.full(classes, np.log(LEAST))
        bias[seen] = 0
        if len(seen) > 1:
            regression = LogisticRegression(C=1 / self.strength, max_iter=1000).fit(x, y, weights)
            learned = seen[-len(regression.coef_) :]  # of two classes only the second has a line
            weight[learned] = regression.coef_
            bias[learned] = regression.intercept_
        return LinearNetwork(weight, bias)


class LinearNetwork(nn.Module):
    """Rows as networks take them → logits [rows, classes], float64. It learns no more."""

    def __init__(self, weight: AnyArray, bias: AnyArray) -> None:
        super().__init__()
        self.weight = nn.Buffer(torch.from_numpy(weight))
        self.bias = nn.Buffer(torch.from_numpy(bias))

    def forward(self, x: Tensor) -> Tensor:
        return features(x).double() @ self.weight.T + self.bias
