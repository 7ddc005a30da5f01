"""Every dataset's loading code on files that the test makes; what is wrong with a file is said in one line."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from hashlib import md5
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torchvision
from conftest import SMALL, VOTES, Nzc, published
from PIL import Image
from scipy.io import savemat

from nzc.data import Dataset, adult, svhn
from nzc.data.adult import Adult
from nzc.data.folder import Folder
from nzc.data.glyph import SIDE, SYMBOLS, Glyph, _Brush
from nzc.data.images import as_bytes
from nzc.data.mnist import MNIST
from nzc.data.svhn import SVHN
from nzc.validation import InputError


def _refused(dataset: Dataset, *parts: str) -> None:
    """The dataset is refused in one line with these parts."""
    with pytest.raises(InputError) as refused:
        dataset.load()
    assert "\n" not in str(refused.value)
    for part in parts:
        assert part in str(refused.value)


# SVHN: torchvision's own reading, its addresses pointed at files of the test and its checksums at theirs.

SIZES = {"train": 40, "extra": 30, "test": 50}


@pytest.fixture
def small_svhn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of small official-looking files, which is also where a download would come from."""
    origin = tmp_path / "origin"
    origin.mkdir()
    monkeypatch.setattr(svhn, "ROWS", SIZES)
    monkeypatch.setattr(svhn, "PUBLIC", 30)
    monkeypatch.setattr(torchvision.datasets.SVHN, "split_list", {})
    for number, (name, rows) in enumerate(SIZES.items()):
        images = np.random.default_rng(number).integers(0, 256, (32, 32, 3, rows), np.uint8)
        _put(origin, name, {"X": images, "y": np.arange(rows)[:, None] % 10 + 1})
    return origin


def _put(origin: Path, name: str, arrays: dict[str, Any] | bytes) -> None:
    """A file, and torchvision's knowledge of it."""
    path = origin / f"{name}_32x32.mat"
    if isinstance(arrays, bytes):
        path.write_bytes(arrays)
    else:
        savemat(path, arrays)
    digest = md5(path.read_bytes()).hexdigest()
    torchvision.datasets.SVHN.split_list[name] = [f"file://{path}", path.name, digest]


def test_svhn_has_the_papers_roles(nzc: Nzc, small_svhn: Path) -> None:
    roles = SVHN(str(small_svhn), extra=True).load()
    assert (len(roles.private), len(roles.public), len(roles.test)) == (70, 30, 20)
    train = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 40), np.uint8)
    np.testing.assert_array_equal(roles.private.x[7], train[..., 7].transpose(2, 0, 1))
    assert roles.private.y[:11].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]  # the file's 10 is the digit 0
    assert roles.test.y[0] == 1
    assert roles.private.x.dtype == np.uint8
    small = [*SMALL, "teachers.epochs=1", "student.steps=2", "teachers.count=3"]
    ran = nzc("dataset=svhn", f"dataset.root={small_svhn}", *small)
    assert ran.code == 0, ran.err
    assert ran.result["data"]["private"] == 70


def test_svhn_is_downloaded_where_it_can_be(small_svhn: Path, tmp_path: Path) -> None:
    handler = partial(SimpleHTTPRequestHandler, directory=small_svhn)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        for known in torchvision.datasets.SVHN.split_list.values():
            known[0] = f"http://127.0.0.1:{server.server_port}/{known[1]}"
        data = tmp_path / "data"
        roles = SVHN(str(data), extra=False).load()
        (data / "train_32x32.mat").write_bytes(b"damaged")
        again = SVHN(str(data), extra=False).load()
        server.shutdown()
    assert roles.digest == again.digest
    assert sorted(path.name for path in data.iterdir()) == ["test_32x32.mat", "train_32x32.mat"]


@pytest.mark.parametrize("content", [None, b"", b"half"])
def test_svhn_files_that_are_missing_or_damaged(small_svhn: Path, content: bytes | None) -> None:
    """The checksum stays that of the whole file, and nothing can be downloaded."""
    torchvision.datasets.SVHN.split_list["train"][0] = "file:///nowhere/x.mat"
    path = small_svhn / "train_32x32.mat"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    _refused(SVHN(str(small_svhn), extra=False), f"root={small_svhn}", path.name)


X, Y = np.zeros((32, 32, 3, 40), np.uint8), np.ones((40, 1))


