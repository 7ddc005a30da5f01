"""Arrays for trials/fuzz.py: votes, labels, archives of a dataset, and stored predictions."""

import io
import pickle
import random
import shutil
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_inputs import Payload, damaged, kind, write_arrays, write_votes
from fuzz_run import run
from fuzz_tables import ARRAYS, VOTES

from nzc.types import AnyArray, Ints

#: Types of arrays that nzc does not expect.
DTYPES = ["<f8", ">i2", "<u8", "bool", "<c16", "<M8[ns]", "<m8[D]", "<U3", "S4", "f2", "g", "O", "V8", "i1"]


def header(shape: str, descr: str = "'<f8'", data: bytes = b"") -> bytes:
    """Return an .npy file whose header claims this shape and type, followed by `data`."""
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (63 - (len(text) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def npy(array: AnyArray) -> bytes:
    """Return an array as an .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def false_header(rng: random.Random) -> bytes:
    """Return an .npy file without the data that its header claims, or with an impossible header."""
    shape = rng.choice(("(10**12,)", "(1000000000000,)", "(1000000000000, 3)", "(30, 100000000000)",
                        "(-1, 3)", "(0, 3)", "(30,)", "()",
                        "(9223372036854775807, 2)", "(18446744073709551616, 3)", "(30, 3, 2)", "'x'", "(1.5, 2)",
                        "(2000000000, 3)"))  # fmt: skip
    descr = rng.choice(
        (*["'<f8'"] * 4, "'<i8'", "'|O'", "'|V0'", "[('a', '<i4')]", "__import__('os')", "'<U1000000000'")
    )
    return header(shape, descr, rng.randbytes(rng.choice((0, 100, 720, 1440))))


def spoilt(rng: random.Random, array: AnyArray) -> AnyArray:
    """Return the array, changed in one way: its type, its shape or its values."""
    change = rng.randrange(12)
    if change in (4, 5) and array.dtype.kind == "U":
        return array.astype("OS"[change - 4])
    match change:
        case 0:
            with np.errstate(all="ignore"):
                try:
                    return array.astype(rng.choice(DTYPES))
                except (ValueError, TypeError):
                    return array[:0]
        case 1:
            return array[: rng.randrange(len(array))]
        case 2:
            shapes: tuple[tuple[int, ...], ...] = (
                (-1,),
                (*array.shape, 1),
                (1, *array.shape),
                (1, 1, 1, 1, *array.shape),
            )
            return array.reshape(rng.choice(shapes))
        case 3:
            return np.array(rng.choice((0, 1.5, "x", None, np.nan, Payload(), [], [[]], [[None]])))
        case 4:
            floats = array.astype(float)
            values = (np.nan, np.inf, -np.inf, 1e308, -1, 0.5, 2**63, 1e19)
            floats.flat[rng.randrange(floats.size)] = rng.choice(values)
            return floats
        case 5:
            numbers = array.astype(np.int64)
            numbers.flat[rng.randrange(numbers.size)] = rng.choice((-1, -(2**63), 2**63 - 1, 10**9, 7, -2))
            return numbers
        case 6:
            return np.array([Payload()] * len(array), dtype=object)
        case 7:
            return np.zeros_like(array)
        case 8:
            return np.full(array.shape, rng.choice((2**64 - 1, 2**63, 1)), np.uint64)
        case 9:
            return np.full(array.shape, rng.choice((1e308, -1e308, 1e-320, 2.0**60)))
        case 10:
            return np.asfortranarray(array).astype(">U9" if array.dtype.kind == "U" else ">i4")
    return np.array([(1, 2.0)] * len(array), dtype=[("a", "i4"), ("b", "f8")])


def invalid_npy(rng: random.Random, valid: AnyArray) -> bytes:
    """Return an .npy file that is damaged, or holds another array than `valid`."""
    match rng.randrange(8):
        case 0:
            return false_header(rng)
        case 1 | 2:
            return damaged(rng, npy(valid))
        case 3:
            return pickle.dumps(Payload())
        case _:
            return npy(spoilt(rng, valid))


def valid_votes() -> Ints:
    """Return votes of 20 teachers on 30 queries."""
    return np.random.default_rng(0).multinomial(20, [0.5, 0.3, 0.2], 30)


@kind("votes npy")
def votes(rng: random.Random, folder: Path) -> list[str]:
    """The file of votes is invalid."""
    (folder / "votes.npy").write_bytes(invalid_npy(rng, valid_votes()))
    aggregator = rng.choice(("gnmax", "lnmax", "nzc", "confident", "stable", "plurality", "gumbel", "interactive"))
    return [*VOTES, f"aggregator={aggregator}"]


@kind("labels npy")
def labels(rng: random.Random, folder: Path) -> list[str]:
    """The file of true labels is invalid."""
    write_votes(folder)
    (folder / "labels.npy").write_bytes(invalid_npy(rng, np.arange(30) % 3))
    return [*VOTES, "teachers.labels=labels.npy", f"aggregator={rng.choice(('gnmax', 'ground_truth'))}"]


@kind("npz")
def npz(rng: random.Random, folder: Path) -> list[str]:
    """The archive of a dataset is damaged, or one of its arrays is not as nzc expects it."""
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
            write_bomb(rng, path, arrays, name)
        case 3:
            del arrays[name]
            np.savez_compressed(path, **arrays)
            path.write_bytes(damaged(rng, path.read_bytes()) if rng.random() < 0.5 else path.read_bytes())
        case 4:
            with zipfile.ZipFile(path, "w", rng.choice((0, 8, 12, 14))) as file:
                for each, array in arrays.items():
                    data = invalid_npy(rng, array) if each == name else npy(array)
                    member = rng.choice((f"{each}.npy",) * 9 + (each, f"../{each}.npy", f"{each}.npy/", "/"))
                    file.writestr(member, data)
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
            arrays[name] = spoilt(rng, arrays[name])
            np.savez(path, **arrays)
    return [
        argument.replace("student.steps=3", "student=none") if rng.random() < 0.5 else argument for argument in ARRAYS
    ]


def write_bomb(rng: random.Random, path: Path, arrays: dict[str, AnyArray], name: str) -> None:
    """Write an archive whose array `name` is a thousand times larger when it is read, or has a false header."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for each, array in arrays.items():
            if each != name:
                file.writestr(f"{each}.npy", npy(array))
            elif rng.random() < 0.5:
                rows = rng.choice((10**6, 2 * 10**7))
                file.writestr(f"{each}.npy", header(f"({rows}, 4)", "'|u1'", bytes(rows * 4)))
            else:
                file.writestr(f"{each}.npy", false_header(rng))


@kind("store")
def store(rng: random.Random, folder: Path) -> list[str]:
    """A file in the store of an earlier run is damaged. It must be replaced, or refused."""
    made = folder.parent / "store"
    given = [*(argument for argument in ARRAYS if argument != "student.steps=3"), "student=none", "paths.store=.nzc"]
    if not made.is_dir():
        made.mkdir()
        write_arrays(made)
        run(given, made, 600)
    for name in (".nzc", "data.npz"):
        (shutil.copytree if name == ".nzc" else shutil.copy)(made / name, folder / name)
    path = rng.choice(sorted(path for path in (folder / ".nzc").rglob("*") if path.is_file()))
    match rng.randrange(6):
        case 0:
            path.write_bytes(pickle.dumps(Payload()))
        case 1:
            path.unlink()
            path.mkdir()
        case 2:
            path.write_bytes(invalid_npy(rng, np.zeros((3, 18), np.int64)))
        case 3:
            path.write_bytes(rng.choice((b"[]", b"{}", b"null", b"3", b'{"predictions": 3}', b"[" * 10**5)))
        case 4 if path.suffix == ".npz":
            with np.load(path) as file:
                arrays: dict[str, Any] = dict(file)
            arrays["request"] = np.array(rng.choice(("", "x", "[]", "{}", "null", str(arrays["request"]))))
            np.savez(path, **(arrays | {"predictions": spoilt(rng, arrays["predictions"])}))
        case _:
            path.write_bytes(damaged(rng, path.read_bytes()))
    return given
