"""Features of rows, of length 1 at most, by public facts alone.

Noisy sums hear an axis along which public rows differ much, and for the same noise more of it where
fewer other axes take a part of a row's length. So rows are turned into the principal axes of the
public rows, and the more noise, the fewer axes are kept.
"""

import numpy as np
import torch
from torch import Tensor, nn

from nzc.networks import outputs
from nzc.types import AnyArray, Floats

#: The mean length of public rows, where 1 is the largest. Cutting more rows to length 1 costs truth
#: about how far they lie apart, cutting fewer costs noise: all would be shorter.
MEAN_LENGTH = 0.88
#: Features that vary by less among public rows do not count.
_VARIES = 1e-4
#: What is expected of classes before a record is seen: along all axes together they explain this
#: share of the variance; along an axis as much as this power of its variance has of it, and a
#: little along every axis. Own trials with four text data sets (TREC, MPQA, subjectivity, customer
#: reviews) and their sentence vectors.
_EXPLAINED = 0.25
_STEEPNESS = 2.5
_EVERYWHERE = 0.002
_FEWEST = 4  # axes are kept


class Bounded(nn.Module):
    """Rows as networks take them → features [rows, axes], float64, of length 1 at most.

    A row with a feature that is no finite number has features 0.

    place      a network that turns rows into vectors
    public     the public rows [rows, ...], which decide the axes, what is the middle, and what is
               far from it
    noise_std  of the mean of a feature over all records, as if rows had length 1
    """

    def __init__(self, place: nn.Module, public: AnyArray, noise_std: float = 0.0) -> None:
        super().__init__()
        places = outputs(place, public).flatten(1).double()
        varies = (places.std(dim=0) > _VARIES).double()
        mean = places.mean(dim=0)
        centred = (places - mean) * varies
        spread, axes = torch.linalg.eigh(centred.T @ centred / len(centred))
        spread = spread.flip(0).clamp(min=0).numpy()
        kept = axes_worth(spread, noise_std)
        self.place = place
        self.mean = nn.Buffer(mean)
        self.axes = nn.Buffer(varies[:, None] * axes.flip(1)[:, :kept])
        along = centred @ self.axes
        self.longest = nn.Buffer(torch.tensor(longest(along.norm(dim=1).numpy())))

    def forward(self, x: Tensor) -> Tensor:
        along = (self.place(x).cpu().flatten(1).double() - self.mean) @ self.axes
        return cut_to(along, self.longest)


def axes_worth(spread: Floats, noise_std: float) -> int:
    """Return how many axes are kept, of the largest variances.

    An estimate of an effect e along an axis that has the share q of a row's squared length is worth
    e²/(e + s²/q). The sum over all axes is largest at q = t − s²/e, or 0 where that is negative (as
    water fills a vessel): those axes are kept.

    spread  variances of public rows along the axes, from the largest on
    """
    varying = spread[spread > 1e-9 * spread[0]]
    effects = (varying / varying[:1]) ** _STEEPNESS + _EVERYWHERE
    effects *= _EXPLAINED / effects.sum()
    costs = noise_std**2 / effects  # they grow
    levels = (1 + np.cumsum(costs)) / np.arange(1, len(costs) + 1)
    worth = int((levels > costs).sum())
    return max(worth, min(_FEWEST, len(varying)))


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
