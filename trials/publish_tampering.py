"""The ways in which trials/publish.py tampers with a run, its ledger and the destination."""

import itertools
import json
import os
import shutil
import socket
import sqlite3
import sys
from collections.abc import Callable
from contextlib import chdir, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

Tamper = Callable[[Path], Any]
#: The names of the run, of another one in the same store, and of the folder to publish into.
RUN, OTHER, TARGET = "run", "other", "out"
_LEDGER, _CONFIG = Path(".nzc") / "ledger.db", Path(".hydra") / "config.yaml"
#: The files that publishing reads.
_READ = ("result.json", "labels.csv", "predictions.csv", "student.json", "student.pt2", str(_CONFIG))
_MISSING = object()


def _change_result(key: str, value: object, home: Path) -> None:
    """Change the value of a dotted key of result.json."""
    path = home / RUN / "result.json"
    result = json.loads(path.read_text())
    *sections, name = key.split(".")
    section = result
    for each in sections:
        section = section[each]
    if value is _MISSING:
        del section[name]
    else:
        section[name] = value
    path.write_text(json.dumps(result, indent=2))


def _change_config(key: str, value: object, home: Path) -> None:
    """Change the value of a dotted key of the stored configuration."""
    path = home / RUN / _CONFIG
    config = OmegaConf.load(path)
    OmegaConf.update(config, key, value, force_add=True)
    OmegaConf.save(config, path)


def _change_both(home: Path) -> None:
    """Claim a tenth of the noise scale, and the ε of it, in configuration and result alike."""
    _change_config("aggregator.gamma", 0.02, home)
    _change_result("mechanism", "NoisyArgmax(GumbelNoise(gamma=0.02), moved=2)", home)
    _change_result("epsilon.published", 0.0966, home)
    _change_result("epsilon.data_independent", 0.0966, home)


def _change_lines(name: str, change: Callable[[list[str]], list[str]], home: Path) -> None:
    """Change the lines of a file."""
    path = home / RUN / name
    path.write_text("".join(f"{line}\n" for line in change(path.read_text().splitlines())))


def _relabel(lines: list[str]) -> list[str]:
    """Change the label of the first row."""
    head, first, *rest = (line.split(",") for line in lines)
    at = head.index("label")
    first[at] = str((int(first[at]) + 1) % 10)
    return [",".join(cells) for cells in (head, first, *rest)]


def _replace(name: str | Path, make: Callable[[Path], object], home: Path) -> None:
    """Remove a file of the run, and make something else in its place."""
    path = home / RUN / name
    path.unlink()
    make(path)


def _socket(path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as one, chdir(path.parent):  # the name of a socket is short
        one.bind(path.name)


def _device(path: Path) -> None:
    """Make a device that never ends, or, without the right to do so, a link to it."""
    try:
        os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))
    except PermissionError:
        path.symlink_to("/dev/zero")


def _link_to_copy(path: Path) -> None:
    """Make a link to an equal file outside the run."""
    path.symlink_to(_root(path).parent / "good" / path.relative_to(_root(path)))


def _root(path: Path) -> Path:
    """Return the folder that has the run."""
    return next(parent for parent in path.parents if (parent / RUN).is_dir())


def _other(path: Path) -> Path:
    """Return the same file of the other run."""
    return _root(path) / OTHER / path.relative_to(_root(path) / RUN)


_INSTEAD: dict[str, Callable[[Path], object]] = {
    "link to the ledger": lambda path: path.symlink_to(_root(path) / _LEDGER),
    "relative link to the ledger": lambda path: path.symlink_to(os.path.relpath(_root(path) / _LEDGER, path.parent)),
    "link to the other run's": lambda path: path.symlink_to(_other(path)),
    "link to an equal file": _link_to_copy,
    "link to itself": lambda path: path.symlink_to(path),
    "link to nothing": lambda path: path.symlink_to("missing"),
    "hard link to the ledger": lambda path: os.link(_root(path) / _LEDGER, path),
    "hard link to the other run's": lambda path: os.link(_other(path), path),
    "FIFO": os.mkfifo,
    "socket": _socket,
    "device": _device,
    "folder": Path.mkdir,
    "nothing": lambda path: None,
    "empty file": lambda path: path.write_bytes(b""),
    "not UTF-8": lambda path: path.write_bytes(b"\xff\xfe\x00"),
}


