"""Find fonts, and turn their symbols into distance fields, from which glyphs are rendered."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from nzc.types import AnyArray

#: A distance field is [CELL, CELL] for an image of side CELL / 2. Outlines are measured at twice the resolution.
CELL = 56
_FINE = 2 * CELL
_EM = 88  # font size, and the limit of a symbol's longer side, in fine pixels
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_TWINS = str.maketrans("\u2206\u2126\u00b5", "ΔΩμ")  # Adobe's glyph names denote the sign, fonts draw the letter


@dataclass(frozen=True)
class Font:
    """A font file, its family and style, and the requested symbols that it has."""

    path: Path
    name: str
    symbols: str


def find_fonts(symbols: str) -> tuple[Font, ...]:
    """Return matplotlib's fonts that have all letters and digits, sorted by name, each name once."""
    import matplotlib

    paths = sorted((Path(matplotlib.get_data_path()) / "fonts" / "ttf").glob("*.ttf"))
    named = {font.name: font for path in reversed(paths) if (font := _read(path, symbols)) is not None}
    return tuple(named[name] for name in sorted(named))


@cache
def _read(path: Path, symbols: str) -> Font | None:
    """Return the font; None if it lacks a letter or a digit."""
    from fontTools.agl import toUnicode
    from fontTools.ttLib import TTFont
    from PIL import ImageFont

    with TTFont(path, lazy=True) as file:
        names = file.getBestCmap() or {}
    family, style = ImageFont.truetype(path).getname()

    def has(symbol: str) -> bool:
        name = names.get(ord(symbol))  # TeX's fonts draw another glyph for ", < or |, and name it correctly
        return name is not None and toUnicode(name).translate(_TWINS) in (symbol, "")

    whole = all(map(has, _LETTERS)) and len({names[ord(letter)] for letter in _LETTERS}) == len(_LETTERS)
    return Font(path, f"{family} {style}", "".join(filter(has, symbols))) if whole else None


@cache
def distance_field(font: Font, symbol: str) -> AnyArray:
    """Return float32 [CELL, CELL]: the distance to the outline in image pixels, above 0 inside the ink.

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
