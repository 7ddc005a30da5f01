"""A run and its neighbour: what a private record can change, and what is charged for that.

Each kind of run is run on private data and on neighbouring data. What the privacy boundary is given
and draws is recorded, and the neighbour is given what the first run drew. All else is real. Then

- what is released with noise differs by no more than the noise is for,
- its cost is in the ledger before anyone learns from it: at least the divergence of its two laws,
- the published folder is equal to the byte, and so is everything that a student learns from, that
  is printed, or that is sent to a tracker with tracking.private=false.
"""

import json
import re
import shlex
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import brute
import numpy as np
import pandas as pd
import pytest
from conftest import Command, RunNzc, contents, mlflow_client, parametrize, tracked_runs
from numpy.testing import assert_allclose
from PIL import Image
from pytest import MonkeyPatch
from scipy.special import logsumexp

from nzc.accounting import Cost
from nzc.accounting.exact_noise import ExactGenerator, ExactNoise
from nzc.accounting.rdp import ORDERS
from nzc.accounting.sanitised import SanitisedPlan
from nzc.data.hashing import keys_of
from nzc.data.splits import by_share
from nzc.mechanisms import UNIT, NoisyArgmax, NoisySums, OwnCells, OwnLabels
from nzc.mechanisms.adjacency import Vectors
from nzc.privacy.run_ledger import RunLedger
from nzc.protocols.dp_sgd import DPSGD, STEPS, gradients
from nzc.runs import learner
from nzc.runs.result import RunResult
from nzc.students import StudentData

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
#: Which records of the data are others: none, one, or all of a person, who also has more.
NONE, ONE, PERSON = "none", "one", "person"


@dataclass(frozen=True, eq=False)
class Record:
    values: np.ndarray
    label: int
    name: float
    group: int


@dataclass(frozen=True)
class Kind:
    """A kind of run.

    private   which of the records are private
    write     writes the files of all records
    settings  of a run
    classes   declares the classes, and more than there are
    replaced  by what a private record is replaced, whose values change too
    rare      whether it is of the replaced class before, so that its vector changes most
    grouped   whether a person with several records is replaced
    """

    records: Sequence[Record]
    private: np.ndarray
    write: Callable[[Sequence[Record]], object]
    settings: list[str]
    classes: str
    replaced: dict[str, Any]
    rare: bool = False
    grouped: bool = False

    def neighbour(self, change: str) -> list[Record]:
        """Return the records after a private one, or a person, has changed."""
        chosen = self.records[int(np.flatnonzero(self.private)[3])]
        records = []
        for record in self.records:
            theirs = self.grouped and record.group == chosen.group
            if record is chosen or (theirs and change == PERSON):
                record = self._changed(record, change)
            records.append(record)
        if change == PERSON:  # their names change the type of an array of all names
            at = records.index(next(filter(lambda other: other.group == chosen.group, records)))
            more = [replace(records[at], name=number + 0.5) for number in range(3)]
            records[at + 1 : at + 1] = more
        return records

    def _changed(self, record: Record, change: str) -> Record:
        far = 9 * record.values if record.values.ndim == 1 else record.values
        opposite = 255 - far if record.values.ndim > 1 else -far
        if change != NONE:
            return replace(record, **{"values": opposite, **self.replaced})
        if self.rare:
            return replace(record, **{"values": far, **self.replaced})
        return replace(record, values=far)


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