def _link_settings(home: Path) -> None:
    """Replace the run's folder of settings by a link to the other run's."""
    shutil.rmtree(home / RUN / ".hydra")
    (home / RUN / ".hydra").symlink_to(home / OTHER / ".hydra")


def _mix(names: list[str], home: Path) -> None:
    """Replace files of the run by the other run's."""
    for name in names:
        shutil.copy(home / OTHER / name, home / RUN / name)


def _empty(home: Path, table: str | None = None) -> None:
    """Delete all rows of the ledger, or those of one table."""
    with closing(sqlite3.connect(home / _LEDGER)) as connection:
        found = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in found if table is None else set(found) & {table}:
            connection.execute(f"DELETE FROM {name}")
        connection.commit()


def _only_releases(home: Path) -> None:
    """Leave what older versions wrote: entries, without digests of files."""
    with closing(sqlite3.connect(home / _LEDGER)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in set(names) - {"releases"}:
            connection.execute(f"DROP TABLE {name}")
        connection.commit()


def _delete_newest(home: Path) -> None:
    """Delete the entry of the run, which was recorded last."""
    with closing(sqlite3.connect(home / _LEDGER)) as connection:
        connection.execute("DELETE FROM releases WHERE rowid = (SELECT max(rowid) FROM releases)")
        connection.commit()


@dataclass(frozen=True)
class Swap:
    """Replaces labels.csv by the other run's, before the process opens it for the `call`-th time."""

    home: Path
    call: int

    def install(self) -> None:
        mine, numbers = self.home / RUN / "labels.csv", itertools.count(1)
        foreign = (self.home / OTHER / "labels.csv").read_bytes()

        def watch(event: str, arguments: tuple[Any, ...]) -> None:
            if event != "open" or not isinstance(arguments[0], str | os.PathLike) or arguments[2] & os.O_ACCMODE:
                return
            if Path(arguments[0]).name == mine.name and next(numbers) == self.call:
                file = os.open(mine, os.O_RDWR | os.O_TRUNC)
                os.write(file, foreign)
                os.close(file)

        sys.addaudithook(watch)


_NUMBERS: dict[str, object] = {"-1": -1, "NaN": float("nan"), "true": True, "0.001": 0.001, '"0.1"': "0.1", "0": 0}
_NUMBERS |= {"1e-300": 1e-300, "null": None, "missing": _MISSING, "[0.1]": [0.1], "1e999": float("inf"), '"inf"': "inf"}
_VALUES: dict[str, tuple[object, ...]] = {
    "delta": (0.9, 1e-300, "x", _MISSING),
    "rng": ("seeded", "dice", None, _MISSING),
    "mechanism": ("NoisyArgmax(GaussianNoise(sigma=1e6))", 3, _MISSING),
    "aggregator": ("ground_truth", "gnmax", _MISSING),
    "queries": (1, 10**9, -1),
    "answered": (0, 1, 10**9, "15"),
    "unit": ("group", "teacher", "nobody"),
    "publish": ("sanitised", "none"),
    "neighbours": ("no record differs",),
    "student": ("none", "../../x"),
    "teachers.count": (10**6, 0),
    "epsilon.data_independent": (0.001,),
    "epsilon.audited": (0.001, "<script>"),
    "rounds": ([], [{"asked": 1}], 3),
    "dataset": ("# heading", 3),
    "accuracy": (1.0,),
    "finished": ("1970-01-01T00:00:00+00:00",),
    "versions": ({}, {"nzc": "9"}),
}
#: The case in which nzc may change the ledger: it adds tables.
OLDER = "of an older version"
#: Every case by kind and name: a function that changes the folder of both runs. A Swap that it returns is
#: installed in the process that publishes.
CASES: dict[str, dict[str, Tamper]] = {
    "epsilon.published": {text: partial(_change_result, "epsilon.published", it) for text, it in _NUMBERS.items()},
    "result.json": {
        f"{key} {'missing' if value is _MISSING else value}": partial(_change_result, key, value)
        for key, values in _VALUES.items()
        for value in values
    },
    "labels and predictions": {
        f"{name}: {what}": partial(_change_lines, name, change)
        for name in ("labels.csv", "predictions.csv")
        for what, change in {
            "a line of another": lambda lines: [*lines, lines[-1]],
            "a line less": lambda lines: lines[:-1],
            "no line": lambda lines: lines[:1],
            "another label": _relabel,
            "lines in another order": lambda lines: [lines[0], *reversed(lines[1:])],
            "a formula": lambda lines: [*lines, "=HYPERLINK(1)"],
        }.items()
    },
    "links, devices, damage": {
        f"{name}: {what}": partial(_replace, name, make) for name in _READ for what, make in _INSTEAD.items()
    }
    | {".hydra: link to the other run's": _link_settings},
    "ledger": {
        "deleted": lambda home: (home / _LEDGER).unlink(),
        "store deleted": lambda home: shutil.rmtree(home / ".nzc"),
        "no row": _empty,
        "no release": partial(_empty, table="releases"),
        "an empty file": lambda home: (home / _LEDGER).write_bytes(b""),
        "half a file": lambda home: os.truncate(home / _LEDGER, (home / _LEDGER).stat().st_size // 2),
        "of a stranger": lambda home: shutil.copy(home.parent / "stranger" / _LEDGER, home / _LEDGER),
        "an older copy": lambda home: shutil.copy(home.parent / "older.db", home / _LEDGER),
        "the run's entry deleted": _delete_newest,
        OLDER: _only_releases,
        **{what: partial(_replace, Path("..") / _LEDGER, _INSTEAD[what]) for what in ("folder", "FIFO")},
    },
    "configuration": {
        f"{key}={value}": partial(_change_config, key, value)
        for key, value in {
            "aggregator.gamma": 0.02, "aggregator._target_": "nzc.GNMax", "queries": 1, "budget.epsilon": 0.001,
            "delta": 0.5, "seed": 1, "rng": "seeded", "teachers.count": 10**6, "publish": "sanitised",
            "paths.store": "elsewhere", "answers": 1, "dataset._target_": "nzc.data.mnist.MNIST",
        }.items()
    }
    | {"and result alike": _change_both},
    "two runs mixed": {
        names: partial(_mix, names.split())
        for names in (*_READ, "student.pt2 student.json", f"result.json {_CONFIG}", "labels.csv predictions.csv")
    },
    "changed while it is read": {
        f"before opening {call} of labels.csv": partial(Swap, call=call) for call in (1, 2, 3)
    },
}  # fmt: skip
#: How the destination is prepared, and its name.
DESTINATIONS: dict[str, tuple[Tamper, str]] = {
    "an empty folder": (lambda home: (home / TARGET).mkdir(), TARGET),
    "a file": (lambda home: (home / TARGET).write_text("own"), TARGET),
    "a link to a folder": (lambda home: (home / TARGET).symlink_to(home / OTHER), TARGET),
    "a link to nothing": (lambda home: (home / TARGET).symlink_to(home / "missing"), TARGET),
    "a FIFO": (lambda home: os.mkfifo(home / TARGET), TARGET),
    "the run": (lambda home: None, RUN),
    "inside the run": (lambda home: None, f"{RUN}/{TARGET}"),
    "inside the run, by ..": (lambda home: None, f"{OTHER}/../{RUN}/{TARGET}"),
    "inside the run, by a link": (lambda home: (home / "link").symlink_to(home / RUN), f"link/{TARGET}"),
    "below a file": (lambda home: (home / TARGET).write_text("own"), f"{TARGET}/below"),
    "the working directory": (lambda home: None, "."),
    "empty": (lambda home: None, ""),
    "a long name": (lambda home: None, "x" * 300),
}