@pytest.mark.parametrize(
    "content",
    [{"X": X[..., :39], "y": Y[:39]}, {"X": X[:, :, :1], "y": Y}, {"X": X.astype(float), "y": Y}, {"y": Y}, b"no mat"],
)
def test_svhn_files_of_another_content(small_svhn: Path, content: dict[str, Any] | bytes) -> None:
    _put(small_svhn, "train", content)
    _refused(SVHN(str(small_svhn), extra=False), f"root={small_svhn}", "must h", "train_32x32.mat")


def test_nothing_is_left_where_nothing_could_be_downloaded(small_svhn: Path, tmp_path: Path) -> None:
    torchvision.datasets.SVHN.split_list["train"][0] = "file:///nowhere/x.mat"
    _refused(SVHN(str(tmp_path / "new" / "folder"), extra=False), "new/folder", "downloaded")
    assert not (tmp_path / "new" / "folder").exists()


# MNIST and Fashion-MNIST: idx files.


def _idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape) + array.tobytes()


@pytest.fixture
def blank(tmp_path: Path) -> Path:
    """Fashion-MNIST of black images."""
    raw = tmp_path / "data" / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    for name, rows in (("train", 60_000), ("t10k", 10_000)):
        (raw / f"{name}-images-idx3-ubyte").write_bytes(_idx(np.zeros((rows, 28, 28), np.uint8)))
        (raw / f"{name}-labels-idx1-ubyte").write_bytes(_idx(np.arange(rows).astype(np.uint8) % 10))
    return raw


def test_fashion_mnist_has_mnists_roles(blank: Path) -> None:
    roles = MNIST(str(blank.parents[1]), kind="FashionMNIST").load()
    assert (len(roles.private), len(roles.public), len(roles.test)) == (60_000, 9_000, 1_000)
    assert roles.private.x.shape[1:] == (1, 28, 28)


@pytest.mark.parametrize("content", [None, b"half", _idx(np.zeros((9_999, 28, 28), np.uint8))])
def test_idx_files(blank: Path, content: bytes | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torchvision.datasets.FashionMNIST, "mirrors", ["file:///nowhere/"])
    images, root = blank / "t10k-images-idx3-ubyte", str(blank.parents[1])
    images.unlink()
    if content is not None:
        images.write_bytes(content)
    _refused(MNIST(root, kind="FashionMNIST"), f"root={root}", "FashionMNIST/raw")


# Adult: comma-separated words.

PERSON = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, {}, {}"
)


