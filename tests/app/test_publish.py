"""What is published: a whole folder of a finished run, as the run wrote it, and nothing else."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest
from conftest import SMALL, VOTES, Command, Nzc, contents, newest_folder

from nzc.app import publish as publishing
from nzc.app.publish import publish_run as publish
from nzc.validation import InputError

pytestmark = pytest.mark.usefixtures("usual_umask")
FILE = [*VOTES, "teachers.path=votes.npy", "dataset.name=people"]


def test_a_released_folder_is_whole_and_open_to_all(nzc: Nzc, tmp_path: Path) -> None:
    import torch

    ran = nzc(
        *SMALL,
        "rng=system",
        "audit=200",
        "teachers.stratify=true",
        "budget.epsilon=9",
        "aggregator.sigma=15",
    )
    dest, result = tmp_path / "new" / "released", ran.result
    for name in ("labels.csv", "predictions.csv", "student.json", "student.pt2"):
        file = newest_folder(ran) / name
        written = file.read_bytes()
        file.write_bytes(written + b"\n")
        with pytest.raises(InputError, match=f"must have the {name} that the run wrote"):
            publish(newest_folder(ran), dest)
        file.write_bytes(written)
    os.umask(0o022)
    publish(newest_folder(ran), dest)
    assert sorted(path.name for path in dest.iterdir()) == [
        "README.md", "labels.csv", "predict.py", "predictions.csv", "privacy.json", "requirements.txt", "student.json",
        "student.pt2", "table_encoder.py",
    ]  # fmt: skip
    assert all(path.stat().st_mode & 0o044 == 0o044 for path in (dest, *dest.iterdir()))
    privacy = json.loads((dest / "privacy.json").read_text())
    assert privacy["epsilon"] == {
        name: result["epsilon"][name] for name in ("published", "audited")
    }
    assert (privacy["rng"], privacy["delta"], privacy["answered"]) == (
        "system",
        1e-5,
        result["answered"],
    )
    assert privacy["asked"] == result["queries"] - result["refused"]
    assert set(privacy) == {  # no accuracy: true labels have no protection
        "name", "dataset", "mechanism", "student", "rng", "delta", "neighbours", "unit", "bound",
        "finished", "learned_from", "grouped_by", "moved_votes", "voters", "individual", "teachers", "asked",
        "answered", "epsilon", "total", "public_files", "versions",
    }  # fmt: skip
    text = (dest / "README.md").read_text()
    for fact in (
        "δ = 1e-05",
        "by\n\n    GNMax(sigma=15)",
        "budget, ε = 9",
        *map(str, privacy["epsilon"].values()),
    ):
        assert fact in text
    inside = {name.split("/data/")[-1]: data for name, data in contents(dest / "student.pt2")}
    weights = json.loads(inside["weights/model_weights_config.json"])["config"]
    assert not any(weight["use_pickle"] for weight in weights.values())
    assert inside["sample_inputs/model.pt"] == b""
    assert not any(str(Path.home()).encode() in data or b".py" in data for data in inside.values())
    from nzc.data.digits import Digits

    test = Digits(seed=0, private=1200, public=400).load().test
    student = torch.export.load(dest / "student.pt2").module()
    labels = student(torch.from_numpy(test.x)).argmax(dim=1).numpy()
    assert (labels == test.y).mean() == pytest.approx(result["accuracy"])


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["rng=seeded"], "rng=seeded: must be system"),
        (["aggregator=plurality"], "epsilon.published=inf: must be finite"),
        (["aggregator=nzc"], "is no bound"),
        (
            ["aggregator=ground_truth", "teachers.labels=labels.npy"],
            "epsilon.published=inf: must be finite",
        ),
    ],
)
def test_what_must_not_be_published_is_refused(
    nzc: Nzc, histograms: Path, arguments: list[str], line: str, command: Command
) -> None:
    ran = nzc(*FILE, *(["rng=system"] if "rng=seeded" not in arguments else []), *arguments)
    code, _, err = command("publish", str(newest_folder(ran)), "released")
    assert (code, err.count("\n")) == (2, 1)
    assert line in err
    assert not list(histograms.parent.glob("*released*"))


def _tamperings(run: Path, store: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield ways in which a run's folder is no longer what the run wrote."""
    text, labels, config = (
        (run / name).read_text() for name in ("result.json", "labels.csv", ".hydra/config.yaml")
    )
    record = json.loads(text)

    def changed(name: str, new: str) -> Callable[[], object]:
        assert new != (run / name).read_text()
        return partial((run / name).write_text, new)

    for value in (-1, float("nan"), True, 0.001, "0.1", None):
        epsilon = record["epsilon"] | {"published": value}
        yield f"epsilon {value}", changed("result.json", json.dumps(record | {"epsilon": epsilon}))
    for name, value in (("delta", 0.9), ("rng", "seeded"), ("unit", "group"), ("answered", 0)):
        yield f"{name} {value}", changed("result.json", json.dumps(record | {name: value}))
    yield "a line more", changed("labels.csv", labels + "39,1\n")
    yield "sigma", changed(".hydra/config.yaml", config.replace("sigma: 15", "sigma: 150"))
    yield (
        "the budget",
        changed(".hydra/config.yaml", config.replace("epsilon: null", "epsilon: 0.1")),
    )
    yield "no YAML", changed(".hydra/config.yaml", config.replace("aggregator:", "{["))
    yield "the ledger removed", (store / "ledger.db").unlink
    yield "an entry removed", partial(_in_ledger, store, "DELETE FROM releases")
    yield (
        "an entry of another kind",
        partial(_in_ledger, store, "UPDATE releases SET kind = 'trial'"),
    )
    yield "no run", partial(_in_ledger, store, "DELETE FROM runs")
    yield "no labels", (run / "labels.csv").unlink
    yield "no result", (run / "result.json").unlink


