"""The store's keys: every setting that can change a prediction or a place is in them."""

import json
import subprocess
import sys
from dataclasses import dataclass, fields, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import numpy as np
import pytest
import torch
from pytorch_lightning import Callback
from sklearn.tree import DecisionTreeClassifier

from nzc import representation, teachers
from nzc.data import DataSplits, Embedding, Split
from nzc.data.augment import Affine, Strong
from nzc.representation.contrastive import Contrastive
from nzc.representation.pretrained import Pretrained
from nzc.representation.spectral import Spectral
from nzc.storage.fingerprint import describe, source_digest
from nzc.storage.predictions import PredictionStore
from nzc.teachers import Teachers
from nzc.teachers.ensemble import Ensemble
from nzc.teachers.sharded import ShardedTeachers
from nzc.teachers.sklearn import Sklearn
from nzc.training.trainer import TrainerSettings

QUIET = TrainerSettings(progress=False, accelerator="cpu")
NETWORK = {"network": "mlp", "batch_size": 16, "lr": 0.01}
TEACHERS = [
    Ensemble(count=5, epochs=3, weight_decay=0.01, seed=3, **NETWORK),
    Sklearn(count=5, estimator=DecisionTreeClassifier(), seed=3),
]
STRONG = Strong(None, 1, 0, 0, 0, 0.3, 0.1)
ENCODER = Contrastive(width=16, steps=20, temperature=0.2, seed=0, augment=STRONG, **NETWORK)
SPECTRAL = Spectral(encoder=ENCODER, neighbours=5, dimensions=6, power=8)
#: For every field, a value that none of the objects above has.
OTHER: dict[str, Any] = {
    "count": 4, "seed": 9, "stratify": True, "parallel": 2, "label": "asked", "records": 2,
    "network": "cnn", "epochs": 8, "batch_size": 8, "lr": 0.5, "weight_decay": 0.5, "augment": Affine(rotate=7),
    "optimizer": partial(torch.optim.SGD, lr=0.1), "schedule": partial(torch.optim.lr_scheduler.StepLR, step_size=3),
    "stacked": True, "estimator": DecisionTreeClassifier(max_depth=2),
    "encoder": None, "neighbours": 9, "dimensions": 9, "share": 0.5, "power": 9, "copies": 9,
    "side": 9, "width": 9, "steps": 9, "temperature": 0.9,
}  # fmt: skip
#: The fields that may change without a change of the key, and why.
NOT_IN_KEY = {
    "parallel": "changes the speed only",
    "stacked": "predictions agree up to rounding",
    "label": "the rows that are labeled are in the key",
    "records": "the number of teachers is in the key",
}


class Watch(Callback):
    def __init__(self, every: int) -> None:
        self.every = every


def _splits(classes: int = 3) -> DataSplits:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(90, 4)).astype(np.float32), np.arange(90) % 3
    places = Embedding(x[:40], x[40:70])
    parts = (Split(x[rows], y[rows]) for rows in np.split(np.arange(90), [40, 70]))
    return replace(DataSplits(*parts, classes=classes), embedding=places)


def _key(of: ShardedTeachers, splits: DataSplits) -> str:
    return json.dumps(of.stored_request(splits, QUIET), sort_keys=True)


def _all_kinds(package: Any, base: type) -> set[type]:
    """Every class of a package that can be built and derives from `base`."""
    modules = [
        import_module(f"{package.__name__}.{module.name}")
        for module in iter_modules(package.__path__)
    ]
    kinds = {
        value for module in modules for value in vars(module).values() if isinstance(value, type)
    }
    return {
        kind
        for kind in kinds
        if issubclass(kind, base) and not getattr(kind, "__abstractmethods__", None)
    }


def test_every_kind_of_teachers_and_representation_is_here() -> None:
    stored = {kind for kind in _all_kinds(teachers, Teachers) if hasattr(kind, "stored_request")}
    assert stored == {type(kind) for kind in TEACHERS}
    others = {kind.__name__ for kind in _all_kinds(teachers, Teachers) - stored}
    assert others == {"VoteFile", "Cells", "Neighbours"}  # they store nothing
    assert _all_kinds(representation, representation.Encoder) == {Spectral, Contrastive, Pretrained}


@pytest.mark.parametrize("kind", TEACHERS, ids=lambda kind: type(kind).__name__)
def test_every_field_of_teachers_is_in_the_key_or_listed(kind: ShardedTeachers) -> None:
    splits, unchanged = _splits(), set()
    for field in fields(kind):
        other = replace(kind, **{field.name: OTHER[field.name]})
        assert getattr(other, field.name) != getattr(kind, field.name)
        if _key(other, splits) == _key(kind, splits):
            unchanged.add(field.name)
    assert unchanged == {
        name for name in NOT_IN_KEY if name in {field.name for field in fields(kind)}
    }


