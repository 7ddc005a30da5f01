"""What is published depends on private rows through the released labels only.

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
from conftest import Command, Nzc, contents, mlflow_client, tracked_runs
from PIL import Image

from nzc.data.hashing import keys_of
from nzc.data.splits import by_share
from nzc.mechanisms import ABSTAIN, UNIT, NoisyArgmax, NoisySums
from nzc.runs.result import RunResult

pytestmark = pytest.mark.usefixtures("usual_umask")
CLASSES = ("no", "yes", "may be")
NAMED = "[yes,no,'may be',never]"
COMMON = ["rng=system", "trainer.progress=false", "trainer.accelerator=cpu", "hydra.run.dir=run"]
SHARES = ["dataset.private=0.5", "dataset.public=0.3"]
LINEAR = [
    "teachers=logistic", "teachers.count=4", "teachers.parallel=1", "student=linear", "queries=12",
    *COMMON,
]  # fmt: skip
PUBLIC = ["tracking=mlflow", "tracking.private=false"]
#: A change of a private record beside that of its values, or further records.
CHANGED, ONE_MORE = "changed", "one more"


@dataclass(frozen=True)
class Record:
    values: np.ndarray
    label: int
    name: float
    group: int


@dataclass(frozen=True)
class Kind:
    """A kind of dataset.

    private   which of the records are private
    write     writes the files of all records
    settings  of a run
    classes   declares the classes, and more than there are
    replaced  by what a private record is replaced, whose values change too
    grouped   whether its group gets a further record, too
    """

    records: Sequence[Record]
    private: np.ndarray
    write: Callable[[Sequence[Record]], object]
    settings: list[str]
    classes: str
    replaced: dict[str, Any]
    grouped: bool = False

    def neighbour(self, change: str) -> list[Record]:
        """Return the records after a private one has changed, or has got company."""
        records = list(self.records)
        at = int(np.flatnonzero(self.private)[3])
        record = records[at]
        if change == CHANGED:
            records[at] = replace(record, **{"values": np.flip(record.values), **self.replaced})
        elif change == ONE_MORE:  # its name changes the type of an array of all names
            records.insert(at + 1, replace(record, values=np.flip(record.values), name=0.5))
        return records


def _private(names: Sequence[object], suffix: str = "") -> np.ndarray:
    """Return which of the names are private, where their hash decides."""
    masks = by_share(keys_of(np.array([f"{name}{suffix}" for name in names])), True, 0.5, 0.3, 0)
    assert masks is not None
    return masks[0]


def _npz(*names: str) -> Callable[[Sequence[Record]], None]:
    """Write arrays and these of their companions. Where roles are, public labels are unknown."""

    def write(records: Sequence[Record]) -> None:
        companions = {
            "group": [record.group for record in records],
            "id": [record.name for record in records],
            "role": ROLES,
        }
        x = np.array([record.values for record in records])
        y = np.array([record.label for record in records])
        if "role" in names:
            y[ROLES == "public"] = -1
        np.savez("data.npz", x=x, y=y, **{name: companions[name] for name in names})

    return write


def _write_images(records: Sequence[Record]) -> None:
    shutil.rmtree("images", ignore_errors=True)
    for record in records:
        path = Path("images", CLASSES[record.label], f"{record.name}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.uint8(record.values)).save(path)


def _write_tables(records: Sequence[Record]) -> None:
    table = pd.DataFrame([record.values for record in records], columns=list("abcd"))
    table["patient"] = [f"P{record.group}" for record in records]
    table["visit"] = [str(record.name) for record in records]
    table["back"] = [CLASSES[record.label] for record in records]
    place = np.array([record.group % 10 for record in records])
    table[place < 5].to_csv("private.csv", index=False)
    table[(place >= 5) & (place < 8)].drop(columns="back").to_csv("public.csv", index=False)
    table[place >= 8].to_csv("test.csv", index=False)


def _records(images: bool) -> list[Record]:
    """Records of two classes, and of groups of two to four."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 180)
    groups = np.sort(rng.integers(0, 60, 180))
    if images:
        values = rng.integers(0, 99, (180, 5, 5)) + 99 * labels[:, None, None]
    else:
        values = (rng.normal(size=(180, 4)) + 2 * labels[:, None]).astype(np.float32)
    columns = (values, labels.tolist(), range(1000, 1180), groups.tolist())
    return [Record(*record) for record in zip(*columns, strict=True)]


