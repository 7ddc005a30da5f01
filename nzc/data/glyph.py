"""Glyph: 150 symbols drawn from fonts, modelled on the unpublished data of Scalable PATE (2018,
section 5.1).
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from string import ascii_letters, digits

import numpy as np
from scipy.special import ndtri

from nzc.data.hashing import GOLDEN, splitmix64
from nzc.data.rows import LazyRows
from nzc.data.splits import SPLITS, Dataset, DataSplits, Records, Split
from nzc.settings import BelowOne, Between0And1, Count, CountOrZero, Positive
from nzc.types import AnyArray, Floats, Ints
from nzc.validation import InputError

#: The classes: ASCII, Greek, Latin 1.
SYMBOLS = (
    "".join(map(chr, range(33, 127)))
    + "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩ"
    + "ßæøåçñþðÆØÞ£¥§¶©®±×÷¿¡·"
)  # fmt: skip
#: A distance field is [CELL, CELL] for an image of side CELL / 2. Outlines are measured at twice
#: the resolution.
CELL = 56
_FINE = 2 * CELL
_EM = 88  # font size, and the limit of a symbol's longer side, in fine pixels
_TWINS = str.maketrans(
    "\u2206\u2126\u00b5", "ΔΩμ"
)  # Adobe's glyph names denote the sign, fonts draw the letter
SIDE = CELL // 2

_CHUNK = 1024  # items that one core draws at a time
_NUMBERS = 16  # random words per item, before those of its pixel noise
_ROTATE, _SCALE, _STRETCH, _SHEAR, _SHIFT = np.deg2rad(15), 0.18, 0.12, 0.2, 2.0
_THINNEST, _BOLDEST = -0.2, 0.7  # pixels added to each side of a stroke
_SHARPEST, _BLURRED = 1.0, 2.6  # width of an edge, in pixels
_NOISE = 0.12
_NORMAL = ndtri((np.arange(256) + 0.5) / 256).astype(
    np.float32
)  # a standard normal deviate for each byte


@dataclass(frozen=True)
class Font:
    """A font file, its family and style, and the SYMBOLS that it has."""

    path: Path
    name: str
    symbols: str


@dataclass(frozen=True)
class Glyph(Dataset):
    """Grey images of 28 × 28 pixels, each with its own affine map, stroke weight, blur, contrast
    and noise.

    Item i of a split depends on (seed, split, i) only, so private records are drawn where a teacher
    needs them.
    """

    seed: CountOrZero
    private: Count
    public: Count
    test: Count
    public_fonts: Between0And1 = 0.25  # of public and test rows; private records have others
    imbalance: Positive = (
        5.0  # frequency of the most frequent symbol over that of the rarest, in all splits
    )
    mislabelled: BelowOne = (
        0.1  # share of the private records with a wrong label, each equally probable
    )

    def load(self) -> DataSplits:
        private, *others = (Items(self, split, getattr(self, split)) for split in SPLITS)
        public, test = (Split(items[:], items.labels(np.arange(len(items)))) for items in others)
        return DataSplits(
            Records(private, private.labels(np.arange(len(private)))), public, test, len(SYMBOLS)
        )

    def fonts_of(self, split: str) -> tuple[Font, ...]:
        """Return the fonts of a split."""
        fonts = find_fonts()
        order = [fonts[i] for i in np.random.default_rng([self.seed, 4]).permutation(len(fonts))]
        kinds = (
            [font for font in order if (font.symbols == SYMBOLS) == whole]
            for whole in (True, False)
        )
        public = [font for kind in kinds for font in kind[: round(self.public_fonts * len(kind))]]
        chosen = [font for font in fonts if (font in public) == (split != "private")]
        if not any(font.symbols == SYMBOLS for font in chosen):
            raise InputError(
                "public_fonts",
                self.public_fonts,
                f"leaves no font with every symbol for {split} rows",
            )
        return tuple(chosen)

    @property
    def frequencies(self) -> Floats:
        """The frequency of each symbol, [150]: a geometric series, permuted by the seed."""
        ladder = self.imbalance ** np.linspace(0, 1, len(SYMBOLS))
        return np.asarray(
            np.random.default_rng([self.seed, 5]).permutation(ladder / ladder.sum()),
            dtype=np.float64,
        )


class Items(LazyRows):
    """The first `count` items of a split. Each random number of an item is a hash of (seed, split,
    item, index).
    """

    dtype = np.dtype(np.uint8)

    def __init__(self, glyph: Glyph, split: str, count: int = 0) -> None:
        fonts = glyph.fonts_of(split)
        own = [[font for font in fonts if symbol in font.symbols] for symbol in SYMBOLS]
        fields = [
            distance_field(font, symbol)
            for symbol, some in zip(SYMBOLS, own, strict=True)
            for font in some
        ]
        self.shape = (count, 1, SIDE, SIDE)
        self.fields = np.stack(fields)[:, None]  # float32 [font and symbol, 1, CELL, CELL]
        self._choices = np.array(list(map(len, own)))  # number of fields of each symbol
        self._first = np.cumsum(self._choices) - self._choices  # and the first of them
        self._upto = np.cumsum(glyph.frequencies)
        self._key = splitmix64(
            splitmix64(np.array([glyph.seed], np.uint64)) + np.uint64(SPLITS.index(split))
        )[0]
        self._mislabelled = glyph.mislabelled if split == "private" else 0.0

    @cached_property
    def identity(self) -> bytes:  # type: ignore[override]
        some = self.read(np.arange(min(_CHUNK, len(self))))
        return sha256(self._key.tobytes() + self.fields.tobytes() + some.tobytes()).digest()

    def read(self, numbers: Ints) -> AnyArray:
        """Return images, uint8 [items, 1, SIDE, SIDE]."""

        def images(items: Ints) -> AnyArray:
            numbers, symbol, words = self._drawn(items, _NUMBERS + SIDE * SIDE // 8)
            field = self._first[symbol] + (numbers[1] * self._choices[symbol]).astype(np.int64)
            return _render(self.fields[field], numbers[4:], words[:, _NUMBERS:].view(np.uint8))

        return _in_chunks(images, numbers)

    def labels(self, numbers: Ints) -> Ints:
        """Return the labels [items]."""

        def labels(items: Ints) -> Ints:
            numbers, symbol, _ = self._drawn(items, 4)
            other = (symbol + 1 + (numbers[3] * (len(SYMBOLS) - 1)).astype(np.int64)) % len(SYMBOLS)
            return np.where(numbers[2] < self._mislabelled, other, symbol)

        return _in_chunks(labels, numbers)

    def _drawn(self, items: Ints, count: int) -> tuple[Floats, Ints, AnyArray]:
        """Return the first random numbers of each item, [numbers, items], its symbol, and uint64
        [items, count].
        """
        own = splitmix64(self._key + items.astype(np.uint64))[:, None]
        words = splitmix64(own + np.arange(1, count + 1, dtype=np.uint64) * GOLDEN)
        numbers = (words[:, :_NUMBERS] >> np.uint64(11)).astype(np.float64).T * 2.0**-53
        symbols: Ints = np.searchsorted(self._upto, numbers[0], side="right")
        return numbers, np.minimum(symbols, len(SYMBOLS) - 1), words


def _in_chunks(draw: Callable[[Ints], AnyArray], items: Ints) -> AnyArray:
    """Return what `draw` gives for all items, in order; every core draws."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        parts = [items[first : first + _CHUNK] for first in range(0, max(1, len(items)), _CHUNK)]
        return np.concatenate(list(pool.map(draw, parts)))


