"""The edges of what is private: who may read what a run leaves, what is said and sent of it, and
what is released.
"""

import io
import re
import signal
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import SMALL, TEACHERS, VOTES, Nzc, Ran, contents, newest_folder
from mlflow import MlflowClient
from scipy import stats

from nzc.accounting import sanitised
from nzc.accounting.data_dependent import gaussian_bound
from nzc.app import errors
from nzc.app.publish import publish_run as publish
from nzc.data.hashing import keys_of
from nzc.data.splits import by_share
from nzc.labeling.ledger import Ledger
from nzc.labeling.randomness import system_rng
from nzc.runs.result import RunResult

MARKER = bytes([201, 7, 99, 250, 13, 77, 181, 42])
WORD = "Zyxwv-8806513"
NUMBER = 1234567.8125
pytestmark = pytest.mark.usefixtures("usual_umask")
FILE = [*VOTES, "teachers.path=votes.npy"]


# Noise from the operating system


def test_the_systems_noise_has_the_laws_that_are_accounted_for() -> None:
    laws = {
        "normal": stats.norm,
        "laplace": stats.laplace,
        "gumbel": stats.gumbel_r,
        "exponential": stats.expon,
    }
    for law, exact in laws.items():
        drawn = getattr(system_rng(), law)(size=20_000)
        assert stats.kstest(drawn, exact.cdf).pvalue > 0.001
        assert len(np.unique(drawn)) == len(drawn)


def test_every_generator_of_the_system_has_a_key_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()  # keys are the operating system's; two of 1,000 first words are equal once in 10^13 tests
    assert len({system_rng().bit_generator.random_raw() for _ in range(1000)}) == 1000


def _releases(folder: Path) -> list[bytes]:
    return [entry.labels for entry in Ledger(folder / ".nzc" / "ledger.db").entries()]


def test_two_runs_with_noise_of_the_system_are_two_releases(nzc: Nzc, histograms: Path) -> None:
    """And a seeded one is a third, which may be had again for nothing."""
    labels = []
    for rng in ("system", "system", "seeded", "seeded"):
        ran = nzc(*FILE, f"rng={rng}", "aggregator=lnmax", "aggregator.gamma=0.01")
        assert (ran.code, ran.result["rng"]) == (0, rng)
        labels.append((newest_folder(ran) / "labels.csv").read_text())
    assert (
        len(set(labels))
        == len(set(_releases(histograms.parent)))
        == len(_releases(histograms.parent))
        == 3
    )
    assert labels[2] == labels[3]


