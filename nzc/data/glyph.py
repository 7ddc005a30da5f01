"""Glyph: 150 symbols drawn from fonts, like the unpublished data of Scalable PATE (2018, 5.1)."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from itertools import compress
from operator import attrgetter
from pathlib import Path
from string import ascii_letters, digits

import numpy as np
from scipy.special import ndtri

from nzc.data.hashing import GOLDEN, splitmix64
from nzc.data.rows import LazyRows
from nzc.data.splits import SPLITS, Dataset, DataSplits, Records, Split
from nzc.settings import BelowOne, Between0And1, Count, CountOrZero, Positive
from nzc.types import AnyArray, Floats, Ints

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
#: Adobe's glyph names denote the sign, fonts draw the letter.
_TWINS = str.maketrans("\u2206\u2126\u00b5", "ΔΩμ")
SIDE = CELL // 2

_CHUNK = 1024  # items that one core draws at a time
_NUMBERS = 16  # random words per item, before those of its pixel noise
_ROTATE = np.deg2rad(15)
_SCALE = 0.18
_STRETCH = 0.12
_SHEAR = 0.2
_SHIFT = 2.0
#: Pixels added to each side of a stroke.
_THINNEST = -0.2
_BOLDEST = 0.7
#: Width of an edge, in pixels.
_SHARPEST = 1.0
_BLURRED = 2.6
_NOISE = 0.12
#: A standard normal deviate for each byte.
_NORMAL = ndtri((np.arange(256) + 0.5) / 256).astype(np.float32)


@dataclass(frozen=True)
class Font:
    """A font file, its family and style, and the SYMBOLS that it has."""

    path: Path
    name: str
    symbols: str


@dataclass(frozen=True)
class Glyph(Dataset):
    """Grey images of 28 × 28 pixels, each with a map, stroke weight, blur, contrast and noise.

    Item i of a split depends on (seed, split, i) only, so private records are drawn where a teacher
    needs them.

    public_fonts  share of the fonts of public and test rows; private records have others
    imbalance     frequency of the most frequent symbol over that of the rarest, in all splits
    mislabelled   share of the private records with a wrong label, each equally probable
    """

    seed: CountOrZero
    private: Count
    public: Count
    test: Count
    public_fonts: Between0And1 = 0.25
    imbalance: Positive = 5.0
    mislabelled: BelowOne = 0.1

    def load(self) -> DataSplits:
        private, public, test = (Items(self, split, getattr(self, split)) for split in SPLITS)
        return DataSplits(
            Records(private, private.labels(np.arange(self.private))),
            Split(public[:], public.labels(np.arange(self.public))),
            Split(test[:], test.labels(np.arange(self.test))),
            len(SYMBOLS),
        )

    def fonts_of(self, split: str) -> tuple[Font, ...]:
        """Return the fonts of a split."""
        fonts = find_fonts()
        whole = np.array([font.symbols == SYMBOLS for font in fonts])
        order = np.random.default_rng([self.seed, 4]).permutation(len(fonts))
        public = np.zeros(len(fonts), bool)
        for kind in (order[whole[order]], order[~whole[order]]):
            public[kind[: round(self.public_fonts * len(kind))]] = True
        chosen = public == (split != "private")
        if not whole[chosen].any():
            raise self.refused("public_fonts", f"leaves no font with every symbol for {split} rows")
        return tuple(compress(fonts, chosen))

    @property
    def frequencies(self) -> Floats:
        """The frequency of each symbol, [150]: a geometric series, permuted by the seed."""
        ladder = self.imbalance ** np.linspace(0, 1, len(SYMBOLS))
        rng = np.random.default_rng([self.seed, 5])
        return np.asarray(rng.permutation(ladder / ladder.sum()), dtype=np.float64)


class Items(LazyRows):
    """The first `count` items of a split.

    Each random number of an item is a hash of (seed, split, item, index).
    """

    dtype = np.dtype(np.uint8)

    def __init__(self, glyph: Glyph, split: str, count: int = 0) -> None:
        fonts = glyph.fonts_of(split)
        fields: list[AnyArray] = []
        choices = []
        for symbol in SYMBOLS:
            drawn = [distance_field(font, symbol) for font in fonts if symbol in font.symbols]
            fields += drawn
            choices.append(len(drawn))
        self.shape = (count, 1, SIDE, SIDE)
        self.fields = np.stack(fields)[:, None]  # float32 [font and symbol, 1, CELL, CELL]
        self._choices = np.array(choices)  # number of fields of each symbol
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
        """Return images, uint8 [items, 1, SIDE, SIDE]; every core draws."""

        def images(items: Ints) -> AnyArray:
            numbers, symbol, words = self._drawn(items, _NUMBERS + SIDE * SIDE // 8)
            field = self._first[symbol] + (numbers[1] * self._choices[symbol]).astype(np.int64)
            return _render(self.fields[field], numbers[4:], words[:, _NUMBERS:].view(np.uint8))

        parts = np.array_split(numbers, range(_CHUNK, len(numbers), _CHUNK))
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            return np.concatenate(list(pool.map(images, parts)))

    def labels(self, numbers: Ints) -> Ints:
        """Return the labels [items]."""

        drawn, symbol, _ = self._drawn(numbers, 4)
        other = (symbol + 1 + (drawn[3] * (len(SYMBOLS) - 1)).astype(np.int64)) % len(SYMBOLS)
        return np.where(drawn[2] < self._mislabelled, other, symbol)

    def _drawn(self, items: Ints, count: int) -> tuple[Floats, Ints, AnyArray]:
        """Return numbers of each item, [numbers, items], its symbol, and words, [items, count]."""
        own = splitmix64(self._key + items.astype(np.uint64))[:, None]
        words = splitmix64(own + np.arange(1, count + 1, dtype=np.uint64) * GOLDEN)
        numbers = (words[:, :_NUMBERS] >> np.uint64(11)).astype(np.float64).T * 2.0**-53
        symbols: Ints = np.searchsorted(self._upto, numbers[0], side="right")
        return numbers, np.minimum(symbols, len(SYMBOLS) - 1), words


def _render(fields: AnyArray, numbers: Floats, noise: AnyArray) -> AnyArray:
    """Render images of distance fields.

    Ink is where the distance to the outline, through the affine map and with the stroke weight
    added, is above 0; the edge is as wide as the blur.
    """
    import torch
    from torch.nn import functional as F

    turn, size, stretch, shear, right, down = numbers[:6] * 2 - 1
    weight, blur, ground, ink, loud = numbers[6:11]
    scale = np.exp(size * _SCALE)
    wide = scale * np.exp(stretch * _STRETCH)
    high = scale * np.exp(-stretch * _STRETCH)
    cos = np.cos(turn * _ROTATE)
    sin = np.sin(turn * _ROTATE)
    lean = shear * _SHEAR
    across = (cos / wide, lean - sin / high, right * 2 * _SHIFT / SIDE)
    along = (sin / wide, cos / high, down * 2 * _SHIFT / SIDE)
    centres = np.linspace(-1, 1, 2 * SIDE + 1)[1::2]
    planes = []
    for a, b, c in (across, along):
        plane = a[:, None, None] * centres[None, :] + b[:, None, None] * centres[:, None]
        planes.append(plane + c[:, None, None])
    grid = torch.from_numpy(np.stack(planes, axis=-1).astype(np.float32))
    rows = torch.from_numpy(fields)
    distance = F.grid_sample(rows, grid, padding_mode="border", align_corners=False).numpy()

    def per_image(values: Floats) -> AnyArray:
        return values.astype(np.float32)[:, None, None, None]

    weight = _THINNEST + (_BOLDEST - _THINNEST) * weight
    blur = _SHARPEST + (_BLURRED - _SHARPEST) * blur**2
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
    """Return matplotlib's fonts that have all letters and digits, by name."""
    import matplotlib
    from fontTools.agl import toUnicode
    from fontTools.ttLib import TTFont
    from PIL import ImageFont

    fonts = []
    for path in Path(matplotlib.get_data_path(), "fonts", "ttf").glob("*.ttf"):
        with TTFont(path, lazy=True) as file:
            glyphs = file.getBestCmap() or {}
        symbols = ""
        for symbol in SYMBOLS:  # TeX's fonts draw another glyph for ", and name it so
            if toUnicode(glyphs.get(ord(symbol), "")).translate(_TWINS) == symbol:
                symbols += symbol
        if {*ascii_letters, *digits} <= {*symbols}:
            name = " ".join(map(str, ImageFont.truetype(path).getname()))
            fonts.append(Font(path, name, symbols))
    return tuple(sorted(fonts, key=attrgetter("name")))


