"""A private record changes its own row and nothing else, or its file is refused.

Many records change at once, each to another content: what one of them does to the rest is seen. A
file that is refused is tried again with half of them, and at last with each alone.
"""

import io
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from conftest import parametrize
from numpy.random import default_rng
from PIL import Image
from pytest import MonkeyPatch, raises

from nzc.data import DataSplits
from nzc.data.folder import Folder
from nzc.data.npz import Npz
from nzc.data.table import Table
from nzc.data.table_encoder import LIMIT
from nzc.protocols.sums import RecordSums
from nzc.runs.prepare import load_for
from nzc.validation import InputError

#: By row, what a private record becomes.
Contents = dict[int, Any]
ROWS = 100  # private records
FORMAT = "%Y%m%d%H%M%S%f"
FAR = "9999-12-31"  # many write so what has no end

TEXTS = [
    *('"', '"open', 'end"', '""', '"""', 'a "quote"', '"a","b"', "'", "\\", '\\"'),
    *(",", ",,,,,,,,,,", ";;;", "\t\t", "|", "a,b;c\td|e", "#", "sep=;", "=1+1", " "),
    *("\n", "a\nb", "a\r\nb\r\n", "\r", "\n\n\n", 'x,"\n"y,', 'a\n1,2,3\n"b', "\v\f\x1c\x85"),
    *("\0", "a\0b", "\ufeff", "\u2028", "\x1a", "\u202e", "e\u0301", "１２", "letters" * 57_143),
    *("", "NA", "nan", "None", "True", "inf", "-inf", "1e308", "1e400", "-0", "9" * 400, "1e-400"),
    *("18446744073709551616", "0x10", "1_000", "1,5", "1.234,5", "1j", "$5", "-", "12%"),
    *("now", "TODAY", FAR, "0001-01-01", "31/12/2024", "2024-13-45", "20210101T000000.123456789"),
    *("2021-01-01T00:00:00.123456789", "2021-01-01 10:00+14:00", "20210101000000123456789"),
    *("9999-12-31 23:59:59.9999999", "1677-01-01", "24:00", "2 days 07:30:00", "2021-W01-1"),
]
NUMBERS = [np.inf, -np.inf, np.nan, 1e308, -1e308, 5e-324, -0.0, 2**63 - 1, -(2**63), 2**53 + 1]
TIMES = [*map(pd.Timestamp, ["0001-01-01", "1677-01-01", "9999-12-31 23:59:59.999999"]), pd.NaT]
#: Types of columns of Parquet and Arrow that have no texts.
TYPES = {
    "size": float,
    "count": int,
    "grade": int,
    "when": pd.Timestamp,
    "shift": pd.Timestamp,
    "flag": bool,
}
KINDS = dict.fromkeys(["grade", "shift", "flag", "ward", "coded"], "category") | {
    "size": "number",
    "count": "number",
    "when": "date",
    "day": "date",
    "stamp": FORMAT,
    "time": "time",
    "pay": "comma",
    "note": "text",
}


def _records(rows: int, seed: int) -> pd.DataFrame:
    """Columns of every kind; some notes have marks and line breaks."""
    rng = default_rng(seed)
    number = rng.integers(0, 300, rows)
    far = number < 90
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(number, unit="D")
    words = ["Fever", "since", "the", "day,", "went", "home", "a\nlong", 'pain "left"', "knee"]
    columns = {
        "size": rng.normal(size=rows),
        "count": pd.array(rng.integers(2**53, 2**60, rows), "Int64"),
        "grade": pd.array(number % 5, "Int64"),
        "flag": pd.array(far, "boolean"),
        "when": day.astype("datetime64[us]").where(~far, pd.Timestamp(FAR)),
        "shift": pd.Timestamp("2024-01-01") + pd.to_timedelta(number % 3, unit="D"),
        "day": np.where(far, FAR, day.strftime("%Y-%m-%d")),
        "stamp": np.where(far, "99991231000000000", day.strftime(FORMAT)),
        "time": [f"{hour}.30.00" for hour in number % 24],
        "pay": [f"{eighths / 8:.2f} €".replace(".", ",") for eighths in number],
        "ward": rng.choice(["ICU", "surgery", 'ER, 12" bed'], rows),
        "coded": rng.choice(["1", "True", "b"], rows),
        "note": [" ".join(rng.choice(words, 8)) for _ in range(rows)],
        "person": [f"P{seed}-{row}" for row in range(rows)],
        "out": np.where(number % 2, "yes", "no"),
    }
    return pd.DataFrame(columns)


def _write(path: Path, contents: Contents) -> None:
    table = _records(ROWS, 0)
    typed = path.suffix in (".parquet", ".arrow")
    if not typed:
        table = table.astype(object)
    for row, content in contents.items():
        table.loc[row, "day":"note"] = str(content)
        table.loc[row, "person"] = f"P{content}"
        for name, kind in TYPES.items():
            table.loc[row, name] = content if isinstance(content, kind) or not typed else None
    if path.suffix == ".parquet":
        table.astype({"coded": "category"}).to_parquet(path)
    elif path.suffix == ".arrow":
        table.to_feather(path)
    else:
        separator = "\t" if path.suffix == ".tsv" else ","
        table.to_csv(path, index=False, sep=separator, lineterminator="\r\n")


def _table(name: str, folder: Path, contents: Contents) -> Table:
    public = str(folder / "public.parquet")
    _records(40, 1).drop(columns="out").to_parquet(public)
    _write(folder / name, contents)
    files = {"private": str(folder / name), "public": public, "label": "out", "group": "person"}
    return Table(**files, classes=["no", "yes"], columns=KINDS)


