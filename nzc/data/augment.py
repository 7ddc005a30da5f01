"""Random augmentations of a batch. Any callable (x, torch.Generator) → x can take their place."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, ClassVar

from nzc.data.images import is_image
from nzc.ranges import BelowOne, NotNegative

if TYPE_CHECKING:
    from torch import Generator, Tensor


class RowWise(ABC):
    """Augments each row by random numbers of its own, so rows of several teachers in one call."""

    any_device: ClassVar[bool] = False  # whether the generator may be that of a GPU

    @abstractmethod
    def draw(self, rows: int, rng: "Generator") -> "Tensor":
        """Return the random numbers of so many rows, [rows, numbers], on the generator's device."""

    @abstractmethod
    def apply(self, x: "Tensor", drawn: "Tensor") -> "Tensor":
        """Augment float rows x [rows, ...] with the numbers drawn for them, on any device."""

    def __call__(self, x: "Tensor", rng: "Generator") -> "Tensor":
        """Augment float rows x [rows, ...]; `rng` is a CPU generator, unless `any_device`."""
        if not self.takes(x.shape[1:]):
            return x
        return self.apply(x, self.draw(len(x), rng))

    def takes(self, shape: Sequence[int]) -> bool:
        """Return whether rows of `shape` are augmented; others stay as they are."""
        return True


def draws_anywhere(augment: object) -> bool:
    """Return whether an augmentation, or none, can draw on a GPU."""
    return augment is None or getattr(augment, "any_device", False)


@dataclass(frozen=True)
class Affine(RowWise):
    """Random affine maps of images, each by its own uniform draws.

    An image is turned by up to ±rotate degrees, scaled by 1 ± scale a side, moved by ±shift of the
    side and sheared by ±shear. Rows that are not images stay as they are.
    """

    rotate: NotNegative = 0.0
    scale: NotNegative = 0.0
    shift: NotNegative = 0.0
    shear: NotNegative = 0.0

    any_device = True

    def draw(self, rows: int, rng: "Generator") -> "Tensor":
        return _uniform(rng, 6, rows).T

    def takes(self, shape: Sequence[int]) -> bool:
        return is_image(shape)

    def apply(self, x: "Tensor", drawn: "Tensor") -> "Tensor":
        import torch
        from torch.nn import functional as F

        turn, wide, high, shear, right, down = drawn.to(x).T.contiguous() * 2 - 1
        wide = 1 + wide * self.scale
        high = 1 + high * self.scale
        turn = turn * math.radians(self.rotate)
        cos = turn.cos()
        sin = turn.sin()
        first = [cos * wide, shear * self.shear - sin * high, 2 * self.shift * right]
        second = [sin * wide, cos * high, 2 * self.shift * down]
        maps = torch.stack(first + second, dim=1).view(-1, 2, 3)
        grid = F.affine_grid(maps, list(x.shape), align_corners=False)
        return F.grid_sample(x, grid, align_corners=False)


@dataclass(frozen=True)
class Strong:
    """Strong augmentation for consistency training: it may hide much of a row, but not its class.

    Of images in colour, half are inverted too: without `colour`, a network knows an image by its
    colours (Chen et al. 2020, arXiv 2002.05709, section 3.2). Values stay within the batch's.

    affine      of images
    stretch     so many times as strong
    contrast    1 ± contrast about the image's mean
    brightness  ± brightness of the batch's range
    cutout      a box of the mean over up to this share of each side (DeVries and Taylor 2017, arXiv
                1708.04552)
    mask        probability that a feature is that of another row (Bahri et al. 2022, arXiv
                2106.15147)
    noise       standard deviation of what is added to features
    colour      share by which contrast and level of each channel change
    """

    affine: Affine | None
    stretch: NotNegative
    contrast: BelowOne
    brightness: NotNegative
    cutout: BelowOne
    mask: BelowOne
    noise: NotNegative
    colour: NotNegative = 0.0

    any_device: ClassVar[bool] = True

    def __call__(self, x: "Tensor", rng: "Generator") -> "Tensor":
        """Augment float rows x [rows, ...]; `rng` is a generator of the CPU or of x's device."""
        least, most = x.aminmax()
        if is_image(x.shape[1:]):
            return self._image(x, rng, least, most).clamp_(least, most)
        return self._features(x, rng).clamp_(least, most)

    def _image(self, x: "Tensor", rng: "Generator", least: "Tensor", most: "Tensor") -> "Tensor":
        import torch

        if self.colour and x.shape[1] > 1 and not x[:, 0].equal(x[:, -1]):
            x = self._recolored(x, rng, least, most)
        mean = x.mean((1, 2, 3), keepdim=True)
        if self.affine is not None:
            x = Affine(*(self.stretch * limit for limit in astuple(self.affine)))(x, rng)
        contrast, brightness = (_uniform(rng, 2, len(x), 1, 1, 1) * 2 - 1).to(x.device)
        x = torch.lerp(mean, x, 1 + self.contrast * contrast)
        x = x + self.brightness * (most - least) * brightness
        middle, size = _uniform(rng, 2, 2, len(x), 1).to(x.device)

        half = self.cutout / 2 * size
        down = torch.linspace(0, 1, x.shape[2], device=x.device) - middle[0]
        across = torch.linspace(0, 1, x.shape[3], device=x.device) - middle[1]
        down = (down.abs() < half[0])[:, None, :, None]
        across = (across.abs() < half[1])[:, None, None, :]
        return torch.where(down & across, mean, x)

    def _recolored(
        self, x: "Tensor", rng: "Generator", least: "Tensor", most: "Tensor"
    ) -> "Tensor":
        import torch

        mean = x.mean((2, 3), keepdim=True)
        contrast, level = _uniform(rng, 2, *x.shape[:2], 1, 1).to(x) * 2 - 1
        x = torch.lerp(mean, x, 1 + self.colour * contrast)
        x = x + 0.4 * self.colour * (most - least) * level
        return torch.where(_uniform(rng, len(x), 1, 1, 1).to(x) < 0.5, least + most - x, x)

    def _features(self, x: "Tensor", rng: "Generator") -> "Tensor":
        import torch

        rows = x.flatten(1)
        other = torch.randint(len(rows), rows.shape, generator=rng, device=rng.device).to(x.device)
        masked = _uniform(rng, *rows.shape).to(x.device) < self.mask
        noise = torch.randn(rows.shape, generator=rng, device=rng.device).to(x.device)
        return (torch.where(masked, rows.gather(0, other), rows) + self.noise * noise).view_as(x)


def _uniform(rng: "Generator", *shape: int) -> "Tensor":
    import torch

    return torch.rand(shape, generator=rng, device=rng.device)
