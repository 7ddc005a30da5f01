"""The edges of what is private: who may read what a run leaves, what is said and sent of it, and
what is released.
"""

import re
import signal
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import FILE, SMALL, Nzc, contents, newest_folder
from pytest import MonkeyPatch

from nzc.app import errors
from nzc.app.publish import publish_run as publish
from nzc.data.hashing import keys_of
from nzc.data.splits import by_share
from nzc.mechanisms import count_votes
from nzc.privacy.ledger import Ledger
from nzc.privacy.randomness import system_rng
from nzc.runs.result import RunResult

MARKER = np.array([201, 7, 99, 250, 13, 77, 181, 42], np.uint8)
WORD = "Zyxwv-8806513"
pytestmark = pytest.mark.usefixtures("usual_umask")


# Noise from the operating system


def test_every_generator_of_the_system_has_a_key_of_its_own(
    monkeypatch: MonkeyPatch,
) -> None:
    # Keys are the operating system's: two of 1,000 first words are equal once in 10^13 tests.
    monkeypatch.undo()
    assert len({system_rng().bit_generator.random_raw() for _ in range(1000)}) == 1000


def _releases() -> list[bytes]:
    return [entry.labels for entry in Ledger(Path(".nzc/ledger.db")).entries()]


def test_two_runs_with_noise_of_the_system_are_two_releases(nzc: Nzc, histograms: Path) -> None:
    """And a seeded one is a third."""
    labels = []
    for rng in ("system", "system", "seeded"):
        ran = nzc(*FILE, f"rng={rng}", "aggregator.sigma=40", "dataset.name=p")
        assert ran.result["rng"] == rng
        labels.append((newest_folder(ran) / "labels.csv").read_text())
    assert len(set(labels)) == len(set(_releases())) == len(_releases()) == 3


def test_a_run_that_was_killed_goes_on_with_the_noise_it_had(
    nzc: Nzc, histograms: Path, monkeypatch: MonkeyPatch
) -> None:
    command = [*FILE, "rng=system", "aggregator.sigma=40", "budget.epsilon=0.5"]
    command.append("dataset.name=people")

    with monkeypatch.context() as broken:
        broken.setattr(RunResult, "write", lambda *_: signal.raise_signal(signal.SIGTERM))
        stopped = nzc(*command, code=130)
    first = (newest_folder(stopped) / "labels.csv").read_text()
    again = newest_folder(nzc(*command))
    assert (again / "labels.csv").read_text() == first
    assert len(_releases()) == 1


# What is said, sent and released


Secrets = dict[str, list[bytes]]


def _found(secrets: Secrets, contents: Iterable[tuple[str, bytes]]) -> set[str]:
    """Which secrets are there, as they are or, for numbers, in whatever is written between them."""
    names = set()
    for _, data in contents:
        searched = data + b" " + re.sub(rb"[^0-9.]+", b" ", data) + b" "
        names |= {name for name, forms in secrets.items() if any(map(searched.__contains__, forms))}
    return names


def _array(values: np.ndarray) -> list[bytes]:
    """As bytes of every type that would hold it, and as text."""
    typed = [values.astype(kind) for kind in ("u1", "<i4", "<i8", "<f4", "<f8")]
    forms = [array.tobytes() for array in typed if (array == values).all()]
    return [*forms, f" {' '.join(f'{value:g}' for value in values.ravel())} ".encode()]


def _images(rng: np.random.Generator, private: np.ndarray) -> tuple[np.ndarray, list[bytes]]:
    x = rng.integers(0, 60, (240, 8, 8)).astype(np.uint8)
    x[np.arange(240), :, np.arange(240) % 3] += 120
    x[private, 4] = MARKER
    return x, [*_array(MARKER), (MARKER.astype(np.float32) / 255).tobytes()]


def test_nothing_of_a_private_record_or_a_vote_is_in_what_is_public(nzc: Nzc) -> None:
    """test_neighbouring_runs shows it of every number that follows from them."""
    group = [f"{WORD}-{row}" for row in range(240)]
    chosen = by_share(keys_of(np.array(group)), True, 0.6, 0.2, 0)
    assert chosen is not None
    x, record = _images(np.random.default_rng(0), chosen[0])
    y = np.where(np.arange(240) % 7 == 0, 2, np.arange(240) % 3)  # some wrong, or all would agree
    np.savez_compressed("data.npz", x=x, y=y, group=group)
    here = Path.cwd()
    sent = [here / "mlflow.db", here / "mlartifacts"]
    command = ["dataset=npz", "dataset.path=data.npz", "dataset.private=0.6", "dataset.public=0.2"]
    command += [*SMALL, "rng=system", "aggregator.sigma=6", "tracking=mlflow", "figures=true"]
    ran = nzc(*command, "tracking.private=false", "dataset.name=people")
    predictions = np.load(next(Path(".nzc/predictions").glob("*.npz")))["predictions"].astype(int)
    votes = count_votes(predictions, 3)
    secrets = {
        "record": record,
        "group": [WORD.encode()],
        "predictions": _array(predictions[0][:30]),
        "votes": _array(votes[:8]),
        "votes by class": _array(votes[:20, 0]),
    }
    publish(newest_folder(ran), here / "released")
    public = [("printed", (ran.out + ran.err).encode()), *contents(here / "released", *sent)]
    assert _found(secrets, public) == set()
    names = {Path(name).name for name, _ in public}
    assert names >= {"labels.csv", "confusion.svg"}
    assert not names & {"curves.csv", "gaps.svg", "cost.svg"}

    # And they are found where they are.
    private = contents(here / "data.npz", here / ".nzc", here / "outputs")
    assert _found(secrets, private) >= {"record", "predictions"}
    assert _open_to_others(here / ".nzc", here / "outputs", *sent) == []


