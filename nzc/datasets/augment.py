"""Random affine transformations of images: what a dataset is known not to care about."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nzc.errors import not_negative

if TYPE_CHECKING:
    from torch import Generator, Tensor


@dataclass(frozen=True)
class Affine:
    """Each image of a batch is turned by up to ±rotate degrees, scaled by 1 ± scale a side, moved by ±shift of its
    side and sheared by ±shear, uniformly and independently."""

    rotate: float = 0.0
    scale: float = 0.0
    shift: float = 0.0
    shear: float = 0.0

    def __post_init__(self) -> None:
        not_negative(rotate=self.rotate, scale=self.scale, shift=self.shift, shear=self.shear)

    def __call__(self, x: "Tensor", rng: "Generator") -> "Tensor":
        """x [rows, channels, height, width], float; `rng` is a CPU generator, so that every device draws alike."""
        import torch
        from torch.nn import functional as F

        turn, wide, high, shear, right, down = (torch.rand(6, len(x), generator=rng) * 2 - 1).to(x.device)
        turn = turn * math.radians(self.rotate)
        wide, high = 1 + wide * self.scale, 1 + high * self.scale
        cos, sin = torch.cos(turn), torch.sin(turn)
        first = torch.stack([cos * wide, shear * self.shear - sin * high, 2 * self.shift * right], dim=1)
        second = torch.stack([sin * wide, cos * high, 2 * self.shift * down], dim=1)
        grid = F.affine_grid(torch.stack([first, second], dim=1), list(x.shape), align_corners=False)
        return F.grid_sample(x, grid, align_corners=False)