def _tables(*without: str) -> Callable[[Sequence[Record]], None]:
    """Write private, public and test rows; public ones are without the label, and these columns."""

    def write(records: Sequence[Record]) -> None:
        table = pd.DataFrame([record.values for record in records], columns=list("abcd"))
        signs = table.to_numpy() > 0
        table["note"] = [" ".join(np.choose(row, WORDS)) for row in signs.astype(int)]
        table["since"] = [f"20{10 + 5 * int(row[0])}-01-0{1 + int(row[1])}" for row in signs]
        table["until"] = np.where(signs[:, 2], "9999-12-31", "2021-05-06 07:08:09")
        table["patient"] = [f"P{record.group}" for record in records]
        table["visit"] = [str(record.name) for record in records]
        table["back"] = [CLASSES[record.label] for record in records]
        table["ward"] = np.where([record.group % 3 for record in records], "north", "south")
        place = np.array([record.group % 10 for record in records])
        odd = (place < 5) & np.array([record.label == 2 for record in records])
        table.loc[odd, "note"] += " hitherto unseen words, and thrice unseen words"
        table.loc[odd & signs[:, 3], "until"] = "20210101T000000.123456789"
        table[place < 5].to_csv("private.csv", index=False)
        public = table[(place >= 5) & (place < 8)]
        public.drop(columns=["back", *without]).to_csv("public.csv", index=False)
        table[place >= 8].to_csv("test.csv", index=False)

    return write


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
WORDS = [["never", "bad", "poor", "sad"], ["ever", "good", "rich", "glad"]]
DATA = ["dataset=npz", "dataset.path=data.npz", "dataset.name=people"]
NPZ = [*DATA, *LINEAR]
CELLS = ["recipe=near_zero", *DATA, "student=linear", "queries=4", *COMMON]
TABLE = [
    "dataset=table", "dataset.private=private.csv", "dataset.public=public.csv",
    "dataset.test=test.csv", "dataset.label=back", "dataset.id=visit", "dataset.name=people",
    "dataset.columns={note: text, until: date}",
]  # fmt: skip
PATIENTS = "dataset.group=patient"
SUMS = ["recipe=near_zero_sums", *COMMON]
FOLDER = ["dataset=folder", "dataset.path=images", "dataset.grey=true", "dataset.name=people"]
IN_NPZ = (ROWS, ROLES == "private", _npz("role"))
IN_TABLES = (ROWS, GROUPS % 10 < 5)
#: A network that gives no finite number for some private rows, and an encoder of texts.
NETWORK = """
import torch

def network():
    return lambda x: torch.log(8 - x)

def letters():
    return lambda texts: [[text.count(letter) for letter in "aeiounrs"] for text in texts]
"""
DP_SGD = "DP-SGD of groups"
KINDS = {
    "Confident": Kind(
        *IN_NPZ,
        [*NPZ, "aggregator=confident", "aggregator.threshold=2", "aggregator.sigma1=1",
         "aggregator.sigma=1", "bound=sanitised"],
        "4", NEW_CLASS,
    ),
    "Confident without an answer": Kind(
        *IN_NPZ,
        [*NPZ, "aggregator=confident", "aggregator.threshold=9", "aggregator.sigma1=1",
         "aggregator.sigma=1", "rounds=2"],
        "4", NEW_CLASS,
    ),
    "Interactive of groups": Kind(
        ROWS, _private(GROUPS), _npz("group", "id"),
        [*NPZ, *SHARES, "aggregator=interactive", "aggregator.threshold=1", "aggregator.sigma1=1",
         "aggregator.sigma=1", "rounds=2"],
        "4", NEW_CLASS, grouped=True,
    ),
    "Stable of images": Kind(
        IMAGES, _private(NAMES, ".png"), _write_images,
        [*FOLDER, *SHARES, *LINEAR, "aggregator=stable", "aggregator.threshold=1",
         "aggregator.sigma1=0.5", "delta=0.5"],
        NAMED, {"label": 2, "name": NEW[_private(NEW, ".png")][0]},
    ),
    "table": Kind(*IN_TABLES, _tables(), [*TABLE, *LINEAR], NAMED, NEW_CLASS),
    "cells of labels": Kind(
        *IN_NPZ, [*CELLS, "dataset.unit=label"], "4",
        {"label": 2, "values": 9 * ROWS[np.flatnonzero(ROLES == "private")[3]].values},
    ),
    "cells of groups": Kind(
        ROWS, _private(GROUPS), _npz("group", "id"),
        [*CELLS, *SHARES, "teachers.per_group=2"],
        "4", NEW_CLASS, grouped=True,
    ),
    "sums of records": Kind(
        *IN_TABLES, _tables(), [*TABLE, *SUMS], NAMED, NEW_CLASS, rare=True
    ),
    "sums of texts by an encoder": Kind(
        *IN_TABLES, _tables(),
        [*TABLE, *SUMS, "representation=pretrained",
         "representation.encoder.model={_target_: own.letters}"],
        NAMED, NEW_CLASS, rare=True,
    ),
    "sums of labels": Kind(*IN_NPZ, [*DATA, *SUMS, "dataset.unit=label"], "4",
        {"label": 2, "values": 9 * ROWS[np.flatnonzero(ROLES == "private")[3]].values},
    ),
    "sums of groups": Kind(
        *IN_TABLES, _tables(), [*TABLE, *SUMS, PATIENTS], NAMED, NEW_CLASS,
        rare=True, grouped=True,
    ),
    "sums of groups, of which public rows tell none": Kind(
        *IN_TABLES, _tables("patient"), [*TABLE, *SUMS, PATIENTS], NAMED, NEW_CLASS,
        rare=True, grouped=True,
    ),
    DP_SGD: Kind(
        ROWS, _private(GROUPS), _npz("group", "id"),
        [*NPZ, *SHARES, "baseline=true", "budget.epsilon=1", "rng=seeded",
         "representation=pretrained", "representation.encoder.model={_target_: own.network}",
         "representation.encoder.weights=null", "representation.encoder.size=null"],
        "4", NEW_CLASS, grouped=True,
    ),
}  # fmt: skip


