"""Equal labels, equal folder: what leaves a run depends on private rows through the released labels
only.

Each kind of dataset is run on private data and on their neighbours, with a patch that makes the
released labels equal. All else is real. Then the published folder is equal to the byte, and so is
everything that is printed, or sent to a tracker with tracking.private=false.
"""

import json
import re
import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import Command, Nzc, contents, tracked_runs
from mlflow import MlflowClient
from PIL import Image
from sklearn import datasets

from nzc.data.hashing import keys_of
from nzc.data.splits import by_share
from nzc.mechanisms import ABSTAIN, NoisyArgmax

pytestmark = pytest.mark.usefixtures("usual_umask")
COMMON = ["rng=system", "trainer.progress=false", "trainer.accelerator=cpu", "hydra.run.dir=run"]
SHARES = ["dataset.private=0.5", "dataset.public=0.3"]
LINEAR = ["teachers=logistic", "teachers.count=4", "teachers.parallel=1", "student=linear"]
LINEAR += ["queries=12", *COMMON]


@dataclass(frozen=True)
class Record:
    values: np.ndarray
    label: int
    name: float
    group: int


@dataclass(frozen=True)
class Kind:
    """A kind of dataset.

    private     which of the records are private
    write       writes the files of all records
    neighbours  how a private record changes
    settings    of a run; `classes` declares the classes, and more than there are
    new_name    a name that is private, too
    """

    records: Sequence[Record]
    private: np.ndarray
    write: Callable[[Sequence[Record]], object]
    neighbours: tuple[str, ...]
    settings: list[str]
    classes: str | None = None
    new_name: float = 0

    @property
    def declared(self) -> list[str]:
        return [
            *self.settings,
            *([] if self.classes is None else [f"dataset.classes={self.classes}"]),
        ]

    def neighbour(self, change: str) -> list[Record]:
        """Return the records after a private one has changed, or has got company."""
        records, at = list(self.records), int(np.flatnonzero(self.private)[3])
        one = records[at]
        other = replace(one, values=np.flip(one.values), label=(one.label + 1) % 2)
        changed = {
            "none": one,
            "new class": replace(one, label=2),
            "replaced": other,
            "renamed": replace(one, name=self.new_name),
            "one more": one,
            "relabeled": replace(one, label=other.label),
        }
        records[at] = changed[change]
        if change == "one more":  # its name changes the type of an array of all names
            records.insert(at + 1, replace(other, name=0.5))
        return records


def _private(names: Sequence[object], suffix: str = "") -> np.ndarray:
    """Return which of the names are private, where their hash decides."""
    masks = by_share(keys_of(np.array([f"{name}{suffix}" for name in names])), True, 0.5, 0.3, 0)
    assert masks is not None
    return masks[0]


def _names(records: Sequence[Record]) -> list[float]:
    return [record.name for record in records]


def _arrays(records: Sequence[Record]) -> dict[str, Any]:
    return {
        "x": np.array([record.values for record in records]),
        "y": np.array([record.label for record in records]),
    }


def _npz(*names: str) -> Callable[[Sequence[Record]], None]:
    """Write arrays and these of their companions. Where roles are, public labels are unknown."""

    def write(records: Sequence[Record]) -> None:
        arrays = _arrays(records)
        others = {
            "group": [record.group for record in records],
            "id": _names(records),
            "role": ROLES,
        }
        if "role" in names:
            arrays["y"][ROLES == "public"] = -1
        np.savez("data.npz", **arrays, **{name: others[name] for name in names})

    return write


