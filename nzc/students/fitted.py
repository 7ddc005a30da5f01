"""A student that has learned elsewhere, as a network that maps rows to logits."""

import numpy as np
import torch
from torch import Tensor, nn

from nzc.networks import as_input
from nzc.types import AnyArray, Floats, Ints

#: Added to a probability, so that its logarithm is finite.
LEAST = 1e-9


class FittedNetwork:
    """`classifier` maps rows as networks take them to logits [rows, classes]."""

    def __init__(self, classifier: nn.Module) -> None:
        self.classifier = classifier

    def probabilities(self, x: AnyArray) -> Floats:
        """Return the class probabilities [rows, classes] of x [rows, ...]."""
        with torch.no_grad():
            parts = [self.classifier(as_input(part)) for part in torch.from_numpy(x).split(1000)]
        return np.asarray(torch.cat(parts).double().softmax(dim=1))

    def predict(self, x: AnyArray) -> Ints:
        """Return the predicted labels [rows] of x [rows, ...]."""
        return np.asarray(self.probabilities(x).argmax(axis=1))


def features(x: Tensor) -> Tensor:
    """Return rows as features [rows, features]; image bytes become numbers from 0 to 1."""
    return as_input(x).flatten(1)
