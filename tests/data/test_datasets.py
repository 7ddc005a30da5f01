"""Each dataset's loading code on files that the test makes; what is wrong with a file is said in
one line.
"""

import gzip
import pickle
import re
import shutil
from dataclasses import replace
from hashlib import md5
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pandas as pd
import pytest
import torchvision
from conftest import TEACHERS, Nzc, newest_folder, published
from PIL import Image
from scipy.io import savemat

from nzc.app.build import build
from nzc.app.config import CONF, compose_run
from nzc.data import UNKNOWN, Dataset, adult
from nzc.data.adult import Adult
from nzc.data.folder import Folder
from nzc.data.glyph import SIDE, SYMBOLS, Glyph, Items
from nzc.data.hashing import keys_of
from nzc.data.images import as_bytes
from nzc.data.splits import SPLITS
from nzc.data.torchvision import MNIST, SVHN, Torchvision
from nzc.validation import InputError

KINDS = get_args(get_type_hints(Torchvision)["kind"])


def _refused(dataset: Dataset, *parts: str) -> None:
    """The dataset is refused in one line with these parts."""
    with pytest.raises(InputError) as refused:
        dataset.load()
    assert "\n" not in str(refused.value)
    for part in parts:
        assert part in str(refused.value)


# torchvision's own reading, its addresses pointed at files of the test and its checksums at theirs.


