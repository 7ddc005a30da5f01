"""A private record changes its own row and nothing else, or its file is refused.

Many records change at once, each to another content: what one of them does to the rest is seen. A
file that is refused is tried again with half of them, and at last with each alone.
"""

import io
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from PIL import Image

from nzc.data import Dataset, DataSplits
from nzc.data.folder import Folder
from nzc.data.npz import Npz
from nzc.data.table import Table
from nzc.runs.checks import load_for
from nzc.teachers.sums import Sums
from nzc.validation import InputError

#: What writes files with other contents of some private records, by row, and reads them.
Reader = Callable[[Path, dict[int, Any]], Dataset]
ROWS = 120  # private records
FORMAT = "%Y-%m-%d %H:%M:%S.%f"
FAR = "9999-12-31"  # many write so what has no end

TEXTS = [
    *('"', '"open', 'end"', '""', '"""', 'a "quote"', '"a","b"', "'", "\\", '\\"'),
    *(",", ",,,,,,,,,,", ";;;", "\t\t", "|", "a,b;c\td|e", "#", "sep=;", "=1+1", " "),
    *("\n", "a\nb", "a\r\nb\r\n", "\r", "\n\n\n", 'x,"\n"y,', 'a\n1,2,3\n"b', "\v\f\x1c\x85"),
    *("\0", "a\0b", "\ufeff", "\u2028", "\x1a", "\u202e", "e\u0301", "１２", "letters" * 57_143),
    *("", "NA", "nan", "None", "True", "inf", "-inf", "1e308", "1e400", "-0", "9" * 400, "1e-400"),
    *("18446744073709551616", "0x10", "1_000", "1,5", "1.234,5", "1j", "$5", "-", "12%"),
    *("now", "TODAY", FAR, "0001-01-01", "31/12/2024", "2024-13-45", "20210101T000000.123456789"),
    *("2021-01-01T00:00:00.123456789", "2021-01-01 10:00+14:00", "2021-01-01 00:00:00.123456789"),
    *("9999-12-31 23:59:59.9999999", "1677-01-01", "24:00", "2 days 07:30:00", "2021-W01-1"),
]
NUMBERS = [np.inf, -np.inf, np.nan, 1e308, -1e308, 5e-324, -0.0, 2**63 - 1, -(2**63), 2**53 + 1]
TIMES = [*map(pd.Timestamp, ["0001-01-01", "1677-01-01", "9999-12-31 23:59:59.999999"]), pd.NaT]


def _records(rows: int, seed: int) -> pd.DataFrame:
    """Columns of every kind; some notes have marks and line breaks."""
    rng = default_rng(seed)
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 300, rows), unit="D")
    far = rng.random(rows) < 0.3
    words = ["Fever", "since", "the", "day,", "went", "home", "a\nlong", 'pain "left"', "knee"]
    columns = {
        "size": rng.normal(size=rows),
        "count": rng.integers(2**53, 2**60, rows),
        "when": day.astype("datetime64[us]").where(~far, pd.Timestamp(FAR)),
        "day": np.where(far, FAR, day.strftime("%Y-%m-%d")),
        "stamp": np.where(far, f"{FAR} 00:00:00.0", day.strftime(FORMAT)),
        "ward": rng.choice(["ICU", "surgery", 'ER, 12" bed'], rows),
        "note": [" ".join(rng.choice(words, 8)) for _ in range(rows)],
        "person": [f"P{seed}-{row}" for row in range(rows)],
        "out": np.where(np.arange(rows) % 2, "yes", "no"),
    }
    return pd.DataFrame(columns).astype({"count": "Int64"})


#: Types of values in columns of Parquet and Arrow that are no texts.
TYPES: dict[str, Any] = {"size": float, "count": int, "when": pd.Timestamp | type(pd.NaT)}


def _changed(table: pd.DataFrame, content: Any) -> pd.Index:
    """Return the columns that have the content: a blank one names no person."""
    return table.columns.drop(["out"] if str(content).strip() else ["out", "person"])


def _arrow(path: Path, contents: dict[int, Any]) -> None:
    table = _records(ROWS, 0)
    for row, content in contents.items():
        for name in _changed(table, content):
            value = str(content)
            if name in TYPES:
                value = content if isinstance(content, TYPES[name]) else None
            table.loc[row, name] = value
    if path.suffix == ".arrow":
        table.to_feather(path)
    else:
        table.to_parquet(path)


def _csv(path: Path, contents: dict[int, Any]) -> None:
    table = _records(ROWS, 0).astype(object)
    for row, content in contents.items():
        table.loc[row, _changed(table, content)] = content
    separator = "\t" if path.suffix == ".tsv" else ","
    text = table.to_csv(index=False, sep=separator, lineterminator="\r\n")
    path.write_text(text, encoding="utf-8", newline="")


def _unquoted(path: Path, contents: dict[int, Any]) -> None:
    """Write the first cell as it is, as a program does that knows no quotation marks."""
    _csv(path, {row: f"CONTENT{row}." for row in contents})
    text = path.read_bytes().decode()
    for row, content in contents.items():
        text = text.replace(f"CONTENT{row}.", content, 1)
    path.write_text(text, encoding="utf-8", newline="")


