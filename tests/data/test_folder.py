"""Your own images: their classes, roles and files."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import parametrize, write
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image
from pytest import raises

from nzc.data import UNKNOWN, Dataset
from nzc.data.folder import Folder
from nzc.data.hashing import keys_of
from nzc.validation import InputError


def _refused(dataset: Dataset, *parts: str) -> None:
    """The dataset is refused in one line with these parts."""
    with raises(InputError) as refused:
        dataset.load()
    assert "\n" not in str(refused.value)
    for part in parts:
        assert part in str(refused.value)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Two classes of ten images, as dark as their numbers, and a hidden file."""
    for label, name in enumerate(("cat", "dog")):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(10):
            colour = (100 * label + number, 0, 200)
            Image.new("RGB", (6, 4), colour).save(tmp_path / "images" / name / f"{number}.png")
    (tmp_path / "images" / ".hidden").write_text("no image")
    return tmp_path / "images"


@pytest.fixture
def folder(images: Path) -> Folder:
    return Folder(str(images), seed=0, private=0.5, public=0.3)


def test_a_folder_of_images(folder: Folder) -> None:
    roles = folder.load()
    assert (roles.classes, roles.private.x.shape[1:]) == (2, (3, 4, 6))
    reds = [split.x[:][:, 0, 0, 0] for split in (roles.private, roles.public, roles.test)]
    assert_array_equal(reds[0] >= 100, roles.private.y == 1)
    assert len(np.unique(np.concatenate(reds))) == 20
    assert sum(len(np.unique(red % 100)) for red in reds) == 10  # images of one name share a split
    shown = zip(roles.public.y, reds[1] % 100, strict=True)
    assert roles.ids.tolist() == [f"{roles.labels[label]}/{red}.png" for label, red in shown]
    assert roles.digest == folder.load().digest
    assert roles.digest != replace(folder, seed=1).load().digest
    assert replace(folder, size=8, grey=True).load().test.x.shape[1:] == (1, 8, 8)


def test_folders_that_are_none(folder: Folder, images: Path, tmp_path: Path) -> None:
    _refused(replace(folder, path="none"), "path=none", "2 or more classes; it has 0")
    _refused(replace(folder, classes=["cat", "bird"]), "which has 1 others")
    for split in ("train", "val"):
        shutil.copytree(images, tmp_path / "splits" / split)
    _refused(replace(folder, path=str(tmp_path / "splits")), "path=", "path/CLASS/IMAGE")
    _refused(replace(folder, private=0.01), "private=0.01")
    Image.new("RGB", (5, 5)).save(images / "cat" / "3.png")
    _refused(folder, "size=null", "differ in size")


@parametrize(
    ("start", "says"),
    [
        (b"", "empty"),
        (b"\0\0\0\x18ftypheic", "HEIC"),
        (b"\0" * 128 + b"DICM", "DICOM"),
        (b"\xef\xbb\xbf<?xml?>\n<svg>", "SVG"),
        (b"<!DOCTYPE html><svg>", "web page"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "cut short"),
    ],
)
def test_a_file_that_is_no_image_is_said_by_what_it_is(
    folder: Folder, images: Path, start: bytes, says: str
) -> None:
    (images / "cat" / "3.png").write_bytes(start)
    _refused(folder, f"path={images}", " of cat, by name, is not one: it ", says)


@parametrize("kind", ["png", "tiff"])
def test_sixteen_bits_keep_their_scale(folder: Folder, images: Path, kind: str) -> None:
    values = np.linspace(0, 65535, 24).astype(np.uint16).reshape(4, 6)
    for file in images.glob("*/*.png"):
        Image.fromarray(values).save(file, kind)
    x = replace(folder, grey=True).load().private.x[:]
    assert_allclose(x, np.broadcast_to(values / 257, x.shape), atol=0.5)


# Images without a class.


@pytest.fixture
def unlabeled(images: Path) -> Path:
    """Three images in folders of any depth, below the folder of the classes, and hidden files."""
    folder = images / "unlabeled"
    (folder / "ward" / "3").mkdir(parents=True)
    write(folder / ".cache/note.txt", "no image")
    for number, name in enumerate(("b.png", "ward/a.png", "ward/3/a.png")):
        Image.new("RGB", (6, 4), (number, 9, 9)).save(folder / name)
    return folder


def test_unlabeled_images_lie_in_a_folder_of_their_own(folder: Folder, unlabeled: Path) -> None:
    apart = replace(folder, public=str(unlabeled))
    splits = apart.load()
    assert list(splits.ids) == ["b.png", "ward/3/a.png", "ward/a.png"]
    assert_array_equal(splits.public.x[:, 0, 0, 0], [0, 2, 1])
    assert (splits.classes, splits.public.y.tolist(), apart.check()) == (2, [UNKNOWN] * 3, 3)
    assert 0 < len(splits.private) < 20 and len(splits.private) + len(splits.test) == 20
    shutil.rmtree(unlabeled)
    _refused(replace(folder, public="none"), "public=none", "no image")
    # A private image keeps its split and its teacher.
    by_share = folder.load()
    assert_array_equal(splits.private.x, by_share.private.x)
    assert_array_equal(splits.units.keys, by_share.units.keys)


def test_test_images_lie_in_folders_of_the_classes(
    folder: Folder, images: Path, unlabeled: Path
) -> None:
    test = images / "test"
    (test / "dog").mkdir(parents=True)
    Image.new("RGB", (6, 4), "white").save(test / "dog" / "0.png")
    folder = replace(folder, public=str(unlabeled), test=str(test))
    splits = folder.load()
    assert (len(splits.private), splits.test.y.tolist()) == (20, [1])
    (unlabeled / "note.txt").write_text("no image")
    _refused(folder, f"public={unlabeled}", "number 2 of unlabeled", "it is text")
    (test / "bird").mkdir()
    _refused(folder, f"test={test}", "classes")
    _refused(replace(folder, public=0.3), f"test={test}", "dataset.public")


def test_an_image_in_two_folders_is_refused_or_dropped(
    folder: Folder, images: Path, unlabeled: Path
) -> None:
    """Its namesake in another class is the same person's, so it is dropped, too."""
    folder = replace(folder, public=str(unlabeled))
    before = folder.load()
    names = np.array([f"{number}.png" for number in range(10)])
    (name,) = names[keys_of(names) == before.units.keys[0]]
    for category in ("cat", "dog"):
        shutil.copy(images / category / name, unlabeled / f"{category}.png")
    _refused(folder, "overlap=refuse", "2 are in public rows too")
    dropped = replace(folder, overlap="drop").load()
    rest = before.units.keys != before.units.keys[0]
    assert_array_equal(dropped.private.x, before.private.x[rest])
