"""The forest as student: decision trees on the released labels, for tables. It is exported like a network."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nzc.students.config import Student, StudentData
from nzc.students.fitted import LEAST, FittedNetwork, features
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray, CurveLog
from nzc.validation import not_negative, share, whole


@dataclass(frozen=True, kw_only=True)
class Forest(Student):
    """scikit-learn's RandomForestClassifier (Breiman 2001); it learns from labelled rows only.

    trees    how many; leaf: labelled rows in a leaf, at least
    balance  rows weigh like the frequency of their class to the power −balance; 1: all classes weigh the same
    """

    trees: int
    leaf: int
    balance: float
    folds: int
    spread: float

    def __post_init__(self) -> None:
        whole(1, trees=self.trees, leaf=self.leaf, folds=self.folds)
        not_negative(balance=self.balance)
        share(spread=self.spread)

    def check(self, shape: tuple[int, ...], classes: int, trainer: TrainerSettings) -> None:
        """It learns from rows of any shape."""

    def fit(
        self, data: StudentData, seed: int, trainer: TrainerSettings, name: str, log: CurveLog | None = None
    ) -> FittedNetwork:
        from sklearn.ensemble import RandomForestClassifier

        x, y = features(torch.from_numpy(data.x[data.labelled])).numpy(), data.labels[data.labelled]
        forest = RandomForestClassifier(self.trees, min_samples_leaf=self.leaf, random_state=seed, n_jobs=-1)
        forest.fit(x, y, np.bincount(y)[y] ** -float(self.balance))
        return FittedNetwork(TreeNetwork(forest, data.classes))


class TreeNetwork(nn.Module):
    """A forest as a network: rows as networks take them → logits [rows, classes], float64. It learns no more.

    Node i of a tree sends a row left where its feature[i] is at most threshold[i]; a leaf sends it to itself.
    """

    def __init__(self, forest: Any, classes: int) -> None:
        super().__init__()
        trees = [each.tree_ for each in forest.estimators_]
        self.depth, nodes = max(tree.max_depth for tree in trees), max(tree.node_count for tree in trees)
        tables: dict[str, AnyArray] = {
            "feature": np.zeros((len(trees), nodes), np.int64),
            "threshold": np.zeros((len(trees), nodes)),
            "left": np.tile(np.arange(nodes), (len(trees), 1)),
            "right": np.tile(np.arange(nodes), (len(trees), 1)),
            "share": np.zeros((len(trees), nodes, classes)),
        }
        for at, tree in enumerate(trees):
            inner = np.flatnonzero(tree.children_left >= 0)
            tables["feature"][at, inner], tables["threshold"][at, inner] = tree.feature[inner], tree.threshold[inner]
            tables["left"][at, inner], tables["right"][at, inner] = (
                tree.children_left[inner],
                tree.children_right[inner],
            )
            share = tree.value[:, 0] / tree.value[:, 0].sum(axis=1, keepdims=True)
            tables["share"][at][: tree.node_count, forest.classes_] = share
        for name, table in tables.items():
            self.register_buffer(name, torch.from_numpy(table))
        self.feature: Tensor
        self.threshold: Tensor
        self.left: Tensor
        self.right: Tensor
        self.share: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """Return logits [rows, classes] of x [rows, ...]."""
        rows, tree = features(x), torch.arange(self.feature.shape[0], device=x.device)
        node = torch.zeros((rows.shape[0], self.feature.shape[0]), dtype=torch.int64, device=x.device)
        for _ in range(self.depth):
            goes_left = rows.gather(1, self.feature[tree, node]) <= self.threshold[tree, node]
            node = torch.where(goes_left, self.left[tree, node], self.right[tree, node])
        return (self.share[tree, node].mean(dim=1) + LEAST).log()
