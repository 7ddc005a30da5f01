"""Fixtures of many tests: the command line in this process, small runs, the published votes."""

import os

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # there is a worker a core
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")  # one that is down costs no time

import json
import random
import shlex
import shutil
import signal
import socket
import sqlite3
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from pytest import CaptureFixture, MonkeyPatch, TempPathFactory

from nzc.app.main import main
from nzc.data import DataSplits
from nzc.data.digits import Digits
from nzc.privacy import randomness, run_ledger

# MLflow is imported where it is used: pytest starts the workers only when it has read this file.

#: Teachers in a fraction of a second, on the processor; a student likewise; both.
TEACHERS = [
    "teachers.count=6",
    "teachers.epochs=20",
    "trainer.progress=false",
    "trainer.accelerator=cpu",
]
STUDENT = [*TEACHERS[2:], "student.steps=60"]
SMALL = [*TEACHERS, "student.steps=60"]
VOTES = ["teachers=votes", "dataset=none", "student=none", "trainer.progress=false"]
FILE = [*VOTES, "teachers.path=votes.npy"]
TRACKED = [*FILE, "tracking=mlflow"]
parametrize = pytest.mark.parametrize


class Ran(NamedTuple):
    """How a command ended: exit code, what it said, and the results it left."""

    code: int
    out: str
    err: str
    folder: Path

    @property
    def results(self) -> list[dict[str, Any]]:
        paths = sorted(self.folder.glob("outputs/**/result.json"))
        return [json.loads(path.read_text()) for path in paths]

    @property
    def result(self) -> dict[str, Any]:
        """The result of the newest run."""
        return self.results[-1]


RunNzc = Callable[..., Ran]
Command = Callable[..., tuple[int, str, str]]


def _main() -> int:
    """Run the command in this process, where SIGTERM stays as it was: exit code."""
    try:
        main()
    except SystemExit as stop:
        return int(stop.code or 0)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return 0


@pytest.fixture(autouse=True)
def fixed_entropy(monkeypatch: MonkeyPatch) -> None:
    """Keys, nonces and generators of libraries follow from a seed: tests draw the same noise.

    A generator that nzc or a test forgot to seed is an error.
    """
    entropy = random.Random(0)
    seeded = np.random.default_rng

    def require_seed(seed: Any = None) -> np.random.Generator:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        own = caller.startswith(("nzc", "test_", "conftest"))
        assert seed is not None or not own, f"a generator without a seed in {caller}"
        return seeded(0 if seed is None else seed)

    secrets = SimpleNamespace(randbits=entropy.getrandbits, token_bytes=entropy.randbytes)
    for module in (randomness, run_ledger):
        monkeypatch.setattr(module, "secrets", secrets)
    monkeypatch.setattr(np.random, "default_rng", require_seed)


@pytest.fixture(scope="session")
def database(tmp_path_factory: TempPathFactory) -> Path:
    """MLflow's database before the first run: it takes seconds to make, once for all workers."""
    from nzc.tracking.mlflow import create_database

    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    create_database(folder / "mlflow.db")
    return folder / "mlflow.db"


@pytest.fixture
def command(monkeypatch: MonkeyPatch, capfd: CaptureFixture[str]) -> Command:
    """Run `nzc ARGUMENTS`: exit code, output, errors."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)  # MLflow sets it in this process, too

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["nzc", *arguments])
        code = _main()
        return code, *capfd.readouterr()

    return run


@pytest.fixture
def here(tmp_path: Path, monkeypatch: MonkeyPatch) -> Path:
    """An empty folder, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run_nzc(here: Path, monkeypatch: MonkeyPatch, command: Command, database: Path) -> RunNzc:
    """Run `nzc ARGUMENTS` in an empty folder, silent, untracked and without figures unless said.

    It must end with exit code `code`.
    """
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")  # main sets it, too; here it is undone
    monkeypatch.setattr(
        "nzc.tracking.mlflow.create_database",
        lambda path: path.exists() or shutil.copyfile(database, path),
    )

    def run(*arguments: str, code: int = 0) -> Ran:
        words = [*arguments]
        for default in ("tracking=none", "figures=false", "trainer.progress=false"):
            key = default.partition("=")[0]
            if not any(argument.startswith(key) for argument in arguments):
                words.append(default)
        ran = Ran(*command(*words), here)
        assert ran.code == code, ran.err
        return ran

    return run


