"""Hostile `_target_` for trials/fuzz.py: functions that load pickles, copy files or run commands.

Each payload makes the file PAYLOAD, or removes the file `mine`, when it runs. None may run: trials/fuzz.py finds both.
"""

import json
import pickle
import random
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch
from fuzz_inputs import Payload, kind, write_arrays, write_votes
from fuzz_tables import ARRAYS, VOTES

_COMMAND = "touch PAYLOAD"
_CODE = "open('PAYLOAD', 'w').close()"
_PATH = {"_target_": "pathlib.Path", "_args_": ["PAYLOAD"]}
_FILE = {"_target_": "builtins.open", "file": "payload.pkl", "mode": "rb"}
#: What a configuration names.
TARGETS: list[dict[str, Any]] = [
    {"_target_": "joblib.load", "filename": "payload.pkl"},
    {"_target_": "torch.load", "f": "payload.pt", "weights_only": False},
    {"_target_": "numpy.load", "file": "payload.npy", "allow_pickle": True},
    {"_target_": "pandas.read_pickle", "filepath_or_buffer": "payload.pkl"},
    {"_target_": "pickle.load", "_args_": [_FILE]},
    {"_target_": "shutil.copy", "src": "mine", "dst": "PAYLOAD"},
    {"_target_": "shutil.move", "src": "mine", "dst": "PAYLOAD"},
    {"_target_": "os.system", "command": _COMMAND},
    {"_target_": "os.remove", "path": "mine"},
    {"_target_": "os.mkdir", "path": "PAYLOAD"},
    {"_target_": "subprocess.run", "args": _COMMAND.split()},
    {"_target_": "subprocess.Popen", "args": _COMMAND.split()},
    {"_target_": "subprocess.check_output", "_args_": [_COMMAND.split()]},
    {"_target_": "builtins.exec", "_args_": [_CODE]},
    {"_target_": "builtins.eval", "_args_": [_CODE]},
    {"_target_": "builtins.open", "file": "PAYLOAD", "mode": "w"},
    {"_target_": "pathlib.Path.touch", "_args_": [_PATH]},
    {"_target_": "pathlib.Path.write_text", "_args_": [_PATH, "x"]},
    {"_target_": "runpy.run_path", "path_name": "payload.py"},
    {"_target_": "timeit.timeit", "stmt": _CODE, "number": 1},
    {"_target_": "numpy.savetxt", "fname": "PAYLOAD", "X": [1]},
    {"_target_": "logging.FileHandler", "filename": "PAYLOAD"},
    {"_target_": "zipfile.ZipFile", "file": "PAYLOAD", "mode": "w"},
    {"_target_": "functools.partial", "_args_": [{"_target_": "os.system", "command": _COMMAND}]},
    {"_target_": "hydra.utils.call", "config": {"_target_": "os.system", "command": _COMMAND}},
    {"_target_": "hydra.utils.instantiate", "config": {"_target_": "os.system", "command": _COMMAND}},
    {"_target_": "torch.nn.Sequential", "_args_": [{"_target_": "os.system", "command": _COMMAND}]},
    {"_target_": "sklearn.pipeline.make_pipeline", "_args_": [{"_target_": "os.system", "command": _COMMAND}]},
]
#: Keys that take a `_target_`, by the run that has them.
KEYS = {
    "aggregator aggregator.noise aggregator.screen dataset tracking trainer teachers student": VOTES,
    "dataset dataset.augment dataset.path teachers teachers.network teachers.augment teachers.optimizer "
    "teachers.schedule student student.network student.augment student.optimizer student.schedule trainer "
    "trainer.callbacks trainer.logger trainer.strategy representation tracking objective": ARRAYS,
    "teachers.estimator teachers.estimator.C": [*ARRAYS, "teachers=logistic", "student=none"],
    "representation.encoder representation.encoder.network representation.encoder.augment representation.augment": [
        *ARRAYS,
        "representation=contrastive",
        "query_choice=representative",
        "queries=3",
    ],
}  # fmt: skip