@pytest.fixture
def small_svhn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of small official-looking files, which is also where a download would come from."""
    origin = tmp_path / "origin"
    origin.mkdir()
    monkeypatch.setattr(torchvision.datasets.SVHN, "split_list", {})
    for number, (name, rows) in enumerate({"train": 40, "extra": 30, "test": 50}.items()):
        path = origin / f"{name}_32x32.mat"
        images = np.random.default_rng(number).integers(0, 256, (32, 32, 3, rows), np.uint8)
        savemat(path, {"X": images, "y": np.arange(rows)[:, None] % 10 + 1})
        digest = md5(path.read_bytes()).hexdigest()
        torchvision.datasets.SVHN.split_list[name] = [f"file://{path}", path.name, digest]
    return origin


def test_svhn_has_the_papers_roles(nzc: Nzc, small_svhn: Path) -> None:
    roles = SVHN(str(small_svhn), public=30, extra=True).load()
    assert [len(roles.private), len(roles.public), len(roles.test)] == [70, 30, 20]
    assert roles.classes == 10
    train = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 40), np.uint8)
    np.testing.assert_array_equal(roles.private.x[7], train[..., 7].transpose(2, 0, 1))
    assert (roles.private.y[:11] == np.arange(1, 12) % 10).all()  # the file's 10 is the digit 0
    assert roles.test.y[0] == 1
    _refused(SVHN(str(small_svhn), public=50), "public=50", "at most 49")
    ran = nzc("dataset=torchvision", "dataset.kind=SVHN", f"dataset.root={small_svhn}",
              "dataset.public=30", *TEACHERS, "teachers.epochs=1", "teachers.count=2",
              "student=none")  # fmt: skip
    assert (ran.code, ran.result["dataset"], ran.result["data"]["private"]) == (0, "SVHN", 40)


def _idx(array: np.ndarray) -> bytes:
    return (
        bytes([0, 0, 8, array.ndim])
        + b"".join(size.to_bytes(4, "big") for size in array.shape)
        + array.tobytes()
    )


def test_mnist_and_those_like_it_have_the_papers_roles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = tmp_path / "KMNIST" / "raw"
    raw.mkdir(parents=True)
    for name, rows in (("train", 600), ("t10k", 100)):
        (raw / f"{name}-images-idx3-ubyte").write_bytes(_idx(np.zeros((rows, 28, 28), np.uint8)))
        (raw / f"{name}-labels-idx1-ubyte").write_bytes(_idx(np.arange(rows).astype(np.uint8) % 10))
    roles = Torchvision(str(tmp_path), kind="KMNIST", public=90).load()
    assert [len(roles.private), len(roles.public), len(roles.test)] == [600, 90, 10]
    assert roles.classes == 10
    assert roles.private.x.shape[1:] == (1, 28, 28)
    assert (MNIST("").kind, MNIST("").public) == ("MNIST", 9000)
    monkeypatch.setattr(torchvision.datasets.KMNIST, "mirrors", ["file:///nowhere/"])
    (raw / "t10k-images-idx3-ubyte").write_bytes(b"half")
    _refused(Torchvision(str(tmp_path), kind="KMNIST", public=90), f"root={tmp_path}", "KMNIST")


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of all that can be downloaded of KMNIST, of twenty rows a part."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    images = gzip.compress(_idx(np.zeros((20, 28, 28), np.uint8)))
    labels = gzip.compress(_idx(np.arange(20).astype(np.uint8) % 10))
    digests = []
    for part in ("train", "t10k"):
        for name, content in (("images-idx3", images), ("labels-idx1", labels)):
            (folder / f"{part}-{name}-ubyte.gz").write_bytes(content)
            digests.append((f"{part}-{name}-ubyte.gz", md5(content).hexdigest()))

    def copied(url: str, target: str) -> None:
        shutil.copyfile(url.removeprefix("file://"), target)

    monkeypatch.setattr(torchvision.datasets.utils, "_urlretrieve", copied)
    monkeypatch.setattr(torchvision.datasets.KMNIST, "mirrors", [f"file://{folder}/"])
    monkeypatch.setattr(torchvision.datasets.KMNIST, "resources", digests)
    return folder


def test_files_that_are_missing_are_downloaded_and_half_ones_refused(
    mirror: Path, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    dataset = Torchvision(str(root), kind="KMNIST", public=10)
    labels = mirror / "t10k-labels-idx1-ubyte.gz"
    whole = labels.read_bytes()
    labels.write_bytes(whole[:30])
    _refused(dataset, f"root={root}", "KMNIST")
    labels.write_bytes(whole)
    splits = dataset.load()
    assert [len(split) for split in (splits.private, splits.public, splits.test)] == [20, 10, 10]
    shutil.rmtree(mirror)
    assert len(dataset.load().private) == 20  # and needs no network any more
    (root / "KMNIST" / "raw" / "t10k-labels-idx1-ubyte").write_bytes(b"half")
    _refused(dataset, f"root={root}", "KMNIST")


@pytest.mark.parametrize(
    ("kind", "says"),
    [("KMNISTT", "did you mean KMNIST?"), ("Caltech101", ", ".join(KINDS)), ("???", ", ".join(KINDS))],
)  # fmt: skip
def test_kinds_of_images_are_named(kind: str, says: str) -> None:
    with pytest.raises(InputError) as refused:
        build(compose_run(["dataset=torchvision", f"dataset.kind={kind}"]), "dataset")
    assert refused.value.key == "dataset.kind" and says in refused.value.allowed


def test_help_names_the_kinds_of_images() -> None:
    comment = (CONF / "dataset" / "torchvision.yaml").read_text().partition("kind: ??? # ")[2]
    assert re.split(", | or ", comment.partition("\n")[0]) == [*KINDS]
    assert all(hasattr(torchvision.datasets, kind) for kind in KINDS)


# Adult: comma-separated words.

PERSON = "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, {}, {}"


@pytest.fixture
def small_adult(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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
    np.testing.assert_array_equal(roles.private.x[:, -2:], [[0, 1], [1, 0], [0, 0], [0, 1]])
    assert roles.public.x[:, 0].mean() == pytest.approx(0, abs=1e-6)
    assert roles.public.x[:, 0].std() == pytest.approx(1, abs=1e-6)
    assert roles.private.y.tolist() == [0, 0, 0, 0] and roles.test.y.tolist() == [1, 1, 1]
    text = (small_adult / "adult.data").read_text()
    (small_adult / "adult.data").write_text(text.replace("39", "90").replace("Peru", "Chile"))
    after = Adult(str(small_adult.parent), public=3).load()
    np.testing.assert_array_equal(roles.public.x, after.public.x)
    np.testing.assert_array_equal(roles.test.x, after.test.x)


def test_adult_files(small_adult: Path) -> None:
    path = small_adult / "adult.data"
    whole = path.read_text()
    _, _, without_one = whole.partition("\n")
    changes = [
        (", Male", ""),
        ("77516", "many"),
        ("50K", "60K"),
        (whole, "\xff"),
        (whole, ""),
        (whole, without_one),
    ]
    for old, new in changes:
        path.write_text(whole.replace(old, new, 1), encoding="latin-1")
        _refused(
            Adult(str(small_adult.parent), public=3),
            f"root={small_adult.parent}",
            "adult/adult.data",
        )


def test_adult_lines_up_with_the_published_votes() -> None:
    votes, labels = published("adult_250_teachers.npy"), published("adult_true_labels.npy")
    if not (votes.parents[1] / "adult" / "adult.data").is_file():
        pytest.skip("NZC_DATA names no folder with adult/adult.data")
    roles = Adult(str(votes.parents[1]), public=14_281).load()
    assert (len(roles.private), len(roles.public), len(roles.test)) == (32_561, 14_281, 2_000)
    np.testing.assert_array_equal(np.concatenate([roles.public.y, roles.test.y]), np.load(labels))
    assert (roles.public.y[:500] == np.load(votes)[:500].argmax(axis=1)).mean() > 0.8


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
    assert (roles.classes, roles.private.x.shape[1:]) == (2, (3, 4, 6))
    reds = [split.x[:][:, 0, 0, 0] for split in (roles.private, roles.public, roles.test)]
    for split, red in zip((roles.private, roles.public, roles.test), reds, strict=True):
        np.testing.assert_array_equal(red >= 100, split.y == 1)
    assert len(np.unique(np.concatenate(reds))) == 20
    assert sum(len(np.unique(red % 100)) for red in reds) == 10  # images of one name share a split
    assert roles.digest == replace(FOLDER, path=str(images)).load().digest
    assert roles.digest != replace(FOLDER, path=str(images), seed=1).load().digest
    assert replace(FOLDER, path=str(images), size=8, grey=True).load().test.x.shape[1:] == (1, 8, 8)


def test_folders_that_are_none(images: Path, tmp_path: Path) -> None:
    folder = replace(FOLDER, path=str(images))
    _refused(replace(folder, path="none"), "path=none", "2 or more classes; it has 0")
    _refused(replace(folder, classes=["cat", "bird"]), "which has 1 others")
    for split in ("train", "val"):
        shutil.copytree(images, tmp_path / "splits" / split)
    _refused(replace(folder, path=str(tmp_path / "splits")), "path=", "path/CLASS/IMAGE")
    _refused(replace(folder, private=0.01), "private=0.01")
    _refused(replace(folder, private=0.7), "private=0.7", "below 1")
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


@pytest.mark.parametrize(
    "mode", ["1", "L", "P", "PA", "LA", "RGB", "RGBX", "RGBA", "CMYK", "YCbCr", "HSV"]
)
def test_every_mode_of_images_shows_its_colours(mode: str) -> None:
    """A picture of four plain colours keeps them through every mode, or their brightness."""
    plain = Image.fromarray(
        np.array([[[0, 0, 0], [255, 255, 255]], [[255, 0, 0], [0, 0, 255]]], np.uint8)
    )
    shown = as_bytes(
        plain.convert("L").convert(mode) if mode in ("1", "LA", "PA") else plain.convert(mode),
        grey=True,
    )
    expected = (
        np.where(np.asarray(plain.convert("L")) > 127, 255, 0)
        if mode == "1"
        else np.asarray(plain.convert("L"))
    )
    rows = slice(0, 1) if mode == "1" else slice(None)  # dithering changes the colours
    np.testing.assert_allclose(
        np.asarray(shown)[rows].astype(int), expected[rows].astype(int), atol=2
    )


def test_images_that_are_no_single_picture_of_bytes(images: Path) -> None:
    folder, path = replace(FOLDER, path=str(images)), images / "cat" / "3.tif"
    path.with_suffix(".png").unlink()
    Image.new("F", (6, 4)).save(path)
    _refused(folder, "number 4 of cat", "mode, F;", "8-bit")
    Image.new("RGB", (6, 4)).save(
        path, save_all=True, append_images=[Image.new("RGB", (6, 4), "red")]
    )
    _refused(folder, "number 4 of cat", "several frames or pages")


def test_sixteen_bits_keep_their_scale_in_every_file(images: Path) -> None:
    values = np.linspace(0, 65535, 24).astype(np.uint16).reshape(4, 6)
    for file in images.glob("*/*.png"):
        Image.fromarray(values).save(file.with_suffix(".tif" if file.stem == "3" else ".png"))
    (images / "cat" / "3.png").unlink()
    (images / "dog" / "3.png").unlink()
    x = replace(FOLDER, path=str(images), grey=True).load().private.x[:]
    np.testing.assert_allclose(x, np.broadcast_to(values / 257, x.shape), atol=0.5)


def _of_sixteen_bits(images: Path, values: np.ndarray) -> None:
    for number, file in enumerate(sorted(images.glob("*/*.png"))):
        Image.fromarray((values + number).astype(np.uint16)).save(file)


def test_a_small_part_of_sixteen_bits_is_said_and_the_range_shows_it(images: Path) -> None:
    """With the range, the images are those that were saved with 8 bits."""
    values = np.arange(24).reshape(4, 6) * 9
    folder = replace(FOLDER, path=str(images), grey=True)
    _of_sixteen_bits(images, values)
    in_bytes = replace(folder, range=[0, 255]).load()
    _of_sixteen_bits(images, values + 1000)
    splits = folder.load()
    levels = int(np.ptp(splits.public.x)) + 1
    assert f"use {levels} of 256 grey levels" in splits.warnings[0]
    ranged = replace(folder, range=[1000, 1255])
    assert (ranged.load().digest, ranged.load().warnings) == (in_bytes.digest, ())
    for file in images.glob("*/*.png"):  # their range is not known otherwise
        Image.fromarray(np.asarray(Image.open(file)).astype(np.float32)).save(file, "tiff")
    assert ranged.load().digest == in_bytes.digest
    _refused(folder, "dataset.range=[BLACK,WHITE]", "8-bit")


def test_colours_have_no_range_of_more_than_a_byte(images: Path) -> None:
    """Pillow drops the lower 8 bits of colours."""
    _refused(replace(FOLDER, path=str(images), range=[0, 1255]), "of cat", "8-bit")


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


def test_images_in_several_classes_have_names_of_their_own(images: Path) -> None:
    splits = replace(FOLDER, path=str(images)).load()
    reds = splits.public.x[:, 0, 0, 0] % 100
    names = [f"{splits.labels[label]}/{red}.png" for red, label in zip(reds, splits.public.y)]  # noqa: B905
    assert splits.ids.tolist() == names and len(set(names)) == len(names)


def test_unlabelled_images_lie_in_a_folder_of_their_own(images: Path, unlabelled: Path) -> None:
    folder = replace(FOLDER, path=str(images), public=str(unlabelled))
    splits = folder.load()
    assert list(splits.ids) == ["b.png", "ward/3/a.png", "ward/a.png"]
    np.testing.assert_array_equal(splits.public.x[:, 0, 0, 0], [0, 2, 1])
    assert (splits.classes, splits.public.y.tolist(), folder.check()) == (2, [UNKNOWN] * 3, 3)
    assert 0 < len(splits.private) < 20 and len(splits.private) + len(splits.test) == 20
    shutil.rmtree(unlabelled)
    _refused(replace(folder, public="none"), "public=none", "no image")
    # A private image keeps its split and its teacher.
    by_share = replace(FOLDER, path=str(images)).load()
    np.testing.assert_array_equal(splits.private.x, by_share.private.x)
    np.testing.assert_array_equal(splits.keys, by_share.keys)


def test_test_images_lie_in_folders_of_the_classes(images: Path, unlabelled: Path) -> None:
    test = images / "test"
    (test / "dog").mkdir(parents=True)
    Image.new("RGB", (6, 4), "white").save(test / "dog" / "0.png")
    folder = replace(FOLDER, path=str(images), public=str(unlabelled), test=str(test))
    splits = folder.load()
    assert (len(splits.private), splits.test.y.tolist()) == (20, [1])
    (unlabelled / "note.txt").write_text("no image")
    _refused(folder, f"public={unlabelled}", "number 2 of unlabelled")
    (test / "bird").mkdir()
    _refused(folder, f"test={test}", "classes")
    _refused(replace(folder, public=0.3), f"test={test}", "dataset.public")


def test_an_image_in_the_private_and_the_public_folder_is_refused_dropped_or_allowed(
    images: Path, unlabelled: Path
) -> None:
    folder = replace(FOLDER, path=str(images), public=str(unlabelled))
    before = folder.load()
    keys = keys_of(np.array([f"{number}.png" for number in range(10)]))
    name = list(keys).index(before.keys[0])
    for file in (images / "cat" / f"{name}.png", images / "dog" / f"{name}.png"):
        shutil.copy(file, unlabelled / f"{file.parent.name}.png")
    _refused(folder, "overlap=refuse", "2 are in public rows too")
    dropped = replace(folder, overlap="drop").load()
    np.testing.assert_array_equal(
        dropped.private.x, before.private.x[before.keys != before.keys[0]]
    )
    np.testing.assert_array_equal(dropped.test.x, before.test.x)
    assert len(replace(folder, overlap="allow").load().private) == len(before.private)


def test_every_unlabelled_image_has_a_prediction_by_its_name(
    nzc: Nzc, images: Path, unlabelled: Path
) -> None:
    where = [
        "dataset=folder",
        f"dataset.path={images}",
        f"dataset.public={unlabelled}",
        "dataset.grey=true",
    ]
    ran = nzc(
        *where, "teachers=logistic", "teachers.count=2", "student=linear", "aggregator.sigma=0.1"
    )
    assert ran.code == 0, ran.err
    table = pd.read_csv(newest_folder(ran) / "predictions.csv")
    assert table.id.tolist() == ["b.png", "ward/3/a.png", "ward/a.png"]
    assert table.label.isin(["cat", "dog"]).all()
    ran = nzc(*where[:-2], "dataset.public=2")
    assert ran.code == 2 and "dataset.public=2: must be a share" in ran.err
    ran = nzc(*where, "dataset.range=[3,3]")
    assert (
        ran.code == 2 and "dataset.range=[3, 3]: must be the values of black and white" in ran.err
    )


# Glyphs.

GLYPH = Glyph(seed=0, private=300, public=200, test=100)


def test_glyph_items_are_pure() -> None:
    """Item i follows from (seed, role, i): alone, in any company and order, and when drawn later."""
    private = Items(GLYPH, "private", 300)
    test = Items(GLYPH, "test")
    roles = GLYPH.load()
    many = private[:]
    some = np.array([299, 0, 124, 17])
    far = np.array([64_999_999])
    assert (many.shape, many.dtype) == ((300, 1, SIDE, SIDE), np.uint8)
    assert len({*map(bytes, many)}) == 300
    np.testing.assert_array_equal(private.labels(some), roles.private.y[some])
    np.testing.assert_array_equal(test[far], test[np.append(some, far)][-1:])
    assert (roles.public.x[:100] != roles.test.x).any(axis=(1, 2, 3)).all()
    for rows in (private, roles.private.x, pickle.loads(pickle.dumps(roles.private.x))):
        np.testing.assert_array_equal(rows[some], many[some])


def test_the_digest_of_drawn_rows_differs_wherever_they_do() -> None:
    others = [GLYPH, replace(GLYPH, seed=1), replace(GLYPH, private=299), replace(GLYPH, imbalance=4.0),
              replace(GLYPH, mislabelled=0.2), replace(GLYPH, public_fonts=0.4)]  # fmt: skip
    assert len({glyph.load().private_digest for glyph in others}) == len(others)
    assert GLYPH.load().digest == GLYPH.load().digest


def test_glyph_roles_share_no_font() -> None:
    private = {font.name for font in GLYPH.fonts_of("private")}
    public = {font.name for font in GLYPH.fonts_of("public")}
    assert not private & public and GLYPH.fonts_of("public") == GLYPH.fonts_of("test")
    assert len(private | public) >= 20
    assert not any(re.match("Last|cmsy|cmex|cmmi", name) for name in private | public)
    for split in SPLITS:
        assert set(SYMBOLS) == {*"".join(font.symbols for font in GLYPH.fonts_of(split))}


def test_glyph_imbalance_is_five_to_one_and_a_tenth_of_private_labels_is_wrong() -> None:
    def labels(glyph: Glyph, role: str, count: int = 400_000) -> np.ndarray:
        return Items(glyph, role).labels(np.arange(count))

    assert GLYPH.frequencies.max() / GLYPH.frequencies.min() == pytest.approx(5)
    counts = np.bincount(labels(GLYPH, "test"), minlength=150)
    expected = GLYPH.frequencies * 400_000
    assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()
    _refused(replace(GLYPH, public_fonts=0.001), "public_fonts=0.001")  # none has every symbol
    right = replace(GLYPH, mislabelled=0.0)
    given, truth = labels(GLYPH, "private"), labels(right, "private")
    wrong = given != truth
    assert wrong.mean() == pytest.approx(0.1, abs=0.003)
    assert len(np.unique((given - truth)[wrong] % 150)) == 149
    np.testing.assert_array_equal(labels(GLYPH, "public", 5000), labels(right, "public", 5000))
    np.testing.assert_array_equal(Items(GLYPH, "private", 50)[:], Items(right, "private", 50)[:])
