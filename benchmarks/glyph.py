"""How many glyphs are drawn per minute? This script also draws a contact sheet of them.

python benchmarks/glyph.py                              100,000 private records, timed
python benchmarks/glyph.py --sheet docs/glyph.png       a contact sheet, one row per symbol
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from matplotlib import get_data_path
from PIL import Image, ImageDraw, ImageFont

from nzc.data.glyph import SIDE, SYMBOLS, Glyph


def draw_sheet(glyph: Glyph, path: Path, blocks: int = 3, private: int = 7, public: int = 4) -> None:
    """Draw one row per symbol: its name, private records with the right label, a gap, and public rows."""
    right = replace(glyph, mislabelled=0.0)
    drawn = {split: right.draw(split, np.arange(40_000)) for split in ("private", "public")}
    height, step, name, gap = -(-len(SYMBOLS) // blocks), SIDE + 1, 30, 8
    width = name + (private + public) * step + 2 * gap
    picture = Image.new("L", (blocks * width, (height + 1) * step), 255)
    write = ImageDraw.Draw(picture)
    font = ImageFont.truetype(Path(get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf", 17)
    for number, symbol in enumerate(SYMBOLS):
        left, top = number // height * width, (number % height + 1) * step
        write.text((left + name / 2, top + step / 2), symbol, 0, font, anchor="mm")
        for start, (split, count) in zip(
            (name, name + private * step + gap), {"private": private, "public": public}.items(), strict=True
        ):
            if number % height == 0:
                write.text((left + start + count * step / 2, step / 2), split, 0, font, anchor="mm")
            for place, item in enumerate(np.flatnonzero(drawn[split].y == number)[:count]):
                picture.paste(Image.fromarray(drawn[split].x[item, 0]), (left + start + place * step, top))
    picture.quantize(16).save(path, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000, help="how many glyphs are timed (default 100,000)")
    parser.add_argument("--sheet", type=Path, help="draw a contact sheet into this file, and time nothing")
    settings = parser.parse_args()
    glyph = Glyph(seed=0, private=1, public=1, test=1)
    if settings.sheet is not None:
        draw_sheet(glyph, settings.sheet)
        return
    start = time.perf_counter()
    glyph.draw("private", np.arange(1))
    first = time.perf_counter() - start
    glyph.draw("private", np.arange(settings.count))
    whole = time.perf_counter() - start
    rate, later = 60 * settings.count / whole, 60 * settings.count / (whole - first)
    print(f"{settings.count:,} glyphs in {whole:.1f} s, of which {first:.1f} s to read fonts and import torch: "
          f"{rate:,.0f} per minute, {later:,.0f} from then on")  # fmt: skip


if __name__ == "__main__":
    main()
