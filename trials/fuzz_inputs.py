"""Configurations for trials/fuzz.py. Each kind of input writes its files into a folder, and returns the arguments."""

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_tables import ARRAYS, PLAIN, QUIET, SUBCOMMANDS, VALUES, VOTES, WITH_ARRAYS, WITH_VOTES, YAML
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from nzc.app.config import CONF, GROUPS, register

Kind = Callable[[random.Random, Path], list[str]]
#: Every kind of input by its name.
KINDS: dict[str, Kind] = {}


def kind(name: str) -> Callable[[Kind], Kind]:
    """Register a function as the kind of input of this name."""

    def add(function: Kind) -> Kind:
        KINDS[name] = function
        return function

    return add


class Payload:
    """An object whose pickle creates a file when it is loaded. No input may load it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("PAYLOAD"),)


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Return the data truncated, with flipped bits, with other bytes in the middle, doubled, or replaced."""
    at = rng.randrange(len(data) + 1)
    match rng.randrange(6):
        case 0:
            return data[:at]
        case 1 | 2:
            flipped = bytearray(data)
            for _ in range(rng.choice((1, 1, 3, 30))):
                if flipped:
                    flipped[rng.randrange(min(len(flipped), rng.choice((64, 256, 10**9))))] ^= 1 << rng.randrange(8)
            return bytes(flipped)
        case 3:
            return data[:at] + rng.randbytes(rng.choice((1, 10, 1000))) + data[at:]
        case 4:
            return data + data
        case _:
            return rng.choice(
                (b"", b"\x00" * 100, b"\x80\x04.", b"PK\x05\x06" + b"\x00" * 18, b"\x93NUMPY", rng.randbytes(100))
            )


def write_votes(folder: Path, classes: int = 3) -> None:
    """Write a valid votes.npy of 20 teachers and 30 queries."""
    np.save(folder / "votes.npy", np.random.default_rng(0).multinomial(20, [1 / classes] * classes, 30))


def write_arrays(folder: Path) -> None:
    """Write a valid data.npz of 90 rows, 4 features and 3 classes."""
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    np.savez(folder / "data.npz", x=rng.normal(size=(90, 4)) + y[:, None], y=y)


@cache
def keys(*overrides: str) -> list[str]:
    """Return every key of a composed configuration, those of its groups included."""
    register()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("config", list(overrides))
    found: list[str] = []

    def walk(prefix: str, node: object) -> None:
        if isinstance(node, DictConfig):
            for key in map(str, node):
                found.append(f"{prefix}{key}")
                walk(f"{prefix}{key}.", node._get_node(key))

    walk("", cfg)
    return found


def waiting(seconds: int) -> list[str]:
    """Return the override that limits how long nzc waits for others, where there is one."""
    return [f"wait={seconds}"] if "wait" in keys() else []


AGGREGATORS = sorted(path.stem for path in (CONF / "aggregator").glob("*.yaml"))
#: Overrides of a valid run, and the group whose keys are changed in it; an empty name stands for all keys.
BASES = [
    *(("aggregator", [*VOTES, f"aggregator={name}"]) for name in AGGREGATORS),
    ("", VOTES),
    ("teachers", VOTES),
    *(("student", [*ARRAYS, f"student={name}"]) for name in ("supervised", "vat", "softmatch", "gan_ssl")),
    *((group, ARRAYS) for group in ("teachers", "dataset", "trainer", "")),
    ("tracking", [*VOTES[:-2], "tracking=mlflow", VOTES[-1]]),
    *(
        ("dataset", [*VOTES[:2], f"dataset={name}", "student=none", *QUIET])
        for name in ("digits", "glyph", "mnist", "svhn", "adult", "folder")
    ),
]


@kind("config values")
def values(rng: random.Random, folder: Path) -> list[str]:
    """One to three keys have values that they do not accept."""
    group, base = rng.choice(BASES)
    write_votes(folder)
    write_arrays(folder)
    below = [key for key in keys(*base) if key.startswith(f"{group}." if group else "")]
    chosen = rng.sample(below, min(len(below), rng.choice((1, 1, 1, 2, 3))))
    return [
        *base,
        *(f"{rng.choice(('', '', '', '', '', '', '', '', '++', '+'))}{key}={rng.choice(VALUES)}" for key in chosen),
    ]


