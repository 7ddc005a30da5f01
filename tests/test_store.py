"""The store: made once and whole, by one process; private; compact; damage seen and mended; listed and pruned."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nzc.store import Ledger, Release, Store
from nzc.store.__main__ import main


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "s")
    made.open()
    return made


class Make:
    """Makes an array, and counts how often."""

    def __init__(self, array: Any = (0, 1, 2)) -> None:
        self.array, self.times = np.asarray(array), 0

    def __call__(self, _: Path) -> dict[str, np.ndarray]:
        self.times += 1
        return {"a": self.array}


def test_made_once_and_whole(store: Store) -> None:
    make = Make()
    for _ in range(2):
        assert store.fetch("kind", {"x": 1}, make)["a"].tolist() == [0, 1, 2]
    store.fetch("kind", {"x": 2}, make)
    assert make.times == 2

    def fail(_: Path) -> dict[str, np.ndarray]:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        store.fetch("kind", {"x": 3}, fail)
    store.fetch("kind", {"x": 3}, make)
    assert make.times == 3


@pytest.mark.parametrize(
    ("array", "itemsize"),
    [
        (np.arange(256), 1),
        (np.arange(257), 2),
        (np.array([-1, 100]), 1),
        (np.array([-1, 200]), 2),
        (np.array([-1, 2**62]), 8),
        (np.array([-129, 0]), 2),
        (np.array([2**64 - 1], dtype=np.uint64), 8),
        (np.array([], dtype=np.int64), 8),
        (np.array([0.5, 1]), 8),
        (np.array([True, False]), 1),
    ],
)
def test_integers_lie_compactly_and_come_back_as_they_were(store: Store, array: np.ndarray, itemsize: int) -> None:
    for _ in range(2):
        back = store.fetch("kind", {}, Make(array))["a"]
        assert back.dtype == array.dtype
        np.testing.assert_array_equal(back, array)
    (file,) = store.root.glob("kind/*/a.npy")
    assert np.load(file).dtype.itemsize == itemsize


def test_only_the_owner_may_read(tmp_path: Path) -> None:
    before = os.umask(0)  # even where the person's own habit is to show everything
    try:
        store = Store(tmp_path / "s")
        store.open()
        store.fetch("kind", {"x": 1}, Make())
        Ledger(store.root / "ledger.db")
    finally:
        os.umask(before)
    modes = {path: path.stat().st_mode & 0o777 for path in [store.root, *store.root.rglob("*")]}
    assert len(modes) == 8
    assert {path: mode for path, mode in modes.items() if mode != (0o700 if path.is_dir() else 0o600)} == {}


def _truncate(entry: Path) -> None:
    (entry / "a.npy").write_bytes((entry / "a.npy").read_bytes()[:-1])


def _flip(entry: Path) -> None:
    whole = bytearray((entry / "a.npy").read_bytes())
    whole[-1] ^= 1
    (entry / "a.npy").write_bytes(whole)


def _remove(name: str) -> Callable[[Path], None]:
    return lambda entry: (entry / name).unlink()


def _rewrite(name: str, text: str, by: str = "") -> Callable[[Path], None]:
    """Replace `text` of a file, or all of it."""

    def rewrite(entry: Path) -> None:
        whole = (entry / name).read_text()
        (entry / name).write_text(whole.replace(text, by) if text else by)
        assert (entry / name).read_text() != whole

    return rewrite


DAMAGES = [
    _truncate,
    _flip,
    *(_remove(name) for name in ("a.npy", "arrays.json", "request.json")),
    *(_rewrite("arrays.json", "", text) for text in ("", "{}", "[1]")),
    *(_rewrite("arrays.json", text, by) for text, by in (("<i8", "<i9"), ("<i8", "<f8"), ('"a"', '"b"'))),
    _rewrite("request.json", "{", '{"x": 1'),
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_set_aside_and_made_again(
    store: Store, damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    make = Make()
    for times in (1, 2):  # more than once, too
        store.fetch("kind", {}, make)
        (entry,) = [entry for entry in store.entries() if entry.state == "whole"]
        damage(entry.folder)
        assert store.fetch("kind", {}, make)["a"].tolist() == [0, 1, 2]
        assert make.times == 1 + times
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert "damaged" in said
        assert [entry.state for entry in store.entries()].count("damaged") == times
    store.fetch("kind", {}, make)
    assert make.times == 3


def test_what_a_killed_writer_left_is_in_nobodys_way(store: Store) -> None:
    store.fetch("kind", {}, Make())
    (entry,) = store.entries()
    entry.folder.rename(entry.folder.with_suffix(".partial"))
    assert [entry.state for entry in store.entries()] == ["partial"]
    assert store.fetch("kind", {}, Make())["a"].tolist() == [0, 1, 2]
    assert [entry.state for entry in store.entries()] == ["whole"]


def test_a_writer_killed_before_it_cleans_up_is_cleaned_up_after(store: Store) -> None:
    store.fetch("kind", {}, Make())
    (entry,) = store.entries()
    (work := entry.folder.with_suffix(".work")).mkdir()
    (work / "0.npy").write_bytes(b"")
    store.fetch("kind", {}, Make())
    assert store.entries() == [entry]


def test_two_processes_make_it_once(store: Store) -> None:
    script = """if True:
        import sys, time, numpy as np
        from pathlib import Path
        from nzc.store import Store
        root = Path(sys.argv[1])
        def make(work):
            with (root.parent / "made").open("a") as file:
                file.write("x")
            time.sleep(0.5)
            return {"a": np.arange(3)}
        print(Store(root).fetch("kind", {}, make)["a"].tolist())
    """
    command = [sys.executable, "-c", script, str(store.root)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate(timeout=60)[0] for process in running] == ["[0, 1, 2]\n"] * 2
    assert (store.root.parent / "made").read_text() == "x"


@pytest.fixture
def listed(store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """`python -m nzc.store --root STORE ARGUMENTS`: exit code, output, errors. Two entries and a release lie there."""
    for count in (10, 250):
        estimator = {"class": "sklearn.tree.Tree", "max_depth": 3}
        request = {"count": count, "data": "feedbeef99", "code": "c0de", "estimator": estimator, "augment": None}
        store.fetch("predictions", request, Make(np.zeros((count, 100), int)))
    orders = np.array([2.0, 8.0])
    Ledger(store.root / "ledger.db").record(Release("d00dad99", "key", orders, np.array([0.1, 0.4]), b""))

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["nzc.store", "--root", str(store.root), *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        return (int(stop.value.code or 0), *capsys.readouterr())

    return run


def test_the_listing_tells_what_is_stored_and_released(store: Store, listed) -> None:
    code, out, err = listed()
    assert (code, err) == (0, "")
    size = sum(path.stat().st_size for path in store.root.glob("predictions/*/*"))
    total = f"{np.ceil(1e3 * Ledger(store.root / 'ledger.db').total('d00dad99', 1e-5)) / 1e3:.3f}"  # rounded up
    words = ["feedbeef", "count=250", "Tree(max_depth=3)", "2 entries", f"{size / 1000:.3g} kB", "d00dad99", total]
    for word in (*words, *(entry.key for entry in store.entries())):
        assert word in out, word
    assert "augment" not in out
    assert re.search(r"digest, all rows(.*\n)*.*digest, private rows", out)
    (store.entries()[0].folder / "request.json").write_text("{")
    assert listed()[0] == 0


def test_prune(store: Store, listed, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = store.entries()
    os.utime(first.folder, (0, 0))
    assert listed("--all")[0] == 2  # nobody can be asked
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda asked: "n")
    assert listed("--all")[0] == 1
    assert len(store.entries()) == 2
    monkeypatch.setattr("builtins.input", lambda asked: "y")
    assert listed("--older", "30")[0] == 0
    assert [entry.key for entry in store.entries()] == [second.key]
    assert "nothing" in listed("--older", "30")[1]
    code, out, _ = listed("--prune", second.key[:8], "--yes")
    assert (code, "removed 1 entry" in out) == (0, True)
    assert store.entries() == []
    assert len(Ledger(store.root / "ledger.db").releases()) == 1
    make = Make()
    store.fetch("predictions", json.loads('{"again": 1}'), make)
    assert make.times == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--prune", "zz"], "--prune=zz: must begin one stored key, not 0"),
        (["--prune", "", "--yes"], "not 2"),
        (["--older", "-1"], "0 or above"),
        (["--older", "x"], "invalid float"),
        (["--foo"], "unrecognized"),
        (["--delta", "2"], "between 0 and 1"),
        (["--root", "/nowhere"], "--root=/nowhere"),
        (["--all", "--older", "2"], "not allowed with"),
    ],
)
def test_wrong_arguments_end_in_a_line(listed, arguments: list[str], says: str) -> None:
    code, out, err = listed(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err
