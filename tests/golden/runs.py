"""Golden runs: ten small commands whose results must not change when code moves.

    python tests/golden/runs.py            compare today's code with tests/golden/*.json
    python tests/golden/runs.py --write    write the files

Each file holds result.json without clocks, versions and the mechanism's name, and a digest of
labels.csv and one of the student's learning curves. A command runs in a fresh folder with the input
files that `prepare` makes.
"""

import argparse
import json
import math
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent
#: Parts of result.json that may differ between two runs of one command, or that name classes.
CHANGING = ("seconds", "finished", "versions", "mechanism")

FAST = ["tracking=none", "figures=false", "trainer.progress=false", "trainer.accelerator=cpu"]
TEACHERS = ["teachers.count=10", "teachers.epochs=8", "queries=120"]
STUDENT = ["student.steps=60"]
OLDER = [
    "teachers.lr=0.004",
    "student.balance=0",
    "student.label_noise_rate=0",
]  # than what suits digits now
DIGITS = [*FAST, *TEACHERS, *STUDENT, *OLDER]
VOTES = [
    *FAST,
    "teachers=votes",
    "dataset=none",
    "student=none",
    "teachers.path=votes.npy",
    "teachers.labels=labels.npy",
]
TABLE = [*FAST, "dataset=npz", "dataset.path=table.npz", "dataset.unit=record", "teachers.count=12"]

RUNS: dict[str, list[str]] = {
    "gnmax": [*DIGITS, "aggregator=gnmax", "aggregator.sigma=2", "audit=400"],
    "lnmax": [*DIGITS, "aggregator=lnmax", "aggregator.gamma=0.5", "seed=3", "budget.epsilon=30"],
    "confident": [
        *DIGITS,
        "aggregator=confident",
        "aggregator.threshold=6",
        "aggregator.sigma1=2",
        "aggregator.sigma=1",
    ],
    "interactive": [
        *DIGITS,
        "aggregator=interactive",
        "aggregator.threshold=3",
        "aggregator.sigma1=1.5",
        "aggregator.sigma=1.5",
        "aggregator.first.sigma=2",
        "aggregator.confidence=0.5",
        "rounds=[60,60]",
    ],
    "nzc_local": [
        *DIGITS,
        "aggregator=nzc",
        "aggregator.c=3",
        "aggregator.gamma=0.5",
        "aggregator.sensitivity=local",
    ],
    "votes": [*VOTES, "aggregator=gnmax", "aggregator.sigma=20", "delta=1e-6"],
    "votes_confident": [
        *VOTES,
        "aggregator=confident",
        "aggregator.threshold=120",
        "aggregator.sigma1=40",
        "aggregator.sigma=20",
        "budget.epsilon=4",
        "sanitise.order=8",
        "sanitise.beta=0.02",
    ],
    "forest": [
        *TABLE,
        "teachers=forest",
        "teachers.estimator.n_estimators=5",
        "student.steps=60",
        "aggregator.sigma=1",
    ],
    "sklearn": [
        *TABLE,
        "teachers=sklearn",
        "teachers.estimator._target_=sklearn.tree.DecisionTreeClassifier",
        "student=vat",
        "student.steps=60",
        "aggregator=lnmax",
        "aggregator.gamma=0.4",
    ],
    "sweep": ["--multirun", *VOTES, "aggregator=lnmax", "aggregator.gamma=0.02,0.05", "seed=0,1"],
}


def prepare(folder: Path) -> None:
    """Write votes.npy, labels.npy and table.npz into `folder`."""
    rng = np.random.default_rng(7)
    labels = rng.integers(0, 10, 300)
    agree = rng.beta(3, 1, 300)[:, None]
    shares = np.where(np.arange(10) == labels[:, None], agree, (1 - agree) / 9)
    np.save(folder / "votes.npy", rng.multinomial(250, shares / shares.sum(axis=1, keepdims=True)))
    np.save(folder / "labels.npy", labels)
    y = rng.integers(0, 3, 900)
    x = rng.normal(size=(900, 6)) + y[:, None]
    place = np.argsort(np.random.default_rng(0).permutation(300)).repeat(3)  # of the 300 groups
    role = np.select([place < 210, place < 270], ["private", "public"], "test")
    np.savez(
        folder / "table.npz", x=x.astype(np.float32), y=y, group=np.arange(900) // 3, role=role
    )


def run(folder: Path, overrides: list[str]) -> dict[str, Any]:
    """Run `nzc` with `overrides` in `folder`; return what it leaves."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run(
        [sys.executable, "-m", "nzc", *overrides],
        cwd=folder,
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return results(folder, overrides)


def results(folder: Path, overrides: list[str]) -> dict[str, Any]:
    """Return the results of the runs in `folder` without CHANGING, and digests of their labels and
    curves.
    """
    paths = sorted(folder.glob("outputs/**/result.json"))
    labels = "".join((path.parent / "labels.csv").read_text() for path in paths)
    curves = sorted(path.read_text() for path in folder.glob("outputs/**/student.csv"))
    points = sorted(line.split(",", 1)[1] for text in curves for line in text.splitlines())
    return {
        "overrides": overrides,
        "results": [
            {k: v for k, v in json.loads(p.read_text()).items() if k not in CHANGING} for p in paths
        ],
        "labels": sha256(labels.encode()).hexdigest(),
        "learning_curves": sha256("\n".join(points).encode()).hexdigest(),
    }


def _leaves(tree: Any, where: str = "") -> dict[str, Any]:
    """Return the values of a result by their place."""
    if isinstance(tree, list):
        tree = {"length": len(tree)} | dict(enumerate(tree))
    if not isinstance(tree, dict):
        return {where: tree}
    found = {}
    for key, value in tree.items():
        found |= _leaves(value, f"{where}.{key}")
    return found


def differences(before: Any, now: Any, near: float = 0.0) -> list[str]:
    """What of `before` is not the same in `now`; keys that were added are no difference.

    near  how far numbers may be apart, relatively, because processors add in different orders; 0:
          not at all
    """
    found = _leaves(now)
    lines = []
    for where, value in _leaves(before).items():
        other = found.get(where)
        numbers = isinstance(value, float) and isinstance(other, float)
        if value != other and not (numbers and math.isclose(value, other, rel_tol=near)):
            lines.append(f"{where[1:]}: {value} before, {other} now")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the files instead of comparing")
    parser.add_argument("names", nargs="*", default=[*RUNS], help="of runs (default: all)")
    chosen = parser.parse_args()
    changed = []
    for name in chosen.names:
        with TemporaryDirectory() as folder:
            prepare(Path(folder))
            now = run(Path(folder), RUNS[name])
        path = FOLDER / f"{name}.json"
        if chosen.write:
            path.write_text(json.dumps(now, indent=1) + "\n")
        else:
            changed += differences({name: json.loads(path.read_text())}, {name: now})
    sys.exit("\n".join(changed))


if __name__ == "__main__":
    main()