@dataclass
class Release:
    """One release: who drew it, from what, and with which standard deviation where that is told."""

    mechanism: NoisyArgmax | DPSGD | SanitisedPlan
    private: np.ndarray  # votes or sums; of DP-SGD the gradients at some weights
    probs: np.ndarray | None = None  # of the student
    std: float = np.nan


@dataclass
class Trace:
    """What the privacy boundary of a run drew, from what, what it charged and what was learned."""

    drawn: dict[tuple[int, ...], tuple[np.ndarray, bytes]] = field(default_factory=dict)
    releases: list[Release] = field(default_factory=list)
    charged: list[np.ndarray] = field(default_factory=lambda: [0 * ORDERS])
    #: Scales of exact noise, and what it was added to.
    exact: list[tuple[float, np.ndarray]] = field(default_factory=list)
    learned: list[object] = field(default_factory=list)
    #: So many releases were drawn, and so many charged, whenever somebody learned.
    marks: list[tuple[int, int]] = field(default_factory=list)

    def mark(self) -> None:
        self.marks.append((len(self.releases), len(self.charged)))


def _watch(patch: MonkeyPatch, now: Trace, first: Trace | None) -> None:
    """Trace the next run; if there was a first one, the next draws the same."""

    def spy(kind: Any, name: str) -> Callable[[Callable[..., Any]], None]:
        original = getattr(kind, name)

        def install(replacement: Callable[..., Any]) -> None:
            patch.setattr(kind, name, lambda *args, **named: replacement(original, *args, **named))

        return install

    @spy(RunLedger, "draw")
    def _(original: Any, ledger: RunLedger, stream: list[int], question: str, draw: Any) -> Any:
        result = original(ledger, stream, question, draw)
        now.drawn[tuple(stream)] = result if first is None else first.drawn[tuple(stream)]
        return now.drawn[tuple(stream)]

    @spy(RunLedger, "add")
    def _(original: Any, ledger: RunLedger, key: str, cost: Cost, **about: Any) -> None:
        original(ledger, key, cost, **about)
        now.charged.append(cost.rdp(ORDERS))

    @spy(ExactGenerator, "_decide")
    def _(original: Any, rng: Any, noise: ExactNoise, scores: np.ndarray, *rest: Any) -> Any:
        now.exact.append((float(noise.scale), scores))
        return original(rng, noise, scores, *rest)

    for kind in (NoisyArgmax, NoisySums):

        @spy(kind, "release")
        def _(
            original: Any, mechanism: Any, votes: Any, rng: Any, probs: Any = None, **share: Any
        ) -> Any:
            before = len(now.exact)
            released = original(mechanism, votes, rng, probs, **share)
            last = Release(mechanism, votes.copy(), probs)
            now.releases.append(last)
            exactly = sum(len(scores) for _, scores in now.exact[before:])
            assert exactly >= len(votes), "noise of float64"
            if isinstance(mechanism, NoisySums):
                ((scale, numbers),) = now.exact[before:]
                last.std = scale * np.abs(votes).max() / np.abs(numbers + 0.5).max()
            return released

    @spy(Cost, "sanitised")
    def _(original: Any, cost: Cost, delta: float, rng: Any, plan: SanitisedPlan) -> float:
        now.releases.append(Release(plan, np.zeros(0)))
        return original(cost, delta, rng, plan)

    @spy(DPSGD, "learn")
    def _(original: Any, learner: DPSGD, x: Any, y: Any, groups: Any, *rest: Any) -> Any:
        steep = 99 * np.random.default_rng(0).normal(size=(5, x.shape[1], 4))
        at = np.array([gradients(x, y, groups, weights) for weights in steep])
        now.releases.append(Release(learner, at))
        return original(learner, x, y, groups, *rest)

    @spy(learner, "StudentData")
    def _(original: Any, *arguments: Any) -> StudentData:
        parts = [part.tobytes() if isinstance(part, np.ndarray) else part for part in arguments]
        now.learned.append(parts)
        now.mark()
        return original(*arguments)