def _write_images(records: Sequence[Record]) -> None:
    shutil.rmtree("images", ignore_errors=True)
    for record in records:
        path = Path("images", CLASSES[record.label], f"{record.name}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.uint8(record.values)).save(path)


def _write_tables(records: Sequence[Record]) -> None:
    table = pd.DataFrame([record.values for record in records], columns=list("abcd"))
    table = table.assign(
        patient=[f"P{record.group}" for record in records], visit=[*map(str, _names(records))]
    )
    label = np.array([CLASSES[record.label] for record in records])
    for file, place in {"private": (0, 5), "public": (5, 8), "test": (8, 10)}.items():
        rows = [place[0] <= record.group % 10 < place[1] for record in records]
        own = table[rows] if file == "public" else table[rows].assign(back=label[rows])
        own.to_csv(f"{file}.csv", index=False)


def _write_digits(records: Sequence[Record]) -> None:
    arrays = _arrays(records)
    datasets.load_digits = lambda: SimpleNamespace(
        images=arrays["x"], target=arrays["y"]
    )  # the fixture undoes it


CLASSES = ("no", "yes", "may be")


def _records(images: bool) -> list[Record]:
    """Records of two classes, and of groups of two to four."""
    rng = np.random.default_rng(0)
    labels, groups = rng.integers(0, 2, 180), np.sort(rng.integers(0, 60, 180))
    values = (
        rng.integers(0, 99, (180, 5, 5)) if images else rng.normal(size=(180, 4)).astype(np.float32)
    )
    values = values + (labels * (99 if images else 2)).reshape(-1, *[1] * (values.ndim - 1)).astype(
        values.dtype
    )
    return [
        Record(*record)
        for record in zip(values, labels.tolist(), range(1000, 1180), groups.tolist(), strict=True)
    ]


def _digits() -> list[Record]:
    bunch = datasets.load_digits()
    return [
        Record(image, int(label), 0, 0)
        for image, label in zip(bunch.images, bunch.target, strict=True)
    ]


ROWS, IMAGES, DIGITS = _records(False), _records(True), _digits()
ROLES = np.random.default_rng(1).permutation(np.repeat(["private", "public", "test"], 60))
GROUPS = np.array([record.group for record in ROWS])
NEW = np.arange(9000.5, 9100)  # as numbers, they change the type of an array of all names
NPZ = ["dataset=npz", "dataset.path=data.npz", *LINEAR]
SCREEN = [
    "aggregator=confident",
    "aggregator.threshold=2",
    "aggregator.sigma1=1",
    "aggregator.sigma=1",
]
CELLS = [
    "recipe=near_zero",
    "dataset=npz",
    "dataset.path=data.npz",
    "student=linear",
    "queries=4",
    *COMMON,
]
CHANGES = ("replaced", "new class")
KINDS = {
    "digits": Kind(
        DIGITS,
        np.isin(np.arange(len(DIGITS)), np.random.default_rng(0).permutation(len(DIGITS))[:300]),
        _write_digits,
        CHANGES[:1],
        ["recipe=near_zero", "dataset.private=300", "dataset.public=100", "dataset.suits.spectral.copies=2",
         "student.steps=20", *COMMON],
    ),
    "npz": Kind(ROWS, ROLES == "private", _npz("role"), CHANGES, [*NPZ, *SCREEN], "4"),
    "npz with id": Kind(
        ROWS, _private(_names(ROWS)), _npz("id"), (*CHANGES, "renamed"), [*NPZ, *SHARES], "4", NEW[_private(NEW)][0]
    ),
    "npz with group": Kind(ROWS, _private(GROUPS), _npz("group", "id"), (*CHANGES, "one more"), [*NPZ, *SHARES], "4"),
    "labels": Kind(
        ROWS, ROLES == "private", _npz("role"), ("relabeled", "new class"),
        [*CELLS, "query_choice=representative", "dataset.unit=label"], "4",
    ),
    "cells of groups": Kind(
        ROWS, _private(GROUPS), _npz("group", "id"), (*CHANGES, "one more"), [*CELLS, *SHARES], "4"
    ),
    "folder": Kind(
        IMAGES, _private(_names(IMAGES), ".png"), _write_images, (*CHANGES, "renamed"),
        ["dataset=folder", "dataset.path=images", "dataset.grey=true", *SHARES, *LINEAR], "[yes,no,'may be',never]",
        NEW[_private(NEW, ".png")][0],
    ),
    "table with group": Kind(
        ROWS, GROUPS % 10 < 5, _write_tables, (*CHANGES, "one more"),
        ["dataset=table", "dataset.private=private.csv", "dataset.public=public.csv", "dataset.test=test.csv",
         "dataset.label=back", "dataset.group=patient", "dataset.id=visit", *LINEAR], "[yes,no,'may be',never]",
    ),
}  # fmt: skip


def _fixed(mechanism: NoisyArgmax, votes: np.ndarray, *_: Any) -> np.ndarray:
    """Return labels by the place of a query only; a mechanism that may abstain does so now and
    then.
    """
    labels = np.arange(len(votes)) % 2
    if mechanism.releases_counts:
        return 50 * np.eye(votes.shape[1], dtype=np.int64)[labels]
    return (
        labels
        if mechanism.screen is None
        else np.where(np.arange(len(votes)) % 4 == 3, ABSTAIN, labels)
    )


@pytest.fixture
def run(
    nzc: Nzc, command: Command, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., dict[str, bytes]]:
    """Run on data and publish: what is printed, published and sent, by name; or the line that
    refuses it.
    """
    monkeypatch.setattr(NoisyArgmax, "release", _fixed)
    monkeypatch.setattr(datasets, "load_digits", datasets.load_digits)
    # Times are not private, and differ between any two runs.
    monkeypatch.setattr(
        "nzc.runs.result.datetime", SimpleNamespace(now=lambda _: datetime(2026, 1, 1, tzinfo=UTC))
    )
    for module in ("pipeline", "result"):
        stopped = SimpleNamespace(perf_counter=lambda: 0.0, time=lambda: 0.0)
        monkeypatch.setattr(f"nzc.runs.{module}.time", stopped)

    def run(kind: Kind, change: str, *settings: str) -> dict[str, bytes]:
        for folder in ("run", "published", ".nzc"):
            shutil.rmtree(folder, ignore_errors=True)
        kind.write(kind.neighbour(change))
        ran = nzc(*settings)
        if ran.code:
            return {"refused": ran.err.encode()}
        code, _, err = command("publish", "run", "published", "--name", "people")
        if code:
            return {"refused": err.encode()}
        return {
            "printed": (ran.out + ran.err).encode(),
            **dict(contents(Path("published"))),
            **_sent(),
        }

    return run


def _sent() -> dict[str, bytes]:
    """Return what MLflow has of the newest run, without numbers that it draws for each run and
    times of its own.
    """
    if not Path("mlflow.db").exists():
        return {}
    client = MlflowClient(f"sqlite:///{Path.cwd()}/mlflow.db")
    tracked = tracked_runs(client)[-1]
    data, id = tracked.data, tracked.info.run_id
    model = client.search_logged_models([tracked.info.experiment_id], f"source_run_id = '{id}'")
    drawn = [id, *(part.model_id for part in model), data.tags["nzc.key"]]
    tags = {
        key: value for key, value in data.tags.items() if key != "nzc.process"
    }  # its number, and when it began
    inputs = [part.to_dictionary() for part in tracked.inputs.dataset_inputs]
    sent = {
        "sent": repr(
            (
                tracked.info.run_name,
                data.params,
                data.metrics,
                tags,
                inputs,
                [m.tags for m in model],
            )
        )
    }
    files = [
        Path("mlartifacts", id),
        *(Path("mlartifacts", "models", part.model_id) for part in model),
    ]
    sent |= {name: text.decode("latin-1") for name, text in contents(*files)}
    for number in drawn:
        sent = {
            name.replace(number, "ID"): text.replace(number, "ID") for name, text in sent.items()
        }
    times = re.compile(r"utc_time_created: .*|'?creation_timestamp'?: .*")
    return {
        name: times.sub("TIME", text).encode("latin-1", "replace") for name, text in sent.items()
    }


@pytest.mark.parametrize("name", KINDS)
def test_equal_labels_leave_equal_folders(run: Callable[..., dict[str, bytes]], name: str) -> None:
    kind = KINDS[name]
    whole = str(
        name == "table with group"
    ).lower()  # a figure and a model of the others take too long
    tracked = [
        "tracking=mlflow",
        "tracking.private=false",
        f"tracking.model={whole}",
        f"figures={whole}",
    ]
    settings = [*kind.declared, *tracked]
    first = run(kind, "none", *settings)
    assert {"published/labels.csv", "published/student.pt2", "published/README.md", "sent"} <= set(
        first
    ), first
    assert any(name.endswith("ID/artifacts/predictions.csv") for name in first), set(first)
    for change in kind.neighbours:
        other = run(kind, change, *settings)
        assert set(other) == set(first), (change, other.get("refused"))
        assert [name for name, content in first.items() if other[name] != content] == [], change


@pytest.mark.parametrize(
    ("name", "fewer"), [("npz", "2"), ("folder", "[no,yes]"), ("table with group", "[no,yes]")]
)
def test_classes_that_private_labels_tell_are_not_published(
    run: Callable[..., dict[str, bytes]], name: str, fewer: str
) -> None:
    """Unless they are declared. In the folder, public images tell two classes; in the other files
    they tell none.
    """
    kind = KINDS[name]
    outcomes = [
        run(kind, change, *kind.settings, "tracking=none") for change in ("none", "new class")
    ]
    assert ["refused" in outcome for outcome in outcomes] == [name != "folder", True]
    line = outcomes[1]["refused"].decode()
    assert line.startswith("nzc: dataset.classes=null: must be declared") and line.count("\n") == 1
    warnings = json.loads(Path("run/result.json").read_text())["warnings"]
    (warning,) = (line for line in warnings if line.startswith("dataset.classes=null"))
    assert "(1)" in warning and ("may be" in warning or name == "npz")
    sent = run(kind, "new class", *kind.settings, "tracking=mlflow", "tracking.private=false")
    assert (
        b"\nnzc: dataset.classes=null: must be declared where tracking.private="
        in b"\n" + sent["refused"]
    )
    assert not Path("run").exists()
    other = run(kind, "new class", *kind.settings, "tracking=none", f"dataset.classes={fewer}")[
        "refused"
    ].decode()
    assert other.startswith("nzc: dataset.") and other.count("\n") == 1
    assert "may be" not in sent["refused"].decode() + other
    typed = shlex.split(line.partition(": add ")[2])[0].rstrip(",")
    assert "published/labels.csv" in run(kind, "new class", *kind.settings, "tracking=none", typed)
