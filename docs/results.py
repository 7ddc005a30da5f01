"""The tables of the pages, made from what sweeps left as evidence.

    python docs/results.py                    write the tables of all pages anew
    python docs/results.py --check            print what differs from its evidence, and fail
    python docs/results.py add FOLDER [...]   take finished sweeps, or a run's table, as evidence
    python docs/results.py draw               draw the pictures of evidence anew, but for curves

Evidence is docs/results/NAME.csv. Its first lines say which command made it, on which commit, when,
on which processor and in how many seconds; then there is a line for each run. A page marks what is
made of it, and nothing else of a page is ever changed:

    <!-- table … -->  …  <!-- end -->             a table; … are the keys of `TableSpec`, in YAML
    <!-- evidence -->  …  <!-- end -->            the list of all evidence
    <!--= NAME: RUN: KEY -->93.6 ± 1.6 %<!--/-->  one figure
    ![…](results/NAME.svg) and a line in italics: what the picture shows, and of which runs
    <!-- output NAME -->  …  <!-- end -->         what a run printed: docs/results/NAME.txt

The check also compares files and pictures with their digests, and a picture with its file, and says
which file no page shows. It asks whether the code that decides ε has changed since a sweep ran: if
so, settings of that sweep release their labels again, and every ε must be as it was.
"""

import argparse
import os
import platform
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import redirect_stderr, suppress
from dataclasses import asdict, dataclass
from difflib import unified_diff
from functools import cache, partial
from hashlib import sha1, sha256
from io import StringIO
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import indent
from typing import Any

import numpy as np
import pandas
import yaml
from pandas import DataFrame, Series
from pydantic import BaseModel, ConfigDict, ValidationError

import nzc
from nzc.app.config import compose_run
from nzc.privacy.ledger import now
from nzc.runs.formatting import is_share, number, percent, short_range, some
from nzc.runs.layout import FIGURES, RESULT, as_typed, read_overrides
from nzc.runs.quantities import NOBODY, protects_nobody
from nzc.runs.result import QUANTITIES, versions
from nzc.sweeps.figures import caption_of, plot, points_of
from nzc.sweeps.spec import SweepFigure, spec_of
from nzc.sweeps.table import NOTHING, Sweep, cell
from nzc.validation import InputError, from_pydantic

HOME = Path(__file__).parents[1]
EVIDENCE = HOME / "docs" / "results"
PAGES = [HOME / "README.md", *sorted((HOME / "docs").glob("*.md"))]

#: The code that decides an ε.
DECIDES = ["nzc/mechanisms", "nzc/accounting", "nzc/privacy", "nzc/protocols"]
#: Columns of a sweep's jobs that say nothing about its question.
_LEFT_OUT = re.compile(
    r"(folder|job|run|error|rng|neighbours|finished|warnings|rounds|accuracy_interval)$"
    r"|seconds\.(?!total|representation|teachers|student)|metrics\.recall|versions|ledger|epsilon\.ledger|data\."
)
#: Words of a command that say where its files are, and no more.
_PLACES = re.compile(r"tracking=|hydra\.|trainer\.progress=|figures=")
#: So many settings of a sweep are computed again, of those that take at most so many seconds.
_SETTINGS = 3
_QUICK = 20
#: Networks of teachers that took fewer seconds were found stored.
_TRAINED = 0.5

_TABLE = re.compile(r"(?ms)^(<!-- table\n(.*?)-->\n).*?(?=^<!-- end -->)")
_LIST = re.compile(r"(?ms)^(<!-- evidence -->\n).*?(?=^<!-- end -->)")
_OUTPUT = re.compile(r"(?ms)^(<!-- output (\w+) -->\n).*?(?=^<!-- end -->)")
_FIGURE = re.compile(r"(<!--= (\w+): (.+?): ([\w.]+) -->).*?(?=<!--/-->)")
#: The last line of a picture: its file of evidence, the digest of that, and its own.
_STAMP = "<!-- of {}.csv {} {} -->\n"
_PICTURE = re.compile(r"\(results/(\w+)\.svg\)")
_CAPTION = re.compile(r"(?m)(\(results/(\w+)\.svg\)\n\n)\*.*\*$")


