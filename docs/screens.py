"""The pictures of screens that pages show.

    nzc +sweeps=digits && python docs/screens.py report outputs/sweeps/DATE/TIME

report  the page of the sweep in that folder, to the end of its figures: docs/report.png

`pip install -e ".[browser]"` brings Playwright. The browser is the Chromium on PATH, or else the
one that `playwright install chromium` brings.
"""

import shutil
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from nzc.runs.layout import PAGE

DOCS = Path(__file__).parent
WIDTH = 1120  # of the window, in pixels
SHARPNESS = 1.5  # pixels of the picture for one of the window
COLOURS = 256  # a picture of few colours is a small file


def report(page: Page, folder: str) -> Image.Image:
    """Return the screen of the page of a sweep, to the end of its figures."""
    page.goto((Path(folder) / PAGE).absolute().as_uri())
    figures = page.locator(".figures").bounding_box()
    assert figures is not None
    end = figures["y"] + figures["height"] + 24
    return screen(page, end)


#: What can be taken: a function of a page in the browser, and of what was typed behind its name.
SCREENS: dict[str, Callable[[Page, str], Image.Image]] = {"report": report}


def screen(page: Page, end: float) -> Image.Image:
    """Return what a page shows, from its top down to the pixel `end` of the window."""
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": end}
    shown = Image.open(BytesIO(page.screenshot(full_page=True, clip=clip)))  # type: ignore[arg-type]
    return shown.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)


def main(name: str, place: str) -> None:
    """Write docs/NAME.png."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(
            viewport={"width": WIDTH, "height": 800}, device_scale_factor=SHARPNESS
        )
        SCREENS[name](page, place).save(DOCS / f"{name}.png", optimize=True)
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in SCREENS:
        sys.exit(__doc__)
    main(*sys.argv[1:])