#: Private files of tables that cannot be read, with WORD in them.
BAD_TABLES = {
    "bytes.csv": f"age,sex,ill\n{WORD}\xff,f,1\n",
    "cells.csv": f"age,sex,ill\n1,f,1,{WORD},{WORD}\n",
    "values.csv": f"age,sex,ill\n{WORD},f,0\n2,m,1\n",
    "quote.csv": f'age,sex,ill\n1,"{WORD},1\n',
    "header.csv": f"{WORD},f,{WORD}\n39,m,1\n",
    "t.parquet": f"PAR1 {WORD} PAR1",
}


def _broken() -> Iterator[tuple[list[str], str]]:
    """Commands that fail on private input, each with what of it must not be quoted."""
    np.savez("bad.npz", x=np.zeros((9, 2)), y=np.arange(9) % 2, role=np.array([WORD] * 9))
    yield ["dataset=npz", "dataset.path=bad.npz"], WORD
    for votes, secret in (([{WORD: 1}], WORD), ([[9, 5], [8806, 5]], "8806")):
        np.save("votes.npy", votes)
        yield FILE, secret
    np.save("votes.npy", np.array([[9, 5], [5, 9]]))
    np.save("labels.npy", np.array([0, 8806]))
    yield [*FILE, "teachers.labels=labels.npy"], "8806"

    for kind in ("cat", "dog"):
        Path("images", kind).mkdir(parents=True)
        for number in range(5):
            Path("images", kind, f"{WORD}-{number}.png").write_text(f"{WORD} is no image")
    # No split of the few images is empty.
    shares = ["dataset.private=0.4", "dataset.public=0.3", "dataset.seed=3"]
    yield ["dataset=folder", "dataset.path=images", *shares], WORD

    Path("public.csv").write_text("age,sex\n1,f\n2,m\n")
    table = ["dataset=table", "dataset.public=public.csv", "dataset.label=ill"]
    for name, text in BAD_TABLES.items():
        Path(name).write_bytes(text.encode("latin-1"))
        yield [*table, f"dataset.private={name}"], WORD
    Path("adult").mkdir()
    for name in ("adult.data", "adult.test"):
        Path("adult", name).write_text(f"39, {WORD}, 13\n")
    yield ["dataset=adult", "dataset.root=."], WORD


def test_no_error_quotes_a_private_file(nzc: Nzc, monkeypatch: MonkeyPatch) -> None:
    lines = []
    error_line = errors.error_line

    def noted(*arguments: Any) -> tuple[int, str]:
        lines.append(error_line(*arguments)[1])
        return error_line(*arguments)

    monkeypatch.setattr(errors, "error_line", noted)
    monkeypatch.setattr(errors, "TRACEBACK", True)  # as by HYDRA_FULL_ERROR=1
    for arguments, secret in _broken():
        lines.clear()
        ran = nzc(*arguments, "student=none", code=2)
        assert "Traceback" in ran.err and f"nzc: {lines[0]}\n" in ran.err and len(lines) == 1
        assert secret not in ran.err + ran.out + lines[0], (arguments, ran.err)


def test_a_failure_while_running_says_what_it_failed_at_only_where_it_may(
    nzc: Nzc, histograms: Path, monkeypatch: MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError(f"{WORD} and its votes [8806, 513]")

    monkeypatch.setattr("nzc.privacy.session.Session.charge", fails)
    for private in (True, False):
        quiet = [*FILE, "aggregator.sigma=10", "tracking=none", "rng=system", "dataset.name=p"]
        err = nzc(*quiet, f"+tracking.private={str(private).lower()}", code=1).err
        assert err.count("\n") == 1 and "RuntimeError" in err
        assert (WORD in err) == private


def test_the_public_part_of_a_result_is_known_key_by_key(nzc: Nzc, histograms: Path) -> None:
    """A new key of result.json is private until it is added here."""
    nzc(*FILE, "teachers.labels=labels.npy")
    record = RunResult.read(next(Path("outputs").glob("*/*"))).public.as_dict()
    assert {key for key, value in record.items() if value is not None} == {
        "dataset", "aggregator", "student", "seed", "rng", "mechanism", "delta", "queries",
        "answered", "refused", "reinforced", "label_accuracy", "teachers", "epsilon", "rounds",
        "neighbours", "unit", "bound", "seconds", "finished", "versions", "metrics", "warnings",
        "moved_votes", "voters",
    }  # fmt: skip
    public = {"published", "published_delta", "data_independent"}
    assert {name for name, value in record["epsilon"].items() if value is not None} == public
    assert {name for name, value in record["teachers"].items() if value is not None} == {"count"}
    assert set(record["seconds"]) == {"total"}


def _open_to_others(*roots: Path) -> list[str]:
    """Return the files and folders that others than their owner may read or write."""
    paths = [path for root in roots for path in (root, *root.rglob("*"))]
    assert paths
    return [str(path) for path in paths if stat.S_IMODE(path.lstat().st_mode) & 0o077]
