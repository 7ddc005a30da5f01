"""What trials/fuzz.py feeds: each kind writes its files into a folder, and gives the arguments of `nzc`."""

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from nzc import config

Kind = Callable[[random.Random, Path], list[str]]
KINDS: dict[str, Kind] = {}


def kind(name: str) -> Callable[[Kind], Kind]:
    def register(make: Kind) -> Kind:
        KINDS[name] = make
        return make

    return register


QUIET = ["tracking=none", "figures=false"]
VOTES = ["teachers=votes", "teachers.path=votes.npy", "dataset=none", "student=none", *QUIET]
PLAIN = ["trainer.accelerator=cpu", "trainer.progress=false", *QUIET]
OWN = ["dataset=npz", "dataset.path=data.npz", "teachers.count=3", "teachers.epochs=1", "student.steps=3", *PLAIN]


def quoted(text: str) -> str:
    """As Hydra reads it: in quotes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


#: Values that hardly any key takes, as the command line gives them.
ODD = [
    *("null", "nan", "inf", "-inf", "-1", "0", "1", "2.5", "1e308", "-1e308", "1e-320", "1e400", "true", "abc", "''"),
    *("9" * 400, "-" + "9" * 5000, "1e-400", "10**9", "0x10", "1_000", "١٢٣", "???", "[]", "{}", "[null]", "[[]]"),
    *("{a: {b: [1, 2]}}", "[1,[2,{a: b}]]", "{_target_: os.getcwd}", "{_target_: no.such.thing}", "[1,2,3]", "1,2"),
    *("${nothing}", "${oc.env:NO}", "${aggregator}", "${seed}", "${oc.env:HOME}", "${hydra:run.dir}", "${", "$x", "~"),
    *(".", "..", "/", "missing/file", "/dev/null", "/proc/x", "/proc/self/mem", "votes.npy", "votes.npy/x"),
    *(
        quoted(text)
        for text in ("a" * 10_000, "a" * 300, "שלום‏", "e\u0301" * 20, "🦊" * 50, "line\nbreak", "\t", "\x1b[31m")
    ),
    *(quoted(text) for text in ("%s %d {}", "../../x", "C:\\x", "'", '"', "\u2028", "\x85", "a\rb", "null", "1")),
    "\udcff\udcfe",  # bytes that are no UTF-8
]


def plain_votes(folder: Path, classes: int = 3) -> None:
    np.save(folder / "votes.npy", np.random.default_rng(0).multinomial(20, [1 / classes] * classes, 30))


def plain_data(folder: Path) -> None:
    random = np.random.default_rng(0)
    y = np.arange(90) % 3
    np.savez(folder / "data.npz", x=random.normal(size=(90, 4)) + y[:, None], y=y)


@cache
def keys(*overrides: str) -> list[str]:
    """Every key of a composed configuration, groups' own among them."""
    config.register()
    with initialize_config_dir(str(config.CONF), version_base="1.3"):
        cfg = compose("config", list(overrides))
    found: list[str] = []

    def walk(prefix: str, node: object) -> None:
        if isinstance(node, DictConfig):
            for key in map(str, node):
                found.append(f"{prefix}{key}")
                walk(f"{prefix}{key}.", node._get_node(key))

    walk("", cfg)
    return found


AGGREGATORS = sorted(path.stem for path in (config.CONF / "aggregator").glob("*.yaml"))
BASES = [
    *(("aggregator", [*VOTES, f"aggregator={name}"]) for name in AGGREGATORS),
    ("", VOTES),
    ("teachers", VOTES),
    *(("student", [*OWN, f"student={name}"]) for name in ("supervised", "vat", "softmatch", "gan_ssl")),
    *((group, OWN) for group in ("teachers", "dataset", "trainer", "")),
    ("tracking", [*VOTES[:-2], "tracking=mlflow", VOTES[-1]]),
    *(
        ("dataset", [*VOTES[:2], f"dataset={name}", "student=none", *QUIET])
        for name in ("digits", "glyph", "mnist", "svhn", "adult", "folder")
    ),
]


@kind("config values")
def values(rng: random.Random, folder: Path) -> list[str]:
    group, base = rng.choice(BASES)
    plain_votes(folder)
    plain_data(folder)
    below = [key for key in keys(*base) if key.startswith(f"{group}." if group else "")]
    chosen = rng.sample(below, min(len(below), rng.choice((1, 1, 1, 2, 3))))
    return [
        *base,
        *(f"{rng.choice(('', '', '', '', '', '', '', '', '++', '+'))}{key}={rng.choice(ODD)}" for key in chosen),
    ]