@dataclass(frozen=True)
class Evidence:
    """What a sweep left.

    source  command, commit, date, processor, seconds, and the digest of the code that decided ε
    rows    a row for each run: `name`, `row`, `overrides`, and the figures by their keys
    """

    name: str
    source: Mapping[str, str]
    rows: DataFrame

    @property
    def text(self) -> str:
        """The file; its first line is the digest of all others."""
        rows = self.rows.to_csv(index=False, float_format="%.10g", lineterminator="\n")
        return _with_head(self.source, rows)

    @property
    def origin(self) -> str:
        """Where the rows are from, in Markdown."""
        facts = [f"[`{self.source['command']}`](results/{self.name}.csv)"]
        facts += [f"commit {self.source['commit']}", self.source["date"]]
        if self.seeds:
            facts.append(f"seeds {self.seeds}")
        if "typed" in self.source:
            facts.append("older, typed by hand")
        return " · ".join(facts)

    @property
    def seeds(self) -> str:
        """The seeds of the runs: 100 to 109, or 0, 1, 2; different ones where runs differ."""
        if "seed" not in self.rows:
            return ""
        of_runs = self.rows.groupby("name", sort=False)["seed"].agg(short_range)
        return " or ".join(of_runs.unique())


class TableSpec(BaseModel):
    """What a table of a page shows, a line for each group of runs that differ in their seed only.

    of      the files of evidence
    only    keeps the runs whose name this pattern finds
    lines   the keys that set lines apart, by their heading. Beside those of results and settings
            there are `row.0`, the first part of the row's name, and `commit`, that of the file
    across  a key with a column for each of its values; None: there is a column for each figure
    cells   the keys of the figures, by their heading; all of them share a cell where `across` is.
            Beside those of results there is `seeds`, the number of runs
    """

    model_config = ConfigDict(extra="forbid")
    of: list[str]
    only: str = ""
    lines: dict[str, str] = {"run": "name"}
    across: str | None = None
    cells: dict[str, str]


def _with_head(source: Mapping[str, str], text: str) -> str:
    text = "".join(f"# {key}: {value}\n" for key, value in source.items()) + text
    return f"# digest: {_digest(text)}\n{text}"


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


@cache
def read(name: str) -> Evidence:
    """Return a file of evidence; InputError: there is none, or it was changed by hand."""
    source, text = _intact(EVIDENCE / f"{name}.csv")
    rows = pandas.read_csv(
        StringIO(text), keep_default_na=False, na_values=[""], dtype_backend="pyarrow"
    )
    rows = rows.astype(object)
    return Evidence(name, source, rows.where(rows.notna(), None))


def _intact(path: Path) -> tuple[dict[str, str], str]:
    """Return the first lines of a file of evidence by their keys, and what follows them."""
    if not path.is_file():
        raise InputError("evidence", path.name, "must be a file of docs/results")
    head, *lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    if head != f"# digest: {_digest(''.join(lines))}\n":
        raise InputError("evidence", path.name, "must be as it was made: it was changed by hand")
    source = {}
    while lines[0].startswith("# "):
        key, _, source[key] = lines.pop(0)[2:-1].partition(": ")
    return source, "".join(lines)


def write(evidence: Evidence) -> str:
    """Write a file of evidence, and return its digest."""
    EVIDENCE.mkdir(exist_ok=True)
    (EVIDENCE / f"{evidence.name}.csv").write_text(evidence.text, encoding="utf-8")
    return digest_of(evidence.name)


def digest_of(name: str) -> str:
    """Return the digest that a file of evidence says of itself."""
    with (EVIDENCE / f"{name}.csv").open(encoding="utf-8") as file:
        return file.readline().strip().removeprefix("# digest: ")


def take(folder: Path) -> Path:
    """Keep the table of a finished sweep as evidence, and the pictures that a page shows."""
    sweep = Sweep(folder)
    jobs = sweep.jobs
    if len(sweep.done) < len(jobs):
        raise InputError("folder", folder, "must have a result of every job")
    commits = jobs["versions.commit"].unique()
    if len(commits) > 1 or "changes" in commits[0]:
        raise InputError("folder", folder, f"must be of one commit, not of {', '.join(commits)}")
    typed = sweep.config.hydra.overrides
    words = [*as_typed(typed.hydra), *as_typed(typed.task)]
    data = "NZC_DATA=DIR " if "NZC_DATA" in sweep.spec.command else ""
    source = {
        "command": data + shlex.join(["nzc", *_without_places(words)]),
        "commit": commits[0],
        "date": max(jobs["finished"])[:10],
        "processor": _processor(),
        "seconds": f"{jobs['seconds.total'].sum():.0f}",
        "code": _code_of(commits[0]),
    }
    drawn = chain.from_iterable(sweep.spec.keys.values())
    left_out = set(filter(_LEFT_OUT.match, jobs.columns)) - set(drawn)
    rows = jobs.drop(columns=list(left_out))
    rows["overrides"] = rows["overrides"].map(_without_places).map(shlex.join)
    rows = rows.dropna(axis="columns", how="all").infer_objects()
    rows = rows[sorted(rows, key=["overrides", "row", "name"].__contains__, reverse=True)]
    evidence = Evidence(sweep.name, source, rows)
    digest = write(evidence)
    shown = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for picture in sorted((folder / FIGURES).glob("*.svg")):
        if f"{sweep.name}_{picture.name}" in shown:
            _keep(picture, sweep.name, digest)
    return EVIDENCE / f"{sweep.name}.csv"


