"""The prediction store: computed once and whole, by one process; private; compact; damage seen."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Timer

import numpy as np
import pytest
from conftest import parametrize
from pytest import CaptureFixture, raises

from nzc.privacy.ledger import Ledger
from nzc.storage.predictions import PredictionStore


@pytest.fixture
def store(tmp_path: Path) -> PredictionStore:
    return PredictionStore(tmp_path / "s")


class Train:
    """Returns an array, and counts how often."""

    def __init__(self, array: object = (0, 1, 2)) -> None:
        self.array, self.times = np.asarray(array), 0

    def __call__(self, _: Path) -> np.ndarray:
        self.times += 1
        return self.array


@parametrize(
    ("array", "itemsize"),
    [
        (np.arange(256), 1),
        (np.arange(257), 2),
        (np.array([-129, 0]), 2),
        (np.array([0.5, 1]), 8),
    ],
)
def test_whole_numbers_are_stored_in_the_smallest_type(
    store: PredictionStore, array: np.ndarray, itemsize: int
) -> None:
    for _ in range(2):
        np.testing.assert_array_equal(store.fetch({}, Train(array)), array)
    (file,) = store.root.glob("predictions/*.npz")
    assert np.load(file)["predictions"].dtype.itemsize == itemsize


@pytest.mark.usefixtures("usual_umask")
def test_only_the_owner_may_read(tmp_path: Path) -> None:
    os.umask(0)  # also where the person's own umask shows everything
    store = PredictionStore(tmp_path / "s")
    store.fetch({"x": 1}, Train())
    Ledger(store.root / "ledger.db")
    paths = [store.root, *store.root.rglob("*")]
    assert len(paths) == 6
    for path in paths:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def _flip(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 3] ^= 1
    path.write_bytes(whole)


DAMAGE = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "flipped": _flip,
    "of another request": lambda path: np.savez(
        path, predictions=np.arange(3), request=np.array('{"x": 9}')
    ),
}


@parametrize("damage", DAMAGE)
def test_predictions_are_computed_once_unless_damaged(
    store: PredictionStore, damage: str, capsys: CaptureFixture[str]
) -> None:
    train = Train()
    store.fetch({"x": 2}, train)
    for times in (2, 3):
        for _ in range(2):
            assert store.fetch({}, train).tolist() == [0, 1, 2]
        warning = capsys.readouterr().err
        assert (train.times, warning.count("\n"), "damaged" in warning) == (
            times,
            times - 2,
            times == 3,
        )
        (entry,) = [entry for entry in store.entries() if not entry.request]
        DAMAGE[damage](entry.path)


def test_unfinished_work_is_kept_and_leftovers_are_removed(
    store: PredictionStore,
) -> None:
    def stop(work: Path) -> np.ndarray:
        (work / "0.npz").write_bytes(b"half of the teachers")
        raise KeyboardInterrupt

    with raises(KeyboardInterrupt):
        store.fetch({}, stop)
    (entry,) = store.entries()
    assert entry.state == "partial"
    seen: list[bytes] = []
    store.fetch({}, lambda work: seen.append((work / "0.npz").read_bytes()) or np.arange(3))
    assert seen == [b"half of the teachers"]
    entry.path.mkdir()  # its writer was killed after it had written the entry
    assert store.fetch({}, Train()).tolist() == [0, 1, 2]
    assert [entry.state for entry in store.entries()] == ["whole"]


def test_another_process_is_waited_for_until_it_ends(
    store: PredictionStore, capsys: CaptureFixture[str]
) -> None:
    """The one that waits takes over where the other is killed, and takes what the other has
    computed.
    """
    script = """if True:
        import sys, time, numpy as np
        from nzc.storage.predictions import PredictionStore
        def train(work):
            print("begun", flush=True)
            time.sleep(float(sys.argv[2]))
            return np.arange(4)
        PredictionStore(sys.argv[1]).fetch({"seconds": sys.argv[2]}, train)
    """
    for seconds, predictions in (("600", [0, 1, 2]), ("0.5", [0, 1, 2, 3])):
        command = [sys.executable, "-c", script, str(store.root), seconds]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
            assert holder.stdout is not None
            holder.stdout.readline()
            if seconds == "600":
                Timer(0.3, holder.send_signal, [signal.SIGKILL]).start()
            assert store.fetch({"seconds": seconds}, Train()).tolist() == predictions
        assert "waiting for another process" in capsys.readouterr().err
