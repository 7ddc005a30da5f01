"""What trials/fuzz.py feeds of data files: arrays, archives, MNIST's and SVHN's formats, images."""

import gzip
import io
import pickle
import random
import shutil
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import scipy.io
from fuzz_inputs import OWN, PLAIN, QUIET, VOTES, Payload, damaged, kind, plain_data, plain_votes
from fuzz_run import run
from PIL import Image

FUNNY = ["<f8", ">i2", "<u8", "bool", "<c16", "<M8[ns]", "<m8[D]", "<U3", "S4", "f2", "g", "O", "V8", "i1"]


def header(shape: str, descr: str = "'<f8'", rest: bytes = b"") -> bytes:
    """An .npy whose header says what it will."""
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (63 - (len(text) + 10) % 64 + 0) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + rest


def npy(array: np.ndarray) -> bytes:
    held = io.BytesIO()
    np.save(held, array, allow_pickle=True)
    return held.getvalue()


def liar(rng: random.Random) -> bytes:
    """A header without the data it promises, or none."""
    shape = rng.choice(("(10**12,)", "(1000000000000,)", "(1000000000000, 3)", "(30, 100000000000)",
                        "(-1, 3)", "(0, 3)", "(30,)", "()",
                        "(9223372036854775807, 2)", "(18446744073709551616, 3)", "(30, 3, 2)", "'x'", "(1.5, 2)",
                        "(2000000000, 3)"))  # fmt: skip
    descr = rng.choice(
        (*["'<f8'"] * 4, "'<i8'", "'|O'", "'|V0'", "[('a', '<i4')]", "__import__('os')", "'<U1000000000'")
    )
    return header(shape, descr, rng.randbytes(rng.choice((0, 100, 720, 1440))))


def odd(rng: random.Random, array: np.ndarray) -> np.ndarray:
    """The array, spoilt in one way."""
    kind = rng.randrange(12)
    if kind == 0:
        with np.errstate(all="ignore"):
            try:
                return array.astype(rng.choice(FUNNY))
            except (ValueError, TypeError):
                return array[:0]
    if kind == 1:
        return array[: rng.randrange(len(array))]
    if kind == 2:
        return array.reshape(rng.choice(((-1,), (*array.shape, 1), (1, *array.shape), (1, 1, 1, 1, *array.shape))))
    if kind == 3:
        return np.array(rng.choice((0, 1.5, "x", None, np.nan, Payload(), [], [[]], [[None]])))
    if kind in (4, 5) and array.dtype.kind == "U":
        return array.astype("OS"[kind - 4])
    if kind == 4:
        spoilt = array.astype(float)
        spoilt.flat[rng.randrange(spoilt.size)] = rng.choice((np.nan, np.inf, -np.inf, 1e308, -1, 0.5, 2**63, 1e19))
        return spoilt
    if kind == 5:
        spoilt = array.astype(np.int64)
        spoilt.flat[rng.randrange(spoilt.size)] = rng.choice((-1, -(2**63), 2**63 - 1, 10**9, 7, -2))
        return spoilt
    if kind == 6:
        return np.array([Payload()] * len(array), dtype=object)
    if kind == 7:
        return np.zeros_like(array)
    if kind == 8:
        return np.full(array.shape, rng.choice((2**64 - 1, 2**63, 1)), np.uint64)
    if kind == 9:
        return np.full(array.shape, rng.choice((1e308, -1e308, 1e-320, 2.0**60)))
    if kind == 10:
        return np.asfortranarray(array).astype(">i4")
    return np.array([(1, 2.0)] * len(array), dtype=[("a", "i4"), ("b", "f8")])


def good_votes() -> np.ndarray:
    return np.random.default_rng(0).multinomial(20, [0.5, 0.3, 0.2], 30)


def hostile(rng: random.Random, good: np.ndarray) -> bytes:
    """An .npy that is not what it should be."""
    match rng.randrange(8):
        case 0:
            return liar(rng)
        case 1 | 2:
            return damaged(rng, npy(good))
        case 3:
            return pickle.dumps(Payload())
        case _:
            return npy(odd(rng, good))