def _keep(picture: Path, name: str, digest: str) -> None:
    """Keep a picture, stamped with the digests of its evidence and of itself."""
    image = picture.read_text(encoding="utf-8").rstrip() + "\n"
    stamp = _STAMP.format(name, digest, _digest(image))
    (EVIDENCE / f"{name}_{picture.name}").write_text(image + stamp, encoding="utf-8")


def draw_anew() -> None:
    """Draw the kept pictures of all evidence, but for curves, which need the runs' folders."""
    for path in sorted(EVIDENCE.glob("*.csv")):
        name = path.stem
        file = HOME / "sweeps" / f"{name}.yaml"
        if not file.is_file():
            continue
        for figure in spec_of(compose_run([f"+sweeps={name}"])).figures:
            kept = EVIDENCE / f"{name}_{figure.name}.svg"
            if kept.is_file() and figure.curve is None:
                with TemporaryDirectory() as folder:
                    plot(figure, read(name).rows, Path(folder))
                    for picture in Path(folder).rglob("*.svg"):  # typed evidence may lack its keys
                        _keep(picture, name, digest_of(name))


def take_run(folder: Path) -> Path:
    """Keep the table that a run printed at its end, and return its file."""
    result = nzc.RunResult.read(folder)
    command = shlex.join(["nzc", *_without_places(read_overrides(folder))])
    source = {"command": command, "commit": result.versions["commit"], "date": result.finished[:10]}
    printed = subprocess.check_output(["nzc", "report", str(folder)], text=True)
    lines = printed.partition("┘")[0].splitlines()  # below the table stands the folder
    shown = "".join(f"{line.rstrip()}\n" for line in lines).rstrip() + "┘\n"
    path = EVIDENCE / "run.txt"
    path.write_text(_with_head(source, shown), encoding="utf-8")
    return path


def source_of(command: str, begun: float) -> dict[str, str]:
    """Return where rows are from that a benchmark made since `begun` (time.perf_counter)."""
    commit = versions().get("commit", "changes")
    if "changes" in commit:
        raise InputError("commit", commit, "must be a checkout without changes")
    return {
        "command": command,
        "commit": commit,
        "date": now()[:10],
        "processor": _processor(),
        "seconds": f"{time.perf_counter() - begun:.0f}",
    }


def _without_places(words: Iterable[str]) -> list[str]:
    """Return overrides with DIR or another word in capitals in place of a folder."""
    shown = []
    for word in words:
        key, _, value = word.partition("=")
        if _PLACES.match(word):
            continue
        data = os.environ.get("NZC_DATA")
        if data and value.startswith(data):
            value = f"DIR{value.removeprefix(data)}"
        elif Path(value).is_absolute():
            value = Path(value).name.upper()
        shown.append(f"{key}={value}")
    return shown


def _processor() -> str:
    name = platform.processor() or platform.machine()
    with suppress(OSError):
        found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
        if found:
            name = found[1]
    return f"{os.cpu_count()} cores, {name}"


def _code_of(commit: str) -> str:
    """Return the digest of the code that decided ε on a commit."""
    command = ["git", "-C", str(HOME), "ls-tree", "-r", commit, *DECIDES]
    files = []
    for line in subprocess.check_output(command, text=True).splitlines():
        about, path = line.split("\t")
        files.append((path, about.split()[2]))
    return _digest(str(sorted(files)))


