"""The forest as student: decision trees on the released labels, for tables."""

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
    """scikit-learn's RandomForestClassifier (Breiman 2001), with `leaf` rows in a leaf or more."""

    trees: Count
    leaf: Count

    def learn(self, x: AnyArray, y: Ints, weights: Floats, classes: int, seed: int) -> nn.Module:
        from sklearn.ensemble import RandomForestClassifier

        # A row with soft labels is repeated, with weights of sum 1.
        leaf = round(self.leaf * len(y) / weights.sum())
        forest = RandomForestClassifier(
            self.trees, min_samples_leaf=leaf, random_state=seed, n_jobs=-1
        )
        return TreeNetwork(forest.fit(x, y, weights), classes)


class TreeNetwork(nn.Module):
    """A forest as a network: rows as networks take them → logits [rows, classes], float64.

    Node i of a tree sends a row left where its feature[i] is at most threshold[i]; a leaf sends it
    to itself. `share` has the shares of the classes in a node. It learns no more.
    """

    def __init__(self, forest: Any, classes: int) -> None:
        super().__init__()
        trees = [estimator.tree_ for estimator in forest.estimators_]
        self.depth = max(tree.max_depth for tree in trees)
        nodes = max(tree.node_count for tree in trees)
        self.feature = nn.Buffer(torch.zeros(len(trees), nodes, dtype=torch.int64))
        self.threshold = nn.Buffer(torch.zeros(len(trees), nodes, dtype=torch.float64))
        self.share = nn.Buffer(torch.zeros(len(trees), nodes, classes, dtype=torch.float64))
        itself = torch.arange(nodes)[:, None].repeat(len(trees), 1, 2)
        self.branches = nn.Buffer(itself)  # [trees, nodes, 2]: right and left
        for number, tree in enumerate(trees):
            inner = np.flatnonzero(tree.children_left >= 0)
            children = np.stack([tree.children_right, tree.children_left], axis=1)
            counts = tree.value[:, 0]
            shares = self.share[number, : tree.node_count].numpy()
            self.feature[number, inner] = torch.from_numpy(tree.feature[inner])
            self.threshold[number, inner] = torch.from_numpy(tree.threshold[inner])
            self.branches[number, inner] = torch.from_numpy(children[inner])
            shares[:, forest.classes_] = counts / counts.sum(axis=1, keepdims=True)

    def forward(self, x: Tensor) -> Tensor:
        rows = features(x)
        trees = self.feature.shape[0]
        tree = torch.arange(trees, device=x.device)
        node = torch.zeros((rows.shape[0], trees), dtype=torch.int64, device=x.device)
        for _ in range(self.depth):
            goes_left = rows.gather(1, self.feature[tree, node]) <= self.threshold[tree, node]
            node = self.branches[tree, node, goes_left.long()]
        return (self.share[tree, node].mean(dim=1) + LEAST).log()