@kind("unknown keys")
def unknown(rng: random.Random, folder: Path) -> list[str]:
    group, base = rng.choice(BASES)
    plain_votes(folder)
    plain_data(folder)
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
    return [*base, f"{rng.choice(('', '', '+', '++', '~'))}{wrong}={rng.choice(ODD)}"]


@kind("group options")
def options(rng: random.Random, folder: Path) -> list[str]:
    plain_votes(folder)
    plain_data(folder)
    groups = ["dataset", "teachers", "aggregator", "student", "trainer", "tracking", "+sweeps", "hydra/launcher"]
    names = [path.stem for path in config.CONF.glob("*/*.yaml") if path.stem not in ("glyph", "adult", "forest")]
    chosen = rng.choice((rng.choice(ODD), *(rng.choice(names) for _ in range(3)), "sub/no", "npz.yaml", "digits@x"))
    flags = [["--multirun"], ["--cfg", "job"], ["--cfg", "no"], ["--help"], ["--no-such"], ["--resolve"], ["-cn", "x"],
             ["--info"], ["--package", "x"], ["--config-dir", "no"], ["--multirun", "--multirun"]]  # fmt: skip
    small = ["teachers.count=3", "teachers.epochs=1", "++student.steps=3"] if chosen != "votes" else []
    return [*rng.choice((VOTES, OWN, [*small, *PLAIN])), f"{rng.choice(groups)}={chosen}",
            *(rng.choice(flags) if rng.random() < 0.2 else [])]  # fmt: skip


#: What does not go together, or strains what does: with votes from a file, then with one's own arrays.
WITH_VOTES = """
student=supervised
rounds=[10,10] queries=5
rounds=[30,0]
rounds=40
rounds=[]
rounds=2
query_choice=entropy
aggregator=ground_truth
aggregator=interactive
budget.epsilon=1 aggregator=plurality
budget.epsilon=1e-300
audit=true audit_trials=100
audit=true aggregator=plurality audit_trials=100
sanitise.order=1.0000000001
sanitise.order=1e300 sanitise.beta=1e-300
delta=1e-320
delta=0.9999999999999999
aggregator.sigma=1e308
aggregator.sigma=1e-308
aggregator=lnmax aggregator.gamma=1e308
aggregator=nzc aggregator.c=1e308 aggregator.sensitivity=smooth aggregator.beta=1e308
aggregator=confident aggregator.threshold=-1e308
objective=no
hydra.run.dir=. seed=-1
hydra.run.dir=conf seed=-1
hydra.run.dir=.
hydra.run.dir=outputs delta=2
objective=[1,2]
--multirun objective=no
hydra.run.dir=. seed=-1
hydra.run.dir=conf seed=-1
hydra.run.dir=.
hydra.run.dir=outputs delta=2
--multirun aggregator.sigma=-1,abc
--multirun seed=
"""
WITH_ARRAYS = """
dataset=none
teachers=votes teachers.path=votes.npy
query_choice=entropy queries=3
aggregator=interactive
teachers.count=91
teachers.count=63 teachers.stratify=true
student.batch_size=10**6
student.folds=50
student.folds=2 queries=1
student.validation=0.999
student.validation=0.5 queries=1
teachers.network=cnn
student.network=resnet32
student.network=gan
student=gan_ssl student.network=mlp
student=gan_ssl student.network=gan_conv
dataset.private=0.9 dataset.public=0.2
dataset.private=0
trainer.precision=16-true
trainer.accelerator=gpu
trainer.accelerator=tpu
trainer.precision=64-true
+trainer.max_steps=0
+trainer.fast_dev_run=true
+trainer.max_time=x
+trainer.max_epochs=2
+trainer.logger=true
+trainer.callbacks=x
+trainer.limit_train_batches=0
trainer.devices=0
+trainer.enable_progress_bar=true
+trainer.gradient_clip_val=-1
+trainer.default_root_dir=/proc/x
+trainer.overfit_batches=1
+trainer.profiler=simple
+trainer.enable_checkpointing=true
dataset.augment.rotate=5
student=vat student.unlabelled=1
student=softmatch student.unlabelled=10**5
teachers.lr=1e308
student.lr=1e308
student.weight_decay=1e308
student.wrong=0.999
aggregator=confident aggregator.threshold=1e9
teachers.batch_size=10**9
teachers.parallel=10**6
paths.store=outputs
paths.output=.nzc
paths.store=votes.npy
paths.output=data.npz
teachers=sklearn teachers.estimator.n_estimators=0
teachers=sklearn teachers.estimator._target_=builtins.dict
teachers=sklearn +teachers.estimator.C=1
teachers=sklearn teachers.estimator=null
"""
PAIRS = [
    [*base, *line.split()]
    for base, lines in ((VOTES, WITH_VOTES), (OWN, WITH_ARRAYS))
    for line in lines.split("\n")[1:-1]
]


