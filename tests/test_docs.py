"""The documentation runs: its Python code, the commands of docs/extending.md; others compose."""

import json
import re
import shlex
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from conftest import VOTES, RunNzc, parametrize, write
from hydra.core.override_parser.overrides_parser import OverridesParser
from pytest import MonkeyPatch

import nzc
from nzc.app.config import GROUPS, HOME, compose_run
from nzc.app.keys import refuse_unknown_keys
from nzc.app.library import Settings, as_overrides
from nzc.app.main import COMMANDS

PAGES = [HOME / "README.md", *sorted((HOME / "docs").glob("*.md"))]
CHOICES = {*GROUPS, "sweeps"}
EXTENDING = HOME / "docs" / "extending.md"
#: Placeholders of the pages, and values that compose.
PLACEHOLDERS = {"DIR": "data", "NEW": "new", "V.npy": "v.npy", "Y.npy": "y.npy", "NAME": "name"}


def _blocks(page: Path) -> Iterator[tuple[str, str, str]]:
    """Yield language, title and content of every fenced block, continuation lines joined."""
    text = page.read_text().replace("\\\n", " ")
    for info, content in re.findall(r"(?ms)^```(.+?)\n(.*?)^```", text):
        title = re.search(r'title="(.+?)"', info)
        yield info.split()[0], title[1] if title else "", content


def _write_files(page: Path) -> None:
    for _, title, content in _blocks(page):
        if title:
            write(title, content)


def _commands(page: Path) -> Iterator[str]:
    """Yield the calls of nzc in blocks, without comments."""
    text = page.read_text().replace("\\\n", " ")
    lines = re.findall(r"^ {4}(nzc(?: .*)?)$", text, re.MULTILINE)
    for language, _, content in _blocks(page):
        if language == "sh":
            lines += content.splitlines()
    for line in lines:
        yield re.split(r"\s+#\s", line)[0]


def _first_value(word: str) -> str:
    """Return KEY=VALUE with the first of the values that a sweep lists."""
    override = OverridesParser.create().parse_override(word)
    if not override.is_sweep_override():
        return word
    return f"{override.get_key_element()}={next(iter(override.sweep_string_iterator()))}"


def test_every_command_composes(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    """Settings of all commands that choose the same options are composed together."""
    monkeypatch.chdir(tmp_path)
    settings: dict[str, dict[str, str]] = {}
    for page in PAGES:
        _write_files(page)
        for line in _commands(page):
            for placeholder, value in PLACEHOLDERS.items():
                line = re.sub(rf"\b{re.escape(placeholder)}\b", value, line)
            words = shlex.split(line.split(" && ")[0])[1:]
            if {*words[:1]} & {*COMMANDS} or "hydra/launcher" in line:  # launchers are extras
                continue
            words = [_first_value(word) for word in words if word[:2] != "--" and word != "…"]
            typed = {word.partition("=")[0].lstrip("+"): word for word in words}
            chosen = [typed[group] for group in sorted(typed.keys() & CHOICES)]
            settings.setdefault(" ".join(chosen), {}).update(typed)
    assert len(settings) > 20
    for overrides in settings.values():
        refuse_unknown_keys(compose_run([*overrides.values()]))


@parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_runs(page: Path, tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    """Runs and sweeps are composed, and made of stored votes. Of 100 queries 5 are priced."""
    monkeypatch.chdir(tmp_path)
    votes = np.random.default_rng(0).multinomial(250, [0.82, *[0.02] * 9], 20)
    np.save("votes.npy", votes)
    np.save("labels.npy", np.zeros(20, int))
    smaller = {
        "run": partial(_of_votes, nzc.run),
        "sweep": partial(_of_votes, nzc.sweep),
        "calibrate": partial(nzc.calibrate, rough=True),
        "audit": partial(nzc.audit, trials=200),
        "Plan": partial(nzc.Plan, queries=(10, 20)),
    }
    for name, function in smaller.items():
        monkeypatch.setattr(nzc, name, function, raising=False)
    namespace: dict[str, object] = {}
    for language, title, content in _blocks(page):
        if language == "python" and not title:
            exec(content.replace("size=100)", "size=5)"), namespace)


def _of_votes(
    function: Callable[[list[str]], object], settings: Settings = (), **more: object
) -> object:
    """Compose what nzc.run or nzc.sweep is asked for, and do it of ten stored votes."""
    words = as_overrides(settings, more, grid=True)
    refuse_unknown_keys(compose_run([_first_value(word) for word in words]))
    aggregators = [word for word in words if word.startswith("aggregator=")]
    files = ["teachers.path=votes.npy", "teachers.labels=labels.npy"]
    files += ["queries=10", "tracking=none", "figures=false"]
    return function([*VOTES, *files, *aggregators])


def _small(words: list[str]) -> list[str]:
    """Return overrides that keep a training short."""
    small = ["figures=false", "tracking=none", "student.steps=30"]
    if "teachers=shares" in words:
        return small
    if "teachers=sklearn" in words:
        return [*small, "teachers.count=4", "teachers.parallel=1"]
    return [*small, "teachers.count=4", "teachers.epochs=10"]


def _extensions() -> list[str]:
    """Return the runs of docs/extending.md; those that set different groups are one command."""
    together: list[tuple[str, set[str]]] = []
    for language, _, content in _blocks(EXTENDING):
        for line in content.splitlines() if language == "sh" else ():
            if "+sweeps" in line:  # it composes, and other sweeps run
                continue
            groups = {re.split("[.=]", word.lstrip("+"))[0] for word in shlex.split(line)[1:]}
            if "teachers=sklearn" in line:  # made few: no threshold suits them
                groups.add("aggregator")
            for place, (first, others) in enumerate(together):
                if not groups & others:
                    together[place] = (first + line.removeprefix("nzc"), groups | others)
                    break
            else:
                together.append((line, groups))
    return [line for line, _ in together]


@parametrize("line", _extensions())
def test_every_extension_runs(run_nzc: RunNzc, line: str) -> None:
    _write_files(EXTENDING)
    if "lightgbm" in line:
        pytest.importorskip("lightgbm")
    words = shlex.split(line)[1:]
    ran = run_nzc(*words, "trainer.progress=false", "trainer.accelerator=cpu", *_small(words))
    assert ran.code == 0, ran.err
    assert ran.result["answered"]


@parametrize("page", ["privacy.md", "proofs.md"])
def test_every_test_that_a_page_names_exists_where_it_says(page: str) -> None:
    """`test_…`, then in the same sentence or list the file in backticks."""
    root = Path(__file__).parent.parent
    names: list[str] = []
    for word in re.findall(r"`(test_\w+|tests/[\w/]+\.py)`", (root / "docs" / page).read_text()):
        if word.startswith("tests/"):
            text = (root / word).read_text()
            assert [name for name in names if f"def {name}(" not in text] == [], word
            names = []
        else:
            names.append(word)
    assert not names


#: What is replaced in the cells, and by what takes less time; what they leave.
SHORTER = {
    "label": ("visits(20_000", "visits(1_500", "published/privacy.json"),
    "library": ("[0.05, 0.1, 0.25, 1]", "[0.25]", "outputs/sweeps"),
}


@parametrize("name", ["label", pytest.param("library", marks=pytest.mark.slow)])
def test_the_notebook_runs(name: str, tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    long, short, left = SHORTER[name]
    cells = json.loads((HOME / "docs" / "notebooks" / f"{name}.ipynb").read_text())["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert long in "".join(sources)
    namespace: dict[str, object] = {}
    for source in sources:
        exec(source.replace(long, short), namespace)
    assert Path(left).exists()
