"""The pictures of screens that pages show.

    nzc +sweeps=digits && python docs/screens.py report outputs/sweeps/DATE/TIME
    nzc --multirun … && python docs/screens.py dashboard outputs/sweeps/DATE/TIME

report     the page of the sweep in that folder, to the end of its figures: docs/report.png
dashboard  MLflow's table of its jobs, as its address shows it: docs/dashboard.png

`pip install -e ".[browser]"` brings Playwright. The browser is the Chromium on PATH, or else the
one that `playwright install chromium` brings.
"""

import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import FloatRect, Page, sync_playwright

from nzc.runs.layout import PAGE
from nzc.tracking import read_record

DOCS = Path(__file__).parent
SHARPNESS = 1.5  # pixels of the picture for one of the window
COLOURS = 256  # a picture of few colours is a small file
STARTING = 60  # seconds that MLflow may take to start


@contextmanager
def window(width: int) -> Iterator[Page]:
    """Yield an empty page of a browser whose window has so many pixels."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        yield browser.new_page(
            viewport={"width": width, "height": 800}, device_scale_factor=SHARPNESS
        )
        browser.close()


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Run the command that the sweep in `folder` printed, and yield the address below it."""
    command, address = read_record(folder)["view"].splitlines()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [*shlex.split(command), "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        end = time.monotonic() + STARTING
        while time.monotonic() < end:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.2)
        yield address.replace(":5000/", f":{port}/")
    finally:
        server.terminate()
        server.wait()


def report(page: Page, folder: Path) -> Image.Image:
    """Return the screen of the page of a sweep, to the end of its figures."""
    page.goto((folder / PAGE).absolute().as_uri())
    figures = _box(page, ".figures")
    height = figures["y"] + figures["height"] + 24
    return screen(page, {"x": 0, "y": 0, "width": 1120, "height": height})


def dashboard(page: Page, folder: Path) -> Image.Image:
    """Return MLflow's table of the jobs of a sweep, before any click."""
    with served(folder) as address:
        page.goto(address)
        page.get_by_text("matching runs").wait_for()
        page.get_by_role("columnheader", name="epsilon").first.wait_for()
        return screen(page, _box(page, "main"))


#: What can be taken: the width of the window, and a function of its page and of a sweep's folder.
SCREENS: Mapping[str, tuple[int, Callable[[Page, Path], Image.Image]]] = {
    "report": (1120, report),
    "dashboard": (1400, dashboard),
}


def _box(page: Page, selector: str) -> FloatRect:
    box = page.locator(selector).first.bounding_box()
    assert box is not None, selector
    return box


def screen(page: Page, place: FloatRect) -> Image.Image:
    """Return what a page shows at a place of it."""
    shown = Image.open(BytesIO(page.screenshot(full_page=True, clip=place)))
    return shown.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)


def main(name: str, folder: str) -> None:
    """Write docs/NAME.png."""
    width, taken = SCREENS[name]
    with window(width) as page:
        taken(page, Path(folder)).save(DOCS / f"{name}.png", optimize=True)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in SCREENS:
        sys.exit(__doc__)
    main(*sys.argv[1:])