def _told(release: Release, other: Release) -> np.ndarray:
    """Return what a release tells two runs apart by, [directions, orders], at least.

    It asserts that the noise is for as much as the runs differ.
    """
    mechanism = release.mechanism
    if isinstance(mechanism, SanitisedPlan):
        return np.tile(ORDERS / (2 * mechanism.noise**2), (2, 1))
    assert release.private.shape == other.private.shape
    apart = (release.private - other.private).astype(float)
    if isinstance(mechanism, DPSGD):
        distance = np.linalg.norm(apart, axis=(1, 2)).max()
        assert distance <= 2 + 1e-9
        return np.tile(STEPS * ORDERS * (distance / mechanism.noise) ** 2 / 2, (2, 1))
    moved = np.abs(apart).sum(axis=-1)
    adjacency = mechanism.adjacency
    match adjacency:
        case Vectors():
            farthest = 2 * UNIT
            assert np.linalg.norm(apart) <= farthest
            return np.tile(ORDERS * (farthest / release.std) ** 2 / 2, (2, 1))
        case OwnLabels():
            assert moved.sum() <= 2 and not apart.sum(axis=1).any()
        case OwnCells():
            assert moved.sum() <= 2 * adjacency.records
        case _:
            assert moved.max() <= 2
    if isinstance(adjacency, OwnCells):  # Laplace counts
        shift = mechanism.noise.gamma * np.abs(apart[:, :, None])
        up = np.log(ORDERS / (2 * ORDERS - 1)) + (ORDERS - 1) * shift
        down = np.log((ORDERS - 1) / (2 * ORDERS - 1)) - ORDERS * shift
        return np.tile((np.logaddexp(up, down) / (ORDERS - 1)).sum(axis=(0, 1)), (2, 1))
    return sum(_worst(release, query, row) for query, row in enumerate(release.private))


def _worst(release: Release, query: int, row: np.ndarray) -> np.ndarray:
    """Return the most that a moved vote tells of a query, [directions, orders]."""
    probs = None if release.probs is None else release.probs[query]
    rows = np.array([row, *brute.moves(row.tolist())])
    if probs is not None:
        probs = np.tile(probs, (len(rows), 1))
    law = release.mechanism.log_law(rows, probs)
    here, there = np.broadcast_arrays(law[:1], law[1:])
    directions = []
    for p, q in ((here, there), (there, here)):
        possible = np.isfinite(p)
        ratio = np.where(possible, p, 0) - np.where(possible, q, 0)
        powers = (ORDERS[:, None, None] - 1) * ratio + np.where(possible, p, -np.inf)
        divergence = logsumexp(powers, axis=2) / (ORDERS[:, None] - 1)
        directions.append(divergence.max(axis=1))
    return np.array(directions)


def _compare(first: Trace, other: Trace) -> None:
    """Assert what holds between a run and its neighbour, beside what is published."""
    assert first.learned == other.learned
    assert len(first.releases) == len(other.releases)
    told = [_told(*pair) for pair in zip(first.releases, other.releases, strict=True)]
    for releases, charges in first.marks:
        most = sum(told[:releases], np.zeros((2, 1))) * (1 - 1e-9)
        charged = sum(first.charged[:charges])
        assert (most <= charged).all(), first.releases[0].mechanism
    if isinstance(first.releases[0].mechanism, NoisySums):  # to be paid exactly
        assert_allclose(sum(told)[0], sum(first.charged), rtol=1e-9)


