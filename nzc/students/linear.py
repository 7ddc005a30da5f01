"""Logistic regression as student: for tables, and wherever labels are few."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from nzc.settings import Positive
from nzc.students.sklearn import LEAST, SklearnStudent, features
from nzc.types import AnyArray, Floats, Ints


@dataclass(frozen=True, kw_only=True)
class Linear(SklearnStudent):
    """scikit-learn's LogisticRegression.

    strength  of the L2 penalty: 1/C of scikit-learn
    """

    strength: Positive

    def learn(self, x: AnyArray, y: Ints, weights: Floats, classes: int, seed: int) -> nn.Module:
        from sklearn.linear_model import LogisticRegression

        seen, y = np.unique(y, return_inverse=True)
        weight, bias = np.zeros((len(seen), x.shape[1])), np.zeros(len(seen))
        if len(seen) > 1:
            regression = LogisticRegression(C=1 / self.strength, max_iter=1000).fit(x, y, weights)
            weight, bias = regression.coef_, regression.intercept_
        if len(seen) == 2:  # scikit-learn has one line for two classes
            weight, bias = np.concatenate([0 * weight, weight]), np.concatenate([0 * bias, bias])
        whole_weight, whole_bias = np.zeros((classes, x.shape[1])), np.full(classes, np.log(LEAST))
        whole_weight[seen], whole_bias[seen] = weight, bias
        return LinearNetwork(whole_weight, whole_bias)


class LinearNetwork(nn.Module):
    """Rows as networks take them → logits [rows, classes], float64. It learns no more."""

    def __init__(self, weight: AnyArray, bias: AnyArray) -> None:
        super().__init__()
        self.weight, self.bias = nn.Buffer(torch.from_numpy(weight)), nn.Buffer(torch.from_numpy(bias))

    def forward(self, x: Tensor) -> Tensor:
        """Return logits [rows, classes] of x [rows, ...]."""
        return features(x).double() @ self.weight.T + self.bias
