"""The page of a run or a sweep: whole in one file, the same figures as the table, and readable in a browser."""

import html
import json
import re
import shutil
import stat
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from conftest import VOTES, Command, Nzc, Ran
from omegaconf import OmegaConf
from rich.table import Table

import nzc as package
from nzc.runs.formatting import number, show
from nzc.runs.layout import PAGE
from nzc.runs.layout import SWEEP as MULTIRUN
from nzc.runs.page import _span, write_page

NAME = '<b>bold</b> & "quoted"'
SWEEP = f"""# @package _global_
# Question: what do <votes> & labels cost? (a question
#           of two lines)
# Expected: little.
# Time:     seconds.
# Command:  nzc +sweeps=mine
defaults:
  - override /recipe: papers
  - override /dataset: none
  - override /teachers: votes
  - override /aggregator: lnmax
  - override /student: none
# not of the header: it comes too late
hydra:
  mode: MULTIRUN
  sweeper:
    params:
      seed: 0,1
sweep:
  rows:
    - {{name: few, set: [queries=20], paper: {{label_accuracy: 0.9, epsilon: 2.04}}}}
    - {{name: all, set: [queries=40], paper: {{epsilon: "> 0.5"}}}}
    - {{name: '{NAME}', set: [aggregator=nzc], paper: {{label_accuracy: 0.5, epsilon: "≈ 0"}}}}
    - {{name: unsaid, set: [aggregator=gnmax, aggregator.sigma=10]}}
    - {{name: wrong, set: [queries=100000], paper: {{label_accuracy: 0.5}}}}
  figures:
    - {{name: a_labels, x: queries, y: [label_accuracy], by: aggregator}}
    - {{name: b_gaps, curve: gap_above}}
"""
OWN = [*VOTES, "teachers.path=votes.npy", "teachers.labels=labels.npy"]
#: They have no end tag.
VOID = {"meta", "link", "img", "br", "hr", "wbr"}


class Page(HTMLParser):
    """A page's rows, texts and links; it fails where tags are not balanced."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.within_text = False  # after a place where a line may break
        self.tags, self.links, self.images = set[str](), list[str](), list[dict[str, str | None]]()
        self.rows: list[list[str]] = []  # of table bodies, all tables together
        self.texts: list[str] = []
        self.source = (folder / PAGE).read_text()
        self.feed(self.source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [str(value) for name, value in attrs if name in ("src", "href", "srcset", "action", "data")]
        if tag == "img":
            self.images.append(dict(attrs))
        self.within_text = tag == "wbr"
        if tag not in VOID:
            self.open.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        if self.open and {tag for tag, _ in self.open} & {"td", "th"}:
            self.rows[-1][-1] += data
        if self.within_text:
            self.texts[-1] += data
        else:
            self.texts.append(data)
        self.within_text = False

    def cells(self, run: str) -> list[str]:
        """Of all tables, the run's."""
        return [" ".join(cell.split()) for row in self.rows if row and row[0] == run for cell in row[1:]]


Swept = tuple[Ran, Path]


@pytest.fixture(scope="module")
def kept() -> list[Ran]:
    """The sweep on the votes, once it ran."""
    return []


