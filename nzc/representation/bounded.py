"""Features of rows, of length 1 at most, by public facts alone."""

import numpy as np
import torch
from torch import Tensor, nn

from nzc.networks import outputs
from nzc.types import AnyArray, Floats

#: The mean length of public rows, where 1 is the largest. Cutting more rows to length 1 costs truth
#: about how far they lie apart, cutting fewer costs noise: all would be shorter.
MEAN_LENGTH = 0.85
#: Features that vary by less among public rows do not count.
_VARIES = 1e-4


class Bounded(nn.Module):
    """Rows as networks take them → features [rows, features], float64, of length 1 at most.

    A row with a feature that is no finite number has features 0.

    place   a network that turns rows into vectors
    public  the public rows [rows, ...], which decide what is the middle, and what is far from it
    """

    def __init__(self, place: nn.Module, public: AnyArray) -> None:
        super().__init__()
        places = outputs(place, public).flatten(1).double()
        self.place = place
        self.mean = nn.Buffer(places.mean(dim=0))
        self.varies = nn.Buffer((places.std(dim=0) > _VARIES).double())
        centred = (places - self.mean) * self.varies
        self.longest = nn.Buffer(torch.tensor(longest(centred.norm(dim=1).numpy())))

    def forward(self, x: Tensor) -> Tensor:
        centred = (self.place(x).cpu().flatten(1).double() - self.mean) * self.varies
        return cut_to(centred, self.longest)


def cut_to(vectors: Tensor, longest: Tensor | float) -> Tensor:
    """Return vectors [rows, features] over their length, or over `longest` where that is larger.

    They are 0 where a number is not finite.
    """
    lengths = vectors.norm(dim=1, keepdim=True)
    return torch.where(lengths.isfinite(), vectors / lengths.clamp(min=longest), 0)


def longest(lengths: Floats) -> float:
    """Return the length to which rows are cut, so that the mean of all is MEAN_LENGTH of it."""
    lengths = np.sort(lengths)
    if not lengths[-1] > 0:
        return 1.0
    # Of the rows up to each length the sum, and of all others as many times that length.
    whole = np.cumsum(lengths) + lengths * np.arange(len(lengths) - 1, -1, -1)
    shares = whole / np.maximum(len(lengths) * lengths, 1e-300)
    return float(max(lengths[np.flatnonzero(shares >= MEAN_LENGTH)[-1]], 1e-12))
