"""Pipes, devices and huge counts for trials/fuzz.py: what has no end, or does not fit into memory."""

import os
import random
import shutil
import socket
from collections.abc import Callable
from contextlib import chdir, closing
from pathlib import Path

import numpy as np
from fuzz_commands import finished_run
from fuzz_inputs import kind, waiting, write_arrays, write_votes
from fuzz_tables import ARRAYS, PLAIN, QUIET, VOTES
from PIL import Image


def _socket(path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as one, chdir(path.parent):  # the name of a socket is short
        one.bind(path.name)


#: What is put in the place of a file.
SPECIAL: list[Callable[[Path], object]] = [
    os.mkfifo,
    os.mkfifo,
    _socket,
    *(lambda path, to=to: path.symlink_to(to)
      for to in ("/dev/zero", "/dev/random", "/dev/full", "/dev/null", "/dev/tty", "/dev/stdin", "/proc/self/mem",
                 "/proc/kmsg", "/dev/ptmx", "/proc/self/fd/0")),
]  # fmt: skip
_TABLE = ["dataset=table", "dataset.label=y", "student=none", "teachers=logistic", "teachers.count=3", *PLAIN]
_FILES = ["student=none", "teachers=votes", "teachers.path=votes.npy", *QUIET]
_TRACKED = [*VOTES, "tracking=mlflow"]
#: The place of the special file, and the arguments that lead to it.
PLACES: list[tuple[str, list[str]]] = [
    ("votes.npy", VOTES),
    ("labels.npy", [*VOTES, "teachers.labels=labels.npy"]),
    ("data.npz", ARRAYS),
    *(
        (name, [*_TABLE, f"dataset.private={private}", f"dataset.public={public}"])
        for private, public in (("private.csv", "public.csv"), ("private.parquet", "public.arrow"))
        for name in (private, public)
    ),
    ("test.csv", [*_TABLE, "dataset.private=private.csv", "dataset.public=public.csv", "dataset.test=test.csv"]),
    *(
        (name, ["dataset=folder", "dataset.path=images", "teachers=logistic", "student=none", *PLAIN])
        for name in ("images/b/5.png", "images/b", "images")
    ),
    ("data/MNIST/raw/train-images-idx3-ubyte", ["dataset=mnist", "dataset.root=data", *_FILES]),
    ("data/train_32x32.mat", ["dataset=svhn", "dataset.root=data", "dataset.extra=false", *_FILES]),
    ("data/adult/adult.data", ["dataset=adult", "dataset.root=data", *_FILES]),
    ("fonts/own.ttf", ["dataset=glyph", "dataset.fonts=fonts", "dataset.private=300", *_FILES]),
    *((name, VOTES) for name in (".nzc/ledger.db", ".nzc", "outputs", "conf", "conf/aggregator")),
    ("conf/aggregator/own.yaml", [*VOTES, "aggregator=own"]),
    (".nzc/predictions", ARRAYS),
    *((name, _TRACKED) for name in ("mlflow.db", "mlartifacts", "mlflow.db-journal")),
    ("new.npy", ["predict", "run", "new.npy"]),
    *((f"run/{name}", ["predict", "run", "records.npy"]) for name in ("student.pt2", "student.json")),
    *((f"run/{name}", ["report", "run"]) for name in ("result.json", "report.html", ".hydra/config.yaml")),
    *((f"run/{name}", ["publish", "run", "copy"]) for name in ("result.json", "labels.csv", ".hydra/config.yaml")),
    *((f"run/{name}", ["sync", "run"]) for name in ("tracking.json", ".tracking.lock")),
    *((name, ["store"]) for name in (".nzc/ledger.db", ".nzc/predictions/x.npz", ".nzc/predictions")),
]  # fmt: skip


def write_all(folder: Path) -> None:
    """Write valid votes, arrays, tables and images."""
    write_votes(folder)
    write_arrays(folder)
    for name in ("private.csv", "public.csv", "test.csv"):
        lines = (f"{i},{i % 7},{'ab'[i % 2]}" for i in range(60))
        (folder / name).write_text("\n".join(["x,z,y", *lines, ""]))
    for name in ("a", "b"):
        (folder / "images" / name).mkdir(parents=True)
        for i in range(10):
            Image.new("RGB", (8, 8), (i, i, i)).save(folder / "images" / name / f"{i}.png")


@kind("special files")
def special(rng: random.Random, folder: Path) -> list[str]:
    """A pipe, a socket or a device is in the place of a file or a folder."""
    place, given = rng.choice(PLACES)
    if given[0] in ("predict", "report", "publish", "sync", "store"):
        finished_run(folder)
        (folder / "run" / "tracking.json").write_text('{"sent": false}')
    write_all(folder)
    path = folder / place
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    rng.choice(SPECIAL)(path)
    return [*given, *waiting(10)] if "=" in given[0] else given


#: Counts that no memory holds, by the run that has them.
COUNTS = {
    "queries answers rounds audit_trials teachers.count": VOTES,
    "teachers.count teachers.batch_size teachers.parallel student.batch_size student.folds queries answers rounds "
    "trainer.devices trainer.num_nodes trainer.threads dataset.classes audit_trials": ARRAYS,
    "dataset.private dataset.public dataset.test teachers.count": ["dataset=glyph", "student=none", *PLAIN],
    "dataset.private dataset.public teachers.count queries": ["dataset=digits", "student=none", *PLAIN],
    "teachers.count teachers.records teachers.parallel teachers.estimator.n_estimators": [
        *ARRAYS, "teachers=forest", "student=none", "teachers.count=3",
    ],
    "student.trees student.leaf": [*(each for each in ARRAYS if "student" not in each), "student=forest"],
    "representation.neighbours representation.dimensions representation.copies representation.power": [
        *ARRAYS, "representation=spectral", "query_choice=representative", "queries=3",
    ],
    "dataset.categories teachers.count": [*_TABLE, "dataset.private=private.csv", "dataset.public=public.csv"],
    "dataset.size": ["dataset=folder", "dataset.path=images", "student=none", "teachers.count=3", *PLAIN],
}  # fmt: skip


@kind("counts")
def counts(rng: random.Random, folder: Path) -> list[str]:
    """A count is larger than any memory, on the command line or in a file of votes."""
    write_all(folder)
    if rng.random() < 0.15:
        number = rng.choice((2 * 10**9, 2**31, 2**53, 2**62, 10**12))
        np.save(
            folder / "votes.npy", np.array([[number, 0, 0], [0, number, 0], [number // 2, number - number // 2, 0]])
        )
        return [*VOTES, f"aggregator={rng.choice(('gnmax', 'lnmax', 'nzc', 'confident', 'stable', 'gumbel'))}"]
    names = rng.choice(list(COUNTS))
    number = rng.choice((2 * 10**9, 10**10, 2**31, 2**32, 2**53, 2**63, 10**18, 10**30))
    return [*COUNTS[names], f"++{rng.choice(names.split())}={number}"]