@pytest.fixture
def small_adult(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four private records, one from a country that no public row knows; six rows of test."""
    monkeypatch.setattr(adult, "ROWS", {"adult.data": 4, "adult.test": 6})
    folder = tmp_path / "adult"
    folder.mkdir()
    private = [PERSON.format(country, "<=50K") for country in ("Peru", "France", "?", "Peru")]
    rows = [PERSON.format(country, ">50K.") for country in ("Peru", "France", "Peru", "?", "India", "India")]
    rows[0] = rows[0].replace("39", "41", 1)
    (folder / "adult.data").write_text("\n".join(private) + "\n\n")
    (folder / "adult.test").write_text("|1x3 Cross validator\n" + "\n".join(rows) + "\n\n")
    return folder


def test_adult_sees_public_rows_alone(small_adult: Path) -> None:
    roles = Adult(str(small_adult.parent), public=3).load()
    assert (len(roles.private), len(roles.public), len(roles.test)) == (4, 3, 3)
    assert roles.private.x.shape[1] == 6 + 7 + 2  # numbers; seven words never change; Peru and France
    np.testing.assert_array_equal(roles.private.x[:, -2:], [[0, 1], [1, 0], [0, 0], [0, 1]])
    assert roles.public.x[:, 0].mean() == pytest.approx(0, abs=1e-6)
    assert roles.public.x[:, 0].std() == pytest.approx(1, abs=1e-6)
    assert np.isfinite(roles.private.x).all()
    assert roles.private.y.tolist() == [0, 0, 0, 0]
    assert roles.test.y.tolist() == [1, 1, 1]
    before = roles.public.x, roles.test.x
    text = (small_adult / "adult.data").read_text()
    (small_adult / "adult.data").write_text(text.replace("39", "90").replace("Peru", "Chile"))
    after = Adult(str(small_adult.parent), public=3).load()
    np.testing.assert_array_equal(before[0], after.public.x)
    np.testing.assert_array_equal(before[1], after.test.x)


@pytest.mark.parametrize("name", ["adult.data", "adult.test"])
@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[: len(text) * 2 // 3],
        lambda text: "\n".join(text.splitlines()[:3]),
        lambda text: text.replace(", Male", "", 1),
        lambda text: text.replace("77516", "many", 1),
        lambda text: text.replace("50K", "60K", 1),
        lambda text: "\xff\x00",
        lambda text: "",
    ],
)
def test_adult_files(small_adult: Path, change: Callable[[str], str], name: str) -> None:
    (small_adult / name).write_text(change((small_adult / name).read_text()), encoding="latin-1")
    _refused(Adult(str(small_adult.parent), public=3), f"root={small_adult.parent}", f"adult/{name}")


def test_adult_that_is_not_there(tmp_path: Path) -> None:
    _refused(Adult(str(tmp_path), public=3), f"root={tmp_path}", "adult/adult.data")


def test_adult_lines_up_with_the_published_votes(nzc: Nzc) -> None:
    votes, labels = published("adult_250_teachers.npy"), published("adult_true_labels.npy")
    if not (votes.parents[1] / "adult" / "adult.data").is_file():
        pytest.skip("NZC_DATA names no folder with adult/adult.data")
    roles = Adult(str(votes.parents[1]), public=14_281).load()
    assert (len(roles.private), len(roles.public), len(roles.test)) == (32_561, 14_281, 2_000)
    np.testing.assert_array_equal(np.concatenate([roles.public.y, roles.test.y]), np.load(labels))
    ran = nzc("dataset=adult", f"dataset.root={votes.parents[1]}", *VOTES[:2], f"teachers.path={votes}",
              "student=none", "aggregator=plurality", "queries=500")  # fmt: skip
    assert ran.code == 0, ran.err
    assert ran.result["label_accuracy"] > 0.8


# A folder of images.


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Two classes of ten images, a class and an image as dark as their numbers, and a hidden file."""
    for label, name in enumerate(("cat", "dog")):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(10):
            colour = (100 * label + number, 0, 200)
            Image.new("RGB", (6, 4), colour).save(tmp_path / "images" / name / f"{number}.png")
    (tmp_path / "images" / ".hidden").write_text("no image")
    return tmp_path / "images"


FOLDER = Folder("", seed=0, private=0.5, public=0.3)


def test_a_folder_of_images(images: Path) -> None:
    roles = replace(FOLDER, path=str(images)).load()
    assert (len(roles.private) + len(roles.public) + len(roles.test), roles.classes) == (20, 2)
    assert roles.private.x.shape[1:] == (3, 4, 6)
    for split in (roles.private, roles.public, roles.test):
        np.testing.assert_array_equal(split.x[:, 0, 0, 0] >= 100, split.y == 1)
    reds = np.concatenate([split.x[:, 0, 0, 0] for split in (roles.private, roles.public, roles.test)])
    assert len(set(reds.tolist())) == 20
    names = [set((split.x[:, 0, 0, 0] % 100).tolist()) for split in (roles.private, roles.public, roles.test)]
    assert sum(map(len, names)) == 10  # images of one name share a split
    assert roles.digest == replace(FOLDER, path=str(images)).load().digest
    assert roles.digest != replace(FOLDER, path=str(images), seed=1).load().digest
    assert replace(FOLDER, path=str(images), size=8, grey=True).load().test.x.shape[1:] == (1, 8, 8)


def test_folders_that_are_none(images: Path, tmp_path: Path) -> None:
    folder = replace(FOLDER, path=str(images))
    _refused(replace(folder, path="none"), "path=none", "a folder that exists")
    _refused(replace(folder, path=str(images / "cat")), "2 or more classes; it holds 0")
    shutil.copytree(images, tmp_path / "splits" / "train")
    shutil.copytree(images, tmp_path / "splits" / "val")
    inner = tmp_path / "splits" / "train"
    _refused(replace(folder, path=str(inner.parent)), f"train holds folders. Is dataset.path={inner} meant?")
    _refused(replace(folder, private=0.01), "path=", "three splits")
    whole = (images / "cat" / "3.png").read_bytes()
    for damage in (b"", b"hello", whole[:50]):
        (images / "cat" / "3.png").write_bytes(damage)
        _refused(folder, f"path={images}", "number 4 of cat")
    Image.new("RGB", (5, 5)).save(images / "cat" / "3.png")
    _refused(folder, "size=null", "differ in size")


def test_transparent_pictures_lie_on_white() -> None:
    raw = np.random.default_rng(0).integers(0, 256, (9, 7, 4), np.uint8)
    alpha = raw[..., 3:] / 255
    colours = np.asarray(as_bytes(Image.fromarray(raw), grey=False)).astype(float)
    np.testing.assert_allclose(colours, raw[..., :3] * alpha + 255 * (1 - alpha), atol=1.01)
    grey = np.asarray(as_bytes(Image.fromarray(raw[..., [0, 3]]), grey=True)).astype(float)
    np.testing.assert_allclose(grey, (raw[..., :1] * alpha + 255 * (1 - alpha))[..., 0], atol=1.01)


@pytest.mark.parametrize("mode", ["1", "L", "P", "PA", "LA", "RGB", "RGBX", "RGBA", "CMYK", "YCbCr", "HSV"])
def test_every_mode_of_images_shows_its_colours(mode: str) -> None:
    """A picture of four plain colours keeps them through every mode, or their brightness."""
    plain = Image.fromarray(np.array([[[0, 0, 0], [255, 255, 255]], [[255, 0, 0], [0, 0, 255]]], np.uint8))
    shown = as_bytes(plain.convert("L").convert(mode) if mode in ("1", "LA", "PA") else plain.convert(mode), grey=True)
    expected = np.where(np.asarray(plain.convert("L")) > 127, 255, 0) if mode == "1" else np.asarray(plain.convert("L"))
    rows = slice(0, 1) if mode == "1" else slice(None)  # dithering changes the colours
    np.testing.assert_allclose(np.asarray(shown)[rows].astype(int), expected[rows].astype(int), atol=2)


def test_images_that_are_no_single_picture_of_bytes(images: Path) -> None:
    folder, path = replace(FOLDER, path=str(images)), images / "cat" / "3.png"
    path.unlink()
    for mode in ("F", "I", "LAB"):
        Image.new(mode, (6, 4)).save(path.with_suffix(".tif"))
        _refused(folder, "number 4 of cat", f"mode, {mode};", "8-bit")
    for ending in (".gif", ".tif"):
        other = [Image.new("RGB", (6, 4), "red")]
        Image.new("RGB", (6, 4)).save(path.with_suffix(ending), save_all=True, append_images=other)
        _refused(folder, "number 4 of cat", "several frames or pages")


def test_sixteen_bits_keep_their_scale_in_every_file(images: Path) -> None:
    values = np.linspace(0, 65535, 24).astype(np.uint16).reshape(4, 6)
    for file in images.glob("*/*.png"):
        Image.fromarray(values).save(file.with_suffix(".tif" if file.stem == "3" else ".png"))
    (images / "cat" / "3.png").unlink()
    (images / "dog" / "3.png").unlink()
    x = replace(FOLDER, path=str(images), grey=True).load().private.x
    np.testing.assert_allclose(x, np.broadcast_to(values / 257, x.shape), atol=0.5)


# Glyphs.

GLYPH = Glyph(seed=0, private=300, public=200, test=100)


def test_glyph_items_are_pure() -> None:
    """Item i follows from (seed, role, i): alone, in any company and order, and however far away."""
    many = GLYPH.draw("private", np.arange(3000))
    some = np.array([2999, 0, 1024, 17])
    few = GLYPH.draw("private", some)
    np.testing.assert_array_equal(few.x, many.x[some])
    np.testing.assert_array_equal(few.y, many.y[some])
    far = np.array([64_999_999])
    np.testing.assert_array_equal(GLYPH.draw("test", far).x, GLYPH.draw("test", np.append(some, far)).x[-1:])
    assert many.x.shape == (3000, 1, SIDE, SIDE)
    assert many.x.dtype == np.uint8
    assert len({image.tobytes() for image in many.x}) == 3000


def test_glyph_roles() -> None:
    roles = GLYPH.load()
    assert (len(roles.private), len(roles.public), len(roles.test), roles.classes) == (300, 200, 100, 150)
    assert roles.digest == GLYPH.load().digest != replace(GLYPH, seed=1).load().digest
    np.testing.assert_array_equal(roles.public.x, GLYPH.draw("public", np.arange(200)).x)
    assert (roles.public.x[:100] != roles.test.x).any(axis=(1, 2, 3)).all()


@pytest.mark.parametrize("seed", range(4))
def test_glyph_roles_share_no_font(seed: int) -> None:
    glyph = replace(GLYPH, seed=seed)
    private, public = ({font.name for font in glyph.fonts_of(role)} for role in ("private", "public"))
    assert not private & public
    assert len(private | public) >= 20
    assert glyph.fonts_of("public") == glyph.fonts_of("test")
    assert not {name for name in private | public if name.startswith(("Last", "cmsy", "cmex", "cmmi"))}
    for role in ("private", "public"):
        assert set(SYMBOLS) == set("".join(font.symbols for font in glyph.fonts_of(role)))


def test_glyph_symbols_fill_the_middle() -> None:
    """Every symbol of every font has ink, none of it at the border, and stands in the middle."""
    fields = np.concatenate([_Brush.of(GLYPH, role).fields[:, 0] for role in ("private", "public")])
    ink = fields > 0
    assert ink.any(axis=(1, 2)).all()
    assert not ink[:, [0, -1]].any()
    assert not ink[:, :, [0, -1]].any()
    for axis in (1, 2):
        found = ink.any(axis=axis)
        middle = (found.argmax(axis=1) + found.shape[1] - 1 - found[:, ::-1].argmax(axis=1)) / 2
        assert np.abs(middle - (found.shape[1] - 1) / 2).max() <= 1.5


def _labels(glyph: Glyph, role: str, count: int = 400_000) -> np.ndarray:
    return _Brush.of(glyph, role).labels(np.arange(count))


def test_glyph_imbalance_is_five_to_one() -> None:
    assert GLYPH.frequencies.max() / GLYPH.frequencies.min() == pytest.approx(5)
    counts = np.bincount(_labels(GLYPH, "test"), minlength=150)
    expected = GLYPH.frequencies * 400_000
    assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()
    flat = replace(GLYPH, imbalance=1.0)
    np.testing.assert_allclose(flat.frequencies, 1 / 150)


def test_glyph_mislabels_a_tenth_of_private_records_alone() -> None:
    right = replace(GLYPH, mislabelled=0.0)
    given, truth = _labels(GLYPH, "private"), _labels(right, "private")
    wrong = given != truth
    assert wrong.mean() == pytest.approx(0.1, abs=0.003)
    assert len(np.unique((given - truth)[wrong] % 150)) == 149
    for role in ("public", "test"):
        np.testing.assert_array_equal(_labels(GLYPH, role, 5000), _labels(right, role, 5000))
    np.testing.assert_array_equal(GLYPH.draw("private", np.arange(50)).x, right.draw("private", np.arange(50)).x)


def test_glyph_takes_a_folder_of_fonts(tmp_path: Path) -> None:
    source = GLYPH.fonts_of("private")[0]
    folder = tmp_path / "fonts"
    folder.mkdir()
    (folder / "same.ttf").write_bytes(source.path.read_bytes())
    mine = replace(GLYPH, fonts=str(folder))
    fonts = [font for role in ("private", "public") for font in mine.fonts_of(role) if font.name == source.name]
    assert [font.path.name for font in fonts] == ["same.ttf"]  # a font that is there twice counts once
    (folder / "other.ttf").write_bytes(source.path.read_bytes()[:5000])
    _refused(mine, "fonts=", "other.ttf", "readable font")
    _refused(replace(GLYPH, fonts=str(tmp_path / "none")), "fonts=", ".ttf")


@pytest.mark.parametrize(
    ("key", "value"),
    [("private", 0), ("imbalance", 0.5), ("mislabelled", 1.0), ("public_fonts", 0.0), ("public_fonts", 0.001)],
)
def test_glyph_settings(key: str, value: float) -> None:
    with pytest.raises(InputError, match=f"{key}={value}"):
        replace(GLYPH, **{key: value}).load()


def test_glyph_through_the_command_line(nzc: Nzc) -> None:
    sizes = [f"dataset.{role}=60" for role in ("private", "public", "test")]
    ran = nzc("dataset=glyph", *sizes, *SMALL, "teachers.epochs=1", "student.steps=2")
    assert ran.code == 0, ran.err
    assert ran.result["data"]["classes"] == 150
