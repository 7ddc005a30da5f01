"""Images as bytes: files of every mode of Pillow, and arrays of any numbers, become grey or RGB, or
are refused.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from nzc.settings import checked
from nzc.types import AnyArray
from nzc.validation import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

_SIXTEEN = ("I;16", "I;16B", "I;16L", "I;16N")
_DEEP = (
    *_SIXTEEN,
    "I",
    "F",
)  # modes of one channel with more than 8 bits; those of 32 bits may have any range
_FIRST_IS_ALL = ("MPO", "PSD")  # formats whose further frames are previews or layers
_BITS, _PHOTOMETRIC = 258, 262  # TIFF tags
_BYTES, _WORDS, _SHARES = (0, 255), (0, 65535), (0, 1)  # values of black and white
#: Images that use fewer of the 256 grey levels hardly show anything; 12 bits in a file of 16 are 16
#: levels.
_FEW = 20
_REMEDY = "save it as 8-bit grey or RGB"
_AT_ONCE = 1000  # rows that are float64 at a time


class ImageError(ValueError):
    """The message says why an image cannot be used, and what to do. It quotes no name."""


def _check_range(value: object) -> None:
    numbers = value if isinstance(value, list) and len(value) == 2 else []
    different = {
        number for number in numbers if isinstance(number, int | float) and math.isfinite(number)
    }
    if value is not None and len(different) < 2:
        allowed = (
            "must be the values of black and white, two different numbers such as [0,4095], or null"
        )
        raise InputError("range", value, allowed)


#: The values of black and white; None: of bytes, of 16 bits, or 0 and 1.
Range = Annotated[list[int | float] | None, checked(_check_range)]


def as_bytes(opened: "Image", grey: bool, levels: Sequence[float] | None = None) -> "Image":
    """Return the picture of an opened file upright in mode L or RGB: transparency lies on white.

    levels  values of black and white in the file; others become black or white. None: those of its
            8 or 16 bits

    ImageError: the file has no single picture, or one whose range is not known.
    """
    from PIL import Image, ImageOps

    tags: Any = getattr(opened, "tag_v2", {})
    odd = opened.mode in _SIXTEEN and (tags.get(_BITS) == (12,) or tags.get(_PHOTOMETRIC) == 0)
    any_range = odd or opened.mode in ("I", "F")
    changed = not _has_own_values(opened) and (any_range or levels is not None)
    if changed or opened.mode == "LAB" or (opened.mode in _DEEP and "transparency" in opened.info):
        raise ImageError(f"Pillow cannot give the values of its mode, {opened.mode}; {_REMEDY}")
    if any_range and levels is None:
        typed = "type dataset.range=[BLACK,WHITE]"
        raise ImageError(
            f"nzc does not know the range of its mode, {opened.mode}; {_REMEDY}, or {typed}"
        )
    if getattr(opened, "n_frames", 1) > 1 and opened.format not in _FIRST_IS_ALL:
        raise ImageError("it has several frames or pages; save each as a file of its own")
    image = ImageOps.exif_transpose(opened)
    if image.mode in _DEEP:
        image = _rescaled(image, _WORDS if levels is None else levels)
        levels = None
    if image.has_transparency_data:
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
    image = image.convert("L" if grey else "RGB")
    return image if levels is None else _rescaled(image, levels)


def _has_own_values(opened: "Image") -> bool:
    """Return whether Pillow gives an opened file's own values: of 16-bit colours it drops bits, and
    it scales PGM.
    """
    decoder = str(getattr(opened, "tile", ""))  # codec and raw mode
    return "ppm" not in decoder and (";16" not in decoder or opened.mode in _DEEP)


def extremes_of_file(opened: "Image") -> tuple[float, float] | None:
    """Return the least and the largest value in an opened file; None: Pillow does not give its own
    values.
    """
    if not _has_own_values(opened):
        return None
    values = np.asarray(opened if opened.mode in _DEEP else opened.convert("RGB"))
    return values.min(), values.max()


def _rescaled(image: "Image", levels: Sequence[float]) -> "Image":
    from PIL import Image

    values = np.asarray(image, np.float64)
    if np.isnan(values).any():
        raise ImageError("it has missing values (NaN)")
    return Image.fromarray((255 * _shares(values, levels)).round().astype(np.uint8))


def _shares(values: Any, levels: Sequence[float]) -> Any:
    """Return float64 values of an array or tensor as shares of white, from 0 to 1."""
    black, white = levels
    return ((values - black) / (white - black)).clip(0, 1)


def is_image(shape: Sequence[int], side: int = 8) -> bool:
    """Return whether rows of `shape` (without the row axis) are images, [channels, height, width],
    no side shorter.
    """
    return len(shape) == 3 and min(shape[1:]) >= side


def _channels_last(shape: Sequence[int]) -> bool:
    """Return whether rows of `shape` are [height, width, channels]: 1 or 3 channels, else 2 or 4,
    else the fewest.
    """
    first, last = shape[0], shape[-1]
    for channels in ((1, 3), (2, 4)):
        if first in channels or last in channels:
            return first not in channels
    return last < first


def channels_first(x: Any) -> Any:
    """Return images, an array or a tensor, as [rows, channels, height, width]; other rows stay as
    they are.
    """
    if x.ndim == 3:
        return x[:, None]
    if x.ndim == 4 and _channels_last(x.shape[1:]):
        return x.swapaxes(1, 3).swapaxes(2, 3)
    return x


@dataclass(frozen=True)
class Pixels:
    """Turns rows of an array into images, uint8 [rows, channels, height, width], each value by
    itself.

    dtype, shape  of rows in the file: [height, width], [height, width, channels] or [channels,
                  height, width]
    levels        values of black and white; others become black or white
    alpha         whether the last channel is transparency: what is transparent lies on white, as in
                  files
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    levels: tuple[float, ...]
    alpha: bool

    @classmethod
    def of(cls, public: AnyArray, levels: Sequence[float] | None, alpha: bool) -> "Pixels | None":
        """Return what turns rows like the public ones [rows, ...] into images; None: they are
        features.

        levels  None: bytes are from 0 to 255, and rows with the shape of images from 0 to 1, if all
                public ones are
        alpha   whether the last of 2 or 4 channels is transparency
        """
        if public.ndim not in (3, 4):
            return None
        if levels is None and public.dtype == np.uint8:
            levels = _BYTES
        elif (
            levels is None
            and has_shape_of_images(public)
            and public.min() >= 0
            and public.max() <= 1
        ):
            levels = _SHARES
        if levels is None:
            return None
        alpha = alpha and channels_first(public).shape[1] in (2, 4)
        return cls(public.dtype.newbyteorder("="), public.shape[1:], tuple(levels), alpha)

    def __call__(self, x: AnyArray) -> AnyArray:
        if self.dtype == np.uint8 and self.levels == _BYTES and not self.alpha:
            return np.ascontiguousarray(channels_first(x))
        starts = range(0, max(1, len(x)), _AT_ONCE)
        return np.concatenate([self._bytes(x[start : start + _AT_ONCE]) for start in starts])

    def _bytes(self, x: AnyArray) -> AnyArray:
        levels: AnyArray = self.grey_levels(x.astype(np.float64)).astype(np.uint8)
        return levels

    def grey_levels(self, x: Any) -> Any:
        """Return whole numbers from 0 to 255, float64 [rows, channels, height, width], of an array
        or a tensor.
        """
        images = channels_first(x)
        if self.alpha:
            opaque = _shares(images[:, -1:], _BYTES if self.dtype == np.uint8 else self.levels)
            shares = _shares(images[:, :-1], self.levels) * opaque + (1 - opaque)
        else:
            shares = _shares(images, self.levels)
        return (255 * shares).round()

    def extremes(self, x: AnyArray) -> tuple[float, float]:
        """Return the least and the largest value of the colours of rows [rows, ...]."""
        images = channels_first(x)
        colours = images[:, :-1] if self.alpha else images
        return colours.min(), colours.max()


def few_levels(
    images: AnyArray, extremes: Callable[[], tuple[float, float] | None]
) -> tuple[str, ...]:
    """Return a line if public images, uint8 [rows, ...], use few grey levels, but more than one.

    extremes  returns the least and the largest value in the files; None: these are not known
    """
    levels = int(np.ptp(images)) + 1
    if not 1 < levels < _FEW:
        return ()
    values = extremes()
    remedy = "save them so that they use 8 bits" if values is None else typed_range(*values)
    return (f"dataset.range=null: public images use {levels} of 256 grey levels only; {remedy}",)


def typed_range(least: float, most: float) -> str:
    """Return what to type where images have values from `least` to `most`."""
    return f"if their values are from {least:g} (black) to {most:g} (white), type 'dataset.range=[{least:g},{most:g}]'"


def has_shape_of_images(x: AnyArray) -> bool:
    """Return whether an array is [rows, height, width], or has channels too, no side shorter than
    8.
    """
    return x.ndim in (3, 4) and is_image(channels_first(x).shape[1:])