def _in_ledger(store: Path, command: str) -> None:
    with sqlite3.connect(store / "ledger.db") as connection:
        connection.execute(command)


def test_what_was_changed_is_not_published(nzc: Nzc, histograms: Path) -> None:
    here = histograms.parent
    run, store = here / "outputs/run", here / ".nzc"
    assert nzc(*FILE, "rng=system", "aggregator.sigma=15", "hydra.run.dir=outputs/run").code == 0
    shutil.copytree(here, here.with_name("kept"))
    for at, name in enumerate([name for name, _ in _tamperings(run, store)]):
        list(_tamperings(run, store))[at][1]()
        with pytest.raises(InputError) as refused:
            publish(run, here / "published")
        assert "\n" not in str(refused.value), name
        assert not (here / "published").exists(), name
        for folder in (run, store):
            shutil.rmtree(folder)
            shutil.copytree(here.with_name("kept") / folder.relative_to(here), folder)
    publish(run, here / "published")
    moved = store.rename(here / "moved")
    command = ["publish", str(run), str(here / "again")]
    with pytest.raises(InputError, match="--store"):
        publishing.publish(command[1:])
    publishing.publish([*command[1:], "--store", str(moved)])
    for folder, dest, key in (
        (run, here, "DEST="), (run, run, "DEST="), (run, here / "votes.npy" / "x", "DEST="),
        (here, here / "x", "RUN="), (here / "nowhere", here / "x", "RUN="), (here / "outputs", here / "x", "RUN="),
    ):  # fmt: skip
        with pytest.raises(InputError, match=rf"{key}.*must"):
            publish(folder, dest, moved)
        assert not (here / "x").exists()


def test_a_published_epsilon_follows_from_the_configuration(nzc: Nzc, histograms: Path) -> None:
    """Of every kind of promise: a run of an accountant that says too little is not published."""
    for settings in (
        ["aggregator=lnmax", "aggregator.gamma=null", "budget.epsilon=2"],
        ["aggregator=confident", "aggregator.threshold=20", "aggregator.sigma1=5", "answers=3"],
        ["bound=sanitised"],
        ["aggregator=sparse_stable", "teachers.count=50", "aggregator.cutoff=2"],
    ):
        run = newest_folder(nzc(*FILE, "rng=system", "queries=10", *settings))
        publish(run, Path(f"published-{settings[0]}"))
        assert {path.name for path in Path(f"published-{settings[0]}").iterdir()} == {
            "README.md", "labels.csv", "privacy.json",
        }  # fmt: skip
    record = json.loads((run / "result.json").read_text())
    record["epsilon"]["published"] *= 0.99
    (run / "result.json").write_text(json.dumps(record))
    digest = sha256((run / "result.json").read_bytes()).hexdigest()
    facts = f"UPDATE runs SET id = '{digest}', facts = json_set(facts, '$.files.\"result.json\"', '{digest}')"
    _in_ledger(Path(".nzc"), f"{facts} WHERE rowid = (SELECT max(rowid) FROM runs)")
    with pytest.raises(InputError, match=r"epsilon.published=.*follows from the configuration"):
        publish(run, Path("bad"))


def test_a_huge_epsilon_is_stated_too(nzc: Nzc, histograms: Path) -> None:
    run = newest_folder(nzc(*FILE, "rng=system", "queries=10", "aggregator.sigma=0.1"))
    publish(run, Path("huge"))
    epsilon = json.loads(Path("huge/privacy.json").read_text())["epsilon"]["published"]
    text = Path("huge/README.md").read_text()
    assert epsilon > 709 and "e^" in text and "at most 100.0 %" in text


def test_a_default_run_is_published_by_a_process_of_its_own(nzc: Nzc, tmp_path: Path) -> None:
    """Its stored configuration says that the noise follows from the budget, if there is one."""
    ran = nzc("recipe=near_zero", "student=none", "rng=system", "trainer.progress=false")
    command = [
        sys.executable,
        "-m",
        "nzc",
        "publish",
        str(newest_folder(ran)),
        str(tmp_path / "published"),
    ]
    published = subprocess.run(command, capture_output=True, text=True)
    assert (published.returncode, published.stderr) == (0, "")
    privacy = json.loads((tmp_path / "published" / "privacy.json").read_text())
    assert (privacy["epsilon"], privacy["delta"]) == ({"published": 0.25}, 0)