@kind("unknown keys")
def unknown(rng: random.Random, folder: Path) -> list[str]:
    """A key is misspelt, or is not one that nzc knows."""
    group, base = rng.choice(BASES)
    write_votes(folder)
    write_arrays(folder)
    key = rng.choice(keys(*base))
    cut = rng.randrange(len(key) + 1)
    wrong = rng.choice(
        (
            key[:cut] + rng.choice("xé.0_-=@/ ~") + key[cut:],
            key[:cut] + key[cut + 1 :],
            f"{key}.{rng.choice(('more', 'more.yet', '0', '_target_', 'a b', 'שלום'))}",
            f"{group}@{key}",
            f"{group}/{key}",
            "hydra.run",
            "hydra.job.chdir",
            rng.choice(("hydra/launcher", "hydra/sweeper", "hydra", "defaults", "tuned/student", "sweeps", "a.b.c.d")),
        )
    )
    return [*base, f"{rng.choice(('', '', '+', '++', '~'))}{wrong}={rng.choice(VALUES)}"]


@kind("group options")
def options(rng: random.Random, folder: Path) -> list[str]:
    """A group has an option that does not exist, or that does not fit the other groups; sometimes with a flag."""
    write_votes(folder)
    write_arrays(folder)
    groups = [*GROUPS, "+sweeps", "hydra/launcher"]
    names = [path.stem for path in CONF.glob("*/*.yaml") if path.stem not in ("glyph", "adult", "forest")]
    chosen = rng.choice((rng.choice(VALUES), *(rng.choice(names) for _ in range(3)), "sub/no", "npz.yaml", "digits@x"))
    flags = [["--multirun"], ["--cfg", "job"], ["--cfg", "no"], ["--help"], ["--no-such"], ["--resolve"], ["-cn", "x"],
             ["--info"], ["--package", "x"], ["--config-dir", "no"], ["--multirun", "--multirun"]]  # fmt: skip
    small = ["teachers.count=3", "teachers.epochs=1", "++student.steps=3"] if chosen != "votes" else []
    return [*rng.choice((VOTES, ARRAYS, [*small, *PLAIN])), f"{rng.choice(groups)}={chosen}",
            *(rng.choice(flags) if rng.random() < 0.2 else [])]  # fmt: skip


PAIRS = [
    [*base, *line.split()]
    for base, lines in ((VOTES, WITH_VOTES), (ARRAYS, WITH_ARRAYS))
    for line in lines.split("\n")[1:-1]
]


@kind("pairs")
def pairs(rng: random.Random, folder: Path) -> list[str]:
    """Overrides do not fit together, or are extreme."""
    write_votes(folder)
    write_arrays(folder)
    given = rng.choice(PAIRS)
    removed = ["teachers.epochs=1"] if "teachers=sklearn" in given else []
    if "teachers=votes" in given[-2:]:
        removed = ["teachers.epochs=1", "teachers.count=3"]
    return [argument for argument in given if argument not in removed]


@kind("own yaml")
def own_yaml(rng: random.Random, folder: Path) -> list[str]:
    """A sweep file, or an option of a group, is the user's own."""
    write_votes(folder)
    text = rng.choice(YAML)
    head = "# @package _global_\n"
    where, argument = rng.choice(
        (*[("sweeps/mine.yaml", "+sweeps=mine")] * 3, ("conf/aggregator/mine.yaml", "aggregator=mine"),
         ("conf/student/mine.yaml", "student=mine"), ("conf/dataset/mine.yaml", "dataset=mine"),
         ("conf/config.yaml", "aggregator=gnmax"), ("conf/tracking/mine.yaml", "tracking=mine"))
    )  # fmt: skip
    path = folder / where
    path.parent.mkdir(parents=True)
    data = ((head if where.startswith("sweeps") and rng.random() < 0.8 else "") + text).encode()
    match rng.randrange(12):
        case 0:
            data = damaged(rng, data)
        case 1:
            path.mkdir()
        case 2:
            data = text.encode("utf-16")
    if not path.is_dir():
        path.write_bytes(data)
    return [*VOTES, argument, *(["--multirun"] if "sweeps" in where and rng.random() < 0.7 else [])]


@kind("subcommands")
def subcommands(rng: random.Random, folder: Path) -> list[str]:
    """A subcommand is given folders that no run has written, or arguments that it does not accept."""
    write_votes(folder)
    for name in ("conf", ".nzc"):
        (folder / name / "predictions").mkdir(parents=True)
        (folder / name / "predictions" / rng.choice(("a.npz", "a.work", "a", "a.damaged-0"))).write_bytes(b"x")
    (
        folder / "conf" / rng.choice(("tracking.json", "result.json", "multirun.yaml", "jobs.json", "ledger.db"))
    ).write_bytes(rng.choice((b"", b"x", b"{}", b"[]", b"null", b'{"sent": false}', b"\xff")))
    return rng.choice(SUBCOMMANDS.split("\n")[1:-1]).split()
