"""The store's keys: every setting that can change a prediction or a place is in them."""

import json
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import few_labels
import numpy as np
import torch
from conftest import parametrize, write
from few_labels import ENSEMBLE, LEARNED, QUIET, quiet
from pytest import MonkeyPatch
from pytorch_lightning import Callback
from sklearn.tree import DecisionTreeClassifier

from nzc.data import DataSplits, Split
from nzc.data.augment import Affine
from nzc.representation.spectral import Spectral
from nzc.storage.fingerprint import describe, source_digest
from nzc.storage.predictions import PredictionStore
from nzc.teachers.sharded import ShardedTeachers
from nzc.teachers.sklearn import Sklearn
from nzc.training.trainer import TrainerSettings

NETWORKS = replace(ENSEMBLE, count=5)
TREES = Sklearn(count=5, estimator=DecisionTreeClassifier(), seed=3)
SPECTRAL = replace(few_labels.SPECTRAL, encoder=LEARNED)
#: For every field, a value that none of the objects above has.
OTHER = {
    **dict.fromkeys(("count", "epochs", "batch_size", "seed", "parallel", "records"), 8),
    **dict.fromkeys(("neighbours", "dimensions", "power", "copies"), 9),
    **dict.fromkeys(("side", "width", "steps", "temperature"), 9),
    **dict.fromkeys(("lr", "weight_decay", "share"), 0.5),
    "stacked": True,
    "label": "asked",
    "network": "cnn",
    "augment": Affine(rotate=7),
    "optimizer": partial(torch.optim.SGD, lr=0.1),
    "schedule": partial(torch.optim.lr_scheduler.StepLR, step_size=3),
    "estimator": DecisionTreeClassifier(max_depth=2),
    "encoder": None,
}
#: The fields that may change without a change of the key, and why.
NOT_IN_KEY = {
    "parallel": "changes the speed only",
    "stacked": "predictions agree up to rounding",
    "label": "the rows that are labeled are in the key",
    "records": "the number of teachers is in the key",
}
KINDS = parametrize("kind", [NETWORKS, TREES], ids=["networks", "trees"])


class Watch(Callback):
    def __init__(self, every: int) -> None:
        self.every = every


def _splits(classes: int = 3) -> DataSplits:
    x = np.random.default_rng(0).normal(size=(90, 4)).astype(np.float32)
    y = np.arange(90) % 3
    parts = [Split(x[rows], y[rows]) for rows in np.split(np.arange(90), [40, 70])]
    return DataSplits(*parts, classes=classes)


def _key(kind: ShardedTeachers, splits: DataSplits, trainer: TrainerSettings = QUIET) -> str:
    return json.dumps(kind.stored_request(splits, trainer), sort_keys=True)


def _place_key(kind: Spectral, trainer: TrainerSettings = QUIET) -> str:
    """The key under which a representation keeps its places, which are not computed."""
    keys: list[str] = []

    class Keys(PredictionStore):
        def fetch(self, request: Any, train: Any) -> Any:
            keys.append(json.dumps(request, sort_keys=True))
            return np.zeros((70, 1))

    kind.embed(_splits(), Keys("nowhere"), trainer)
    return keys[0]


@KINDS
def test_every_field_of_teachers_is_in_the_key_or_listed(kind: ShardedTeachers) -> None:
    splits = _splits()
    names = {field.name for field in fields(kind)}
    unchanged = set()
    for name in names:
        other = replace(kind, **{name: OTHER[name]})
        assert getattr(other, name) != getattr(kind, name)
        if _key(other, splits) == _key(kind, splits):
            unchanged.add(name)
    assert unchanged == names & set(NOT_IN_KEY)


@KINDS
def test_number_of_teachers_rows_and_classes_are_in_the_key(kind: ShardedTeachers) -> None:
    keys = [_key(kind, _splits()), _key(kind, _splits(classes=4))]
    for records in (1, 4, 20):
        keys.append(_key(replace(kind, count=None, records=records), _splits()))
    for rows in ([1, 2], [2, 1], [1, 3]):
        keys.append(_key(kind, replace(_splits(), asked=np.array(rows))))
    assert len(set(keys)) == len(keys)
    assert _key(replace(kind, count=None, records=8), _splits()) == keys[0]  # 5 of 8 records


def test_trainer_options_are_in_the_key_of_what_they_change() -> None:
    """Teachers do not get options of a representation; loggers and profilers change nothing.

    Teachers of 16 bits predict a little differently.
    """
    changes = [
        {"gradient_clip_val": 1},
        {"gradient_clip_val": 2},
        {"max_time": {"hours": 1}},
        {"callbacks": [Watch(1)]},
        {"callbacks": [Watch(2)]},
        {"deterministic": True},
        {"precision": "bf16-mixed"},
        {"precision": "16-mixed"},
    ]
    teachers_keys = {_key(NETWORKS, _splits())}
    place_keys = [_place_key(SPECTRAL)]
    for options in changes:
        trainer = quiet(**options)
        place_keys.append(_place_key(SPECTRAL, trainer))
        teachers_keys.add(_key(NETWORKS, _splits(), trainer))
    assert len(set(place_keys)) == len(place_keys)
    assert len(teachers_keys) == 4  # of the usual options, and of the last three
    assert NETWORKS.stored_request(_splits(), QUIET)["device"] == "cpu"
    for shown in ({"logger": True}, {"profiler": "simple"}, {"gradient_clip_val": None}):
        assert _place_key(SPECTRAL, quiet(**shown)) == place_keys[0]


def test_a_field_of_a_subclass_is_in_the_key() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Several(Sklearn):
        nearest: int = 1

    one = Several(count=5, estimator=DecisionTreeClassifier(), seed=3)
    keys = [_key(kind, _splits()) for kind in (TREES, one, replace(one, nearest=3))]
    assert len(set(keys)) == 3


def test_every_field_of_a_representation_is_in_the_key() -> None:
    kinds = [SPECTRAL]
    for field in fields(SPECTRAL):
        kinds.append(replace(SPECTRAL, **{field.name: OTHER[field.name]}))
    for field in fields(LEARNED):
        other = replace(LEARNED, **{field.name: OTHER[field.name]})
        kinds.append(replace(SPECTRAL, encoder=other))
    assert len({_place_key(kind) for kind in kinds}) == len(kinds)


@dataclass
class Shaken:
    strength: float

    def shake(self, x: Any, rng: Any) -> Any:
        return self.strength * x


@parametrize(
    "make",
    [lambda strength: lambda x: strength * x, lambda strength: Shaken(strength).shake],
    ids=["closure", "method"],
)
def test_functions_are_described_with_the_values_that_they_hold(make: Any) -> None:
    assert describe(make(1)) == describe(make(1)) != describe(make(2))


def test_the_source_of_a_package_includes_its_relative_imports(
    tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    write(tmp_path / "ownpackage/__init__.py", "from . import inner\n")
    monkeypatch.syspath_prepend(tmp_path)
    digests = set()
    for text in ("A = 1\n", "A = 22\n"):
        write(tmp_path / "ownpackage/inner.py", text)
        digests.add(source_digest("ownpackage"))
    assert len(digests) == 2
