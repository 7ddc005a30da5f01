"""Each dataset's loading code on files that the test makes; what is wrong with a file is said in
one line.
"""

import shutil
from dataclasses import replace
from hashlib import md5
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torchvision
from conftest import parametrize, published
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image
from pytest import MonkeyPatch, approx, raises
from scipy.io import savemat

from nzc.data import UNKNOWN, Dataset, adult
from nzc.data.adult import Adult
from nzc.data.folder import Folder
from nzc.data.hashing import keys_of
from nzc.data.torchvision import SVHN, Torchvision
from nzc.validation import InputError


def _refused(dataset: Dataset, *parts: str) -> None:
    """The dataset is refused in one line with these parts."""
    with raises(InputError) as refused:
        dataset.load()
    assert "\n" not in str(refused.value)
    for part in parts:
        assert part in str(refused.value)


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
    _refused(replace(svhn, public=50), "public=50", "at most 49")


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


# Adult: comma-separated words.

PERSON = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, "
    "2174, 0, 40, {}, {}"
)


@pytest.fixture
def small_adult(tmp_path: Path, monkeypatch: MonkeyPatch) -> Path:
    """Four private records, one from a country that no public row knows; six rows of test."""
    monkeypatch.setattr(adult, "ROWS", {"adult.data": 4, "adult.test": 6})
    folder = tmp_path / "adult"
    folder.mkdir()
    private = [PERSON.format(country, "<=50K") for country in ("Peru", "France", "?", "Peru")]
    countries = ("Peru", "France", "Peru", "?", "India", "India")
    rows = [PERSON.format(country, ">50K.") for country in countries]
    rows[0] = rows[0].replace("39", "41", 1)
    (folder / "adult.data").write_text("\n".join(private) + "\n\n")
    (folder / "adult.test").write_text("|1x3 Cross validator\n" + "\n".join(rows) + "\n\n")
    return folder


def test_adult_sees_public_rows_alone(small_adult: Path) -> None:
    roles = Adult(str(small_adult.parent), public=3).load()
    assert (len(roles.private), len(roles.public), len(roles.test)) == (4, 3, 3)
    assert roles.private.x.shape[1:] == (
        6 + 7 + 2,
    )  # numbers; seven words never change; Peru and France
    assert_array_equal(roles.private.x[:, -2:], [[0, 1], [1, 0], [0, 0], [0, 1]])
    assert roles.public.x[:, 0].std() == approx(1, abs=1e-6)
    assert roles.private.y.tolist() == [0, 0, 0, 0] and roles.test.y.tolist() == [1, 1, 1]
    text = (small_adult / "adult.data").read_text()
    (small_adult / "adult.data").write_text(text.replace("39", "90").replace("Peru", "Chile"))
    after = Adult(str(small_adult.parent), public=3).load()
    assert_array_equal(roles.public.x, after.public.x)
    assert_array_equal(roles.test.x, after.test.x)
    (small_adult / "adult.data").write_text(text.partition("\n")[2])  # a row less
    _refused(Adult(str(small_adult.parent), public=3), "root=", "adult/adult.data")


def test_adult_lines_up_with_the_published_votes() -> None:
    votes, labels = published("adult_250_teachers.npy"), published("adult_true_labels.npy")
    if not (votes.parents[1] / "adult" / "adult.data").is_file():
        pytest.skip("NZC_DATA names no folder with adult/adult.data")
    roles = Adult(str(votes.parents[1]), public=14_281).load()
    assert (len(roles.private), len(roles.public), len(roles.test)) == (32_561, 14_281, 2_000)
    assert_array_equal(np.concatenate([roles.public.y, roles.test.y]), np.load(labels))
    assert (roles.public.y[:500] == np.load(votes)[:500].argmax(axis=1)).mean() > 0.8


# A folder of images.


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
def unlabelled(images: Path) -> Path:
    """Three images in folders of any depth, below the folder of the classes, and hidden files."""
    folder = images / "unlabelled"
    (folder / "ward" / "3").mkdir(parents=True)
    (folder / ".cache").mkdir()
    (folder / ".cache" / "note.txt").write_text("no image")
    for number, name in enumerate(("b.png", "ward/a.png", "ward/3/a.png")):
        Image.new("RGB", (6, 4), (number, 9, 9)).save(folder / name)
    return folder


def test_unlabelled_images_lie_in_a_folder_of_their_own(folder: Folder, unlabelled: Path) -> None:
    apart = replace(folder, public=str(unlabelled))
    splits = apart.load()
    assert list(splits.ids) == ["b.png", "ward/3/a.png", "ward/a.png"]
    assert_array_equal(splits.public.x[:, 0, 0, 0], [0, 2, 1])
    assert (splits.classes, splits.public.y.tolist(), apart.check()) == (2, [UNKNOWN] * 3, 3)
    assert 0 < len(splits.private) < 20 and len(splits.private) + len(splits.test) == 20
    shutil.rmtree(unlabelled)
    _refused(replace(folder, public="none"), "public=none", "no image")
    # A private image keeps its split and its teacher.
    by_share = folder.load()
    assert_array_equal(splits.private.x, by_share.private.x)
    assert_array_equal(splits.units.keys, by_share.units.keys)


def test_test_images_lie_in_folders_of_the_classes(
    folder: Folder, images: Path, unlabelled: Path
) -> None:
    test = images / "test"
    (test / "dog").mkdir(parents=True)
    Image.new("RGB", (6, 4), "white").save(test / "dog" / "0.png")
    folder = replace(folder, public=str(unlabelled), test=str(test))
    splits = folder.load()
    assert (len(splits.private), splits.test.y.tolist()) == (20, [1])
    (unlabelled / "note.txt").write_text("no image")
    _refused(folder, f"public={unlabelled}", "number 2 of unlabelled", "it is text")
    (test / "bird").mkdir()
    _refused(folder, f"test={test}", "classes")
    _refused(replace(folder, public=0.3), f"test={test}", "dataset.public")


def test_an_image_in_the_private_and_the_public_folder_is_refused_or_dropped(
    folder: Folder, images: Path, unlabelled: Path
) -> None:
    """Its namesake in another class is the same person's, so it is dropped, too."""
    folder = replace(folder, public=str(unlabelled))
    before = folder.load()
    names = np.array([f"{number}.png" for number in range(10)])
    (name,) = names[keys_of(names) == before.units.keys[0]]
    for category in ("cat", "dog"):
        shutil.copy(images / category / name, unlabelled / f"{category}.png")
    _refused(folder, "overlap=refuse", "2 are in public rows too")
    dropped = replace(folder, overlap="drop").load()
    rest = before.units.keys != before.units.keys[0]
    assert_array_equal(dropped.private.x, before.private.x[rest])
