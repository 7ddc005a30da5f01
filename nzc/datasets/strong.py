"""Strong augmentation: distortions that may hide much of a row, but not what it is."""

from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

from nzc.datasets.augment import Affine
from nzc.errors import fraction, not_negative

if TYPE_CHECKING:
    from torch import Generator, Tensor


@dataclass(frozen=True)
class Strong:
    """What makes a row a hard example of its class; every row by a draw of its own, uniformly and independently.

    Images: what `affine` does, `stretch` times as far; contrast 1 ± contrast about the image's mean; brightness
    ± brightness of the batch's range; a box of that mean over up to `cutout` of each side, centred anywhere (Cutout:
    DeVries and Taylor 2017, arXiv 1708.04552). FixMatch draws from RandAugment's list of operations (arXiv 1909.13719)
    and cuts out; these are its geometry and its light, each a few operations on the whole batch.

    Everything else: each feature is, with probability `mask`, that of another row, so that it has a value which the
    feature takes (SCARF: Bahri et al. 2022, arXiv 2106.15147); then noise of deviation `noise`, for features are
    standardised.

    Shape and type stay, and values stay within the range of the batch.
    """

    affine: Affine | None
    stretch: float
    contrast: float
    brightness: float
    cutout: float
    mask: float
    noise: float

    def __post_init__(self) -> None:
        not_negative(stretch=self.stretch, brightness=self.brightness, noise=self.noise)
        fraction(contrast=self.contrast, cutout=self.cutout, mask=self.mask)

    def __call__(self, x: "Tensor", rng: "Generator") -> "Tensor":
        """x [rows, ...], float, at least one row; `rng` is a CPU generator, so that every device draws alike."""
        distorted = self._image(x, rng) if x.ndim == 4 else self._features(x, rng)
        return distorted.clamp_(x.min(), x.max())

    def _image(self, x: "Tensor", rng: "Generator") -> "Tensor":
        import torch

        height, width = x.shape[2:]
        mean, spread = x.mean((1, 2, 3), keepdim=True), x.max() - x.min()
        if self.affine is not None:
            x = Affine(*(self.stretch * most for most in astuple(self.affine)))(x, rng)
        contrast, brightness = (torch.rand(2, len(x), 1, 1, 1, generator=rng) * 2 - 1).to(x.device)
        x = torch.lerp(mean, x, 1 + self.contrast * contrast) + self.brightness * spread * brightness
        middle, size = torch.rand(2, 2, len(x), 1, generator=rng).to(x.device)
        down, across = (
            (torch.linspace(0, 1, side, device=x.device) - middle[i]).abs() < self.cutout / 2 * size[i]
            for i, side in enumerate((height, width))
        )
        return torch.where(down[:, None, :, None] & across[:, None, None, :], mean, x)

    def _features(self, x: "Tensor", rng: "Generator") -> "Tensor":
        import torch

        rows = x.flatten(1)
        other = torch.randint(len(rows), rows.shape, generator=rng).to(x.device)
        masked = torch.rand(rows.shape, generator=rng).to(x.device) < self.mask
        noise = torch.randn(rows.shape, generator=rng).to(x.device)
        return (torch.where(masked, rows.gather(0, other), rows) + self.noise * noise).view_as(x)