@kind("votes npy")
def votes(rng: random.Random, folder: Path) -> list[str]:
    (folder / "votes.npy").write_bytes(hostile(rng, good_votes()))
    aggregator = rng.choice(("gnmax", "lnmax", "nzc", "confident", "stable", "plurality", "gumbel", "interactive"))
    return [*VOTES, f"aggregator={aggregator}"]


@kind("labels npy")
def labels(rng: random.Random, folder: Path) -> list[str]:
    plain_votes(folder)
    (folder / "labels.npy").write_bytes(hostile(rng, np.arange(30) % 3))
    return [*VOTES, "teachers.labels=labels.npy", f"aggregator={rng.choice(('gnmax', 'ground_truth'))}"]


@kind("npz")
def npz(rng: random.Random, folder: Path) -> list[str]:
    generator = np.random.default_rng(rng.randrange(10**6))
    y = np.arange(90) % 3
    image = rng.random() < 0.25
    x = generator.integers(0, 256, (90, 6, 6)).astype(np.uint8) if image else generator.normal(size=(90, 4))
    arrays: dict[str, Any] = {"x": x, "y": y}
    extra = rng.choice(("", "", "role", "group"))
    if extra == "role":
        arrays["role"] = np.repeat(["private", "public", "test"], 30)
    elif extra:
        arrays["group"] = np.arange(90) // 3
    path = folder / "data.npz"
    np.savez(path, **arrays)
    name = rng.choice(list(arrays))
    match rng.randrange(9):
        case 0:
            path.write_bytes(damaged(rng, path.read_bytes()))
        case 1:
            path.write_bytes(rng.choice((npy(x), pickle.dumps(Payload()), b"", b"hello")))
        case 2:
            bomb(rng, path, arrays, name)
        case 3:
            del arrays[name]
            np.savez_compressed(path, **arrays)
            path.write_bytes(damaged(rng, path.read_bytes()) if rng.random() < 0.5 else path.read_bytes())
        case 4:
            with zipfile.ZipFile(path, "w", rng.choice((0, 8, 12, 14))) as file:
                for each, array in arrays.items():
                    data = hostile(rng, array) if each == name else npy(array)
                    file.writestr(
                        rng.choice((f"{each}.npy",) * 9 + (each, f"../{each}.npy", f"{each}.npy/", "/")), data
                    )
        case 5:
            words = ["private", "public", "test", "Private", "", "x" * 1000, "tést", "train"]
            arrays["role"] = rng.choice((
                generator.choice(words, 90), generator.choice(words[:3], 89), generator.choice(words[:2], 90),
                generator.choice([b"private", b"public", b"test"], 90), generator.integers(0, 3, 90),
                np.array("public"), np.full(90, "public"), np.array([None] * 90),
                generator.choice(words[:3], (90, 1)), np.full(90, np.nan),
            ))  # fmt: skip
            np.savez(path, **arrays)
        case _:
            arrays[name] = odd(rng, arrays[name])
            np.savez(path, **arrays)
    own = [argument.replace("student.steps=3", "student=none") if rng.random() < 0.5 else argument for argument in OWN]
    return own


def bomb(rng: random.Random, path: Path, arrays: dict[str, np.ndarray], name: str) -> None:
    """One array is all zeros, a thousandth of its size when deflated; or the archive lies about sizes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for each, array in arrays.items():
            if each != name:
                file.writestr(f"{each}.npy", npy(array))
            elif rng.random() < 0.5:
                rows = rng.choice((10**6, 2 * 10**7))
                file.writestr(f"{each}.npy", header(f"({rows}, 4)", "'|u1'", bytes(rows * 4)))
            else:
                file.writestr(f"{each}.npy", liar(rng))


def idx(array: np.ndarray, magic: int | None = None) -> bytes:
    kind = 0x0800 + array.ndim if magic is None else magic
    return struct.pack(f">{1 + array.ndim}i", kind, *array.shape) + array.astype(np.uint8).tobytes()


@kind("idx")
def mnist(rng: random.Random, folder: Path) -> list[str]:
    """MNIST's files, one of them wrong, plain or as the .gz that torchvision unpacks."""
    raw = folder / "data" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    rows = rng.choice((6, 60_000))
    sizes = {"train": rows, "t10k": 10_000 if rows > 6 else 3}
    files = {}
    for part, count in sizes.items():
        files[f"{part}-images-idx3-ubyte"] = idx(np.zeros((count, 28, 28), np.uint8))
        files[f"{part}-labels-idx1-ubyte"] = idx(np.arange(count) % 10)
    name = rng.choice(list(files))
    good = files[name]
    match rng.randrange(6):
        case 0:
            files[name] = damaged(rng, good)
        case 1:
            files[name] = (
                struct.pack(">i", rng.choice((0, -1, 0x0D03, 0x0C01, 2049, 2051, 0x7FFFFFFF, 0x080A))) + good[4:]
            )
        case 2:
            files[name] = good[:4] + struct.pack(">i", rng.choice((0, -1, 2**31 - 1, 10**9, 1))) + good[8:]
        case 3:
            files[name] = good[: rng.choice((0, 1, 4, 7, 8, 16, 100))]
        case 4:
            files[name] = good[:-1] + b"\xff"
        case _:
            del files[name]
    for each, data in files.items():
        (raw / each).write_bytes(data)
    if name in files and rng.random() < 0.3:
        (raw / name).unlink()
        (raw / f"{name}.gz").write_bytes(damaged(rng, gzip.compress(files[name], 1)))
    return ["dataset=mnist", "dataset.root=data", "student=none", "teachers=votes", "teachers.path=data", *QUIET]


