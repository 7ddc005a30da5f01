"""The forest as student: decision trees on the released labels, for tables. It is exported like a network."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nzc.students.classic import LEAST, ClassicStudent, features
from nzc.types import AnyArray, Floats, Ints
from nzc.validation import fits_memory, whole


@dataclass(frozen=True, kw_only=True)
class Forest(ClassicStudent):
    """scikit-learn's RandomForestClassifier (Breiman 2001).

    trees  how many; leaf: labelled rows in a leaf, at least
    """

    trees: int
    leaf: int

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(1, 2**31 - 1, trees=self.trees, leaf=self.leaf)
        fits_memory(1000 * self.trees, trees=self.trees)

    def learn(self, x: AnyArray, y: Ints, weights: Floats, classes: int, seed: int) -> nn.Module:
        from sklearn.ensemble import RandomForestClassifier

        forest = RandomForestClassifier(self.trees, min_samples_leaf=self.leaf, random_state=seed, n_jobs=-1)
        return TreeNetwork(forest.fit(x, y, weights), classes)


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