ROWS = _records(False)
IMAGES = _records(True)
NAMES = [record.name for record in ROWS]
GROUPS = np.array([record.group for record in ROWS])
ROLES = np.random.default_rng(1).permutation(np.repeat(["private", "public", "test"], 60))
NEW = np.arange(9000.5, 9100)  # as numbers, they change the type of an array of all names
NEW_CLASS = {"label": 2}
DATA = ["dataset=npz", "dataset.path=data.npz"]
NPZ = [*DATA, *LINEAR]
SCREEN = [
    "aggregator=confident", "aggregator.threshold=2", "aggregator.sigma1=1", "aggregator.sigma=1",
]  # fmt: skip
CELLS = ["recipe=near_zero", *DATA, "student=linear", "queries=4", *COMMON]
TABLE = [
    "dataset=table", "dataset.private=private.csv", "dataset.public=public.csv",
    "dataset.test=test.csv", "dataset.label=back", "dataset.group=patient", "dataset.id=visit",
]  # fmt: skip
FOLDER = ["dataset=folder", "dataset.path=images", "dataset.grey=true"]
KINDS = {
    "npz": Kind(ROWS, ROLES == "private", _npz("role"), [*NPZ, *SCREEN], "4", NEW_CLASS),
    "npz with group": Kind(
        ROWS, _private(GROUPS), _npz("group", "id"), [*NPZ, *SHARES], "4", NEW_CLASS, True
    ),
    "labels": Kind(
        ROWS, ROLES == "private", _npz("role"),
        [*CELLS, "query_choice=representative", "dataset.unit=label"], "4",
        {"label": 2, "values": ROWS[np.flatnonzero(ROLES == "private")[3]].values},
    ),
    "cells of groups": Kind(
        ROWS, _private(GROUPS), _npz("group", "id"), [*CELLS, *SHARES], "4", NEW_CLASS, True
    ),
    "folder": Kind(
        IMAGES, _private(NAMES, ".png"), _write_images, [*FOLDER, *SHARES, *LINEAR], NAMED,
        {"label": 2, "name": NEW[_private(NEW, ".png")][0]},
    ),
    "table": Kind(
        ROWS, GROUPS % 10 < 5, _write_tables, [*TABLE, *LINEAR], NAMED, NEW_CLASS
    ),
    "sums": Kind(
        ROWS, GROUPS % 10 < 5, _write_tables,
        [*TABLE, "recipe=near_zero_sums", *COMMON], NAMED, NEW_CLASS, True,
    ),
}  # fmt: skip


def _fixed(mechanism: NoisyArgmax, votes: np.ndarray, *_: Any, **__: Any) -> np.ndarray:
    """Return labels by the place of a query only; a mechanism that may abstain does so now and
    then.
    """
    place = np.arange(len(votes))
    if mechanism.releases == "sums":
        return np.asarray(UNIT * (20 + np.arange(votes.size).reshape(votes.shape) % 7))
    if mechanism.releases_counts:
        return 50 * np.eye(votes.shape[1], dtype=np.int64)[place % 2]
    if mechanism.screen is None:
        return place % 2
    return np.where(place % 4 == 3, ABSTAIN, place % 2)


Run = Callable[..., dict[str, bytes]]


