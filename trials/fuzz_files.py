"""Data files for trials/fuzz.py: the formats of MNIST, SVHN and Adult, folders of images, and fonts."""

import gzip
import io
import random
import shutil
import struct
import warnings
import zlib
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import scipy.io
import torchvision.datasets.svhn
import torchvision.datasets.utils
from fuzz_arrays import spoilt
from fuzz_inputs import damaged, kind
from fuzz_tables import PLAIN, QUIET
from PIL import Image

from nzc.types import AnyArray


def _is_file(path: str | Path, md5: str | None = None) -> bool:
    return Path(path).is_file()


# torchvision would refuse every file whose checksum is wrong, unread, and download it again. Its warnings about the
# content of such files are of no interest, because nzc never reads them.
warnings.filterwarnings("ignore", module="torchvision")
for module in (torchvision.datasets.utils, torchvision.datasets.svhn):
    module.check_integrity = _is_file


def idx(array: AnyArray) -> bytes:
    """Return an array of bytes in the format of MNIST's files."""
    return struct.pack(f">{1 + array.ndim}i", 0x0800 + array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


@kind("idx")
def mnist(rng: random.Random, folder: Path) -> list[str]:
    """A file of MNIST is damaged or missing; it may be a .gz that torchvision unpacks."""
    raw = folder / "data" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    rows = rng.choice((6, 60_000))
    sizes = {"train": rows, "t10k": 10_000 if rows > 6 else 3}
    files = {}
    for part, count in sizes.items():
        files[f"{part}-images-idx3-ubyte"] = idx(np.zeros((count, 28, 28), np.uint8))
        files[f"{part}-labels-idx1-ubyte"] = idx(np.arange(count) % 10)
    name = rng.choice(list(files))
    valid = files[name]
    match rng.randrange(6):
        case 0:
            files[name] = damaged(rng, valid)
        case 1:
            files[name] = (
                struct.pack(">i", rng.choice((0, -1, 0x0D03, 0x0C01, 2049, 2051, 0x7FFFFFFF, 0x080A))) + valid[4:]
            )
        case 2:
            files[name] = valid[:4] + struct.pack(">i", rng.choice((0, -1, 2**31 - 1, 10**9, 1))) + valid[8:]
        case 3:
            files[name] = valid[: rng.choice((0, 1, 4, 7, 8, 16, 100))]
        case 4:
            files[name] = valid[:-1] + b"\xff"
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
    """SVHN's files hold other arrays. Their checksums are accepted. SciPy itself may crash on damaged bytes."""
    root = folder / "data"
    root.mkdir()
    for part, rows in (("train", 7), ("test", 5)):
        arrays: dict[str, Any] = {"X": np.zeros((32, 32, 3, rows), np.uint8), "y": np.ones((rows, 1), np.uint8)}
        name = rng.choice(("X", "y"))
        if rng.random() < 0.5:
            arrays[name] = spoilt(rng, arrays[name][..., 0, 0] if name == "X" and rng.random() < 0.3 else arrays[name])
            if arrays[name].dtype == object:
                arrays[name] = np.zeros(3)
        buffer = io.BytesIO()
        try:
            scipy.io.savemat(buffer, arrays, do_compression=rng.random() < 0.5)
        except (ValueError, TypeError, zlib.error, AttributeError):
            buffer.write(b"MATLAB 5.0")
        (root / f"{part}_32x32.mat").write_bytes(buffer.getvalue())
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
    """Return a PNG file whose header claims this size."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(10**6))) + chunk(b"IEND", b"")


@kind("images")
def images(rng: random.Random, folder: Path) -> list[str]:
    """A folder of images has an unusual name, or a file in it is not what it seems to be."""
    root = folder / "images"
    names = ["a", rng.choice(("b", "שלום", "e\u0301", "a b\n", "🦊", "x" * 200, "..b", "-1"))]
    generator = np.random.default_rng(rng.randrange(10**6))
    for name in names:
        (root / name).mkdir(parents=True)
        for i in range(10):
            Image.fromarray(generator.integers(0, 256, (8, 8, 3)).astype(np.uint8)).save(root / name / f"{i}.png")
    image = root / names[1] / "5.png"
    options = []
    match rng.randrange(13):
        case 0 | 1:
            image.write_bytes(damaged(rng, image.read_bytes()))
        case 2:
            image.write_bytes(
                png(*rng.choice(((60_000, 60_000), (2**31 - 1, 2**31 - 1), (1, 10**8), (0, 0), (12_000, 12_000))))
            )
        case 3:
            shutil.rmtree(root / names[1])
            (root / names[1]).mkdir()
        case 4:
            image.unlink()
            image.symlink_to(rng.choice((image, root, "/dev/zero", "/dev/null", "missing", "/proc/self/mem", "..")))
        case 5:
            (root / names[1] / rng.choice(("a\nb.png", "\u202e.png", "x" * 240, " ", "*"))).write_bytes(b"no image")
        case 6:
            (root / "c").symlink_to(root)
        case 7:
            mode = rng.choice(("1", "P", "I;16", "F", "CMYK", "LA", "RGBA", "I"))
            suffix = rng.choice((".tiff", ".gif", ".jpg", ".bmp", ".webp", ".ico", ".pdf"))
            image.unlink()
            buffer = io.BytesIO()
            try:
                Image.new(mode, (8, 8)).save(buffer, format=Image.registered_extensions()[suffix])
            except (OSError, ValueError, KeyError):
                buffer.write(b"GIF89a")
            image.with_suffix(suffix).write_bytes(
                damaged(rng, buffer.getvalue()) if rng.random() < 0.5 else buffer.getvalue()
            )
        case 8:
            Image.new("RGB", rng.choice(((1, 1), (9, 8), (500, 1)))).save(image)
        case 9:
            image.unlink()
            image.mkdir()
        case 10:
            image.write_bytes(
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
    """UCI's comma-separated text is damaged, or has too few records. nzc accepts the official sizes only."""
    root = folder / "data" / "adult"
    root.mkdir(parents=True)
    row = b"39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Husband, White, Male, 2174, 0, 40, US, "
    for name, end, rows in (("adult.data", b"<=50K\n", 32_561), ("adult.test", b">50K.\n", 16_281)):
        text = (b"|1x3 Cross validator\n" if name == "adult.test" else b"") + (row + end) * rng.choice((3, rows))
        (root / name).write_bytes(damaged(rng, text) if rng.random() < 0.6 else text)
    return ["dataset=adult", "dataset.root=data", "student=none", "teachers=votes", "teachers.path=x", *QUIET]


@kind("fonts")
def fonts(rng: random.Random, folder: Path) -> list[str]:
    """A file in the folder of fonts is damaged."""
    root = folder / "fonts"
    root.mkdir()
    valid = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    for name in ("DejaVuSans.ttf", "cmr10.ttf"):
        shutil.copy(valid / name, root)
    wrong = root / rng.choice(("DejaVuSans.ttf", "cmr10.ttf", "own.otf", "own.ttf", ".hidden.ttf", "a b\n.ttf"))
    wrong.write_bytes(damaged(rng, (valid / "DejaVuSans.ttf").read_bytes()))
    if rng.random() < 0.2:
        (root / "folder.ttf").mkdir()
    sizes = ["dataset.private=300", "dataset.public=300", "dataset.test=150"]
    return ["dataset=glyph", "dataset.fonts=fonts", *sizes, "student=none", "teachers=votes", "teachers.path=x", *QUIET]
