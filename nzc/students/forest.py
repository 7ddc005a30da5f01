"""The forest as student: decision trees on the released labels, for tables. It is exported like a
network.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nzc.settings import Count
from nzc.students.sklearn import LEAST, SklearnStudent, features
from nzc.types import AnyArray, Floats, Ints


@dataclass(frozen=True, kw_only=True)
class Forest(SklearnStudent):
    """scikit-learn's RandomForestClassifier (Breiman 2001) of so many trees, whose leaves have
    `leaf` rows or more.
    """

    trees: Count
    leaf: Count

    def learn(self, x: AnyArray, y: Ints, weights: Floats, classes: int, seed: int) -> nn.Module:
        from sklearn.ensemble import RandomForestClassifier

        leaf = round(
            self.leaf * len(y) / weights.sum()
        )  # a row with soft labels is repeated, with weights of sum 1
        forest = RandomForestClassifier(
            self.trees, min_samples_leaf=leaf, random_state=seed, n_jobs=-1
        )
        return TreeNetwork(forest.fit(x, y, weights), classes)


class TreeNetwork(nn.Module):
    """A forest as a network: rows as networks take them → logits [rows, classes], float64. It
    learns no more.

    Node i of a tree sends a row left where its feature[i] is at most threshold[i]; a leaf sends it
    to itself.
    """

    def __init__(self, forest: Any, classes: int) -> None:
        super().__init__()
        trees = [estimator.tree_ for estimator in forest.estimators_]
        self.depth, nodes = (
            max(tree.max_depth for tree in trees),
            max(tree.node_count for tree in trees),
        )
        shape = len(trees), nodes
        feature, threshold, share = (
            np.zeros(shape, np.int64),
            np.zeros(shape),
            np.zeros((*shape, classes)),
        )
        after = np.tile(np.arange(nodes)[:, None], (len(trees), 1, 2))  # left and right
        for at, tree in enumerate(trees):
            inner = np.flatnonzero(tree.children_left >= 0)
            feature[at, inner], threshold[at, inner] = tree.feature[inner], tree.threshold[inner]
            after[at, inner] = np.stack([tree.children_left, tree.children_right], axis=1)[inner]
            share[at][: tree.node_count, forest.classes_] = tree.value[:, 0] / tree.value[:, 0].sum(
                axis=1, keepdims=True
            )
        self.feature, self.threshold = (
            nn.Buffer(torch.from_numpy(feature)),
            nn.Buffer(torch.from_numpy(threshold)),
        )
        self.after, self.share = (
            nn.Buffer(torch.from_numpy(after)),
            nn.Buffer(torch.from_numpy(share)),
        )

    def forward(self, x: Tensor) -> Tensor:
        rows, tree = features(x), torch.arange(self.feature.shape[0], device=x.device)
        node = torch.zeros(
            (rows.shape[0], self.feature.shape[0]), dtype=torch.int64, device=x.device
        )
        for _ in range(self.depth):
            goes_left = rows.gather(1, self.feature[tree, node]) <= self.threshold[tree, node]
            node = self.after[tree, node, (~goes_left).long()]
        return (self.share[tree, node].mean(dim=1) + LEAST).log()
