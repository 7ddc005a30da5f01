"""Images as bytes: every mode of Pillow becomes grey or RGB, or is refused."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nzc.types import AnyArray

if TYPE_CHECKING:
    from PIL.Image import Image

_SIXTEEN = ("I;16", "I;16B", "I;16L", "I;16N")
_UNKNOWN = ("I", "F", "LAB")  # modes of 32 bits, which may have any range, and one that Pillow cannot convert
_FIRST_IS_ALL = ("MPO", "PSD")  # formats whose further frames are previews or layers
_BITS, _PHOTOMETRIC = 258, 262  # TIFF tags


class ImageError(ValueError):
    """The message says why an image cannot be used, and what to do. It quotes no name."""


def as_bytes(opened: "Image", grey: bool) -> "Image":
    """Return the picture of an opened file upright in mode L or RGB: transparency lies on white, 16 bits become 8.

    ImageError: the file has no single picture of 8 or 16 bits.
    """
    from PIL import Image, ImageOps

    tags: Any = getattr(opened, "tag_v2", {})
    odd = tags.get(_BITS) == (12,) or tags.get(_PHOTOMETRIC) == 0 or "transparency" in opened.info
    if opened.mode in _UNKNOWN or (opened.mode in _SIXTEEN and odd):
        raise ImageError(f"nzc does not know the range of its mode, {opened.mode}; save it as 8-bit grey or RGB")
    if getattr(opened, "n_frames", 1) > 1 and opened.format not in _FIRST_IS_ALL:
        raise ImageError("it has several frames or pages; save each as a file of its own")
    image = ImageOps.exif_transpose(opened)
    if image.mode in _SIXTEEN:
        image = Image.fromarray(((np.asarray(image).astype(np.uint32) + 128) // 257).astype(np.uint8))
    if image.has_transparency_data:
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
    return image.convert("L" if grey else "RGB")


def is_image(shape: Sequence[int], side: int = 8) -> bool:
    """Return whether rows of `shape` (without the row axis) are images, [channels, height, width], no side shorter."""
    return len(shape) == 3 and min(shape[1:]) >= side


def channels_first(x: AnyArray) -> AnyArray:
    """Return images as [rows, channels, height, width]; rows of one dimension stay as they are."""
    if x.ndim == 3:
        return x[:, None]
    if x.ndim == 4 and x.shape[-1] in (1, 3) and x.shape[1] not in (1, 3):
        return np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    return x