def test_a_run_that_was_killed_goes_on_with_the_noise_it_had(
    nzc: Nzc, histograms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [
        *FILE,
        "rng=system",
        "aggregator=lnmax",
        "aggregator.gamma=0.01",
        "budget.epsilon=0.5",
    ]
    with monkeypatch.context() as broken:
        broken.setattr(RunResult, "write", lambda *_: signal.raise_signal(signal.SIGTERM))
        assert nzc(*command).code == 130
    first = (newest_folder(Ran(0, "", "", histograms.parent)) / "labels.csv").read_text()
    again, other = (nzc(*command) for _ in range(2))
    folders = sorted(path.parent for path in again.folder.glob("outputs/**/result.json"))
    assert (
        (folders[0] / "labels.csv").read_text() == first != (folders[1] / "labels.csv").read_text()
    )
    assert again.code == other.code == 0
    assert len(_releases(histograms.parent)) == 2


def test_a_released_bound_is_rounded_up_to_a_coarse_step() -> None:
    plan = sanitised.plan([(100, gaussian_bound(20))], 1e-5)
    for seed in range(100):
        exact = 0.3 + plan.beta * (
            plan.noise * np.random.default_rng(seed).standard_normal() + plan.margin
        )
        drawn = sanitised.draw(0.3, plan, np.random.default_rng(seed))
        assert 0 <= drawn - exact <= 2**-20
        assert (drawn * 2**20).is_integer()


# What is said, sent and released


def _found(secrets: dict[str, list[bytes]], contents: Iterator[tuple[str, bytes]]) -> set[str]:
    """Which secrets are there, as they are or, for numbers, in whatever is written between them."""
    names = set()
    for _, data in contents:
        numbers = b" " + re.sub(rb"[^0-9.]+", b" ", data) + b" "
        names |= {
            name
            for name, forms in secrets.items()
            if any(form in data or form in numbers for form in forms)
        }
    return names


def _array(values: np.ndarray) -> list[bytes]:
    """As bytes of every type that would hold it, and as text."""
    types = ("u1", "<i4", "<i8", "<f4", "<f8")
    forms = [
        values.astype(kind).tobytes() for kind in types if (values.astype(kind) == values).all()
    ]
    return [*forms, f" {' '.join(f'{value:g}' for value in values.ravel())} ".encode()]


def _number(value: float) -> list[bytes]:
    """A float64 in either order, as SQLite has it or numpy, and its first digits."""
    return [struct.pack(">d", value), struct.pack("<d", value), repr(value)[:10].encode()]


def _private(ran: Ran, store: Path) -> dict[str, list[bytes]]:
    """What no one else may see of the newest run, but for the records."""
    predictions = np.load(next(store.glob("predictions/*.npz")))["predictions"].astype(int)
    classes = int(predictions.max()) + 1
    votes = np.stack([(predictions == label).sum(axis=0) for label in range(classes)], axis=1)
    result = ran.result
    mean = result["teachers"]["mean_accuracy"]
    assert mean not in (
        result["label_accuracy"],
        result["accuracy"],
    )  # public, and not equal to it by chance
    return {
        "predictions": _array(predictions[0][:30]),
        "votes": _array(votes[:8]),
        "votes by class": _array(votes[:20, 0]),
        "exact": _number(result["epsilon"]["exact"]),
        "theorem": _number(result["epsilon"]["theorem"]),
        "paper": _number(result["epsilon"]["paper"]),
        "ledger": _number(result["epsilon"]["ledger_total"]),
        "teachers": _number(mean),
        "digest": [str(result["data"]["digest"])[:36].encode()],
    }


def _images(rows: np.random.Generator, private: np.ndarray) -> tuple[np.ndarray, list[bytes]]:
    x = rows.integers(0, 60, (240, 8, 8)).astype(np.uint8)
    x[np.arange(240), :, np.arange(240) % 3] += 120
    x[private, 4] = np.frombuffer(MARKER, np.uint8)
    scaled = np.frombuffer(MARKER, np.uint8).astype(np.float32) / 255
    return x, [*_array(np.frombuffer(MARKER, np.uint8)), scaled.tobytes()]


def _table(rows: np.random.Generator, private: np.ndarray) -> tuple[np.ndarray, list[bytes]]:
    x = rows.normal(size=(240, 5)) + 3 * (np.arange(240) % 3)[:, None]
    x[private, 2] = NUMBER
    return x, [np.array(NUMBER, kind).tobytes() for kind in ("<f8", ">f8", "<f4")] + [
        b"1234567",
        b"1.234567",
    ]


@pytest.mark.parametrize(
    ("make", "settings"), [(_images, SMALL), (_table, [*TEACHERS, "student=none"])]
)
def test_nothing_of_a_private_record_or_a_vote_is_in_what_is_public(
    nzc: Nzc, make: Any, settings: list[str]
) -> None:
    group = [f"{WORD}-{row}" for row in range(240)]
    chosen = by_share(keys_of(np.array(group)), True, 0.6, 0.2, 0)
    assert chosen is not None
    x, forms = make(np.random.default_rng(0), chosen[0])
    y = np.where(np.arange(240) % 7 == 0, 2, np.arange(240) % 3)  # some wrong, or all would agree
    np.savez_compressed("data.npz", x=x, y=y, group=group)
    here = Path.cwd()
    command = [
        "dataset=npz",
        "dataset.path=data.npz",
        "dataset.private=0.6",
        "dataset.public=0.2",
        "rng=system",
    ]
    command += [*settings, "aggregator.sigma=6", "tracking=mlflow", "figures=true"]
    ran = nzc(*command, "tracking.private=false")
    assert ran.code == 0, ran.err
    secrets = {"record": forms, "group": [WORD.encode()]} | _private(ran, here / ".nzc")
    publish(newest_folder(ran), here / "released", name="people")
    printed = ("printed", (ran.out + ran.err).encode())
    public = [printed, *contents(here / "released", here / "mlflow.db", here / "mlartifacts")]
    assert _found(secrets, iter(public)) == set()
    names = {Path(name).name for name, _ in public}
    assert "labels.csv" in names and "confusion.svg" in names
    assert not names & {"curves.csv", "gaps.svg", "cost.svg"}

    client = MlflowClient(f"sqlite:///{here}/mlflow.db")
    run = client.search_runs([client.get_experiment_by_name("npz").experiment_id])[0]
    plain = {name for name in run.data.metrics if "/" not in name}
    of_public_rows = {
        "accuracy",
        "label_accuracy",
        "majority",
        "balanced_accuracy",
        "auc",
        "average_precision",
    }
    of_public_rows |= {"recall_0", "recall_1", "recall_2", "agreement"}
    assert plain <= of_public_rows | {"answered", "teachers_count", "epsilon", "seconds_total"} | {
        f"epsilon_{name}" for name in ("published", "data_independent", "audited")
    }
    assert run.data.metrics["epsilon"] == ran.result["epsilon"]["published"]

    # And they are found where they are.
    private = contents(here / "data.npz", here / ".nzc", here / "outputs")
    own = {"predictions", "exact", "theorem", "paper", "ledger", "teachers", "digest"}
    assert _found(secrets, private) >= own | {"record"}
    ran = nzc(
        *(word for word in command if not word.startswith("student")),
        "student=none",
        "tracking.private=true",
    )
    sent = _found(_private(ran, here / ".nzc"), contents(here / "mlflow.db", here / "mlartifacts"))
    assert sent == own - {"predictions"}


def _broken(here: Path) -> Iterator[tuple[list[str], str]]:
    """Commands that fail on private input, each with what of it must not be quoted."""

    def npz(name: str, **arrays: np.ndarray) -> list[str]:
        np.savez(here / f"{name}.npz", **arrays)
        return ["dataset=npz", f"dataset.path={name}.npz"]

    yield npz("text", x=np.array([[WORD]] * 9), y=np.arange(9) % 3), WORD
    yield npz("one", x=np.zeros((99, 2)), y=np.full(99, 8806)), "8806"
    yield npz("names", **{WORD: np.zeros(3)}), WORD
    yield npz("role", x=np.zeros((9, 2)), y=np.arange(9) % 2, role=np.array([WORD] * 9)), WORD

    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (3,)}
    )
    (here / "votes.npy").write_bytes(
        header.getvalue().replace(b"'descr'", b"'" + WORD[:5].encode() + b"'")
    )
    yield FILE, WORD[:5]
    np.save(here / "object.npy", np.array([{WORD: 1}], dtype=object))
    yield [*VOTES, "teachers.path=object.npy"], WORD
    np.save(here / "uneven.npy", np.array([[9, 5], [8806, 5]]))
    yield [*VOTES, "teachers.path=uneven.npy"], "8806"
    np.save(here / "good.npy", np.array([[9, 5], [5, 9]]))
    np.save(here / "labels.npy", np.array([0, 8806]))
    yield [*VOTES, "teachers.path=good.npy", "teachers.labels=labels.npy"], "8806"

    for kind in ("cat", "dog"):
        (here / "images" / kind).mkdir(parents=True)
        for number in range(5):
            (here / "images" / kind / f"{WORD}-{number}.png").write_bytes(
                f"{WORD} is no image".encode()
            )
    shares = [
        "dataset.private=0.4",
        "dataset.public=0.3",
        "dataset.seed=3",
    ]  # no split of the few images is empty
    yield ["dataset=folder", "dataset.path=images", *shares], WORD

    (here / "public.csv").write_text("age,sex\n1,f\n2,m\n")
    tables = ["dataset=table", "dataset.public=public.csv", "dataset.label=ill"]
    for name, text in {
        "bytes.csv": f"age,sex,ill\n{WORD}\xff,f,1\n",
        "cells.csv": f"age,sex,ill\n1,f,1,{WORD},{WORD}\n",
        "values.csv": f"age,sex,ill\n{WORD},f,0\n2,m,1\n",
        "quote.csv": f'age,sex,ill\n1,"{WORD},1\n',
        "header.csv": f"{WORD},f,{WORD}\n39,m,1\n",
        "t.parquet": f"PAR1 {WORD} PAR1",
    }.items():
        (here / name).write_bytes(text.encode("latin-1"))
        yield [*tables, f"dataset.private={name}"], WORD
    (here / "adult").mkdir()
    for name in ("adult.data", "adult.test"):
        (here / "adult" / name).write_text(f"39, {WORD}, 13\n")
    yield ["dataset=adult", "dataset.root=."], WORD