def write_payloads(folder: Path) -> None:
    """Write files that run a payload when they are loaded, and a file that a payload removes."""
    joblib.dump(Payload(), folder / "payload.pkl")
    torch.save(Payload(), folder / "payload.pt")
    np.save(folder / "payload.npy", np.array([Payload()], dtype=object), allow_pickle=True)
    (folder / "payload.py").write_text(f"{_CODE}\nThing = dict\n")
    (folder / "mine").write_text("mine")


def as_override(value: Any) -> str:
    """Return a value as Hydra reads it on the command line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {as_override(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_override, value)) + "]"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return json.dumps(value)


def nested(rng: random.Random, target: dict[str, Any]) -> Any:
    """Return a target, sometimes inside the arguments of another one, or as one that is called later."""
    match rng.randrange(6):
        case 0:
            return {**target, "_partial_": True}
        case 1:
            return {"_target_": "sklearn.linear_model.LogisticRegression", "C": target}
        case 2:
            return {"_target_": "builtins.dict", "a": [target]}
        case 3:
            return [target]
    return target


@kind("targets")
def targets(rng: random.Random, folder: Path) -> list[str]:
    """A key names a function that must not run, on the command line or in a file of the user."""
    write_votes(folder)
    write_arrays(folder)
    write_payloads(folder)
    names = rng.choice(list(KEYS))
    key, target = rng.choice(names.split()), nested(rng, rng.choice(TARGETS))
    if rng.random() < 0.3 and "." not in key and isinstance(target, dict):
        (folder / "conf" / key).mkdir(parents=True)
        (folder / "conf" / key / "own.yaml").write_text(json.dumps(target))
        return [*(each for each in KEYS[names] if not each.startswith(f"{key}=")), f"{key}=own"]
    return [*KEYS[names], f"{rng.choice(('++', '+', ''))}{key}={as_override(target)}"]


@kind("foreign runs")
def foreign(rng: random.Random, folder: Path) -> list[str]:
    """A subcommand is given the folder of a stranger's run, whose configuration names what must not run."""
    run = folder / "outputs" / "run"
    (run / ".hydra").mkdir(parents=True)
    write_payloads(folder)
    write_payloads(run)
    target = rng.choice([*TARGETS, {"_target_": "payload.Thing"}])
    tracking: Any = rng.choice((
        target, {"_target_": "nzc.tracking.mlflow.MLflow", "uri": target, "artifacts": "a"}, [target],
        {"_target_": "nzc.tracking.mlflow.MLflow", "uri": "sqlite:///own.db", "artifacts": "a", "register": target},
    ))  # fmt: skip
    config = {"tracking": tracking, "hydra": {"runtime": {"cwd": rng.choice((".", str(run), "missing", target))}}}
    name = rng.choice((".hydra/config.yaml", "multirun.yaml"))
    (run / name).write_text(json.dumps(config))
    (run / ".hydra" / "hydra.yaml").write_text(json.dumps({"hydra": config["hydra"]}))
    record = {
        "run": rng.choice((None, "x")), "key": "k", "process": "x", "begun": 0, "ended": "FINISHED", "until": 1,
        "sent": False, "experiment": "x", "name": "x", "question": "", "params": {"a": target}, "sweep": None,
    }  # fmt: skip
    (run / "tracking.json").write_text(json.dumps(record))
    (run / "result.json").write_bytes(pickle.dumps(Payload()) if rng.random() < 0.3 else b"{}")
    (run / "student.json").write_text("{}")
    (run / "student.pt2").write_bytes((folder / "payload.pt").read_bytes())
    return rng.choice(("sync", "sync .", "sync outputs", "report outputs/run", "predict outputs/run payload.npy",
                       "publish outputs/run copy")).split()  # fmt: skip
