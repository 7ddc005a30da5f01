"""Every dataset's loading code on files that the test makes; what is wrong with a file is said in one line."""

import gzip
import os
import shutil
from colorsys import hsv_to_rgb
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

from nzc.data import adult, svhn
from nzc.data.adult import Adult
from nzc.data.folder import Folder
from nzc.data.glyph import SIDE, SYMBOLS, Glyph, _Brush
from nzc.data.images import as_bytes, unusable
from nzc.data.mnist import MNIST
from nzc.data.svhn import SVHN


def _complains(nzc: Nzc, arguments: list[str], *names: str) -> None:
    ran = nzc(*arguments)
    assert ran.code == 2, ran.err
    assert ran.err.count("\n") == 1, ran.err
    for name in names:
        assert name in ran.err
    assert not ran.out
    assert not Path("outputs").exists()


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
        rng = np.random.default_rng(number)
        _put(
            origin,
            name,
            {"X": rng.integers(0, 256, (32, 32, 3, rows), np.uint8), "y": np.arange(rows)[:, None] % 10 + 1},
        )
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


def test_svhn_has_the_papers_roles(small_svhn: Path) -> None:
    roles = SVHN(str(small_svhn), extra=True).load()
    assert (len(roles.private), len(roles.public), len(roles.test)) == (70, 30, 20)
    assert len(SVHN(str(small_svhn), extra=False).load().private) == 40
    train = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 40), np.uint8)
    np.testing.assert_array_equal(roles.private.x[7], train[..., 7].transpose(2, 0, 1))
    assert roles.private.y[:11].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]  # the file's 10 is the digit 0
    assert roles.test.y[0] == 1
    assert roles.private.x.dtype == np.uint8


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


def test_svhn_through_the_command_line(nzc: Nzc, small_svhn: Path) -> None:
    small = [*SMALL, "teachers.epochs=1", "student.steps=2", "teachers.count=3"]
    ran = nzc("dataset=svhn", f"dataset.root={small_svhn}", *small)
    assert ran.code == 0, ran.err
    assert ran.result["data"]["private"] == 70


