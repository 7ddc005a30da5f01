"""torchvision's datasets have the roles of the papers."""

import shutil
from dataclasses import replace
from hashlib import md5
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torchvision
from numpy.testing import assert_array_equal
from pytest import MonkeyPatch, raises
from scipy.io import savemat

from nzc.data.torchvision import SVHN, Torchvision
from nzc.validation import InputError

# torchvision's own reading, its addresses pointed at files of the test and its checksums at theirs.


def test_svhn_is_downloaded_and_has_the_papers_roles(
    tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    """From a folder of small official-looking files."""
    origin = tmp_path / "origin"
    origin.mkdir()
    rng = np.random.default_rng(0)
    files = {}
    for name, rows in {"train": 40, "extra": 30, "test": 50}.items():
        path = origin / f"{name}_32x32.mat"
        x = rng.integers(0, 256, (32, 32, 3, rows), np.uint8)
        x[:4, 0, 0] = np.arange(rows)
        savemat(path, {"X": x, "y": np.arange(rows)[:, None] % 10 + 1})
        files[name] = [f"file://{path}", path.name, md5(path.read_bytes()).hexdigest()]
    monkeypatch.setattr(torchvision.datasets.SVHN, "split_list", files)

    def copied(url: str, target: str) -> None:
        shutil.copyfile(url.removeprefix("file://"), target)

    monkeypatch.setattr(torchvision.datasets.utils, "_urlretrieve", copied)
    svhn = SVHN(str(tmp_path / "root"), public=30, extra=True)
    svhn.load()
    shutil.rmtree(origin)
    roles = svhn.load()  # and needs no network any more
    assert [len(roles.private), len(roles.public), len(roles.test)] == [70, 30, 20]
    assert roles.classes == 10
    assert_array_equal(roles.private.x[7, 0, :4, 0], 7)
    assert roles.private.x.shape == (70, 3, 32, 32)
    assert (roles.private.y[:11] == np.arange(1, 12) % 10).all()  # the file's 10 is the digit 0
    assert roles.test.y[0] == 1
    with raises(InputError, match=r"\Apublic=50.*at most 49.*\Z"):
        replace(svhn, public=50).load()


def test_mnist_and_those_like_it_have_the_papers_roles(monkeypatch: MonkeyPatch) -> None:
    def small(root: str, train: bool, download: bool) -> SimpleNamespace:
        rows = 600 if train else 100
        images = np.zeros((rows, 28, 28), np.uint8)
        return SimpleNamespace(data=images, targets=np.arange(rows) % 10)

    monkeypatch.setattr(torchvision.datasets, "KMNIST", small)
    roles = Torchvision("root", kind="KMNIST", public=90).load()
    assert [len(roles.private), len(roles.public), len(roles.test)] == [600, 90, 10]
    assert roles.classes == 10
    assert roles.private.x.shape[1:] == (1, 28, 28)