def _npz(folder: Path, contents: Contents) -> Npz:
    x = default_rng(0).normal(size=(2 * ROWS, 3))
    group = [f"P{row}" for row in range(2 * ROWS)]
    for row, content in contents.items():
        if isinstance(content, str):
            group[row] = content
        else:
            x[row] = content
    role = np.repeat(["private", "public"], ROWS)
    path = str(folder / "all.npz")
    np.savez(path, x=x, y=np.arange(2 * ROWS) % 2, role=role, group=group)
    return Npz(path=path, seed=0, private=0.5, public=0.2, classes=2)


@cache
def _image(mode: str, form: str = "PNG", side: int = 8, further: int = 0) -> bytes:
    file = io.BytesIO()
    pixels = default_rng(side).integers(0, 256, (side, side), np.uint8)
    Image.fromarray(pixels).convert(mode).save(
        file, form, save_all=further > 0, append_images=[Image.new("L", (8, 8))] * further
    )
    return file.getvalue()


IMAGES = [
    *(_image(mode) for mode in ("1", "L", "LA", "P", "RGB", "RGBA")),
    *(_image("CMYK", form) for form in ("JPEG", "TIFF")),
    *(_image("RGB", form) for form in ("GIF", "WEBP", "BMP", "JPEG")),
    *(_image("F", "TIFF"), _image("I", "TIFF"), _image("L", side=1), _image("RGB", side=300)),
    *(_image("RGB")[:60], b"", b"\0" * 400_000, b"no image"),
    _image("L", "GIF", further=1),
]


def _folder(folder: Path, contents: Contents) -> Folder:
    for place, rows in (("private", 30), ("test", 4), ("public", 9)):
        for row in range(rows):
            path = folder / place / "ab"[row % 2] / f"{row:03}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            image = _image("RGB", side=10 + row)
            path.write_bytes(contents.get(row, image) if place == "private" else image)
    path, public, test = (str(folder / place) for place in ("private", "public", "test"))
    settings: Any = {"private": 0.8, "size": 8, "classes": ["a", "b"], "overlap": "allow"}
    return Folder(path, 0, public=public, test=test, **settings)


VALUES = [*TEXTS, *NUMBERS, *TIMES]
READERS: dict[str, tuple[Callable[[Path, Contents], Any], list[Any]]] = {
    "csv": (partial(_table, "a.csv"), TEXTS),
    "tsv": (partial(_table, "a.tsv"), TEXTS),
    "parquet": (partial(_table, "a.parquet"), VALUES),
    "arrow": (partial(_table, "a.arrow"), VALUES),
    "npz": (_npz, [*(text for text in TEXTS if len(text) < 500), "\ud800", *NUMBERS]),
    "folder": (_folder, IMAGES),
}


def _facts(splits: DataSplits) -> list[Any]:
    """Return all that is made of files, but for the private records."""
    arrays = [splits.public.x, splits.public.y, splits.test.x, splits.test.y]
    encoder = splits.encoder and json.dumps(splits.encoder.as_dict())
    facts = (splits.classes, splits.labels, splits.warnings, splits.public_files, encoder)
    return [*(array.tobytes() for array in arrays), splits.private.x.shape, *facts]


def _rows(splits: DataSplits) -> list[tuple[bytes, ...]]:
    """Return features, class and name of each private record."""
    columns = (splits.private.x[:], splits.private.y[:, None], splits.units.names[:, None])
    return [*zip(*(map(bytes, column) for column in columns), strict=True)]


@parametrize("reader", READERS)
def test_a_private_record_changes_its_own_row_only(
    tmp_path: Path, reader: str, monkeypatch: MonkeyPatch
) -> None:
    make, contents = READERS[reader]
    before = make(tmp_path, {}).load()

    def refused(some: Contents) -> int:
        """Return how many of the contents are refused; the others change their own rows."""
        dataset = make(tmp_path, some)
        try:
            after = dataset.load()
        except InputError:
            items = [*some.items()]
            middle = len(items) // 2
            if middle == 0:
                return 1
            return refused(dict(items[:middle])) + refused(dict(items[middle:]))
        assert _facts(after) == _facts(before)
        pairs = zip(_rows(before), _rows(after), strict=True)
        changed = {row for row, (old, new) in enumerate(pairs) if old != new}
        assert changed <= some.keys() and len(changed) >= len(some) / 2
        assert after.encoder is None or np.abs(after.private.x[:]).max() <= LIMIT
        with monkeypatch.context() as patch:
            patch.setattr("nzc.data.table.CHUNK", 51)
            assert _rows(dataset.load()) == _rows(after)  # whatever the company
        return 0

    count = refused(dict(enumerate(contents)))
    print(f"{reader}: {len(contents)} contents, {count} refused")
    assert count <= len(contents) / 3


@parametrize("reader", ["csv", "npz", "folder"])
def test_no_private_record_decides_whether_there_are_two_classes(
    tmp_path: Path, reader: str
) -> None:
    dataset = READERS[reader][0](tmp_path, {})
    if reader == "csv":
        _records(ROWS, 0).assign(out="no").to_csv(dataset.private, index=False)
    elif reader == "npz":
        arrays = dict(np.load(dataset.path))
        np.savez(dataset.path, **arrays | {"y": np.zeros(2 * ROWS, int)})
    else:
        shutil.rmtree(tmp_path / "private" / "b")
    splits = load_for(dataset, RecordSums(), reader)
    assert splits.classes == 2 and not splits.private.y.any()
    with raises(InputError):
        load_for(replace(dataset, classes=None), RecordSums(), reader)