def test_no_error_quotes_a_private_file(
    nzc: Nzc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments, secret in _broken(tmp_path):
        for traceback in (False, True):  # HYDRA_FULL_ERROR=1
            monkeypatch.setattr(errors, "TRACEBACK", traceback)
            ran = nzc(*arguments, "student=none")
            assert (ran.code, "Traceback" in ran.err) == (2, traceback), ran.err
            assert secret not in ran.err + ran.out, (arguments, ran.err)


def test_a_failure_while_running_says_what_it_failed_at_only_where_it_may(
    nzc: Nzc, histograms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError(f"{WORD} and its votes [8806, 513]")

    monkeypatch.setattr("nzc.labeling.release.LabelingSession.charge", fails)
    for private in (True, False):
        quiet = [*FILE, "aggregator.sigma=10", "tracking=none", "rng=system"]
        ran = nzc(*quiet, f"+tracking.private={str(private).lower()}")
        assert (ran.code, ran.err.count("\n")) == (1, 1)
        assert (WORD in ran.err) == private
        assert "RuntimeError" in ran.err


def test_a_sweep_says_and_sends_no_private_epsilon(nzc: Nzc, histograms: Path) -> None:
    here = Path.cwd()
    command = [
        "--multirun",
        *FILE,
        "seed=0,1",
        "teachers.labels=labels.npy",
        "tracking=mlflow",
        "rng=system",
    ]
    ran = nzc(*command, "tracking.private=false")
    assert ran.code == 0, ran.err
    secrets = {
        f"exact {at}": _number(result["epsilon"]["exact"]) for at, result in enumerate(ran.results)
    }
    shown = f"{ran.results[0]['epsilon']['exact']:.2f}"
    sent = dict(contents(here / "mlflow.db", here / "mlartifacts"))
    assert _found(secrets, iter(sent.items())) == set()
    assert not {Path(name).name for name in sent} & {"table.md", "report.html"}
    assert shown not in ran.out and "data-independent" not in ran.err
    assert _found(secrets, contents(here / "outputs")) == set(secrets)
    assert shown in nzc(*command, "queries=40").out


def test_labels_that_may_not_be_published_are_not_tracked_as_public(
    nzc: Nzc, histograms: Path
) -> None:
    for settings in (["rng=seeded"], ["rng=system", "aggregator=nzc"]):
        ran = nzc(*FILE, "tracking=mlflow", "tracking.private=false", *settings)
        assert (ran.code, ran.err.count("\n")) == (2, 1)
        assert "tracking.private=false: must be true" in ran.err
        assert not Path("outputs").exists()


def test_the_public_part_of_a_result_is_known_key_by_key(nzc: Nzc, histograms: Path) -> None:
    """A new key of result.json is private until it is added here."""
    nzc(*FILE, "teachers.labels=labels.npy")
    record = RunResult.read(next(Path("outputs").glob("*/*"))).public.as_dict()
    assert {key for key, value in record.items() if value is not None} == {
        "dataset", "aggregator", "student", "seed", "rng", "mechanism", "delta", "queries", "answered", "refused",
        "reinforced", "label_accuracy", "teachers", "epsilon", "rounds", "neighbours", "unit", "bound", "seconds",
        "finished", "versions", "metrics", "warnings", "moved_votes", "voters", "individual",
    }  # fmt: skip
    assert {name for name, value in record["epsilon"].items() if value is not None} == {
        "published", "published_delta", "data_independent"
    }  # fmt: skip
    assert {name for name, value in record["teachers"].items() if value is not None} == {"count"}
    assert set(record["seconds"]) == {"total"}


# Whose files they are


def _open_to_others(*roots: Path) -> list[str]:
    paths = [path for root in roots for path in (root, *root.rglob("*"))]
    assert paths
    return [str(path) for path in paths if stat.S_IMODE(path.lstat().st_mode) & 0o077]


def test_what_runs_and_sweeps_leave_is_their_owners_alone(nzc: Nzc, histograms: Path) -> None:
    here, command = (
        Path.cwd(),
        [*FILE, "teachers.labels=labels.npy", "tracking=mlflow", "figures=true"],
    )
    left = [here / name for name in (".nzc", "outputs", "mlflow.db", "mlartifacts")]
    assert nzc(*command).code == nzc("--multirun", *command, "seed=1").code == 0
    assert list(here.glob("outputs/sweeps/*/*/report.html"))
    assert _open_to_others(*left) == []