@kind("pairs")
def pairs(rng: random.Random, folder: Path) -> list[str]:
    plain_votes(folder)
    plain_data(folder)
    given = rng.choice(PAIRS)
    removed = ["teachers.epochs=1"] if "teachers=sklearn" in given else []
    if "teachers=votes" in given[-2:]:
        removed = ["teachers.epochs=1", "teachers.count=3"]
    return [argument for argument in given if argument not in removed]


#: What may stand in a YAML file.
YAML = [
    "", "a", "[", "{", "\t- x", "- a\n- b", "sweep: 1", "sweep: [1]", "sweep: {rows: 1}", "sweep: {rows: [1]}",
    "sweep: {rows: [{}]}", "sweep: {rows: [{name: a}]}", "sweep: {rows: [{name: 1, set: 3}]}",
    "sweep: {rows: [{name: a, set: [3]}]}", "a: &a [*a]", "sweep: {rows: [{name: a, set: ['seed=1']}], figures: 3}",
    "sweep: {rows: [{name: a, set: ['seed=']}], figures: [3]}", "sweep: {rows: [{name: a, set: ['sed=1']}]}",
    "sweep: {rows: [{name: a, set: 'seed=1'}]}", "sweep: {rows: {a: b}}",
    "sweep: {figures: [{name: a, x: seed, y: nothing}]}", "sweep: {figures: [{name: '../../x', x: seed, y: queries}]}",
    "sweep: {figures: [{name: a, x: seed, y: 3}]}", "sweep: {figures: [{name: a, x: [1], y: queries}]}",
    "sweep: {figures: {}}", "sweep: {figures: [{name: a, curve: no}]}",
    "sweep: {figures: [{name: a, x: seed, y: queries, ylim: [nan, 1]}]}", "sweep: {only: 3}",
    "sweep: {rows: [{name: a, set: ['seed=1'], printed: 3}]}", "sweep: {rows: [{name: [a], set: []}]}",
    "sweep: {rows: [{name: a, set: [null]}]}", "sweep: {rows: [{name: null, set: []}]}", "sweep: ${nothing}",
    "sweep: ???", "defaults: [nothing]", "defaults: 3", "defaults: [/aggregator: no]",
    "defaults: [{override /aggregator: [a, b]}]", "seed: abc", "unknown: 1", "seed: 1\nseed: 2", "? [a, b]\n: c",
    "!!python/object/apply:os.system ['touch PAYLOAD']", "--- 1\n--- 2", "1: 2", "\x00", "\ufeffseed: 1",
    "seed: 1\n\xa0x", "seed: " + "9" * 5000, "null: null", "true: false", "seed: 2020-01-01",
    "_target_: os.system\ncommand: touch PAYLOAD", "mechanism: {_target_: nzc.mechanisms.NoisyArgmax}",
    "mechanism: {_target_: 3}", "mechanism: 3", "mechanism: null", "mechanism: [1]", "hydra: {run: {dir: x}}",
    "hydra: 3", "# @package nothing\na: 1", "# @package _global_\nseed: -1", "# @package _global_\nsed: 1",
    "a: '" + "x" * 10**6 + "'", "{" * 200, "[" * 2000,
]  # fmt: skip


@kind("own yaml")
def own_yaml(rng: random.Random, folder: Path) -> list[str]:
    """A sweep file, or an option of a group, of the person's own."""
    plain_votes(folder)
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


class Payload:
    """What a pickle must not be read for."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("PAYLOAD"),)


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Cut short, flipped, doubled, or with something else in the middle."""
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