def _render(fields: AnyArray, numbers: Floats, noise: AnyArray) -> AnyArray:
    """Render images of distance fields: ink is where the distance to the outline, through the
    affine map and with the
    stroke weight added, is above 0; the edge is as wide as the blur.
    """
    import torch
    from torch.nn import functional as F

    turn, size, stretch, shear, right, down = numbers[:6] * 2 - 1
    weight, blur, ground, ink, loud = numbers[6:11]
    scale = np.exp(size * _SCALE)
    wide, high = scale * np.exp(stretch * _STRETCH), scale * np.exp(-stretch * _STRETCH)
    cos, sin, lean = np.cos(turn * _ROTATE), np.sin(turn * _ROTATE), shear * _SHEAR
    across = (cos / wide, lean - sin / high, right * 2 * _SHIFT / SIDE)
    along = (sin / wide, cos / high, down * 2 * _SHIFT / SIDE)
    centres = np.linspace(-1, 1, 2 * SIDE + 1)[1::2]
    row, column = centres[:, None], centres[None, :]
    planes = [
        a[:, None, None] * column + b[:, None, None] * row + c[:, None, None]
        for a, b, c in (across, along)
    ]
    grid = np.stack(planes, axis=-1).astype(np.float32)
    rows, places = torch.from_numpy(fields), torch.from_numpy(grid)
    distance = F.grid_sample(rows, places, padding_mode="border", align_corners=False).numpy()

    def per_image(values: Floats) -> AnyArray:
        return values.astype(np.float32)[:, None, None, None]

    weight, blur = (
        _THINNEST + (_BOLDEST - _THINNEST) * weight,
        _SHARPEST + (_BLURRED - _SHARPEST) * blur**2,
    )
    distance *= per_image(scale / blur)
    distance += per_image(weight / blur + 0.5)
    np.clip(distance, 0, 1, out=distance)
    distance *= per_image((0.55 + 0.45 * ink) - 0.25 * ground**2)
    distance += per_image(0.25 * ground**2)
    distance += _NORMAL[noise].reshape(distance.shape) * per_image(_NOISE * loud**2)
    distance *= 255
    return np.clip(np.rint(distance, out=distance), 0, 255, out=distance).astype(np.uint8)