@kind("mat")
def svhn(rng: random.Random, folder: Path) -> list[str]:
    """SVHN's files; their checksums are torchvision's to refuse, so it is given what to expect."""
    root = folder / "data"
    root.mkdir()
    for part, rows in (("train", 7), ("test", 5)):
        arrays: dict[str, Any] = {"X": np.zeros((32, 32, 3, rows), np.uint8), "y": np.ones((rows, 1), np.uint8)}
        name = rng.choice(("X", "y"))
        if rng.random() < 0.5:
            arrays[name] = odd(rng, arrays[name][..., 0, 0] if name == "X" and rng.random() < 0.3 else arrays[name])
            if arrays[name].dtype == object:
                arrays[name] = np.zeros(3)
        held = io.BytesIO()
        try:
            scipy.io.savemat(held, arrays, do_compression=rng.random() < 0.5)
        except (ValueError, TypeError, zlib.error, AttributeError):
            held.write(b"MATLAB 5.0")
        data = held.getvalue()
        (root / f"{part}_32x32.mat").write_bytes(damaged(rng, data) if rng.random() < 0.5 else data)
    return [
        "dataset=svhn",
        "dataset.root=data",
        "dataset.extra=false",
        "student=none",
        "teachers=votes",
        "teachers.path=x",
        *QUIET,
    ]


