"""The forest as student: decision trees on the released labels, for tables."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from nzc.ranges import Count
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

        def of_nodes(facts: Callable[[Any], AnyArray]) -> nn.Buffer:
            """Return facts of the nodes of every tree, [trees, nodes, ...]."""
            return nn.Buffer(pad_sequence([torch.tensor(facts(tree)) for tree in trees], True))

        def branches(tree: Any) -> AnyArray:
            children = np.stack([tree.children_right, tree.children_left], axis=1)
            return np.where(children < 0, np.arange(tree.node_count)[:, None], children)

        def shares(tree: Any) -> AnyArray:
            counts = tree.value[:, 0]
            shares = np.zeros((tree.node_count, classes))
            shares[:, forest.classes_] = counts / counts.sum(axis=1, keepdims=True)
            return shares

        self.feature = of_nodes(lambda tree: tree.feature.clip(0))  # a leaf has none
        self.threshold = of_nodes(lambda tree: tree.threshold)
        self.branches = of_nodes(branches)  # [trees, nodes, 2]: right and left
        self.share = of_nodes(shares)

    def forward(self, x: Tensor) -> Tensor:
        rows = features(x)
        trees = self.feature.shape[0]
        tree = torch.arange(trees, device=x.device)
        node = torch.zeros((rows.shape[0], trees), dtype=torch.int64, device=x.device)
        for _ in range(self.depth):
            goes_left = rows.gather(1, self.feature[tree, node]) <= self.threshold[tree, node]
            node = self.branches[tree, node, goes_left.long()]
        return (self.share[tree, node].mean(dim=1) + LEAST).log()