Run = Callable[..., dict[str, bytes]]


@pytest.fixture
def run(run_nzc: RunNzc, command: Command, monkeypatch: MonkeyPatch) -> Run:
    """Run on data and publish: what is printed, published and sent, by name; or the line that
    refuses it.
    """
    # Times are not private, and differ between any two runs.
    begun = SimpleNamespace(now=lambda _: datetime(2026, 1, 1, tzinfo=UTC))
    stopped = SimpleNamespace(**vars(time))
    for name in ("perf_counter", "time", "clock_gettime"):
        setattr(stopped, name, lambda *_: 0.0)
    monkeypatch.setattr("nzc.app.job.time", stopped)
    monkeypatch.setattr("nzc.privacy.ledger.datetime", begun)
    monkeypatch.setattr("nzc.clock.time", stopped)

    def run(
        kind: Kind,
        change: str,
        *settings: str,
        code: int = 0,
        now: Trace | None = None,
        first: Trace | None = None,
    ) -> dict[str, bytes]:
        for folder in ("run", "published", ".nzc"):
            shutil.rmtree(folder, ignore_errors=True)
        kind.write(kind.neighbour(change))
        Path("own.py").write_text(NETWORK)
        with MonkeyPatch.context() as patch:
            if now is not None:
                _watch(patch, now, first)
            ran = run_nzc(*kind.settings, *settings, code=code)
        if code:
            return {"refused": ran.err.encode()}
        published = {}
        if "baseline=true" not in kind.settings:
            code, _, err = command("publish", "run", "published", "--name", "people")
            if code:
                return {"refused": err.encode()}
            published = dict(contents(Path("published")))
        public = RunResult.read(Path("run")).public.as_dict()
        return {
            "printed": (ran.out + ran.err).encode(),
            "result": repr(public).encode(),
            **published,
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


@parametrize("name", KINDS)
def test_neighbouring_runs_differ_by_what_is_charged(run: Run, name: str) -> None:
    kind = KINDS[name]
    settings = [f"dataset.classes={kind.classes}"]
    expected = {"published/labels.csv", "published/README.md"}
    if name == "table":  # figures and models of all kinds would take too long
        settings += [*PUBLIC, "tracking.model=true", "figures=true"]
        expected |= {"sent", "mlartifacts/ID/artifacts/predictions.csv", "published/student.pt2"}
    elif name != DP_SGD:
        settings += ["tracking=none", "+tracking.private=false"]
    first = Trace()
    left = run(kind, NONE, *settings, now=first)
    assert "refused" not in left, left
    assert expected <= set(left) or name == DP_SGD, left
    other = Trace()
    neighbour = run(kind, PERSON if kind.grouped else ONE, *settings, now=other, first=first)
    assert set(neighbour) == set(left), neighbour.get("refused")
    assert [part for part, content in left.items() if neighbour[part] != content] == []
    first.mark()
    _compare(first, other)


def test_classes_that_private_labels_tell_are_not_published(run: Run) -> None:
    """Unless they are declared. Public images tell two classes."""
    kind = replace(KINDS["Stable of images"], replaced=NEW_CLASS)
    assert "refused" not in run(kind, NONE)
    line = run(kind, ONE, code=2)["refused"].decode().splitlines()[-1]
    assert line.startswith("nzc: dataset.classes=null: must be declared")
    assert not Path("run").exists()
    run(kind, ONE, "rng=seeded")
    warnings = json.loads(Path("run/result.json").read_text())["warnings"]
    (warning,) = (text for text in warnings if text.startswith("dataset.classes=null"))
    assert "(1)" in warning and "may be" in warning
    for settings, key in ((PUBLIC, "dataset.classes=null"), (["dataset.classes=[no,yes]"], "")):
        refused = run(kind, ONE, *settings, code=2)["refused"].decode()
        assert refused.splitlines()[-1].startswith(f"nzc: {key or 'dataset.'}")
        assert "may be" not in refused
        assert not Path("run").exists()
    typed = shlex.split(line.partition(": add ")[2])[0].rstrip(",")
    assert "published/labels.csv" in run(kind, ONE, typed)