@cache
def _code() -> str:
    """Return the digest of the code that decides ε now."""
    files = []
    for decides in DECIDES:
        for path in [HOME / decides, *(HOME / decides).rglob("*.py")]:
            if path.is_dir():
                continue
            content = path.read_bytes()
            blob = sha1(b"blob %d\0" % len(content) + content).hexdigest()  # as git names it
            files.append((path.relative_to(HOME).as_posix(), blob))
    return _digest(str(sorted(files)))


def _runs(spec: TableSpec) -> DataFrame:
    """Return the runs of a table, with a column for each key that it names."""
    parts = []
    for name in spec.of:
        evidence = read(name)
        parts.append(evidence.rows.assign(commit=evidence.source["commit"]))
    runs = pandas.concat(parts, ignore_index=True).astype(object)
    runs = runs.reindex(columns=list(dict.fromkeys([*runs, "row", "overrides"])))
    runs = runs[runs["name"].str.contains(spec.only)].reset_index(drop=True)
    settings = DataFrame(list(runs["overrides"].astype(object).fillna("").map(_settings)))
    known = {*runs, *QUANTITIES, "epsilon", "seeds"}
    for key in [*spec.lines.values(), *filter(None, [spec.across]), *spec.cells.values()]:
        name, _, part = key.rpartition(".")
        if name == "row":
            runs[key] = runs["row"].str.split(", ").str.get(int(part))
        elif key in settings:
            runs[key] = runs.get(key, settings[key]).fillna(settings[key])
        elif not {key, key.removeprefix("paper.")} & known:
            raise InputError(f"table of {', '.join(spec.of)}", key, f"must be of {', '.join(runs)}")
    order = DataFrame({key: _order(runs[key]) for key in spec.lines.values()})
    runs = runs.iloc[order.sort_values(list(order), kind="stable").index]
    return runs.where(runs.notna(), None)


def _order(values: Series) -> Series:
    """Return numbers as they are, and texts numbered as they appear."""
    numbers = pandas.to_numeric(values, errors="coerce")
    if numbers.notna().equals(values.notna()):
        return numbers
    return Series(pandas.factorize(values)[0])


def _settings(overrides: str) -> dict[str, str | float]:
    """Return the values of overrides by key."""
    settings: dict[str, str | float] = {}
    for word in shlex.split(overrides):
        key, _, value = word.partition("=")
        settings[key] = value
        with suppress(ValueError):
            settings[key] = float(value)
    return settings


def table(spec: TableSpec) -> str:
    """Return a table in Markdown, and where its figures are from."""
    runs = _runs(spec)
    columns = list(spec.cells)
    if spec.across is not None:
        columns = list(dict.fromkeys(runs[spec.across]))
    lines = [
        [*spec.lines, *map(_shown, columns)],
        ["---"] * len(spec.lines) + ["---:"] * len(columns),
    ]
    for values, members in runs.groupby(list(spec.lines.values()), sort=False, dropna=False):
        line = list(map(_shown, values))
        if spec.across is None:
            line += [figure_of(key, members) for key in spec.cells.values()]
        for value in columns if spec.across else []:
            part = members[members[spec.across] == value]
            figures = [figure_of(key, part) for key in spec.cells.values()]
            line.append(", ".join(filter(lambda text: text != NOTHING, figures)) or NOTHING)
        lines.append(line)
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return text + "\n" + "\n\n".join(read(name).origin for name in spec.of) + "\n"


