"""Runs for trials/fuzz.py that the subcommands are given: with damaged files, or with a foreign configuration."""

import io
import json
import pickle
import random
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fuzz_inputs import KINDS, Payload, damaged, write_arrays
from fuzz_run import run
from fuzz_tables import ARRAYS

#: Values that are put into JSON and YAML files.
VALUES: tuple[Any, ...] = (
    None, -1, 0, 1.5, 1e308, float("nan"), float("inf"), "inf", True, "", "x", "x" * 10_000, "../../x", "a\nb",
    "\x1b[31m", "<script>", [], {}, [[]], [None], {"a": {"b": []}}, 10**400, "‏שלום", "${oc.env:HOME}", "\x00",
)  # fmt: skip
#: The subcommands, the files of a run that each reads, and its arguments.
READ: dict[str, tuple[str, ...]] = {
    "publish": ("result.json", "labels.csv", "predictions.csv", "student.json", "student.pt2", ".hydra/config.yaml"),
    "predict": ("student.json", "student.pt2", "../records.npy"),
    "report": ("result.json", ".hydra/config.yaml", "curves.csv", "labels.csv", "multirun.yaml", "jobs.json"),
    "sync": ("tracking.json", "result.json", ".hydra/config.yaml", ".hydra/hydra.yaml", "multirun.yaml"),
    "store": ("../.nzc/ledger.db", "../.nzc/predictions/KEY.npz"),
}  # fmt: skip
ARGUMENTS = {
    "publish": ["publish run copy"],
    "predict": ["predict run records.npy", "predict run data.npz", "predict . records.npy"],
    "report": ["report run", "report . run", "report run run"],
    "sync": ["sync run", "sync", "sync . --uri sqlite:///own.db --artifacts mlartifacts"],
    "store": ["store", "store --all --yes", "store --older 0 --yes", "store --forget --yes", "store --prune a --yes"],
}


def finished_run(folder: Path) -> None:
    """Copy a finished run on system noise into a folder, as `run`, with its store and its data."""
    made = folder.parent / "finished"
    if not made.is_dir():
        made.mkdir()
        write_arrays(made)
        given = [*ARRAYS, "student.network=mlp", "teachers.network=mlp", "rng=system", "hydra.run.dir=run"]
        code, errors = run(given, made, 600)
        if code:
            raise RuntimeError(f"the run ends with exit code {code}: {errors}")
    shutil.copytree(made, folder, dirs_exist_ok=True)
    np.save(folder / "records.npy", np.zeros((5, 4)))


def spoilt_json(rng: random.Random, data: Any) -> Any:
    """Return JSON data with another value somewhere, or with a key less."""
    if isinstance(data, dict) and data and rng.random() < 0.9:
        key = rng.choice(list(data))
        if rng.random() < 0.15:
            return {other: value for other, value in data.items() if other != key}
        return data | {key: spoilt_json(rng, data[key]) if isinstance(data[key], dict | list) else rng.choice(VALUES)}
    if isinstance(data, list) and data and rng.random() < 0.5:
        return [spoilt_json(rng, data[0]), *data[1:]]
    return rng.choice(VALUES)


def pickled() -> bytes:
    """Return what loads a payload in PyTorch's own format."""
    buffer = io.BytesIO()
    torch.save(Payload(), buffer)
    return buffer.getvalue()


def spoil(rng: random.Random, path: Path) -> None:
    """Damage a file, replace its content, or make something else of it."""
    data = path.read_bytes() if path.is_file() else b""
    choice = rng.randrange(8)
    if path.suffix == ".json" and choice < 5:
        text = json.dumps(spoilt_json(rng, json.loads(data or b"{}")))
        path.write_bytes(text.encode(errors="surrogatepass"))
    elif path.suffix in (".pt2", ".npz") and choice < 2 and zipfile.is_zipfile(path):
        with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(path, "w") as new:
            names = old.namelist()
            at = rng.randrange(len(names))
            for i, name in enumerate(names):
                content = rng.choice((pickle.dumps(Payload()), pickled(), b"")) if i == at else old.read(name)
                new.writestr(name, content)
    elif choice == 5:
        path.write_bytes(rng.choice((pickle.dumps(Payload()), pickled())))
    elif choice == 6 and path.is_file():
        path.unlink()
    else:
        changed = damaged(rng, data)
        path.write_bytes(b"" if changed == data else changed)


def damaged_run(command: str) -> Callable[[random.Random, Path], list[str]]:
    """Return a kind of input: a subcommand is given a finished run, one file of which is damaged."""

    def kind(rng: random.Random, folder: Path) -> list[str]:
        finished_run(folder)
        name = rng.choice(READ[command])
        if name.endswith("KEY.npz"):
            path = rng.choice(sorted((folder / ".nzc" / "predictions").glob("*.npz")))
        else:
            path = (folder / "run" / name).resolve()
        if command == "sync":  # the run was not sent
            times = {"begun": 0, "ended": "FINISHED", "until": 1}
            about: dict[str, Any] = {"experiment": "x", "name": "x", "question": "", "params": {}, "sweep": None}
            record = {"run": None, "key": "k", "process": "x", "sent": False, **times, **about}
            (folder / "run" / "tracking.json").write_text(json.dumps(record))
        spoil(rng, path)
        return rng.choice(ARGUMENTS[command]).split()

    return kind


for each in READ:
    KINDS[f"nzc {each}"] = damaged_run(each)