def _of_table(name: str, write: Callable[[Path, dict[int, Any]], None], **settings: Any) -> Reader:
    def dataset(folder: Path, contents: dict[int, Any]) -> Dataset:
        _records(60, 1).drop(columns="out").to_parquet(folder / "public.parquet")
        write(folder / name, contents)
        return Table(
            private=str(folder / name),
            public=str(folder / "public.parquet"),
            label="out",
            classes=["no", "yes"],
            group="person",
            columns={"day": "date", "stamp": FORMAT, "note": "text", "count": "number"},
            **settings,
        )

    return dataset


def _npz(folder: Path, contents: dict[int, Any]) -> Dataset:
    x = default_rng(0).normal(size=(2 * ROWS, 3))
    group = np.array([f"P{row}" for row in range(2 * ROWS)], object)
    for row, content in contents.items():
        if isinstance(content, str):
            group[row] = content
        else:
            x[row] = content
    role = np.repeat(["private", "public"], ROWS)
    path = str(folder / "all.npz")
    np.savez(path, x=x, y=np.arange(2 * ROWS) % 2, role=role, group=group.astype(str))
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


def _folder(folder: Path, contents: dict[int, Any]) -> Dataset:
    for place, rows in (("private", 30), ("test", 4), ("public", 9)):
        for row in range(rows):
            path = folder / place / "ab"[row % 2] / f"{row:03}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_image("RGB", side=10 + row))
    for row, content in contents.items():
        (folder / "private" / "ab"[row % 2] / f"{row:03}.png").write_bytes(content)
    places = {"path": "private", "public": "public", "test": "test"}
    paths: Any = {key: str(folder / place) for key, place in places.items()}
    return Folder(**paths, seed=0, private=0.8, size=8, classes=["a", "b"], overlap="allow")


READERS: dict[str, tuple[Reader, list[Any]]] = {
    "csv": (_of_table("private.csv", _csv), TEXTS),
    "tsv": (_of_table("private.tsv", _csv), TEXTS),
    "unquoted": (_of_table("private.tsv", _unquoted, drop=[*TYPES, "day", "stamp"]), TEXTS[:14]),
    "parquet": (_of_table("private.parquet", _arrow), [*TEXTS, *NUMBERS, *TIMES]),
    "arrow": (_of_table("private.arrow", _arrow), [*TEXTS, *NUMBERS, *TIMES]),
    "npz": (_npz, [*(text for text in TEXTS if len(text) < 500), "\ud800", *NUMBERS]),
    "folder": (_folder, IMAGES),
}


def _facts(splits: DataSplits) -> list[Any]:
    """Return all that is made of files, but for the private records."""
    arrays = [splits.public.x, splits.public.y, splits.test.x, splits.test.y]
    encoder = splits.encoder and json.dumps(splits.encoder.as_dict())
    facts = (splits.classes, splits.labels, splits.warnings, splits.public_files, encoder)
    return [*(array.tobytes() for array in arrays), splits.private.x.shape, *facts]


def _rows(splits: DataSplits) -> list[bytes]:
    """Return features, class and name of each private record."""
    names = splits.units.names
    assert names is not None
    rows = zip(splits.private.x[:], splits.private.y, names, strict=True)
    return [b"".join(value.tobytes() for value in row) for row in rows]


@pytest.mark.parametrize("reader", READERS)
def test_a_private_record_changes_its_own_row_only(tmp_path: Path, reader: str) -> None:
    make, contents = READERS[reader]
    before = make(tmp_path, {}).load()
    waiting: list[dict[int, Any]] = [dict(enumerate(contents))]
    refused = []
    while waiting:
        some = waiting.pop()
        dataset = make(tmp_path, some)
        try:
            after = dataset.load()
        except InputError:
            rows = list(some)
            if len(rows) == 1:
                refused += rows
                continue
            halves = (rows[: len(rows) // 2], rows[len(rows) // 2 :])
            waiting += [{row: some[row] for row in half} for half in halves]
            continue
        assert _facts(after) == _facts(before)
        pairs = zip(_rows(before), _rows(after), strict=True)
        changed = {row for row, (old, new) in enumerate(pairs) if old != new}
        assert changed <= some.keys()
        assert len(changed) >= len(some) / 2
    print(f"{reader}: {len(contents)} contents, {len(refused)} refused")
    assert len(refused) <= len(contents) / 3


@pytest.mark.parametrize("reader", ["csv", "npz", "folder"])
def test_no_private_record_decides_whether_there_are_two_classes(
    tmp_path: Path, reader: str
) -> None:
    dataset: Any = READERS[reader][0](tmp_path, {})
    if reader == "csv":
        _records(ROWS, 0).assign(out="no").to_csv(dataset.private, index=False)
    elif reader == "npz":
        arrays = dict(np.load(dataset.path))
        np.savez(dataset.path, **arrays | {"y": np.zeros(2 * ROWS, int)})
    else:
        shutil.rmtree(tmp_path / "private" / "b")
    splits = load_for(dataset, Sums(), reader)
    assert splits.classes == 2 and not splits.private.y.any()
    with pytest.raises(InputError):
        load_for(replace(dataset, classes=None), Sums(), reader)