def figure_of(key: str, runs: DataFrame) -> str:
    """Return the figure of runs that differ in their seed, or the paper's value."""
    if runs.empty:
        return NOTHING
    if key == "seeds":
        return str(runs["seed"].count()) if "seed" in runs else NOTHING
    if key not in runs:
        raise InputError("key of a figure", key, f"must be one of {', '.join(runs)}")
    value = runs[key].iloc[0]
    measured = key.removeprefix("paper.")
    if measured == key:
        published = runs.get("epsilon.published", runs[key])
        if all(map(partial(protects_nobody, key), runs[key], published)):
            return NOBODY
        return cell(key, runs[key])
    if value is None:
        return NOTHING
    if isinstance(value, float) and is_share(measured):
        return percent(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _shown(value: Any) -> str:
    """Return what sets a line apart."""
    if pandas.isna(value):
        return ""
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def output(name: str) -> str:
    """Return what a run printed."""
    _, text = _intact(EVIDENCE / f"{name}.txt")
    return text


def evidence_list() -> str:
    """Return the list of all evidence in Markdown."""
    lines = ["| command and file | commit | date | seconds | runs | seeds |"]
    lines.append("| --- | --- | --- | ---: | ---: | --- |")
    for path in sorted(EVIDENCE.glob("*.csv")):
        evidence = read(path.stem)
        source = evidence.source
        link = f"[`{source['command']}`](results/{path.name})"
        about = [link, source["commit"], source["date"], source.get("seconds", NOTHING)]
        lines.append(f"| {' | '.join([*about, str(len(evidence.rows)), evidence.seeds])} |")
    return "\n".join(lines) + "\n"


def caption(picture: str) -> str | None:
    """Return what a picture shows, and of which runs; None: its evidence was typed."""
    for path in (HOME / "sweeps").glob("*.yaml"):
        if picture.startswith(f"{path.stem}_"):
            sweep = yaml.safe_load(path.read_text(encoding="utf-8"))["sweep"]
            for figure in map(SweepFigure.model_validate, sweep.get("figures", [])):
                if picture == f"{path.stem}_{figure.name}":
                    return _caption_of(figure, read(path.stem).rows)
    return None


def _caption_of(figure: SweepFigure, runs: DataFrame) -> str | None:
    if "dataset" not in runs:
        return None
    # Evidence has no curves, but a line of each run.
    points = runs.assign(line=runs["name"]) if figure.curve else points_of(figure, runs)
    return caption_of(figure, runs, points)


def made(page: str) -> str:
    """Return the text of a page with its tables and figures as the evidence has them."""

    def of_table(found: re.Match[str]) -> str:
        try:
            spec = TableSpec.model_validate(yaml.safe_load(found[2]))
        except ValidationError as error:
            raise from_pydantic(error, "table") from error
        return f"{found[1]}\n{table(spec)}\n"

    def of_figure(found: re.Match[str]) -> str:
        rows = read(found[2]).rows
        runs = rows[rows["name"] == found[3]]
        if runs.empty:
            raise InputError(
                f"figure of {found[2]}", found[3], f"must be a run: {some(rows['name'])}"
            )
        return found[1] + figure_of(found[4], runs)

    def of_picture(found: re.Match[str]) -> str:
        text = caption(found[2])
        return found[0] if text is None else f"{found[1]}*{text}*"

    page = _TABLE.sub(of_table, page)
    page = _CAPTION.sub(of_picture, page)
    page = _OUTPUT.sub(lambda found: found[1] + indent(output(found[2]), "    ") + "\n", page)
    page = _LIST.sub(lambda found: f"{found[1]}\n{evidence_list()}\n", page)
    return _FIGURE.sub(of_figure, page)


def differences() -> Iterator[str]:
    """Yield what of the pages and pictures is not as the evidence has it."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        name = str(page.relative_to(HOME))
        pair = (text.splitlines(), made(text).splitlines())
        yield from unified_diff(*pair, name, f"{name}, by its evidence", n=0, lineterm="")
        for picture in _PICTURE.findall(text):
            if not _is_of_evidence(EVIDENCE / f"{picture}.svg"):
                yield f"{picture}.svg: must be as it was drawn, of its file"
    for name in _unused():
        yield f"{name}.csv: must be shown by a page: its marks have gone"


def _unused() -> Iterator[str]:
    """Yield the files of evidence of which no page has a table, a figure or a picture."""
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    marks = [*_TABLE.finditer(text), *_FIGURE.finditer(text)]
    used = " ".join([*(mark[2] for mark in marks), *_PICTURE.findall(text)])
    for path in sorted(EVIDENCE.glob("*.csv")):
        if re.search(rf"\b{path.stem}(?![a-z0-9])", used) is None:
            yield path.stem


def _is_of_evidence(picture: Path) -> bool:
    """Return whether a picture is whole, and drawn of a file of evidence as it is."""
    if not picture.is_file():
        return False
    *lines, stamp = picture.read_text(encoding="utf-8").splitlines(keepends=True)
    found = re.fullmatch(r"<!-- of (\w+)\.csv \w+ \w+ -->\n", stamp)
    if found is None:
        return False
    return stamp == _STAMP.format(found[1], digest_of(found[1]), _digest("".join(lines)))


def changed() -> Iterator[str]:
    """Yield each ε that the code decides otherwise than it did for the evidence."""
    for path in sorted(EVIDENCE.glob("*.csv")):
        evidence = read(path.stem)
        if evidence.source.get("code", _code()) == _code():
            continue
        if "DIR" in evidence.source["command"] and "NZC_DATA" not in os.environ:
            print(f"{path.name}: code of ε is newer; not checked, as NZC_DATA names no data")
            continue
        rows = evidence.rows
        seconds = rows["seconds.total"] - _of_stage(rows, "student")
        for stage in ("representation", "teachers"):  # where a run found them stored, they are not
            learned = _of_stage(rows, stage)
            longest = rows["dataset"].map(_longest(stage))
            seconds += (longest - learned).where(learned > 0, 0)
        rows = rows.assign(trained=rows["dataset"].map(_longest("teachers")))
        is_finite = np.isfinite(rows["epsilon.published"].astype(float))
        quick = rows[(seconds <= _QUICK) & is_finite].drop_duplicates("name")
        some_of_them = quick.iloc[:: -(-len(quick) // _SETTINGS) or 1].to_dict("records")
        again = [_again(run) for run in some_of_them]
        equal = sum(run is not None for run in again)
        settings = rows["name"].nunique()
        print(f"{path.name}: code of ε is newer; {equal} of {settings} settings computed again")
        for run, epsilon in zip(some_of_them, again, strict=True):
            for key, value in (epsilon or {}).items():
                if number(run.get(key)) != number(value):
                    name = f"{path.name}, {run['name']}: {key}"
                    yield f"{name} is {number(value)} now, and was {number(run.get(key))}"


@cache
def _longest(stage: str) -> Series:
    """Return the most seconds that a stage took on each dataset, of all evidence."""
    parts = []
    for path in EVIDENCE.glob("*.csv"):
        rows = read(path.stem).rows
        if "dataset" in rows:
            parts.append(rows[["dataset"]].assign(seconds=_of_stage(rows, stage)))
    return pandas.concat(parts).groupby("dataset")["seconds"].max()


def _of_stage(rows: DataFrame, stage: str) -> Series:
    """Return the seconds of a stage of each run; 0: it has none."""
    seconds = rows.get(f"seconds.{stage}", Series(0.0, rows.index))
    return seconds.astype(float).fillna(0.0)


def _again(run: Mapping[str, Any]) -> dict[str, float | None] | None:
    """Return every ε of a setting that releases its labels again; None: its data are not here.

    Teachers that are trained again may vote otherwise on another processor. Then ε of these votes
    is left out. So are DP-SGD, whose ε is what was asked for and which learns all there is, and
    networks that all runs found stored: nobody knows how long they take.
    """
    words = []
    for word in shlex.split(run["overrides"]):
        key, _, value = word.partition("=")
        place, _, rest = value.partition("/")
        if place == "DIR":
            value = str(Path(os.environ.get("NZC_DATA", "data")).absolute() / rest)
        elif place.isupper() and rest:
            return None
        if key != "student.steps":
            words.append(f"{key}={value}")
    words += ["hydra.mode=RUN", "tracking=none", "figures=false", "trainer.progress=false"]
    cfg = compose_run(words)
    stored = cfg.hydra.runtime.choices.teachers == "ensemble" and run["trained"] < _TRAINED
    if cfg.baseline or stored:
        return None
    if "steps" in (cfg.student or ()):
        words.append("student.steps=1")
    keys = ["epsilon.published", "epsilon.data_independent"]
    if cfg.hydra.runtime.choices.teachers == "votes":
        keys += ["epsilon.exact", "epsilon.theorem", "epsilon.paper"]
    with TemporaryDirectory() as folder:
        words += [f"paths.output={folder}", f"paths.store={folder}/store"]
        try:
            with redirect_stderr(StringIO()):  # one step of training gives many warnings
                epsilon = asdict(nzc.run(words).epsilon)
        except (InputError, OSError):
            return None
    return {key: epsilon[key.removeprefix("epsilon.")] for key in keys}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="change nothing; fail on differences")
    parser.add_argument("add", nargs="*", metavar="add FOLDER", help="a sweep's folder")
    options = parser.parse_args()
    if options.add == ["draw"]:
        draw_anew()
    elif options.add:
        for folder in options.add[1:]:
            is_run = (Path(folder) / RESULT).is_file()
            print(take_run(Path(folder)) if is_run else take(Path(folder)))
    elif options.check:
        wrong = [*differences(), *changed()]
        print("\n".join(wrong) or "All pages are as their evidence.")
        sys.exit(bool(wrong))
    else:
        for page in PAGES:
            page.write_text(made(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(str(error))