@cache
def distance_field(font: Font, symbol: str) -> AnyArray:
    """Return float32 [CELL, CELL]: the distance to the outline in pixels, above 0 in the ink.

    The symbol is centred, so its place on the line (comma or apostrophe) is lost.
    """
    from PIL import Image, ImageDraw, ImageFont
    from scipy.ndimage import distance_transform_edt

    size = _EM
    box = None
    while box is None or max(box[2] - box[0], box[3] - box[1]) > _EM:
        sheet = Image.new("L", (4 * _EM, 4 * _EM))
        face = ImageFont.truetype(font.path, size, layout_engine=ImageFont.Layout.BASIC)
        ImageDraw.Draw(sheet).text((_EM, _EM), symbol, fill=255, font=face)
        box = sheet.getbbox()
        size -= 4
    picture = Image.new("L", (_FINE, _FINE))
    picture.paste(sheet.crop(box), ((_FINE - box[2] + box[0]) // 2, (_FINE - box[3] + box[1]) // 2))
    ink = np.asarray(picture) > 127
    inside = distance_transform_edt(ink) - 0.5
    outside = 0.5 - distance_transform_edt(~ink)
    fine = np.where(ink, inside, outside) / (2 * _FINE / CELL)
    return np.asarray(fine.reshape(CELL, 2, CELL, 2).mean(axis=(1, 3)), np.float32)
