"""Find fonts, and turn their symbols into distance fields, from which glyphs are rendered."""

import logging
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from nzc.types import AnyArray
from nzc.validation import InputError

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


def find_fonts(folder: str | None, symbols: str) -> tuple[Font, ...]:
    """Return matplotlib's fonts and those of `folder`, sorted by name, each name once.

    Fonts that lack a letter or a digit are left out.
    """
    import matplotlib

    files = [] if folder is None else sorted(Path(folder).rglob("*"))
    own = [path for path in files if path.suffix.lower() in (".ttf", ".otf")]
    if folder is not None and not own:
        raise InputError("fonts", folder, "must be a folder with .ttf or .otf files")
    carried = sorted((Path(matplotlib.get_data_path()) / "fonts" / "ttf").glob("*.ttf"))
    fonts = [_read(path, symbols) for path in (*own, *carried)]
    named = {font.name: font for font in reversed(fonts) if font is not None}
    return tuple(named[name] for name in sorted(named))


@cache
def _read(path: Path, symbols: str) -> Font | None:
    """Return the font; None if it lacks a letter or a digit."""
    from fontTools.agl import toUnicode
    from fontTools.ttLib import TTFont
    from PIL import ImageFont

    logging.getLogger("fontTools").setLevel(logging.CRITICAL)  # errors of fonts are reported in one line
    try:
        with TTFont(path, lazy=True) as file:
            names = file.getBestCmap() or {}
        family, style = ImageFont.truetype(path).getname()
    except Exception as error:  # fontTools and Pillow raise many types
        raise InputError("fonts", path, f"must be a readable font ({error})") from error

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
        if (box := sheet.getbbox()) is None:
            raise InputError("fonts", font.path, f"must draw {symbol!r}, which it says it has")
        size -= 4
    picture = Image.new("L", (_FINE, _FINE))
    picture.paste(sheet.crop(box), ((_FINE - box[2] + box[0]) // 2, (_FINE - box[3] + box[1]) // 2))
    ink = np.asarray(picture) > 127
    inside, outside = distance_transform_edt(ink), distance_transform_edt(~ink)
    fine = np.where(ink, inside - 0.5, 0.5 - outside) / (2 * _FINE / CELL)
    return np.asarray(fine.reshape(CELL, 2, CELL, 2).mean(axis=(1, 3)), np.float32)