@cache
def find_fonts() -> tuple[Font, ...]:
    """Return matplotlib's fonts that have all letters and digits, sorted by name, each name once."""
    import matplotlib
    from fontTools.agl import toUnicode
    from fontTools.ttLib import TTFont
    from PIL import ImageFont

    def has(symbol: str) -> bool:
        name = names.get(
            ord(symbol)
        )  # TeX's fonts draw another glyph for ", < or |, and name it correctly
        return name is not None and toUnicode(name).translate(_TWINS) in (symbol, "")

    fonts, letters = {}, ascii_letters + digits
    for path in sorted(
        Path(matplotlib.get_data_path(), "fonts", "ttf").glob("*.ttf"), reverse=True
    ):
        with TTFont(path, lazy=True) as file:
            names = file.getBestCmap() or {}
        if all(map(has, letters)) and len({names[ord(letter)] for letter in letters}) == len(
            letters
        ):
            name = " ".join(map(str, ImageFont.truetype(path).getname()))
            fonts[name] = Font(path, name, "".join(filter(has, SYMBOLS)))
    return tuple(fonts[name] for name in sorted(fonts))


@cache
def distance_field(font: Font, symbol: str) -> AnyArray:
    """Return float32 [CELL, CELL]: the distance to the outline in image pixels, above 0 inside the
    ink.

    The symbol is centred, so its place on the line (comma or apostrophe) is lost.
    """
    from PIL import Image, ImageDraw, ImageFont
    from scipy.ndimage import distance_transform_edt

    size, box = _EM, None
    while box is None or max(box[2] - box[0], box[3] - box[1]) > _EM:
        sheet = Image.new("L", (4 * _EM, 4 * _EM))
        face = ImageFont.truetype(font.path, size, layout_engine=ImageFont.Layout.BASIC)
        ImageDraw.Draw(sheet).text((_EM, _EM), symbol, fill=255, font=face)
        box, size = sheet.getbbox(), size - 4
    picture = Image.new("L", (_FINE, _FINE))
    picture.paste(sheet.crop(box), ((_FINE - box[2] + box[0]) // 2, (_FINE - box[3] + box[1]) // 2))
    ink = np.asarray(picture) > 127
    inside, outside = distance_transform_edt(ink), distance_transform_edt(~ink)
    fine = np.where(ink, inside - 0.5, 0.5 - outside) / (2 * _FINE / CELL)
    return np.asarray(fine.reshape(CELL, 2, CELL, 2).mean(axis=(1, 3)), np.float32)