@pytest.mark.parametrize("kind", TEACHERS, ids=lambda kind: type(kind).__name__)
def test_number_of_teachers_rows_and_classes_are_in_the_key(kind: ShardedTeachers) -> None:
    several = [(replace(kind, count=None, records=records), _splits()) for records in (1, 4, 20)]
    several += [(kind, _splits()), (kind, _splits(4))]
    several += [
        (kind, replace(_splits(), asked=np.array(rows))) for rows in ([1, 2], [2, 1], [1, 3])
    ]
    assert len({_key(*kind_and_splits) for kind_and_splits in several}) == len(several)
    assert _key(replace(kind, count=None, records=8), _splits()) == _key(
        kind, _splits()
    )  # 5 teachers of 8 records


def test_precision_and_kind_of_device_are_in_the_key_of_networks() -> None:
    """Teachers of 16 bits, or of a GPU, predict a little differently: they are not those of 32 bits
    on a CPU.
    """
    (networks,) = [kind for kind in TEACHERS if isinstance(kind, Ensemble)]
    options = {"progress": False, "accelerator": "cpu"}
    trainers = [
        TrainerSettings(**options, precision=bits) for bits in ("32-true", "bf16-mixed", "16-mixed")
    ]
    requests = [networks.stored_request(_splits(), trainer) for trainer in trainers]
    assert len({json.dumps(request, sort_keys=True) for request in requests}) == 3
    assert all(request["device"] == "cpu" for request in requests)


def test_options_of_the_trainer_are_in_the_key_of_what_they_can_change(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Teachers do not get options of student and representation; loggers and profilers change
    nothing.
    """
    places: list[str] = []

    def fetch(_: Any, request: Any, compute: Any) -> Any:
        places.append(str(request))
        return np.zeros((70, 1))

    monkeypatch.setattr(PredictionStore, "fetch", fetch)
    changes = [{}, {"gradient_clip_val": 1}, {"gradient_clip_val": 2}, {"max_time": {"hours": 1}}]
    changes += [{"callbacks": [Watch(every)]} for every in (1, 2)]
    shown = [{"logger": True}, {"profiler": "simple"}, {"gradient_clip_val": None}]
    teachers = []
    for options in [*changes, *shown, {"deterministic": True}]:
        trainer = TrainerSettings(progress=False, accelerator="cpu", **options)
        SPECTRAL.embed(_splits(), PredictionStore(tmp_path), trainer)
        teachers.append(str(TEACHERS[0].stored_request(_splits(), trainer)))
    assert len(set(places)) == len(changes) + 1 and set(places[-4:-1]) == {places[0]}
    assert len(set(teachers[:-1])) == 1 and teachers[-1] != teachers[0]


def test_a_field_of_a_subclass_is_in_the_key() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Several(Sklearn):
        nearest: int = 1

    kinds = [
        Several(count=5, estimator=DecisionTreeClassifier(), seed=3, nearest=nearest)
        for nearest in (1, 3)
    ]
    assert len({_key(each, _splits()) for each in (*kinds, TEACHERS[1])}) == 3


def test_every_field_of_a_representation_is_in_the_key(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    keys: list[str] = []

    def fetch(_: Any, request: Any, compute: Any) -> Any:
        keys.append(json.dumps(request, sort_keys=True))
        return np.zeros((70, 1))

    monkeypatch.setattr(PredictionStore, "fetch", fetch)
    others = [replace(SPECTRAL, **{field.name: OTHER[field.name]}) for field in fields(SPECTRAL)]
    encoders = [replace(ENCODER, **{field.name: OTHER[field.name]}) for field in fields(ENCODER)]
    others += [replace(SPECTRAL, encoder=encoder) for encoder in encoders]
    for each in (SPECTRAL, *others):
        each.embed(_splits(), PredictionStore(tmp_path), QUIET)
    assert len(set(keys)) == 1 + len(others)


@dataclass
class Shaken:
    strength: float

    def shake(self, x: Any, rng: Any) -> Any:
        return self.strength * x


@pytest.mark.parametrize(
    "make", [lambda by: lambda x: by * x, lambda by: Shaken(by).shake], ids=["closure", "method"]
)
def test_functions_are_described_with_the_values_that_they_hold(make: Any) -> None:
    assert describe(make(1)) == describe(make(1)) != describe(make(2))


def test_the_source_of_a_package_includes_its_relative_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ownpackage").mkdir()
    (tmp_path / "ownpackage" / "__init__.py").write_text("from . import inner\n")
    monkeypatch.syspath_prepend(tmp_path)
    digests = set()
    for text in ("A = 1\n", "A = 22\n"):
        (tmp_path / "ownpackage" / "inner.py").write_text(text)
        digests.add(source_digest("ownpackage"))
    assert len(digests) == 2


def test_the_key_of_a_representation_leaves_out_what_it_does_not_use() -> None:
    """What a key covers is imported to find it: MLflow would take seconds."""
    code = "import sys; from nzc.storage.fingerprint import source_digest as of; of('nzc.representation.contrastive')"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; print(*sys.modules)"], capture_output=True, text=True
    )
    names = done.stdout.split()
    assert "nzc.networks" in names
    assert not [
        name for name in names if name.startswith(("nzc.app", "nzc.tracking", "nzc.runs", "mlflow"))
    ]