def png(width: int, height: int) -> bytes:
    """A PNG that says it is so large."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(10**6))) + chunk(b"IEND", b"")


@kind("images")
def images(rng: random.Random, folder: Path) -> list[str]:
    root = folder / "images"
    names = ["a", rng.choice(("b", "שלום", "e\u0301", "a b\n", "🦊", "x" * 200, "..b", "-1"))]
    generator = np.random.default_rng(rng.randrange(10**6))
    for name in names:
        (root / name).mkdir(parents=True)
        for i in range(10):
            Image.fromarray(generator.integers(0, 256, (8, 8, 3)).astype(np.uint8)).save(root / name / f"{i}.png")
    one = root / names[1] / "5.png"
    options = []
    match rng.randrange(13):
        case 0 | 1:
            one.write_bytes(damaged(rng, one.read_bytes()))
        case 2:
            one.write_bytes(
                png(*rng.choice(((60_000, 60_000), (2**31 - 1, 2**31 - 1), (1, 10**8), (0, 0), (12_000, 12_000))))
            )
        case 3:
            shutil.rmtree(root / names[1])
            (root / names[1]).mkdir()
        case 4:
            one.unlink()
            one.symlink_to(rng.choice((one, root, "/dev/zero", "/dev/null", "missing", "/proc/self/mem", "..")))
        case 5:
            (root / names[1] / rng.choice(("a\nb.png", "\u202e.png", "x" * 240, " ", "*"))).write_bytes(b"no image")
        case 6:
            (root / "c").symlink_to(root)
        case 7:
            mode = rng.choice(("1", "P", "I;16", "F", "CMYK", "LA", "RGBA", "I"))
            suffix = rng.choice((".tiff", ".gif", ".jpg", ".bmp", ".webp", ".ico", ".pdf"))
            one.unlink()
            held = io.BytesIO()
            try:
                Image.new(mode, (8, 8)).save(held, format=Image.registered_extensions()[suffix])
            except (OSError, ValueError, KeyError):
                held.write(b"GIF89a")
            one.with_suffix(suffix).write_bytes(
                damaged(rng, held.getvalue()) if rng.random() < 0.5 else held.getvalue()
            )
        case 8:
            Image.new("RGB", rng.choice(((1, 1), (9, 8), (500, 1)))).save(one)
        case 9:
            one.unlink()
            one.mkdir()
        case 10:
            one.write_bytes(
                rng.choice((b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n", b"P6 99999 99999 255\n", b"<svg/>"))
            )
        case 11:
            options = [f"dataset.size={rng.choice(('1', '8', '100000', '10000000000', '-1', '0', '2.5', 'null', 'x'))}"]
        case _:
            options = ["dataset.grey=true", f"dataset.private={rng.choice(('0', '0.01', '0.75', '0.999'))}"]
    if rng.random() < 0.3:
        options.append("dataset.size=8")
    learns = ["student=none"] if rng.random() < 0.7 else ["student.steps=3", "student.network=mlp"]
    small = ["teachers.count=3", "teachers.epochs=1", "teachers.network=mlp"]
    return ["dataset=folder", "dataset.path=images", *small, *learns, *PLAIN, *options]


@kind("adult")
def adult(rng: random.Random, folder: Path) -> list[str]:
    """UCI's comma-separated text; its official sizes are checked, so that hardly any is taken."""
    root = folder / "data" / "adult"
    root.mkdir(parents=True)
    row = b"39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Husband, White, Male, 2174, 0, 40, US, "
    for name, end, rows in (("adult.data", b"<=50K\n", 32_561), ("adult.test", b">50K.\n", 16_281)):
        text = (b"|1x3 Cross validator\n" if name == "adult.test" else b"") + (row + end) * rng.choice((3, rows))
        (root / name).write_bytes(damaged(rng, text) if rng.random() < 0.6 else text)
    return ["dataset=adult", "dataset.root=data", "student=none", "teachers=votes", "teachers.path=x", *QUIET]


@kind("fonts")
def fonts(rng: random.Random, folder: Path) -> list[str]:
    """A folder of fonts, one of them none."""
    root = folder / "fonts"
    root.mkdir()
    good = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    for name in ("DejaVuSans.ttf", "cmr10.ttf"):
        shutil.copy(good / name, root)
    spoilt = root / rng.choice(("DejaVuSans.ttf", "cmr10.ttf", "own.otf", "own.ttf", ".hidden.ttf", "a b\n.ttf"))
    spoilt.write_bytes(damaged(rng, (good / "DejaVuSans.ttf").read_bytes()))
    if rng.random() < 0.2:
        (root / "folder.ttf").mkdir()
    sizes = ["dataset.private=300", "dataset.public=300", "dataset.test=150"]
    return ["dataset=glyph", "dataset.fonts=fonts", *sizes, "student=none", "teachers=votes", "teachers.path=x", *QUIET]


@kind("store")
def store(rng: random.Random, folder: Path) -> list[str]:
    """What an earlier run stored, damaged: set aside and made again, or refused."""
    made = folder.parent / "store"
    given = [*(argument for argument in OWN if argument != "student.steps=3"), "student=none", "paths.store=.nzc"]
    if not made.is_dir():
        made.mkdir()
        plain_data(made)
        run(given, made, 600)
    for name in (".nzc", "data.npz"):
        (shutil.copytree if name == ".nzc" else shutil.copy)(made / name, folder / name)
    files = sorted(path for path in (folder / ".nzc").rglob("*") if path.is_file())
    one = rng.choice(files)
    match rng.randrange(5):
        case 0:
            one.write_bytes(pickle.dumps(Payload()))
        case 1:
            one.unlink()
            one.mkdir()
        case 2:
            one.write_bytes(hostile(rng, np.zeros((3, 18), np.int64)))
        case 3:
            one.write_bytes(rng.choice((b"[]", b"{}", b"null", b"3", b'{"predictions": 3}', b"[" * 10**5)))
        case _:
            one.write_bytes(damaged(rng, one.read_bytes()))
    return given