@pytest.fixture
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Compute on one thread, which small networks want, from fixed weights."""
    import torch

    torch.manual_seed(0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def hydra_value(words: str) -> Any:
    """What Hydra reads where one types KEY=VALUE into a shell, of the first of these words."""
    return OverridesParser.create().parse_override(shlex.split(words)[0]).value()


def write(path: Path | str, text: str) -> None:
    """Write a file, and its folder where there is none."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def newest_folder(ran: Ran) -> Path:
    """The folder of the newest run."""
    return sorted(ran.folder.glob("outputs/**/.hydra"))[-1].parent


def contents(*roots: Path) -> Iterator[tuple[str, bytes]]:
    """Every file, and of archives what is in them."""
    for root in roots:
        for path in [root, *sorted(root.rglob("*"))]:
            if path.is_file():
                yield str(path), path.read_bytes()
            if path.is_file() and zipfile.is_zipfile(path):
                with zipfile.ZipFile(path) as archive:
                    for name in archive.namelist():
                        yield f"{path}:{name}", archive.read(name)


def mlflow_client(name: str = "mlflow.db") -> Any:
    """An MlflowClient of a database in the working directory. MLflow keeps connections, by a
    relative path from test to test.
    """
    from mlflow import MlflowClient

    return MlflowClient(f"sqlite:///{Path.cwd()}/{name}")


def tracked_runs(client: Any = None, query: str = "") -> list[Any]:
    """All runs that MLflow has, as its entities, the oldest first."""
    client = client or mlflow_client()
    everywhere = [experiment.experiment_id for experiment in client.search_experiments()]
    return list(client.search_runs(everywhere, query, order_by=["attributes.start_time"]))


def served(uri: str, model: str, rows: np.ndarray) -> Any:
    """The table that MLflow predicts for rows by a registered model."""
    import mlflow

    with warnings.catch_warnings(action="ignore"):  # of MLflow's own imports
        mlflow.set_tracking_uri(uri)
        return mlflow.pyfunc.load_model(f"models:/{model}").predict(rows)


def nowhere() -> str:
    """An address at which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


@pytest.fixture(scope="session")
def splits() -> DataSplits:
    """A few digits, 120 of them private."""
    return Digits(0, 120, 30).load()


@pytest.fixture
def histograms(tmp_path: Path) -> Path:
    """A file of votes of 50 teachers on 40 queries in 4 classes, and labels.npy beside it."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 40)
    votes = rng.multinomial(50, 0.1 + 0.6 * np.eye(4)[labels])
    np.save(tmp_path / "votes.npy", votes)
    np.save(tmp_path / "labels.npy", labels)
    return tmp_path / "votes.npy"


def state(run: Path, result: dict[str, Any]) -> None:
    """Let a run state another result, and the ledger know it as that of the run."""
    text = json.dumps(result)
    (run / "result.json").write_text(text)
    digest = sha256(text.encode()).hexdigest()
    stated = f"json_set(facts, '$.files.\"result.json\"', '{digest}')"
    with sqlite3.connect(".nzc/ledger.db") as connection:
        connection.execute(f"UPDATE runs SET id = '{digest}', facts = {stated}")


def published(name: str) -> Path:
    """The folder pate_votes/ below NZC_DATA; the test is skipped where there is none."""
    folder = Path(os.environ.get("NZC_DATA", "")) / "pate_votes"
    if not (folder / name).is_file():
        pytest.skip(f"NZC_DATA names no folder with pate_votes/{name}")
    return folder / name


def published_votes(name: str, rows: int | None = None) -> np.ndarray:
    """The first rows of the published histograms of 250 teachers: mnist, svhn or adult."""
    return np.load(published(f"{name}_250_teachers.npy"))[:rows].astype(np.int64)