@pytest.fixture
def swept(
    nzc: Nzc, histograms: Path, kept: list[Ran], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Swept:
    """The sweep on the votes, and a folder of it that a test may change."""
    if not kept:
        Path("sweeps").mkdir()
        Path("sweeps/mine.yaml").write_text(SWEEP)
        ran = nzc("+sweeps=mine", *OWN, "figures=null")
        kept.append(replace(ran, folder=tmp_path_factory.mktemp("kept")))
        shutil.move(tmp_path / "outputs", kept[0].folder)
    shutil.copytree(kept[0].folder / "outputs", tmp_path / "outputs")
    ran = replace(kept[0], folder=tmp_path)
    return ran, next(tmp_path.glob("outputs/sweeps/*/*"))


def test_a_sweep_writes_its_page_which_holds_the_whole_table_and_nothing_else(swept: Swept) -> None:
    ran, folder = swept
    assert PAGE in ran.out
    assert stat.S_IMODE((folder / PAGE).stat().st_mode) == 0o600
    page = Page(folder)

    assert not page.tags & {"script", "iframe", "object", "embed", "base"}
    assert len(page.links) == 3
    assert all(link.startswith("data:") for link in page.links)
    assert "://" not in page.source
    assert not re.search(r"url\(|@import", page.source)
    assert "default-src 'none'" in page.source
    assert [image["alt"] for image in page.images] == [
        "label accuracy against queries, one line per aggregator; mean of 2 seeds; band: smallest to largest",
        "queries whose gap exceeds n (%) against n (votes), one line per run",
    ]

    lines = (folder / "table.md").read_text().splitlines()[4:]
    finished = [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in lines if line.startswith("|")]
    assert len(finished) == 4
    assert "Mean ± standard deviation over 2 seeds." in lines
    for run, *cells in finished:
        assert set(cells) <= set(page.cells(run)) | {"–"}
    count, why = re.fullmatch(r"- (2 jobs): (queries=100000: .*) \(jobs 4, 9: wrong\)", lines[-1]).groups()
    assert {count, f"{why} ", "(jobs 4, 9: wrong)", "They are in no table and no figure."} <= set(page.texts)
    assert lines[-1].removeprefix("- ") in ran.err  # once for both, after a line from each


def test_the_page_says_what_was_asked_how_and_with_what(swept: Swept) -> None:
    _, folder = swept
    page = Page(folder)
    assert "what do <votes> & labels cost? (a question of two lines)" in page.texts
    assert {"little.", "seconds.", "nzc +sweeps=mine", "8 of 10 runs finished"} <= set(page.texts)
    assert "too late" not in page.source
    assert page.texts.count("what these labels cost; private") == 1
    asked = "+sweeps=mine recipe=papers teachers=votes dataset=none student=none trainer.progress=false"
    asked += " teachers.path=votes.npy teachers.labels=labels.npy"
    assert f"nzc {asked} figures=null tracking=none" in page.texts
    of_job = f"nzc seed=1 {asked} figures=null tracking=none aggregator=nzc hydra.mode=RUN"
    assert of_job.replace("=false", "=False") in page.texts
    recorded = json.loads((folder / "0" / "result.json").read_text())["versions"]
    assert recorded["nzc"] == package.__version__
    assert recorded["python"] == ".".join(map(str, sys.version_info[:3]))
    assert {"torch", "lightning", "mlflow", "numpy", "scipy"} <= recorded.keys()
    assert {*recorded, *recorded.values()} <= set(page.texts)


def test_names_are_text_and_the_papers_values_stand_beside_the_measured(swept: Swept) -> None:
    ran, folder = swept
    page = Page(folder)
    assert "<b>" not in page.source
    heads = page.rows[0]
    few = dict(zip(heads, ["few", *page.cells("few")], strict=True))
    measured = fmean(result["label_accuracy"] for result in ran.results if result["queries"] == 20)
    assert (few["label accuracy: paper"], few["ε: paper"]) == ("90.0 %", "2.04")
    assert few["label accuracy: measured"].startswith(f"{100 * measured:.1f}")
    assert dict(zip(heads, [NAME, *page.cells(NAME)], strict=True))["ε: paper"] == "≈ 0"


def test_what_was_never_begun_and_what_was_killed_are_told_apart(swept: Swept) -> None:
    _, folder = swept
    shutil.rmtree(folder / "8")
    shutil.rmtree(folder / "7" / ".hydra")
    (folder / "7" / "result.json").unlink()
    write_page(folder)
    page = Page(folder)
    at = page.texts.index("Not run, or failed")
    said = [text for text in page.texts[at + 1 :] if text.strip()]
    assert said[3:9] == ["1 job", "did not finish ", f"(job 7: {NAME})", "1 job", "was not started ", "(job 8: unsaid)"]
    assert "6 of 10 runs finished" in page.texts

    for path in folder.glob("*/result.json"):
        path.unlink()
    write_page(folder)
    page = Page(folder)
    assert "0 of 10 runs finished" in page.texts
    assert page.rows == []


def test_on_a_terminal_names_are_text_too_and_a_path_is_whole(capfd: pytest.CaptureFixture[str]) -> None:
    table = Table("[red]head", title="[bold]of :x:[/nothing]")
    table.add_row("[dim]cell, as wide as the title")
    show(table)
    shown = capfd.readouterr().out
    assert all(text in shown for text in ("[red]head", "[bold]of :x:[/nothing]", "[dim]cell,"))
    path = f"/[dim] :x:/{'a b' * 100}"
    show(path, "dim")
    assert capfd.readouterr().out == f"{path}\n"


def test_a_page_of_nothing_is_a_line(command: Command) -> None:
    assert command("report") == (2, "", "nzc: nzc report=report: the following arguments are required: FOLDER\n")


def test_a_run_has_a_page_too(nzc: Nzc, histograms: Path, command: Command) -> None:
    ran = nzc(*OWN, "aggregator=lnmax", "queries=20", "figures=null")
    folder = next(ran.folder.glob("outputs/*/*"))
    assert command("report", str(folder))[0] == 0
    page = Page(folder)
    assert "none · lnmax · none" in page.texts
    assert f"nzc {' '.join(OWN)} aggregator=lnmax queries=20 figures=null tracking=none" in page.texts
    assert {f"{100 * ran.result['label_accuracy']:.1f} %", "50", "what these labels cost; private"} <= set(page.texts)
    assert len(page.images) == len(list(folder.glob("figures/*.svg"))) >= 2
    assert all(image["alt"] and image["alt"] not in ("gaps", "cost", "confusion") for image in page.images)
    assert (folder / PAGE).read_text().count("data:image/svg+xml;base64,") == len(page.images)


def test_a_strangers_folder_shows_no_environment_variable(
    swept: Swept, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWN_SECRET", "hunter22")
    _, folder = swept
    for path in [folder / MULTIRUN, *folder.glob("*/.hydra/config.yaml")]:
        stored: Any = OmegaConf.load(path)
        OmegaConf.update(stored, "queries", "${oc.env:OWN_SECRET}")
        OmegaConf.update(stored, "delta", "${oc.decode:${oc.${sweep.kind}:OWN_SECRET}}")
        OmegaConf.update(stored, "sweep.kind", "env", force_add=True)
        figure = {"name": "a", "x": "epsilon.exact", "y": "label_accuracy", "by": ["queries", "paths.store"]}
        OmegaConf.update(stored, "sweep.figures", [figure])
        OmegaConf.update(stored, "paths.store", "${oc.env:OWN_SECRET}")
        if "hydra" in stored:
            stored.hydra.overrides.task = [
                "delta=${oc.env:OWN_SECRET}",
                "+tracking.token=${paths.store}",
                "token=abc123",
            ]
            stored.hydra.runtime.choices.sweeps = "${oc.env:OWN_SECRET}"
        OmegaConf.save(stored, path)
    assert command("report", str(folder))[0] == 0
    page = (folder / PAGE).read_text()
    assert "delta=${oc.env:OWN_SECRET}" in page.replace("<wbr>", "")
    assert "hunter22" not in page and "abc123" not in page


def test_true_labels_at_the_end_of_a_sweep_do_not_hide_what_the_ledger_holds(nzc: Nzc, histograms: Path) -> None:
    ran = nzc("--multirun", *OWN, "aggregator=gnmax,lnmax,ground_truth")
    totals = [result["epsilon"]["ledger_total"] for result in ran.results]
    assert totals[0] < totals[1]
    assert totals[2] is None
    (folder,) = ran.folder.glob("outputs/sweeps/*/*")
    assert f"after the last of these runs: ε {number(totals[1])}." in Page(folder).source


def test_the_page_of_a_run_shows_the_interval_of_its_accuracy(nzc: Nzc, histograms: Path) -> None:
    ran = nzc(*OWN, "aggregator=lnmax", "queries=20")
    folder = next(ran.folder.glob("outputs/*/*"))
    known = {"accuracy": 0.9, "accuracy_interval": [0.881, 0.917]}
    (folder / "result.json").write_text(json.dumps(ran.result | known))
    write_page(folder)
    assert "95 % interval 88.1 % to 91.7 %" in Page(folder).texts


def test_a_wrong_folder_is_a_line(tmp_path: Path, command: Command) -> None:
    wrong = {(str(tmp_path),): f"FOLDER={tmp_path}", ("nowhere",): "FOLDER=nowhere", (): "FOLDER"}
    for arguments, said in wrong.items():
        code, out, err = command("report", *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert said in err
    assert not list(tmp_path.iterdir())


def test_a_page_needs_neither_torch_nor_matplotlib(nzc: Nzc, histograms: Path) -> None:
    folder = next(nzc(*OWN, "queries=20").folder.glob("outputs/*/*"))
    script = "import sys; from pathlib import Path; from nzc.runs.page import write_page\n"
    script += f"write_page(Path({str(folder)!r}))\n"
    script += "print({'torch', 'matplotlib', 'mlflow'} & sys.modules.keys())"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert ran.stdout == "set()\n"


def test_spans() -> None:
    assert [_span(seconds) for seconds in (0.254, 9.6, 59.7, 120, 5700, 6000)] == [
        "0.25 s", "9.6 s", "60 s", "2 min", "95 min", "1 h 40 min",
    ]  # fmt: skip


MEASURE = """
addEventListener("load", () => {
  document.title = JSON.stringify([...document.querySelectorAll("iframe")].map(frame => measure(frame.contentDocument)))
})
const measure = page => {
  const seen = element => { const box = element.getBoundingClientRect(); return box.width > 20 && box.height > 8 }
  const text = [...page.querySelectorAll("h1, h2, p, dd, code, td, tbody th, figcaption")]
  return {
    width: page.documentElement.scrollWidth,
    right: Math.max(...[...page.body.querySelectorAll("*")].map(element => element.getBoundingClientRect().right)),
    scrolled: [...page.querySelectorAll(".wide")].filter(element => element.scrollWidth > element.clientWidth).length,
    hidden: text.filter(element => element.textContent.trim() && !seen(element)).map(element => element.outerHTML),
    cells: page.querySelectorAll("td").length,
    figures: [...page.images].map(image => image.naturalWidth > 100 && image.getBoundingClientRect().height > 100),
  }
}
"""


def test_in_a_browser_everything_is_seen_and_nothing_overflows(swept: Swept, tmp_path: Path) -> None:
    if (chromium := shutil.which("chromium") or shutil.which("chromium-browser")) is None:
        pytest.skip("there is no Chromium here")
    _, folder = swept
    widths, source = (400, 1200), html.escape(Page(folder).source)
    frames = [f'<iframe style="width: {width}px; border: 0" srcdoc="{source}"></iframe>' for width in widths]
    (tmp_path / "frames.html").write_text(f"<meta charset=utf-8>{''.join(frames)}<script>{MEASURE}</script>")
    flags = "headless no-sandbox disable-gpu disable-quic no-first-run disable-background-networking"
    flags += f" disable-component-update disable-sync user-data-dir={tmp_path / 'browser'} dump-dom"
    ran = subprocess.run(
        [chromium, *(f"--{flag}" for flag in flags.split()), (tmp_path / "frames.html").as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    found = re.search(r"<title>(.*?)</title>", ran.stdout, re.DOTALL)
    assert found, ran.stdout[-500:]
    for width, seen in zip(widths, json.loads(html.unescape(found[1])), strict=True):
        assert max(seen["width"], seen["right"]) <= width
        assert seen["scrolled"] == 0
        assert seen["hidden"] == []
        assert seen["cells"] > 30
        assert seen["figures"] == [True, True]
