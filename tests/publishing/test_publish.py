"""What is published: a whole folder of a finished run, as the run wrote it, and nothing else."""

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from conftest import SMALL, VOTES, Command, RunNzc, contents, newest_folder, parametrize, state
from pytest import raises

from nzc.app.publish import publish_run as publish
from nzc.runs.formatting import number
from nzc.validation import InputError

pytestmark = pytest.mark.usefixtures("usual_umask")
FILE = [*VOTES, "teachers.path=votes.npy", "dataset.name=people"]
LABELS_ONLY = {"README.md", "labels.csv", "privacy.json"}


def test_a_released_folder_is_whole_and_open_to_all(run_nzc: RunNzc, tmp_path: Path) -> None:
    ran = run_nzc(*SMALL, "audit=200", "budget.epsilon=9", "aggregator.sigma=15", "rng=system")
    dest, result = tmp_path / "new" / "released", ran.result
    for name in ("labels.csv", "predictions.csv", "student.json", "student.pt2"):
        file = newest_folder(ran) / name
        written = file.read_bytes()
        file.write_bytes(written + b"\n")
        with raises(InputError, match=f"must have the {name} that the run wrote"):
            publish(newest_folder(ran), dest)
        file.write_bytes(written)
    os.umask(0o022)
    publish(newest_folder(ran), dest)
    student = {"predict.py", "requirements.txt", "student.json", "student.pt2", "table_encoder.py"}
    assert {path.name for path in dest.iterdir()} == LABELS_ONLY | student | {"predictions.csv"}
    assert all(path.stat().st_mode & 0o044 == 0o044 for path in (dest, *dest.iterdir()))

    privacy = json.loads((dest / "privacy.json").read_text())
    assert set(privacy) == {  # no accuracy: true labels have no protection
        "name", "dataset", "mechanism", "student", "rng", "delta", "neighbours", "unit", "bound",
        "finished", "learned_from", "grouped_by", "moved_votes", "voters", "teachers",
        "contributors", "asked", "answered", "epsilon", "total", "public_files",
        "versions",
    }  # fmt: skip
    stated = {name: result["epsilon"][name] for name in ("published", "audited")}
    facts = {"epsilon": stated, "rng": "system", "delta": 1e-5, "answered": result["answered"]}
    facts["asked"] = result["queries"] - result["refused"]
    assert {key: privacy[key] for key in facts} == facts
    text = (dest / "README.md").read_text()
    shown = [number(epsilon, name) for name, epsilon in stated.items()]
    for fact in ("δ = 1e-05", "GNMax(sigma=15)", *shown):
        assert fact in text

    inside = {name.split("/data/")[-1]: data for name, data in contents(dest / "student.pt2")}
    weights = json.loads(inside["weights/model_weights_config.json"])["config"]
    assert not any(weight["use_pickle"] for weight in weights.values())
    assert inside["sample_inputs/model.pt"] == b""
    assert not any(str(Path.home()).encode() in data or b".py" in data for data in inside.values())


def _tamperings(run: Path, store: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield ways in which a run's folder is no longer what the run wrote."""
    record = json.loads((run / "result.json").read_text())
    config = (run / ".hydra/config.yaml").read_text()

    def changed(name: str, new: str) -> Callable[[], object]:
        assert new != (run / name).read_text()
        return partial((run / name).write_text, new)

    for value in (float("nan"), 0.001):
        epsilon = record["epsilon"] | {"published": value}
        yield f"epsilon {value}", changed("result.json", json.dumps(record | {"epsilon": epsilon}))
    for fact in ({"delta": 0.9}, {"rng": "seeded"}):
        yield str(fact), changed("result.json", json.dumps(record | fact))
    yield "a line more", changed("labels.csv", (run / "labels.csv").read_text() + "39,1\n")
    for old, new in (("sigma: 15", "sigma: 150"), ("aggregator:", "{[")):
        yield new, changed(".hydra/config.yaml", config.replace(old, new))
    for statement in ("UPDATE releases SET kind = 'trial'", "DELETE FROM runs"):
        yield statement, partial(_in_ledger, store, statement)
    for lost in (store / "ledger.db", run / "labels.csv"):
        yield f"{lost.name} removed", lost.unlink


def _in_ledger(store: Path, statement: str) -> None:
    with sqlite3.connect(store / "ledger.db") as connection:
        connection.execute(statement)


def test_what_was_changed_is_not_published(
    run_nzc: RunNzc, histograms: Path, command: Command
) -> None:
    here = histograms.parent
    run, store = here / "outputs/run", here / ".nzc"
    run_nzc(*FILE, "rng=system", "aggregator.sigma=15", "hydra.run.dir=outputs/run")
    shutil.copytree(here, here.with_name("before"))
    for name, tamper in list(_tamperings(run, store)):
        tamper()
        with raises(InputError) as refused:
            publish(run, here / "published")
        assert "\n" not in str(refused.value), name
        assert not (here / "published").exists(), name
        for folder in (run, store):
            shutil.rmtree(folder)
            shutil.copytree(here.with_name("before") / folder.relative_to(here), folder)
    publish(run, here / "published")
    moved = store.rename(here / "moved")
    again = ["publish", str(run), str(here / "again")]
    assert command(*again)[0] == 2
    assert command(*again, "--store", str(moved))[0] == 0
    for folder, dest, key in ((run, here, "DEST="), (here / "nowhere", here / "x", "RUN=")):
        with raises(InputError, match=rf"{key}.*must"):
            publish(folder, dest, moved)
        assert not (here / "x").exists()


@parametrize(
    "settings",
    [
        ["aggregator=gnmax", "budget.epsilon=2"],
        ["aggregator=confident", "aggregator.threshold=20", "aggregator.sigma1=5", "answers=3"],
        ["bound=sanitised"],
    ],
)
def test_a_published_epsilon_follows_from_the_configuration(
    run_nzc: RunNzc, histograms: Path, settings: list[str]
) -> None:
    """Of every kind of promise: a run of an accountant that says too little is not published."""
    run = newest_folder(run_nzc(*FILE, "rng=system", "queries=4", *settings))
    publish(run, Path("published"))
    assert {path.name for path in Path("published").iterdir()} == LABELS_ONLY
    record = json.loads((run / "result.json").read_text())
    record["epsilon"]["published"] *= 0.99
    state(run, record)
    with raises(InputError, match=r"epsilon.published=.*follows from the configuration"):
        publish(run, Path("bad"))
