"""The page of a run or a sweep: whole in one file, the same figures as the table, and readable in a browser."""

import html
import json
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import VOTES, Command, Nzc, Ran

from nzc.runs.layout import PAGE
from nzc.sweeps.page import _span, write_page

OWN = [*VOTES, "teachers.path=votes.npy", "teachers.labels=labels.npy"]
NAME = '<b>bold</b> & "quoted"'
SWEEP = f"""# @package _global_
# Question: what do <votes> & labels cost? (a question
#           of two lines)
# Expected: little.
defaults: [override /recipe: papers, override /dataset: none, override /teachers: votes, override /student: none]
# not of the header: it comes too late
hydra: {{mode: MULTIRUN, sweeper: {{params: {{seed: '0,1'}}}}}}
sweep:
  rows:
    - {{name: few, set: [aggregator=lnmax, queries=20], paper: {{label_accuracy: 0.9, epsilon: 2.04}}}}
    - {{name: '{NAME}', set: [aggregator=nzc], paper: {{epsilon: "≈ 0"}}}}
    - {{name: wrong, set: [queries=100000]}}
  figures:
    - {{name: cost, x: queries, y: label_accuracy, by: aggregator}}
    - {{name: gaps, curve: gap_above}}
"""


def _texts(folder: Path) -> str:
    """The page as a person reads it."""
    return html.unescape(re.sub(r"<wbr>|<[^>]+>", "", (folder / PAGE).read_text()))


@pytest.fixture
def swept(nzc: Nzc, histograms: Path) -> tuple[Ran, Path]:
    Path("sweeps").mkdir()
    Path("sweeps/mine.yaml").write_text(SWEEP)
    ran = nzc("+sweeps=mine", *OWN, "figures=null")
    return ran, next(ran.folder.glob("outputs/sweeps/*/*"))


def test_a_sweep_writes_its_page(swept: tuple[Ran, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    ran, folder = swept
    source, text = (folder / PAGE).read_text(), _texts(folder)
    assert PAGE in ran.out and stat.S_IMODE((folder / PAGE).stat().st_mode) == 0o600
    # It loads nothing, and names from outside are text.
    assert all(link.startswith("data:") for link in re.findall(r'(?:src|href)="([^"]*)"', source))
    assert not re.search(r"<script|<iframe|url\(|@import|://", source) and "<b>bold" not in source
    # The whole table, the question, the commands, the failed jobs and the figures are there.
    for line in (folder / "table.md").read_text().splitlines()[4:6]:
        assert all(cell in text for cell in line.strip("| ").split(" | "))
    assert "what do <votes> & labels cost? (a question of two lines)" in text and "too late" not in text
    assert "4 of 6 runs finished" in text and "2 jobsqueries=100000: " in text
    assert "nzc seed=1 recipe=papers" in text.replace("+sweeps=mine ", "") and "aggregator=nzc hydra.mode=RUN" in text
    assert "label accuracy against queries, one line per aggregator; mean of 2 seeds" in text
    assert source.count("data:image/svg+xml;base64,") == 2
    # What was never begun and what was killed are told apart.
    shutil.rmtree(folder / "4")
    (folder / "3" / "result.json").unlink()
    write_page(folder)
    assert "did not finish (job 3: few)" in _texts(folder) and f"was not started (job 4: {NAME})" in _texts(folder)
    for path in folder.glob("*/result.json"):
        path.unlink()
    write_page(folder)
    assert "0 of 6 runs finished" in _texts(folder)


def test_a_run_has_a_page_too(nzc: Nzc, histograms: Path, command: Command) -> None:
    ran = nzc(*OWN, "aggregator=lnmax", "queries=20", "figures=null")
    folder = next(ran.folder.glob("outputs/*/*"))
    known = ran.result | {"accuracy": 0.9, "accuracy_interval": [0.881, 0.917]}
    (folder / "result.json").write_text(json.dumps(known))
    assert command("report", str(folder))[0] == 0
    text = _texts(folder)
    assert "none · lnmax · none" in text and "95 % interval 88.1 % to 91.7 %" in text
    assert f"nzc {' '.join(OWN)} aggregator=lnmax queries=20" in text
    assert (folder / PAGE).read_text().count("data:image/svg+xml;base64,") == len(list(folder.glob("figures/*.svg")))


def test_a_wrong_folder_is_a_line(tmp_path: Path, command: Command) -> None:
    for arguments, named in {(str(tmp_path),): f"FOLDER={tmp_path}", ("nowhere",): "FOLDER=nowhere"}.items():
        code, out, err = command("report", *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1) and named in err
    assert not list(tmp_path.iterdir())


def test_a_page_needs_neither_torch_nor_matplotlib(nzc: Nzc, histograms: Path) -> None:
    folder = next(nzc(*OWN, "queries=20").folder.glob("outputs/*/*"))
    script = "import sys; from pathlib import Path; from nzc.sweeps.page import write_page\n"
    script += f"write_page(Path({str(folder)!r})); print({{'torch', 'matplotlib', 'mlflow'}} & sys.modules.keys())"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert ran.stdout == "set()\n"


def test_spans() -> None:
    spans = [_span(seconds) for seconds in (0.254, 9.6, 59.7, 120, 5700, 6000)]
    assert spans == ["0.25 s", "9.6 s", "60 s", "2 min", "95 min", "1 h 40 min"]


MEASURE = """
addEventListener("load", () => {
  document.title = JSON.stringify([...document.querySelectorAll("iframe")].map(frame => measure(frame.contentDocument)))
})
const measure = page => {
  const text = [...page.querySelectorAll("h1, h2, p, dd, code, td, tbody th, figcaption")]
  const seen = element => { const box = element.getBoundingClientRect(); return box.width > 20 && box.height > 8 }
  return {
    right: Math.max(...[...page.body.querySelectorAll("*")].map(element => element.getBoundingClientRect().right)),
    scrolled: [...page.querySelectorAll(".wide")].filter(element => element.scrollWidth > element.clientWidth).length,
    hidden: text.filter(element => element.textContent.trim() && !seen(element)).map(element => element.outerHTML),
    figures: [...page.images].map(image => image.naturalWidth > 100 && image.getBoundingClientRect().height > 100),
  }
}
"""


def test_in_a_browser_everything_is_seen_and_nothing_overflows(swept: tuple[Ran, Path], tmp_path: Path) -> None:
    if (chromium := shutil.which("chromium") or shutil.which("chromium-browser")) is None:
        pytest.skip("there is no Chromium here")
    widths, source = (400, 1200), html.escape((swept[1] / PAGE).read_text())
    frames = [f'<iframe style="width: {width}px; border: 0" srcdoc="{source}"></iframe>' for width in widths]
    (tmp_path / "frames.html").write_text(f"<meta charset=utf-8>{''.join(frames)}<script>{MEASURE}</script>")
    flags = "headless no-sandbox disable-gpu disable-quic no-first-run disable-background-networking"
    flags += f" disable-component-update disable-sync user-data-dir={tmp_path / 'browser'} dump-dom"
    ran = subprocess.run(
        [chromium, *(f"--{flag}" for flag in flags.split()), (tmp_path / "frames.html").as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    title = re.search(r"<title>(.*?)</title>", ran.stdout, re.DOTALL)
    assert title, ran.stdout[-500:]
    for width, page in zip(widths, json.loads(html.unescape(title[1])), strict=True):
        assert page["right"] <= width and page["scrolled"] == 0 and page["hidden"] == []
        assert page["figures"] == [True, True]