@pytest.fixture
def run(nzc: Nzc, command: Command, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run on data and publish: what is printed, published and sent, by name; or the line that
    refuses it.
    """
    for mechanism in (NoisyArgmax, NoisySums):
        monkeypatch.setattr(mechanism, "release", _fixed)
    # Times are not private, and differ between any two runs.
    begun = SimpleNamespace(now=lambda _: datetime(2026, 1, 1, tzinfo=UTC))
    stopped = SimpleNamespace(perf_counter=lambda: 0.0, time=lambda: 0.0)
    monkeypatch.setattr("nzc.runs.result.datetime", begun)
    monkeypatch.setattr("nzc.runs.pipeline.time", stopped)
    monkeypatch.setattr("nzc.runs.result.time", stopped)

    def run(kind: Kind, change: str, *settings: str, code: int = 0) -> dict[str, bytes]:
        for folder in ("run", "published", ".nzc"):
            shutil.rmtree(folder, ignore_errors=True)
        kind.write(kind.neighbour(change))
        ran = nzc(*kind.settings, *settings, code=code)
        if code:
            return {"refused": ran.err.encode()}
        code, _, err = command("publish", "run", "published", "--name", "people")
        if code:
            return {"refused": err.encode()}
        return {
            "printed": (ran.out + ran.err).encode(),
            "result": repr(RunResult.read(Path("run")).public.as_dict()).encode(),
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
    client = mlflow_client()
    tracked = tracked_runs()[-1]
    run_id = tracked.info.run_id
    source = f"source_run_id = '{run_id}'"
    models = client.search_logged_models([tracked.info.experiment_id], source)
    tags = dict(tracked.data.tags)
    del tags["nzc.process"]  # its number, and when it began
    inputs = [part.to_dictionary() for part in tracked.inputs.dataset_inputs]
    facts = [tracked.info.run_name, tracked.data.params, tracked.data.metrics, tags, inputs]
    sent = {"sent": repr([facts, [model.tags for model in models]])}
    folders = [Path("mlartifacts/models", model.model_id) for model in models]
    for name, content in contents(Path("mlartifacts", run_id), *folders):
        sent[name] = content.decode("latin-1")
    drawn = "|".join([run_id, tags["nzc.key"], *(model.model_id for model in models)])
    times = r"utc_time_created: .*|'?creation_timestamp'?: .*"
    changing = re.compile(f"{drawn}|{times}")
    return {
        changing.sub("ID", name): changing.sub("ID", text).encode("latin-1", "replace")
        for name, text in sent.items()
    }


@pytest.mark.parametrize("name", KINDS)
def test_equal_labels_leave_equal_folders(run: Run, name: str) -> None:
    kind = KINDS[name]
    settings = [f"dataset.classes={kind.classes}"]
    expected = {"published/labels.csv", "published/student.pt2", "published/README.md"}
    if name == "table":  # figures and models of all kinds would take too long
        settings += [*PUBLIC, "tracking.model=true", "figures=true"]
        expected |= {"sent", "mlartifacts/ID/artifacts/predictions.csv"}
    else:
        settings += ["tracking=none", "+tracking.private=false"]
    first = run(kind, "none", *settings)
    assert expected <= set(first), first
    for change in (CHANGED, ONE_MORE)[: 1 + kind.grouped]:
        other = run(kind, change, *settings)
        assert set(other) == set(first), (change, other.get("refused"))
        assert [part for part, content in first.items() if other[part] != content] == [], change


def test_classes_that_private_labels_tell_are_not_published(run: Run) -> None:
    """Unless they are declared. Public images tell two classes."""
    kind = replace(KINDS["folder"], replaced=NEW_CLASS)
    assert "refused" not in run(kind, "none")
    line = run(kind, CHANGED)["refused"].decode()
    assert line.startswith("nzc: dataset.classes=null: must be declared") and line.count("\n") == 1
    warnings = json.loads(Path("run/result.json").read_text())["warnings"]
    (warning,) = (text for text in warnings if text.startswith("dataset.classes=null"))
    assert "(1)" in warning and "may be" in warning
    for settings, key in ((PUBLIC, "dataset.classes=null"), (["dataset.classes=[no,yes]"], "")):
        refused = run(kind, CHANGED, *settings, code=2)["refused"].decode()
        assert refused.splitlines()[-1].startswith(f"nzc: {key or 'dataset.'}")
        assert "may be" not in refused
        assert not Path("run").exists()
    typed = shlex.split(line.partition(": add ")[2])[0].rstrip(",")
    assert "published/labels.csv" in run(kind, CHANGED, typed)
