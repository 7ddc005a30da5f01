"""Draw Glyph, 150 symbols of fonts, like the unpublished data of Scalable PATE (2018, 5.1).

    python trials/glyph.py FOLDER [--private 60000] [--public 12000] [--test 3000]

writes x.npy, y.npy and role.npy into FOLDER, which `dataset=npz dataset.path=FOLDER` reads: grey
images of 28 × 28 pixels, each with a map, stroke weight, blur, contrast and noise of its own.
Private images have other fonts than all others. An image takes 813 bytes on disk, and none stays in
memory. Item i of a role depends on the seed, the role and i only.
"""

import argparse
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import compress
from operator import attrgetter
from pathlib import Path
from string import ascii_letters, digits
from typing import BinaryIO

import matplotlib
import numpy as np
import torch
from fontTools.agl import toUnicode
from fontTools.ttLib import TTFont
from PIL import Image, ImageDraw, ImageFont
from scipy.ndimage import distance_transform_edt
from scipy.special import ndtri
from torch.nn import functional as F

from nzc.data.hashing import GOLDEN, splitmix64
from nzc.data.splits import SPLITS
from nzc.progress import Bar
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
_BLOCK = 32 * _CHUNK  # items that are drawn before they are written
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
class Source:
    """What the items of a role are drawn from.

    fields       [font and symbol, 1, CELL, CELL] distance fields, in the order of SYMBOLS
    choices      [symbols] number of fields of each
    frequencies  [symbols]
    mislabeled  share of wrong labels, each equally probable
    key          hash of seed and role
    """

    fields: AnyArray
    choices: Ints
    frequencies: Floats
    mislabeled: float
    key: np.uint64

    def draw(self, items: Ints) -> tuple[AnyArray, AnyArray]:
        """Return images [items, SIDE, SIDE] and labels [items], as bytes.

        Each random number of an item is a hash of (key, item, index).
        """
        own = splitmix64(self.key + items.astype(np.uint64))[:, None]
        indices = np.arange(1, _NUMBERS + SIDE * SIDE // 8 + 1, dtype=np.uint64)
        words = splitmix64(own + indices * GOLDEN)
        numbers = (words[:, :_NUMBERS] >> np.uint64(11)).astype(np.float64).T * 2.0**-53
        classes = len(self.choices)

        symbol = np.searchsorted(np.cumsum(self.frequencies), numbers[0], side="right")
        symbol = np.minimum(symbol, classes - 1)
        first = np.cumsum(self.choices) - self.choices
        field = first[symbol] + (numbers[1] * self.choices[symbol]).astype(np.int64)
        other = (symbol + 1 + (numbers[3] * (classes - 1)).astype(np.int64)) % classes
        label = np.where(numbers[2] < self.mislabeled, other, symbol)

        images = _render(self.fields[field], numbers[4:], words[:, _NUMBERS:].view(np.uint8))
        return images, label.astype(np.uint8)


def source_of(
    role: str, seed: int, public_fonts: float, imbalance: float, mislabeled: float
) -> Source:
    """Return what the items of a role are drawn from. The arguments are those of the command."""
    fonts = fonts_of(role, seed, public_fonts)
    fields: list[AnyArray] = []
    choices = []
    for symbol in SYMBOLS:
        drawn = [distance_field(font, symbol) for font in fonts if symbol in font.symbols]
        fields += drawn
        choices.append(len(drawn))
    ladder = imbalance ** np.linspace(0, 1, len(SYMBOLS))
    rng = np.random.default_rng([seed, 5])
    return Source(
        fields=np.stack(fields)[:, None],
        choices=np.array(choices),
        frequencies=rng.permutation(ladder / ladder.sum()),
        mislabeled=mislabeled if role == "private" else 0.0,
        key=splitmix64(splitmix64(np.array([seed], np.uint64)) + np.uint64(SPLITS.index(role)))[0],
    )


def fonts_of(role: str, seed: int, public_fonts: float) -> list[Font]:
    """Return the fonts of a role. ValueError: none of them has every symbol."""
    fonts = find_fonts()
    whole = np.array([font.symbols == SYMBOLS for font in fonts])
    order = np.random.default_rng([seed, 4]).permutation(len(fonts))
    public = np.zeros(len(fonts), bool)
    for kind in (order[whole[order]], order[~whole[order]]):
        public[kind[: round(public_fonts * len(kind))]] = True
    chosen = public == (role != "private")
    if not whole[chosen].any():
        raise ValueError(f"it leaves no font with every symbol for {role} rows")
    return [*compress(fonts, chosen)]


def _render(fields: AnyArray, numbers: Floats, noise: AnyArray) -> AnyArray:
    """Render images of distance fields.

    Ink is where the distance to the outline, through the affine map and with the stroke weight
    added, is above 0; the edge is as wide as the blur.
    """
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
    return np.clip(np.rint(distance, out=distance), 0, 255, out=distance).astype(np.uint8)[:, 0]


@cache
def find_fonts() -> tuple[Font, ...]:
    """Return matplotlib's fonts that have all letters and digits, by name."""
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


def draw_all(source: Source, count: int) -> Iterator[tuple[AnyArray, AnyArray]]:
    """Yield images and labels of the first `count` items, in order; every core draws."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for first in range(0, count, _BLOCK):
            block = np.arange(first, min(first + _BLOCK, count))
            chunks = np.array_split(block, range(_CHUNK, len(block), _CHUNK))
            yield from pool.map(source.draw, chunks)


def _opened(path: Path, dtype: str, *shape: int) -> BinaryIO:
    """Return an .npy file whose values are still to be written."""
    file = path.open("wb")
    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file


def whole(text: str) -> int:
    """Return a whole number of an argument, 0 or more."""
    value = int(text)
    if value < 0:
        raise ValueError(text)
    return value


def share(text: str) -> float:
    """Return a share of an argument, from 0 and below 1."""
    value = float(text)
    if not 0 <= value < 1:
        raise ValueError(text)
    return value


def ratio(text: str) -> float:
    """Return a ratio of an argument, above 0."""
    value = float(text)
    if not 0 < value < np.inf:
        raise ValueError(text)
    return value


def main() -> None:
    """Write the three files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--private", type=whole, default=60_000, help="records for the teachers")
    parser.add_argument("--public", type=whole, default=12_000, help="rows that may be asked")
    parser.add_argument("--test", type=whole, default=3_000, help="rows that measure accuracy")
    parser.add_argument("--seed", type=whole, default=0, help="of the drawing")
    parser.add_argument(
        "--public-fonts", type=share, default=0.25, help="share of fonts of public and test rows"
    )
    parser.add_argument(
        "--imbalance",
        type=ratio,
        default=5.0,
        help="frequency of the most frequent symbol over that of the rarest",
    )
    parser.add_argument(
        "--mislabeled", type=share, default=0.1, help="share of private rows with a wrong label"
    )
    chosen = parser.parse_args()
    settings = (chosen.seed, chosen.public_fonts, chosen.imbalance, chosen.mislabeled)
    try:
        sources = {role: source_of(role, *settings) for role in SPLITS}
    except ValueError as error:
        parser.error(f"argument --public-fonts: {error}")

    folder = chosen.folder
    folder.mkdir(parents=True, exist_ok=True)
    rows = chosen.private + chosen.public + chosen.test
    with (
        _opened(folder / "x.npy", "|u1", rows, SIDE, SIDE) as x,
        _opened(folder / "y.npy", "|u1", rows) as y,
        _opened(folder / "role.npy", "<U7", rows) as roles,
        Bar(shown=True) as bar,
    ):
        task = bar.add_task("glyphs", total=rows)
        for role, source in sources.items():
            for images, labels in draw_all(source, getattr(chosen, role)):
                x.write(images.data)
                y.write(labels.data)
                roles.write(np.full(len(labels), role, "<U7").data)
                bar.advance(task, len(labels))


if __name__ == "__main__":
    main()
