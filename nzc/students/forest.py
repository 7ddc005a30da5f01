"""The forest as student: decision trees on the released labels, for tables. It is exported like a network."""

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
    """scikit-learn's RandomForestClassifier (Breiman 2001).

    trees  how many; leaf: labeled rows in a leaf, at least
    """

    trees: Count
    leaf: Count

    def learn(self, x: AnyArray, y: Ints, weights: Floats, classes: int, seed: int) -> nn.Module:
        from sklearn.ensemble import RandomForestClassifier

        leaf = round(self.leaf * len(y) / weights.sum())  # a row with soft labels is repeated, with weights of sum 1
        forest = RandomForestClassifier(self.trees, min_samples_leaf=leaf, random_state=seed, n_jobs=-1)
        return TreeNetwork(forest.fit(x, y, weights), classes)


class TreeNetwork(nn.Module):
    """A forest as a network: rows as networks take them → logits [rows, classes], float64. It learns no more.

    Node i of a tree sends a row left where its feature[i] is at most threshold[i]; a leaf sends it to itself.
    """

    def __init__(self, forest: Any, classes: int) -> None:
        super().__init__()
        trees = [estimator.tree_ for estimator in forest.estimators_]
        self.depth, nodes = max(tree.max_depth for tree in trees), max(tree.node_count for tree in trees)
        shape = len(trees), nodes
        feature, threshold, share = np.zeros(shape, np.int64), np.zeros(shape), np.zeros((*shape, classes))
        left, right = (np.tile(np.arange(nodes), (len(trees), 1)) for _ in range(2))
        for at, tree in enumerate(trees):
            inner = np.flatnonzero(tree.children_left >= 0)
            feature[at, inner], threshold[at, inner] = tree.feature[inner], tree.threshold[inner]
            left[at, inner], right[at, inner] = tree.children_left[inner], tree.children_right[inner]
            values = tree.value[:, 0] / tree.value[:, 0].sum(axis=1, keepdims=True)
            share[at][: tree.node_count, forest.classes_] = values
        self.feature, self.threshold = nn.Buffer(torch.from_numpy(feature)), nn.Buffer(torch.from_numpy(threshold))
        self.left, self.right = nn.Buffer(torch.from_numpy(left)), nn.Buffer(torch.from_numpy(right))
        self.share = nn.Buffer(torch.from_numpy(share))

    def forward(self, x: Tensor) -> Tensor:
        """Return logits [rows, classes] of x [rows, ...]."""
        rows, tree = features(x), torch.arange(self.feature.shape[0], device=x.device)
        node = torch.zeros((rows.shape[0], self.feature.shape[0]), dtype=torch.int64, device=x.device)
        for _ in range(self.depth):
            goes_left = rows.gather(1, self.feature[tree, node]) <= self.threshold[tree, node]
            node = torch.where(goes_left, self.left[tree, node], self.right[tree, node])
        return (self.share[tree, node].mean(dim=1) + LEAST).log()
