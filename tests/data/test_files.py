"""What is no file is refused by every reader before it is opened: opening a named pipe would wait forever."""

import os
import socket
from pathlib import Path

import numpy as np
import pytest
from conftest import VOTES, Nzc
from PIL import Image

SPECIAL = {"pipe": "a named pipe", "device": "a device", "socket": "a socket", "folder": "a folder", "kernel": "empty"}


def _put(path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        monkeypatch.chdir(path.parent)  # a socket's address is short
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == "device" else "/proc/self/stat")


@pytest.mark.parametrize("kind", SPECIAL)
def test_no_reader_opens_what_is_no_file(nzc: Nzc, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "votes.npy", np.array([[9, 5], [5, 9]]))
    (tmp_path / "t.csv").write_text("a,ill\n1,0\n2,1\n")
    readers = {
        "v.npy": [*VOTES, "teachers.path=v.npy"],
        "y.npy": [*VOTES, "teachers.path=votes.npy", "teachers.labels=y.npy"],
        "x.npz": ["dataset=npz", "dataset.path=x.npz"],
        "p.csv": ["dataset=table", "dataset.private=p.csv", "dataset.public=t.csv", "dataset.label=ill"],
        "u.parquet": ["dataset=table", "dataset.private=t.csv", "dataset.public=u.parquet", "dataset.label=ill"],
        "fonts/a.ttf": ["dataset=glyph", "dataset.fonts=fonts"],
        "adult/adult.data": ["dataset=adult", "dataset.root=."],
        "train_32x32.mat": ["dataset=svhn", "dataset.root=."],
        "MNIST/raw/train-images-idx3-ubyte": ["dataset=mnist", "dataset.root=."],
        "images/cat/1.png": ["dataset=folder", "dataset.path=images"],
    }
    for name in ("cat/2", "cat/3", "dog/4", "dog/5", "dog/6"):
        (tmp_path / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4, 4)).save(tmp_path / "images" / f"{name}.png")
    if kind == "kernel":  # these would be downloaded
        readers = {name: arguments for name, arguments in readers.items() if "32x32" not in name and "MN" not in name}
    for name, arguments in readers.items():
        _put(tmp_path / name, kind, monkeypatch)
        monkeypatch.chdir(tmp_path)
        ran = nzc(*arguments, "student=none")
        assert (ran.code, ran.err.count("\n")) == (2, 1), (name, ran.err)
        inside = (name, kind) == ("images/cat/1.png", "folder")  # path/CLASS/FOLDER has a message of its own
        assert ("cat holds folders" if inside else SPECIAL[kind]) in ran.err


def test_a_class_that_cannot_be_listed(nzc: Nzc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its mode would not stop the owner root."""
    for label in ("cat", "dog"):
        (tmp_path / "images" / label).mkdir(parents=True)
    listed = Path.iterdir

    def forbidden(path: Path) -> object:
        if path.name == "dog":
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", forbidden)
    ran = nzc("dataset=folder", "dataset.path=images")
    assert (ran.code, ran.err.count("\n")) == (2, 1), ran.err
    assert "dataset.path=images: must be folders that can be read; not so dog (Permission denied)" in ran.err
