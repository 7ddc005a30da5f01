"""Augmentations: what they keep, and what they draw."""

import torch
from conftest import parametrize
from pytest import approx

from nzc.data.augment import Affine, Strong

NOTHING = dict.fromkeys(("stretch", "contrast", "brightness", "cutout", "mask", "noise"), 0.0)
FULL = Strong(
    Affine(10, 0.1, 0.06, 0.1),
    stretch=2,
    contrast=0.5,
    brightness=0.2,
    cutout=0.5,
    mask=0.3,
    noise=0.1,
    colour=0.8,
)


def _rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@parametrize("shape", [(5, 1, 28, 28), (4, 3, 20, 30), (1, 3), (3, 4, 5)])
def test_shape_type_and_range_stay(shape: tuple[int, ...]) -> None:
    x = torch.rand(shape, generator=_rng()) * 3 - 1
    before = x.clone()
    once, again, other = FULL(x, _rng(1)), FULL(x, _rng(1)), FULL(x, _rng(2))
    assert (once.shape, once.dtype) == (x.shape, x.dtype)
    assert x.min() <= once.min() and once.max() <= x.max()
    assert torch.equal(once, again) and not torch.equal(once, other)
    assert torch.equal(x, before)
    torch.testing.assert_close(Strong(Affine(), **NOTHING)(x, _rng()), x)


@parametrize("shape", [(6, 14), (5, 20, 20, 3)])
def test_affine_maps_leave_rows_that_are_not_images(shape: tuple[int, ...]) -> None:
    x = torch.rand(shape, generator=_rng())
    rng = _rng(1)
    assert torch.equal(Affine(10, 0.1, 0.06, 0.1)(x, rng), x)
    assert torch.equal(rng.get_state(), _rng(1).get_state())  # nothing was drawn


def test_a_box_of_the_mean_is_cut_out() -> None:
    """Its sides are at most half of the image's."""
    x = torch.rand(2000, 1, 16, 16, generator=_rng())
    cut = Strong(None, **{**NOTHING, "cutout": 0.5})(x, _rng())
    changed = cut != x
    assert torch.allclose(cut[changed], x.mean((1, 2, 3), keepdim=True).expand_as(x)[changed])
    boxes = changed.any(-1).sum(-1) * changed.any(-2).sum(-1)  # a box, and nothing but a box
    assert torch.equal(boxes.squeeze(), changed.sum((1, 2, 3)))
    assert 0 < changed.any(-1).sum(-1).max() <= 9


def test_features_come_from_other_rows_of_their_column() -> None:
    x = torch.arange(400 * 3.0).view(400, 3)
    masked = Strong(None, **{**NOTHING, "mask": 0.3})(x, _rng())
    assert torch.equal(masked % 3, x % 3)
    assert (masked != x).float().mean() == approx(0.3, abs=0.05)
    noisy = Strong(None, **{**NOTHING, "noise": 0.1})(x, _rng())
    assert (noisy - x)[1:-1].std() == approx(0.1, rel=0.1)