SVHN_DAMAGE = {
    "missing": None,
    "truncated": lambda whole: whole[: len(whole) // 2],
    "empty": lambda whole: b"",
    "checksum": lambda whole: whole[:-1] + bytes([whole[-1] ^ 1]),
}


@pytest.mark.parametrize("damage", SVHN_DAMAGE)
@pytest.mark.parametrize("name", SIZES)
def test_svhn_files_damaged(nzc: Nzc, small_svhn: Path, damage: str, name: str) -> None:
    """The checksum stays that of the whole file, and nothing can be downloaded."""
    change = SVHN_DAMAGE[damage]
    path = small_svhn / f"{name}_32x32.mat"
    _, file, digest = torchvision.datasets.SVHN.split_list[name]
    torchvision.datasets.SVHN.split_list[name] = ["file:///nowhere/x.mat", file, digest]
    if change is None:
        path.unlink()
    else:
        path.write_bytes(change(path.read_bytes()))
    _complains(nzc, ["dataset=svhn", f"dataset.root={small_svhn}"], f"dataset.root={small_svhn}", path.name)


X, Y = np.zeros((32, 32, 3, 40), np.uint8), np.ones((40, 1))
SVHN_SHAPES = {
    "rows": {"X": X[..., :39], "y": Y[:39]},
    "labels": {"X": X, "y": Y[:39]},
    "side": {"X": X[:31], "y": Y},
    "grey": {"X": X[:, :, :1], "y": Y},
    "floats": {"X": X.astype(float), "y": Y},
    "flat": {"X": X.reshape(-1, 40), "y": Y},
    "no X": {"y": Y},
    "range": {"X": X, "y": Y * 11},
    "no mat": b"hello",
    "half a mat": b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + b"\x0f\x00\x00\x00\xff\x00\x00\x00abc",
}


@pytest.mark.parametrize("shape", SVHN_SHAPES)
def test_svhn_files_of_another_content(nzc: Nzc, small_svhn: Path, shape: str) -> None:
    _put(small_svhn, "train", SVHN_SHAPES[shape])
    _complains(nzc, ["dataset=svhn", f"dataset.root={small_svhn}"], "dataset.root", "must h", "train_32x32.mat")


def test_nothing_is_left_where_nothing_could_be_downloaded(nzc: Nzc, small_svhn: Path) -> None:
    torchvision.datasets.SVHN.split_list["train"][0] = "file:///nowhere/x.mat"
    _complains(nzc, ["dataset=svhn", "dataset.root=new/folder"], "dataset.root=new/folder", "downloaded")
    assert not (Path.cwd() / "new" / "folder").exists()
    _complains(nzc, ["dataset=svhn", "dataset.extra=1"], "dataset.extra=1", "true or false")


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


@pytest.mark.parametrize("damage", ["truncated", "short", "side", "labels", "no idx", "missing"])
def test_idx_files(nzc: Nzc, blank: Path, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torchvision.datasets.FashionMNIST, "mirrors", ["file:///nowhere/"])
    images, labels = blank / "t10k-images-idx3-ubyte", blank / "t10k-labels-idx1-ubyte"
    match damage:
        case "truncated":
            images.write_bytes(images.read_bytes()[:1000])
        case "short":
            images.write_bytes(_idx(np.zeros((9_999, 28, 28), np.uint8)))
        case "side":
            images.write_bytes(_idx(np.zeros((10_000, 27, 28), np.uint8)))
        case "labels":
            labels.write_bytes(_idx(np.zeros(9_999, np.uint8)))
        case "no idx":
            labels.write_bytes(gzip.compress(b"hello"))
        case "missing":
            images.unlink()
    root = blank.parents[1]
    _complains(nzc, ["dataset=fashion_mnist", f"dataset.root={root}"], f"dataset.root={root}", "FashionMNIST/raw")


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


ADULT_DAMAGE = {
    "missing": None,
    "truncated": lambda text: text[: len(text) * 2 // 3],
    "short": lambda text: "\n".join(text.splitlines()[:3]),
    "columns": lambda text: text.replace(", Male", "", 1),
    "number": lambda text: text.replace("77516", "many", 1),
    "not finite": lambda text: text.replace("77516", "inf", 1),
    "label": lambda text: text.replace("50K", "60K", 1),
    "no text": lambda text: "\xff\x00",
    "empty": lambda text: "",
}


@pytest.mark.parametrize("damage", ADULT_DAMAGE)
@pytest.mark.parametrize("name", ["adult.data", "adult.test"])
def test_adult_files(nzc: Nzc, small_adult: Path, damage: str, name: str) -> None:
    change = ADULT_DAMAGE[damage]
    if change is None:
        (small_adult / name).unlink()
    else:
        (small_adult / name).write_text(change((small_adult / name).read_text()), encoding="latin-1")
    arguments = ["dataset=adult", "dataset.public=3", f"dataset.root={small_adult.parent}"]
    _complains(nzc, arguments, f"dataset.root={small_adult.parent}", f"adult/{name}")


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


def test_folders_that_are_none(nzc: Nzc, images: Path, tmp_path: Path) -> None:
    arguments = ["dataset=folder", f"dataset.path={images}", "dataset.private=0.5", "dataset.public=0.3"]
    _complains(nzc, ["dataset=folder"], "dataset.path=???", "given")
    _complains(nzc, ["dataset=folder", "dataset.path=none"], "dataset.path=none", "a folder that exists")
    _complains(nzc, ["dataset=folder", f"dataset.path={images / 'cat'}"], "2 or more classes", "0 folders and 10 files")
    _complains(nzc, ["dataset=folder", f"dataset.path={images / 'cat' / '3.png'}"], "must be a folder; unpack")
    shutil.copytree(images, tmp_path / "splits" / "train")
    shutil.copytree(images, tmp_path / "splits" / "val")
    _complains(
        nzc, ["dataset=folder", "dataset.path=splits"], "train holds folders. Is dataset.path=splits/train meant?"
    )
    _complains(nzc, [*arguments, "dataset.size=0"], "dataset.size=0", "from 1 to 4,096")
    _complains(nzc, [*arguments, "dataset.private=0.9"], "dataset.private=0.9", "below 1")
    _complains(nzc, [*arguments, "dataset.private=0.01"], "dataset.path", "three splits")
    whole = (images / "cat" / "3.png").read_bytes()
    for damage in (b"", b"hello", whole[:50], whole[:30]):
        (images / "cat" / "3.png").write_bytes(damage)
        _complains(nzc, arguments, f"dataset.path={images}", "number 4 of cat")
    Image.new("RGB", (5, 5)).save(images / "cat" / "3.png")
    _complains(nzc, arguments, "dataset.size=null", "differ in size")


def _mixed(mode: str) -> tuple[Image.Image, np.ndarray]:
    """A random picture of a mode, and the RGB bytes that it shows, by the formula of the mode."""
    rng = np.random.default_rng(0)
    raw = rng.integers(0, 256, (9, 7, 4), np.uint8)
    if mode == "YCbCr":  # colours that RGB has
        raw[..., 0], raw[..., 1:3] = 64 + raw[..., 0] // 2, 112 + raw[..., 1:3] // 8
    value, colours, alpha = raw[..., 0], raw[..., :3].astype(float), raw[..., 3:] / 255
    grey = np.repeat(value[..., None].astype(float), 3, axis=2)

    def on_white(shown: np.ndarray) -> np.ndarray:
        return shown * alpha + 255 * (1 - alpha)

    palette = rng.integers(0, 256, (256, 3), np.uint8)
    if mode == "1":
        return Image.fromarray(value > 99), np.where(grey > 99, 255, 0)
    if mode[:4] == "I;16":
        wide = rng.integers(0, 2**16, (9, 7)).astype("<u2")
        data = wide.astype(">u2" if mode[4:] == "B" else "<u2").tobytes()
        return Image.frombytes(mode, (7, 9), data), np.repeat(wide[..., None] / 257, 3, axis=2)
    if mode in ("P", "P+", "PA"):
        image = Image.frombytes("PA", (7, 9), raw[..., [0, 3]].tobytes()) if mode == "PA" else Image.fromarray(value)
        image.putpalette(palette.tobytes())
        if mode == "P+":
            image.info["transparency"] = bytes(range(256))
            alpha = value[..., None] / 255
            return image, palette[value] * alpha + 255 * (1 - alpha)
        return image, on_white(palette[value]) if mode == "PA" else palette[value]
    if mode in ("LA", "La"):
        known = np.minimum(raw[..., 0], raw[..., 3]) if mode == "La" else value
        image = Image.frombytes(mode, (7, 9), np.stack([known, raw[..., 3]], axis=2).tobytes())
        straight = known[..., None] + 255 * (1 - alpha) if mode == "La" else on_white(grey)
        return image, np.repeat(straight[..., :1], 3, axis=2)
    if mode == "RGBa":
        known = np.minimum(raw[..., :3], raw[..., 3:])
        image = Image.frombytes("RGBa", (7, 9), np.concatenate([known, raw[..., 3:]], axis=2).tobytes())
        return image, known + 255 * (1 - alpha)
    image = Image.frombytes(mode, (7, 9), raw[..., : len(Image.new(mode, (1, 1)).getbands())].tobytes())
    red, green, blue = colours[..., 0], colours[..., 1] - 128, colours[..., 2] - 128
    jfif = [red + 1.402 * blue, red - 0.344136 * green - 0.714136 * blue, red + 1.772 * green]
    hsv = [[hsv_to_rgb(*pixel / 255) for pixel in row] for row in colours]
    shown = {"L": grey, "RGBA": on_white(colours), "CMYK": (255 - colours) * (1 - alpha), "HSV": np.array(hsv) * 255,
             "YCbCr": np.stack(jfif, axis=2)}  # fmt: skip
    return image, np.clip(shown.get(mode, colours), 0, 255)


MODES = ("1", "L", "P", "P+", "PA", "LA", "La", "RGB", "RGBX", "RGBA", "RGBa", "CMYK", "YCbCr", "HSV", "I;16", "I;16B",
         "I;16L")  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_of_images_shows_its_colours(mode: str) -> None:
    image, expected = _mixed(mode)
    assert unusable(image) is None
    found = np.asarray(as_bytes(image, grey=False)).astype(float)
    within = {"HSV": 6, "La": 2, "RGBa": 2}.get(mode, 1)
    np.testing.assert_allclose(found, expected, atol=within + 0.01)
    grey = expected @ [0.299, 0.587, 0.114]
    np.testing.assert_allclose(np.asarray(as_bytes(image, grey=True)), grey, atol=within + 1)


def test_images_that_are_no_single_picture_of_bytes(nzc: Nzc, images: Path) -> None:
    path, other = images / "cat" / "3.png", Image.new("RGB", (6, 4), "red")
    for mode, ending in (("F", "tif"), ("I", "tif"), ("LAB", "tif")):
        path.unlink()
        path = path.with_suffix(f".{ending}")
        Image.new(mode, (6, 4)).save(path)
        _complains(nzc, ["dataset=folder", f"dataset.path={images}"], "number 4 of cat", f"mode, {mode};", "8-bit")
    for ending in ("gif", "tif", "png", "webp"):
        path.unlink()
        path = path.with_suffix(f".{ending}")
        Image.new("RGB", (6, 4)).save(path, save_all=True, append_images=[other])
        _complains(nzc, ["dataset=folder", f"dataset.path={images}"], "number 4 of cat", "several frames or pages")


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
#: Symbols that a turn, a shift and another font make hard to tell apart, as in the paper.
AMBIGUOUS = (",'", ".·", "-_", "lI", "1l", "il", "0O", "0θ", "OΘ", "oø", "x×", "vν", "uυ", "pρ", "wω", "βß", "þÞ", "ασ")


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


def test_glyph_has_pairs_that_are_hard_to_tell_apart() -> None:
    """The likeness of two symbols' ink within a font, averaged over fonts: far above that of any two symbols."""
    brush = _Brush.of(GLYPH, "private")
    ink = [brush.fields[brush.which[i, : brush.choices[i]], 0] > 0 for i in range(150)]

    def alike(a: str, b: str) -> float:
        one, other = ink[SYMBOLS.index(a)].mean(axis=0), ink[SYMBOLS.index(b)].mean(axis=0)
        return float(np.minimum(one, other).sum() / np.maximum(one, other).sum())

    usual = np.mean([alike(a, b) for a, b in zip(SYMBOLS, SYMBOLS[7:], strict=False)])
    likeness = {pair: alike(*pair) for pair in AMBIGUOUS}
    assert min(likeness.values()) > 1.5 * usual, (likeness, usual)


def test_glyph_takes_a_folder_of_fonts(nzc: Nzc, tmp_path: Path) -> None:
    carried = {font.name: font for font in GLYPH.fonts_of("private")}
    source = carried["DejaVu Sans Book"] if "DejaVu Sans Book" in carried else next(iter(carried.values()))
    folder = tmp_path / "fonts"
    folder.mkdir()
    (folder / "same.ttf").write_bytes(source.path.read_bytes())
    mine = replace(GLYPH, fonts=str(folder))
    found = [font for role in ("private", "public") for font in mine.fonts_of(role) if font.name == source.name]
    assert [font.path.name for font in found] == ["same.ttf"]  # a font that is there twice counts once
    (folder / "other.ttf").write_bytes(source.path.read_bytes()[:5000])
    _complains(nzc, ["dataset=glyph", f"dataset.fonts={folder}"], "dataset.fonts=", "other.ttf", "readable font")
    _complains(nzc, ["dataset=glyph", "dataset.fonts=none"], "dataset.fonts=none", ".ttf")


@pytest.mark.parametrize(
    ("key", "value", "allows"),
    [
        ("private", "0", "1 or more"),
        ("imbalance", "0.5", "or more"),
        ("imbalance", "nan", "finite"),
        ("mislabelled", "1", "below 1"),
        ("mislabelled", "-0.1", "0 or above"),
        ("public_fonts", "0", "between 0 and 1"),
        ("public_fonts", "0.001", "every symbol"),
        ("public_fonts", "0.999", "every symbol"),
    ],
)
def test_glyph_settings(nzc: Nzc, key: str, value: str, allows: str) -> None:
    _complains(nzc, ["dataset=glyph", f"dataset.{key}={value}"], f"dataset.{key}={value}", allows)


def test_glyph_through_the_command_line(nzc: Nzc) -> None:
    sizes = [f"dataset.{role}=60" for role in ("private", "public", "test")]
    ran = nzc("dataset=glyph", *sizes, *SMALL, "teachers.epochs=1", "student.steps=2")
    assert ran.code == 0, ran.err
    assert ran.result["data"]["classes"] == 150


def test_the_groups_of_svhn_keep_together() -> None:
    """The prepared crops, as `dataset=npz` takes them: colour channels first, pictures in one role."""
    from nzc.data.npz import Npz

    path = Path(os.environ.get("NZC_DATA", "")) / "svhn_test10k.npz"
    if not path.is_file():
        pytest.skip("NZC_DATA names no folder with svhn_test10k.npz")
    roles = Npz(str(path), seed=0, private=0.7, public=0.2).load()
    assert roles.private.x.shape[1:] == (3, 32, 32)
    assert len(roles.private) + len(roles.public) + len(roles.test) == 10_000
