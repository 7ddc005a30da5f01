"""Images as bytes: files of every mode of Pillow, and arrays of any numbers, become grey or RGB."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from nzc.ranges import checked
from nzc.types import AnyArray, Shape
from nzc.validation import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

_DEEP = ("I;16", "I;16B", "I;16L", "I;16N", "I", "F")  # one channel of more than 8 bits
_ANY_RANGE = ("I", "F")
_FIRST_IS_ALL = ("MPO", "PSD")  # formats whose further frames are previews or layers
#: Values of black and white.
_BYTES = (0, 255)
_WORDS = (0, 65535)
_SHARES = (0, 1)
#: Images that use fewer of the 256 grey levels hardly show anything; 12 bits in a file of 16 are 16
#: levels.
_FEW = 20
#: What to type where images have other values.
TYPE_RANGE = "type the values of black and white in your files, such as 'dataset.range=[0,4095]'"
_REMEDY = "save it as 8-bit grey or RGB"
Levels = Sequence[float]  # values of black and white
_AT_ONCE = 1000  # rows that are float64 at a time


class ImageError(ValueError):
    """The message says why an image cannot be used, and what to do. It quotes no name."""


def _check_range(key: str, value: object) -> None:
    if value is None:
        return
    numbers = value if isinstance(value, list) else []
    good = all(isinstance(number, int | float) and math.isfinite(number) for number in numbers)
    if not good or len(numbers) != 2 or numbers[0] == numbers[1]:
        levels = "the values of black and white, two different numbers such as [0,4095]"
        raise InputError(key, value, f"must be {levels}, or null")


#: The values of black and white; None: of bytes, of 16 bits, or 0 and 1.
Range = Annotated[list[int | float] | None, checked(_check_range)]


def as_bytes(opened: "Image", grey: bool, levels: Levels | None = None) -> "Image":
    """Return the picture of an opened file upright in mode L or RGB: transparency lies on white.

    levels  values of black and white in the file; others become black or white. None: those of its
            8 or 16 bits

    ImageError: the file has no single picture, or one whose range is not known.
    """
    from PIL import Image, ImageOps

    _check_picture(opened, levels)
    image = ImageOps.exif_transpose(opened)
    mode = "L" if grey else "RGB"
    if image.mode in _DEEP:
        return _rescaled(image, levels or _WORDS).convert(mode)
    if image.has_transparency_data:
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
    image = image.convert(mode)
    if levels is None:
        return image
    return _rescaled(image, levels)


def _check_picture(opened: "Image", levels: Levels | None) -> None:
    """Raise ImageError unless a file has one picture, in a range that is known."""
    if levels is None and opened.mode in _ANY_RANGE:
        why = f"nzc does not know the range of its mode, {opened.mode}"
        raise ImageError(f"{why}; {_REMEDY}, or type dataset.range=[BLACK,WHITE]")
    if levels is not None and opened.mode not in _DEEP and max(levels) > 255:
        raise ImageError(f"Pillow gives 8 bits of its mode, {opened.mode}; {_REMEDY}")
    if getattr(opened, "n_frames", 1) > 1 and opened.format not in _FIRST_IS_ALL:
        raise ImageError("it has several frames or pages; save each as a file of its own")


def _rescaled(image: "Image", levels: Levels) -> "Image":
    from PIL import Image

    values = np.asarray(image, np.float64)
    if np.isnan(values).any():
        raise ImageError("it has missing values (NaN)")
    return Image.fromarray((255 * _shares(values, levels)).round().astype(np.uint8))


def _shares(values: Any, levels: Levels) -> Any:
    """Return float64 values of an array or tensor as shares of white, from 0 to 1."""
    black, white = levels
    return ((values - black) / (white - black)).clip(0, 1)


def is_image(shape: Sequence[int], side: int = 8) -> bool:
    """Return whether rows of `shape` are [channels, height, width], with no side shorter."""
    return len(shape) == 3 and min(shape[1:]) >= side


def _channels_last(shape: Sequence[int]) -> bool:
    """Return whether rows of `shape` are [height, width, channels].

    The side of 1 or 3 is that of the channels, else that of 2 or 4, else the shortest.
    """
    first = shape[0]
    last = shape[-1]
    for channels in ((1, 3), (2, 4)):
        if first in channels or last in channels:
            return first not in channels
    return last < first


def channels_first(x: Any) -> Any:
    """Return images, an array or a tensor, as [rows, channels, height, width].

    Other rows stay as they are.
    """
    if x.ndim == 3:
        return x[:, None]
    if x.ndim == 4 and _channels_last(x.shape[1:]):
        return x.swapaxes(1, 3).swapaxes(2, 3)
    return x


@dataclass(frozen=True)
class Pixels:
    """Turns rows of an array into images, uint8 [rows, channels, height, width], each by itself.

    dtype, shape  of rows in the file: [height, width], [height, width, channels] or [channels,
                  height, width]
    levels        values of black and white; others become black or white
    alpha         whether the last channel is transparency: what is transparent lies on white, as in
                  files
    """

    dtype: np.dtype[Any]
    shape: Shape
    levels: tuple[float, ...]
    alpha: bool

    @classmethod
    def of(cls, public: AnyArray, levels: Levels | None, alpha: bool) -> "Pixels | None":
        """Return what turns rows like the public ones [rows, ...] into images; None: features.

        levels  None: bytes are from 0 to 255, and rows with the shape of images from 0 to 1, if all
                public ones are
        alpha   whether the last of 2 or 4 channels of images is transparency
        """
        if public.ndim not in (3, 4):
            return None
        if levels is None and public.dtype == np.uint8:
            levels = _BYTES
        elif levels is None:
            if not has_shape_of_images(public) or public.min() < 0 or public.max() > 1:
                return None
            levels = _SHARES
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
        """Return whole numbers from 0 to 255, float64 [rows, channels, height, width].

        x  an array or a tensor, float64 [rows, ...]
        """
        images = channels_first(x)
        if self.alpha:
            opaque = _shares(images[:, -1:], _BYTES if self.dtype == np.uint8 else self.levels)
            shares = _shares(images[:, :-1], self.levels) * opaque + (1 - opaque)
        else:
            shares = _shares(images, self.levels)
        return (255 * shares).round()


def few_levels(images: AnyArray) -> tuple[str, ...]:
    """Return a line if public images, uint8 [rows, ...], use few grey levels, but more than one."""
    levels = int(np.ptp(images)) + 1
    if not 1 < levels < _FEW:
        return ()
    return (
        f"dataset.range=null: public images use {levels} of 256 grey levels only; {TYPE_RANGE}",
    )


def has_shape_of_images(x: AnyArray) -> bool:
    """Return whether an array is [rows, height, width], perhaps with channels, no side below 8."""
    return x.ndim in (3, 4) and is_image(channels_first(x).shape[1:])
