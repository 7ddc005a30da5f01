"""dataset=table: any kind of file gives the same rows, features are those of scikit-learn, errors
are one line.
"""

import csv
import json
import math
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from conftest import Command, Nzc
from hydra.core.override_parser.overrides_parser import OverridesParser
from mlflow.exceptions import MlflowException
from pyarrow import feather, parquet
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from nzc.app.publish import publish_run as publish
from nzc.data import UNKNOWN
from nzc.data.table import Table
from nzc.data.table_encoder import (
    LIMIT,
    ColumnError,
    TableEncoder,
    blanked,
    different,
    measured,
    read_table,
)
from nzc.data.table_fit import doubts, fit_encoder
from nzc.students import StudentData
from nzc.students.exported import _records as _records_of
from nzc.students.forest import Forest
from nzc.students.linear import Linear
from nzc.tracking.served import Served
from nzc.training.trainer import TrainerSettings
from nzc.validation import InputError

RECIPE = [
    "recipe=tables",
    "teachers.records=10",
    "queries=20",
    "aggregator.sigma=5",
    "trainer.progress=false",
]
FILES = [
    "dataset=table",
    "dataset.private=visits.csv",
    "dataset.public=new.csv",
    "dataset.label=back",
]


COMMA = str.maketrans(",.", ".,")


def _records(rows: int, seed: int) -> pd.DataFrame:
    """Records with every kind of column; `back` follows from age and ward."""
    rng = np.random.default_rng(seed)
    age, ward = (
        rng.integers(20, 90, rows).astype(float),
        rng.choice(["ICU", "surgery", "ER"], rows, p=[0.5, 0.3, 0.2]),
    )
    back = np.where(age + 20 * (ward == "ICU") + rng.normal(0, 5, rows) > 65, "yes", "no")
    age[rng.random(rows) < 0.1] = np.nan
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, rows), unit="D")
    columns = {"visit": [f"V{row}" for row in range(rows)], "age": age,
               "person": 1000 * seed + rng.integers(0, rows // 2, rows),
               "ward": pd.Series(ward).mask(rng.random(rows) < 0.1), "admitted": day.strftime("%Y-%m-%d"),
               "smoker": rng.random(rows) < 0.3, "country": "CH", "back": back}  # fmt: skip
    return pd.DataFrame(columns)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    _records(400, 0).to_csv("visits.csv", index=False)
    _records(120, 1).drop(columns="back").to_csv("new.csv", index=False)
    _records(100, 2).to_csv("test.csv", index=False)
    return tmp_path


def _table(**changes: Any) -> Table:
    given = {
        "private": "visits.csv",
        "public": "new.csv",
        "label": "back",
        "group": "person",
        "id": "visit",
    }
    return Table(**given | changes)


@pytest.mark.parametrize("chunk", [37, 100_000])
def test_every_kind_of_file_gives_the_same_rows(
    files: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    whole = _table(test="test.csv").load()
    monkeypatch.setattr("nzc.data.table.CHUNK", chunk)
    for old, new in (
        ("visits.csv", "visits.feather"),
        ("new.csv", "new.parquet"),
        ("test.csv", "test.tsv.gz"),
    ):
        table = pd.read_csv(old)
        {"r": table.to_feather, "t": partial(table.to_parquet, row_group_size=70),
         "z": partial(table.to_csv, sep="\t", index=False)}[new[-1]](new)  # fmt: skip
    for private, public in (("visits.feather", "new.parquet"), ("visits.csv", "new.csv")):
        other = _table(private=private, public=public, test="test.tsv.gz").load()
        for name in ("private", "public", "test"):
            np.testing.assert_array_equal(getattr(whole, name).x, getattr(other, name).x)
            np.testing.assert_array_equal(getattr(whole, name).y, getattr(other, name).y)
        np.testing.assert_array_equal(whole.groups, other.groups)


def _rewrite(
    change: Callable[[str], str] = str,
    encoding: str = "utf-8",
    names: tuple[str, ...] = (),
    **form: Any,
) -> None:
    """Write the three files anew as another program would."""
    for name in names or ("visits.csv", "new.csv", "test.csv"):
        table = pd.read_csv(name, dtype=str, keep_default_na=False)
        table = table.rename(columns={"age": form["age"]} if "age" in form else {})
        text = table.to_csv(
            index=False, **{key: value for key, value in form.items() if key != "age"}
        )
        Path(name).write_bytes(change(text).encode(encoding))


def _ended(by: str, header: bool = True) -> Callable[[str], str]:
    """Return what puts separators at the end of each row."""
    return lambda text: "".join(
        f"{row}{by if at or header else ''}\n" for at, row in enumerate(text.splitlines())
    )


#: How programs write a table, and the settings that it needs.
FORMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "Excel": ({"sep": ";", "change": "sep=;\r\n{}".format, "lineterminator": "\r\n"}, {}),
    "Excel, byte-order mark": (
        {"sep": "\t", "change": "sep=\t\n{}".format, "encoding": "utf-8-sig"},
        {},
    ),
    "an unusual separator": ({"sep": "^", "change": '"SEP=^"\n{}'.format}, {}),
    "sep= in one file": ({"sep": ";", "change": "sep=;\n{}".format, "names": ("visits.csv",)}, {}),
    "empty lines": ({"sep": ";", "change": "\n  \n;;;;\n{}".format}, {}),
    "comments": ({"sep": ";", "change": '# made 2024-01-01, 5" of, rain\n#\n{}'.format}, {}),
    "a header like a comment": ({"age": "#age"}, {"columns": {"#age": "number"}}),
    "a title": (
        {"change": "Visits, of, all, wards, in, four, years, and, more\n\n{}".format},
        {"skip": 1},
    ),
    "separators in the header": (
        {"sep": ";", "age": "age, in years, at visit", "quoting": csv.QUOTE_ALL},
        {},
    ),
    "without quotes": ({"sep": ";", "age": "a,g,e, i,n, y,e,a,r,s"}, {}),
    "other separators": ({"age": "age; x; y; z; a; b; c; d; e | f"}, {}),
    "a line break": ({"sep": ";", "age": "age\r\nin years; or\n\n months"}, {}),
    "separators at the end": ({"sep": ";", "change": _ended(";;;")}, {}),
    "at the end of one file": ({"change": _ended(","), "names": ("visits.csv",)}, {}),
    "at the end of rows": ({"change": _ended(",", header=False)}, {}),
    "Windows": ({"encoding": "cp1252"}, {"encoding": "cp1252"}),
    "Windows, one file": ({"encoding": "utf-16", "names": ("test.csv",)}, {}),
    "UTF-16": ({"encoding": "utf-16", "sep": "\t"}, {}),
    "UTF-16 without mark": ({"encoding": "utf-16-be"}, {"encoding": "UTF-16BE"}),
    "Chinese": ({"encoding": "gbk", "age": "年龄"}, {"encoding": "gbk"}),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_same_table_as_another_program_writes_it(files: Path, form: str) -> None:
    written, settings = FORMS[form]
    if written.get("encoding") != "gbk":
        _rewrite(lambda text: text.replace("surgery", "Köln"))
    given = {"test": "test.csv"}
    plain = _table(**given).load()
    _rewrite(**written)
    read = _table(**given | settings).load()
    for split in ("private", "public", "test"):
        np.testing.assert_array_equal(getattr(read, split).x, getattr(plain, split).x)
        np.testing.assert_array_equal(getattr(read, split).y, getattr(plain, split).y)
    np.testing.assert_array_equal(read.groups, plain.groups)
    assert (
        read.ids is not None and plain.ids is not None and read.ids.tolist() == plain.ids.tolist()
    )
    assert read.encoder is not None
    columns = {column.name for column in read.encoder.columns}
    assert columns == {
        " ".join(str(written.get("age", "age")).split()),
        "ward",
        "admitted",
        "smoker",
    }


@pytest.mark.parametrize("encoding", ["cp1252", "utf-8", "utf-8-sig", "utf-16"])
def test_a_student_reads_files_as_those_of_its_run(tmp_path: Path, encoding: str) -> None:
    public = pd.DataFrame({"who": ["NA", "b"] * 20, "ward": ["Köln", "Bern"] * 20})
    fitted = fit_encoder(public[["ward"]], {}, 32)
    encoder = TableEncoder.from_dict(fitted.as_dict() | {"encoding": "cp1252", "skip": 1})
    file = tmp_path / "new.csv"
    file.write_bytes(f"Neue Fälle\n{public.to_csv(index=False, sep=';')}".encode(encoding))
    (read,) = _records_of(file, encoder, "who")
    assert read.to_dict("list") == public.to_dict("list")
    older = {
        key: value for key, value in fitted.as_dict().items() if key not in ("encoding", "skip")
    }
    assert TableEncoder.from_dict(older) == TableEncoder.from_dict(fitted.as_dict())


def test_one_record_does_not_decide_how_a_private_file_is_read(files: Path) -> None:
    before = _table().load()
    for ward in (
        "sep=;",
        ";;;;;;;;;;",
        "\t\t|||",
        "#",
        "\n\n\n",
        'a "quote"',
        "Köln",
        "\ufeff",
        "NA",
    ):
        _changed(
            "visits.csv", lambda table, ward=ward: table.assign(ward=[ward, *table.ward[1:]])
        )()
        after = _table().load()
        np.testing.assert_array_equal(before.private.x[1:], after.private.x[1:])
        np.testing.assert_array_equal(before.private.y, after.private.y)


@pytest.mark.parametrize("name", ["None", "N/A", "nan"])
@pytest.mark.parametrize("classes", [None, True])
def test_a_class_group_or_id_may_have_a_name_that_is_missing_elsewhere(
    files: Path, name: str, classes: bool | None, capsys: pytest.CaptureFixture[str]
) -> None:
    def renamed(table: pd.DataFrame) -> pd.DataFrame:
        table = table.replace({"no": name}).astype({"person": str})
        return table.assign(person=[name, *table.person[1:]], visit=[name, *table.visit[1:]])

    plain = _table(test="test.csv", overlap="allow", classes=classes and ["yes", "no"]).load()
    for file in ("visits.csv", "new.csv", "test.csv"):
        _changed(file, renamed)()
    settings = {"test": "test.csv", "overlap": "allow", "classes": classes and ["yes", name]}
    read = _table(**settings).load()
    assert {*read.labels} == {name, "yes"} and ("dataset.missing" in capsys.readouterr().err) == (
        classes is None
    )
    assert read.ids is not None and read.ids[0] == name
    for split in ("private", "public", "test"):
        np.testing.assert_array_equal(getattr(read, split).x, getattr(plain, split).x)
        right = [plain.labels[label] for label in getattr(plain, split).y if label >= 0]
        assert [
            read.labels[label].replace(name, "no") for label in getattr(read, split).y if label >= 0
        ] == right
    pd.read_csv("visits.csv", keep_default_na=False).replace(
        {"ward": {"": None}, "age": {"": None}}
    ).astype({"age": float}).to_parquet("visits.parquet")
    np.testing.assert_array_equal(
        _table(**settings, private="visits.parquet").load().private.y, read.private.y
    )
    _changed("visits.csv", lambda table: table.assign(back=[None, *table.back[1:].fillna(name)]))()
    with pytest.raises(InputError, match="1 have none"):
        _table(**settings).load()


def test_a_class_may_have_the_name_of_a_missing_value(files: Path) -> None:
    for file in ("visits.csv", "new.csv"):
        _changed(file, lambda table: table.replace({"no": "unknown", "ER": "unknown"}))()
    read = _table(missing=["unknown"], classes=["yes", "unknown"]).load()
    assert read.encoder is not None and "ward=unknown" not in read.encoder.features
    assert 0 < (read.private.y == 1).sum() < 400
    with pytest.raises(InputError, match=r"dataset\.missing"):
        _table(missing=["unknown"]).load()


def test_labels_and_groups_are_those_of_the_file(files: Path) -> None:
    records, splits = pd.read_csv("visits.csv"), _table(test="test.csv").load()
    assert splits.labels == ("no", "yes")
    assert [splits.labels[label] for label in splits.private.y] == records.back.tolist()
    assert pd.crosstab(splits.groups, records.person).gt(0).sum().eq(1).all()
    assert (splits.public.y == UNKNOWN).all()
    assert splits.ids is not None and splits.ids.tolist() == [f"V{row}" for row in range(120)]
    assert _table(classes=["yes", "no"]).load().labels == ("yes", "no")
    for values, names in (
        ([0, 1], ("0", "1")),
        ([True, False], ("False", "True")),
        ([9, 10], ("9", "10")),
    ):
        records.assign(back=np.resize(values, 400)).to_csv("visits.csv", index=False)
        assert _table().load().labels == names


def test_features_are_those_of_scikit_learn() -> None:
    public, private = (
        _records(rows, seed)[["age", "ward", "smoker"]] for rows, seed in ((300, 3), (200, 4))
    )
    private.loc[:9, "ward"] = "never seen"
    filled = SimpleImputer(strategy="constant", fill_value=0, add_indicator=True)
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    theirs = make_column_transformer(
        (make_pipeline(StandardScaler(), filled), ["age"]), (one_hot, ["ward", "smoker"])
    )
    theirs.fit(public)
    ours = fit_encoder(public, {}, 32)
    for rows in (public, private):
        # the same columns, in another order
        encoded, expected = ours.encode(rows), np.asarray(theirs.transform(rows), np.float32)
        assert encoded.shape == expected.shape
        alike = (np.abs(encoded[:, :, None] - expected[:, None]) < 1e-6).all(axis=0)
        assert alike.any(axis=0).all() and alike.any(axis=1).all()


def test_rare_values_share_a_feature() -> None:
    rng = np.random.default_rng(0)
    public, private = (
        pd.DataFrame({"code": [f"D{n}" for n in rng.geometric(0.05, rows)]}) for rows in (500, 300)
    )
    theirs = OneHotEncoder(
        max_categories=8, handle_unknown="infrequent_if_exist", sparse_output=False
    ).fit(public)
    ours = fit_encoder(public, {}, 8)
    assert len(ours.features) == 8 and ours.features[-1] == "code=other"
    for rows in (public, private):
        np.testing.assert_array_equal(
            ours.encode(rows).sum(axis=0)[-1], theirs.transform(rows).sum(axis=0)[-1]
        )
        np.testing.assert_array_equal(ours.encode(rows).sum(axis=1), 1)


def test_nothing_is_fitted_on_private_rows(files: Path) -> None:
    before = _table().load()
    records = pd.read_csv("visits.csv")
    records.loc[5, ["age", "ward", "admitted"]] = [1e9, "nowhere", "1800-01-01"]
    records.to_csv("visits.csv", index=False)
    after = _table().load()
    changed = (before.private.x != after.private.x).any(axis=1)
    assert np.flatnonzero(changed).tolist() == [5]
    assert np.abs(after.private.x).max() <= LIMIT
    np.testing.assert_array_equal(before.public.x, after.public.x)


def test_kinds_of_columns_can_be_given(files: Path) -> None:
    splits = _table(columns={"age": "category"}, drop=["smoker"], categories=5).load()
    assert splits.encoder is not None
    names = splits.encoder.features
    assert sum(name.startswith("age=") for name in names) == 5 and not any(
        "smoker" in name for name in names
    )
    assert splits.encoder.unused == {"country": "one value only"}
    _changed(
        "new.csv", lambda table: table.assign(admitted=["31.12.2024", *["03.02.2024"] * 119])
    )()
    _changed("visits.csv", lambda table: table.assign(admitted="1.2.2024"))()
    encoder = _table(columns={"admitted": "%d.%m.%Y"}).load().encoder
    assert encoder is not None and "admitted month" in encoder.features


def test_own_words_for_missing_values_and_decimal_commas(files: Path) -> None:
    for name in ("visits.csv", "new.csv"):
        table = pd.read_csv(name, dtype=str)
        table.age = table.age.astype(float).map(
            lambda age: f"{1000 * age:,.1f}".translate(COMMA), "ignore"
        )
        table.fillna({"age": "?"}).to_csv(name, index=False, sep=";")
    splits = _table(missing=["?"], columns={"age": "comma"}).load()
    assert splits.encoder is not None and "age missing" in splits.encoder.features
    assert 20_000 < splits.encoder.columns[0].mean[0] < 90_000
    new = pd.read_csv("new.csv", sep=";")
    np.testing.assert_array_equal(splits.encoder.encode(new), splits.public.x)


def test_typed_columns_are_what_they_are_as_text() -> None:
    """As Parquet has them: time stamps, booleans and whole numbers with missing values, large
    numbers.
    """
    when = pd.to_datetime(["2024-01-01", "2024-02-03 10:00", None, "9999-12-31"], format="ISO8601")
    sure, code = (
        pd.Series([True, None, False, True], dtype=object),
        pd.Series([1.0, 2.0, None, 1.0]),
    )
    typed = pd.DataFrame(
        {"when": when, "zoned": when.tz_localize("UTC"), "sure": sure, "code": code}
    )
    zoned = ["2024-01-01T00:00Z", "2024-02-03T10:00Z", None, "9999-12-31T00:00Z"]
    text = pd.DataFrame({"when": ["2024-01-01", "2024-02-03 10:00:00", "", "9999-12-31"], "zoned": zoned,
                         "sure": ["true", " ", "FALSE", "True"], "code": ["1", "2", None, "1.0"]})  # fmt: skip
    encoder = fit_encoder(typed, {"code": "category"}, 32)
    assert [column.kind for column in encoder.columns] == ["date", "date", "category", "category"]
    np.testing.assert_array_equal(encoder.encode(typed), encoder.encode(text))
    for row in range(4):  # whatever else is in the table
        np.testing.assert_array_equal(
            encoder.encode(typed)[row], encoder.encode(typed[row : row + 1])[0]
        )


def _every_type(rows: int, odd: bool) -> pa.Table:
    """Columns of every type that a file may have; `odd` puts values among them that pandas reads in
    another way.
    """
    rng = np.random.default_rng(rows)
    small, large = rng.integers(0, 300, rows).tolist(), rng.integers(2**53, 2**60, rows).tolist()
    real = rng.normal(size=rows).tolist()
    day = [datetime(2020, 1, 1) + timedelta(days=value) for value in small]
    moment = [value + timedelta(milliseconds=2_037_500 * place) for place, value in enumerate(day)]
    stay = [timedelta(days=value % 6) for value in small]
    last, early = datetime(9999, 12, 31), datetime(2020, 5, 5, 6, 30)
    hours = timedelta(days=2, hours=7)
    texts = {
        "iso": (
            [str(value.date()) for value in day],
            ["now", "2021-01-01T00:00:00.000000001", "9999-12-31", "today"],
        ),
        "format": (
            [f"{value:%d/%m/%Y}" for value in day],
            ["now", "31/12/9999 0:00", "1/2/2020 10:00:00.123456789"],
        ),
        "fraction": (
            [f"{value:%d/%m/%Y %S.%f}" for value in moment],
            ["1/2/2020 00.123456789", "31/12/9999 00.1"],
        ),
        "time": ([f"{value:%H.%M.%S}" for value in moment], ["24.00.00", "2 days 07:30:00", ""]),
        "money": (
            [f"{value / 8:.2f} €".replace(".", ",") for value in small],
            ["(1.234,50) €", "\u22125€", "1 €"],
        ),
        "plain": (
            [f"{value:.4f}" for value in real],
            ["18446744073709551616", "9007199254740993", "-0.0", "1e400"],
        ),
        "ward": ([f"w{value % 5}" for value in small], [" ", "1.0", "TRUE", "-0"]),
    }
    typed: dict[str, tuple[pa.DataType, list[Any], list[Any]]] = {
        "second": (
            pa.timestamp("s"),
            [value.replace(microsecond=0) for value in moment],
            [None, last, early],
        ),
        "micro": (pa.timestamp("us"), [*day], [early, None, last]),
        "nano": (pa.timestamp("ns"), [*day], [early, None]),
        "zoned": (
            pa.timestamp("us", "Europe/Zurich"),
            [*day],
            [early, None, datetime(9999, 12, 30)],
        ),
        "date": (pa.date32(), [value.date() for value in day], [last.date(), None]),
        "clock": (pa.time64("us"), [value.time() for value in moment], [early.time(), None]),
        "stay": (pa.duration("us"), [*stay], [hours, timedelta(microseconds=1), None]),
        "stay_ns": (pa.duration("ns"), [*stay], [hours, None]),
        "large": (pa.int64(), [*large], [None, 2**53 + 1, -5]),
        "unsigned": (pa.uint64(), [*large], [None, 2**64 - 1]),
        "real": (pa.float64(), [*real], [-0.0, 0.0, 1.0, None, math.nan, 1e300]),
        "single": (
            pa.float32(),
            [np.float32(value) for value in real],
            [np.float32(-0.0), None, np.float32(0.1)],
        ),
        "flag": (pa.bool_(), [value > 0 for value in real], [None]),
        "exact": (
            pa.decimal128(10, 2),
            [Decimal(value) / 100 for value in small],
            [None, Decimal("1.00")],
        ),
        **{name: (pa.string(), *columns) for name, columns in texts.items()},
    }
    for _, values, others in typed.values():
        values[1 : 4 * len(others) + 1 : 4] = others if odd else values[1 : 4 * len(others) + 1 : 4]
    table = {name: pa.array(values, type) for name, (type, values, _) in typed.items()}
    return pa.table(
        table
        | {"coded": table["ward"].dictionary_encode(), "zone": table["zoned"].dictionary_encode()}
    )


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
def test_every_row_is_encoded_and_named_alike_alone_and_in_company(
    tmp_path: Path, ending: str
) -> None:
    def file(table: pa.Table, name: str) -> str:
        path = str(tmp_path / f"{name}.{ending}")
        if ending == "csv":
            table.to_pandas(integer_object_nulls=True).to_csv(path, index=False)
        elif ending == "parquet":
            parquet.write_table(table, path, row_group_size=11)
        else:
            feather.write_feather(table, path, compression="uncompressed")
        return path

    public = next(read_table(file(_every_type(90, odd=False), "public"), 90))
    private = _every_type(24, odd=True)
    kinds = {"iso": "date", "format": "%d/%m/%Y", "fraction": "%d/%m/%Y %S.%f", "large": "number", "stay": "time",
             "time": "time", "money": "comma", "plain": "number", "exact": "number", "micro": "date"}  # fmt: skip
    encoders = [
        fit_encoder(public, kinds, 8, missing=["-5"]),
        fit_encoder(public, dict.fromkeys(public, "category"), 8),
    ]

    def rows(path: str, chunk: int) -> dict[str, list[Any]]:
        made: dict[str, list[Any]] = defaultdict(list)
        for part in read_table(path, chunk):
            for number, encoder in enumerate(encoders):
                made[f"encoder {number}"] += [row.tobytes() for row in encoder.encode(part)]
            known = blanked(part, ["-5"])
            for name in known:
                codes, names = different(known[name])
                made[name] += names[codes].tolist()
        return made

    path = file(private, "private")
    company, alone = rows(path, 24), rows(path, 1)
    order = np.random.default_rng(0).permutation(24)
    others = rows(file(private.take(order), "others"), 7)
    assert company == alone
    assert {name: [values[row] for row in order] for name, values in company.items()} == others
    assert company["iso"][1] == "now" and company["zoned"][5] is None
    clock = encoders[0].encode(next(read_table(path, 24))[1:2].assign(iso="not a date"))
    assert clock.tobytes() == company["encoder 0"][1]  # "now" is no date


#: How the numbers -1234.5 and 999.25 are written, and the format that follows.
WRITTEN = {
    "-1234.50 999.25": None, "-1,234.50 999.25": "1,234.5", "-1.234,50 999,25": "1.234,5", "−1234,5 999,25": "1.234,5",
    "-1'234.50 999.25": "1,234.5", "-1’234,50 999,25": "1.234,5", "-1\u00a0234,50 999,25": "1.234,5",
    "-1\u202f234.50 999.25": "1,234.5", "1.234,50- 999,25": "1.234,5", "(1,234.50) 999.25": "1,234.5",
    "-$1,234.50 $999.25": "$1,234.5", "$(1,234.50) $999.25": "$1,234.5", "-1.234,50€ 999,25€": "1.234,5€",
    "CHF-1'234.50 CHF999.25": "CHF1,234.5", "-1234,5% +999,25%": "1.234,5%", "-1234.5kg 999.25kg": "1,234.5kg",
    "-Rs.1,234.50/- Rs.999.25": "Rs.1,234.5", "-1,2345E+03 9,9925E+02": "1.234,5", "−1 234.5 999.25": None,
}  # fmt: skip


@pytest.mark.parametrize("cells", WRITTEN)
def test_numbers_are_read_as_people_write_them(cells: str) -> None:
    low, high = cells.rsplit(" ", 1)
    public = pd.DataFrame({"pay": [low, high] * 30})
    encoder = fit_encoder(public, {}, 32)
    (column,) = encoder.columns
    assert column.kind == "number" and (low.count(" ") or column.format == WRITTEN[cells])
    np.testing.assert_allclose(column.mean, (-1234.5 + 999.25) / 2)
    np.testing.assert_array_equal(encoder.encode(public)[:2], [[-1], [1]])
    assert not [*doubts(public, encoder, grouped=False)]


@pytest.mark.parametrize(
    "format",
    ["%d/%m/%Y", "%m/%d/%Y %H:%M", "%d.%m.%y", "%Y/%m/%d", "%d-%b-%Y", "%d %B %Y", "%b %d, %Y", "%Y%m%d", "%d%b%Y",
     "%m/%d/%Y %I:%M %p", "%d. %m. %Y", "%Y-%m-%dT%H:%M:%S"],
)  # fmt: skip
def test_dates_of_all_usual_orders_are_read(format: str) -> None:
    days = pd.date_range("2023-01-05 13:45", periods=400)
    public = pd.DataFrame({"day": days.strftime(format)})
    encoder = fit_encoder(public, {}, 32)
    iso = fit_encoder(
        pd.DataFrame({"day": pd.to_datetime(days.strftime(format), format=format)}), {}, 32
    )
    assert not encoder.unused and encoder.columns[0].mean == iso.columns[0].mean
    assert not [*doubts(public, encoder, grouped=False)]


def test_times_and_durations_are_hours() -> None:
    for cells in (
        ["18.00.00", "06.30.00"], ["18:00", "6:30"], ["6:00 pm", "6:30 AM"], ["0 days 18:00:00", "06:30:00"],
        ["18:00 Uhr", "6.30 Uhr"], ["18h00", "6h30"],
    ):  # fmt: skip
        (column,) = fit_encoder(pd.DataFrame({"time": cells * 20}), {}, 32).columns
        assert (column.kind, column.format, column.mean[0]) == ("number", "time", 12.25)
    (column,) = fit_encoder(
        pd.DataFrame({"stay": pd.to_timedelta(["18h", "390min"] * 20)}), {}, 32
    ).columns
    assert column.mean[0] == 12.25


@pytest.mark.parametrize(
    ("cells", "kinds", "count"),
    [
        (["1.167", "987", "1.500"], ["number", "comma"], 40),
        (["1,167", "987", "1.167"], ["number", "comma"], 40),
        (["01/02/2024", "03/03/2024", "05/12/2024"], ["%d/%m/%Y", "%m/%d/%Y"], 40),
        (["24-12-05", "23-11-30", "24-01-01"], ["%d-%m-%y", "%y-%m-%d"], 60),
    ],
)
def test_what_can_be_read_in_two_ways_is_not_used_and_said(
    cells: list[str], kinds: list[str], count: int
) -> None:
    if cells[0] == "1,167":
        cells = ["1,167", "987", "1,500"]
    public = pd.DataFrame({"CO(GT)": cells * 20, "age": np.arange(60) / 2})
    encoder = fit_encoder(public, {}, 32)
    (line,) = doubts(public, encoder, grouped=False)
    assert "CO(GT)" in encoder.unused and f"{count} of 60" in line
    overrides = re.findall(r"'(dataset\.[^']+)'", line)
    for typed, kind in zip(overrides, kinds, strict=True):
        (override,) = OverridesParser.create().parse_overrides([typed])
        table = Table(private="a", public="b", label="c", columns=override.value())
        assert table.kinds == {"CO(GT)": kind}
        assert not fit_encoder(public, table.kinds, 32).unused


def test_numbers_are_no_identifiers_and_advice_loses_no_value() -> None:
    number = np.random.default_rng(0).integers(100, 90_000, 600)
    comma = [f"{value / 7:.2f}".replace(".", ",") for value in number]
    swiss = [f"{value}.-" for value in number]
    words = ["unknown" if place % 50 == 0 else cell for place, cell in enumerate(comma)]
    mixed = [cell.replace(",", ".") if place % 3 else cell for place, cell in enumerate(comma)]
    limits = [f"<{cell}" if place % 50 == 0 else cell for place, cell in enumerate(comma)]
    public = pd.DataFrame(
        {"comma": comma, "swiss": swiss, "words": words, "mixed": mixed, "limits": limits}
    )
    encoder = fit_encoder(public, {}, 32)
    assert [column.name for column in encoder.columns] == ["comma", "swiss"]
    told = [*doubts(public, encoder, grouped=False)]
    assert [line.split()[0] for line in told] == ["words", "mixed", "limits"]
    assert "12 of 600" in told[0] and "words: comma" in told[0]
    assert "200 of 600" in told[1] and "12 of 600" in told[2] and "missing" not in told[1] + told[2]
    for private in ("1234.50", "12/31/2024", "now"):  # not as the public file writes numbers
        with pytest.raises(ColumnError, match="1 of 600 values are no numbers such as"):
            encoder.encode(public.assign(comma=[private, *comma[1:]]))


def test_few_whole_numbers_may_be_codes() -> None:
    places = np.arange(100)
    public = pd.DataFrame(
        {"x": places % 5, "age": places % 70, "flag": places % 2, "year": 1950 + places % 40}
    )
    public["postcode"] = 1011 + places % 40 * 210
    public["PIN"] = [f"{110 + row % 20} 001" for row in places]
    (line,) = doubts(public, fit_encoder(public, {}, 32), grouped=False)
    assert "'dataset.columns={x: category, postcode: category, PIN: category}'" in line
    given = dict.fromkeys(("x", "postcode", "PIN"), "number")
    assert not [*doubts(public, fit_encoder(public, given, 32), grouped=False)]
    wide = pd.DataFrame({f"c{column}": places % 5 for column in range(300)})
    (line,) = doubts(wide, fit_encoder(wide, {}, 32), grouped=False)
    assert "c19 and 280 others" in line and "c20" not in line


#: What each of 120 rows has, and what is said of it, if it is read as a category or date that may
#: be a number.
DOUBTFUL = {
    "postcodes": (
        lambda row: f"{row % 30 * 210:05d}",
        "120 of 120 public values begin with 0",
        "number",
    ),
    "pressures": (
        lambda row: f"{max(110, 90 + row % 60)}/80",
        "31 of 40 different values",
        "category",
    ),
    "births": (
        lambda row: f"{1 + row % 28}.3.{60 + row % 12}",
        "90 of 120 public dates are read as 2030",
        "%d.%m.%y",
    ),
}


@pytest.mark.parametrize("name", DOUBTFUL)
def test_what_may_be_read_wrong_is_said(name: str) -> None:
    cell, said, kind = DOUBTFUL[name]
    public = pd.DataFrame({"x": [cell(row) for row in range(120)]})
    (line,) = doubts(public, fit_encoder(public, {}, 32), grouped=False)
    assert said in line
    given = fit_encoder(public, {"x": kind}, 32)
    assert given.columns and not [*doubts(public, given, grouped=False)]


def test_an_accountants_dash_is_zero_and_an_error_of_excel_is_missing() -> None:
    for cells in (
        ["$ -", "$ 1,234.50"],
        ["-  €", "1.234,50 €"],
        ["EUR -", "EUR 1,234.50"],
        [" $-   ", "$ 1,234.50"],
    ):
        (column,) = fit_encoder(pd.DataFrame({"pay": cells * 20}), {}, 32).columns
        assert (column.kind, column.mean[0]) == ("number", 617.25)
        records = pd.Series(
            [1.125, 1000, np.float32(2.5), Decimal("0.125"), None, True], name="pay", dtype=object
        )
        read = measured(records, column.kind, column.format)[
            ""
        ]  # numbers of Python are not written in this way
        np.testing.assert_array_equal(read, [1.125, 1000, 2.5, 0.125, np.nan, 1])
    public = pd.DataFrame({"pay": ["#DIV/0!", *map(str, np.arange(40) / 4)]})
    (line,) = doubts(public, fit_encoder(public, {}, 32), grouped=False)
    assert (
        "1 of 41" in line
        and "'dataset.columns={pay: number}' to take such values as missing" in line
    )


@pytest.mark.parametrize("last", [199, 207])
def test_one_private_id_does_not_decide_who_is_dropped(tmp_path: Path, last: int) -> None:
    private, public = (str(tmp_path / f"{name}.csv") for name in ("private", "public"))
    x = np.random.default_rng(0).normal(size=200)
    pd.DataFrame({"id": np.arange(100, 180), "x": x[:80]}).to_csv(public, index=False)
    pd.DataFrame({"id": [*range(199), last], "x": x, "y": (x > 0).astype(int)}).to_csv(
        private, index=False
    )
    splits = Table(
        private=private, public=public, label="y", id="id", classes=[0, 1], overlap="drop"
    ).load()
    assert len(splits.private) == 120


def test_a_missing_code_beside_large_numbers_changes_none_of_them() -> None:
    table = pd.DataFrame({"id": [2**53 + 1, -1]})
    assert different(blanked(table, ["-1"]).id)[1].tolist() == [str(2**53 + 1), None]


#: Columns of 5,000 rows by a function of a generator, and whether they look like identifiers.
COLUMNS: dict[str, tuple[Callable[[np.random.Generator], Any], bool]] = {
    "patients": (lambda rng: [f"P{number}" for number in rng.integers(0, 3000, 5000)], True),
    "numbers of patients": (lambda rng: rng.integers(0, 5000, 5000), True),
    "scattered numbers": (lambda rng: rng.integers(10**6, 10**8, 1200)[rng.integers(0, 1200, 5000)], True),
    "numbers given in turn": (lambda rng: rng.integers(7_000_000, 7_003_000, 5000), True),
    "notes": (lambda rng: [f"note {number}" for number in rng.integers(0, 10**9, 5000)], True),
    "phones in groups": (lambda rng: [f"6{n // 1000:02d} {n % 1000:03d} 252" for n in range(5000)], True),
    "numbers with a letter": (lambda rng: [f"{number}Z" for number in rng.integers(10**7, 10**8, 5000)], True),
    "postcodes with 0": (lambda rng: [f"{number:05d}" for number in rng.integers(0, 10**5, 5000)], True),
    "pay": (lambda rng: [f"{number} €" for number in rng.integers(10**5, 10**6, 5000)], False),
    "ages": (lambda rng: rng.integers(18, 95, 5000), False),
    "laboratory": (lambda rng: rng.lognormal(5, 1, 5000).round(), False),
    "exact values": (lambda rng: rng.normal(size=5000), False),
    "codes": (lambda rng: [f"D{number % 700}" for number in rng.zipf(1.5, 5000)], False),
    "dates": (lambda rng: pd.date_range("2020-01-01", periods=5000).astype(str), False),
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_identifiers_are_no_features_unless_the_user_says_so(name: str) -> None:
    make, identifies = COLUMNS[name]
    public = pd.DataFrame({"column": make(np.random.default_rng(0)), "age": np.arange(5000) % 70})
    encoder = fit_encoder(public, {}, 32)
    assert ("column" in encoder.unused) == identifies
    told = [*doubts(public, encoder, grouped=False)]
    assert len(told) == identifies and all("dataset.group=column" in line for line in told)
    assert not [*doubts(public, encoder, grouped=True)]
    for kind in ("category", "number")[: 1 if public["column"].dtype == object else 2]:
        with suppress(ColumnError):  # texts are no numbers
            assert not fit_encoder(public, {"column": kind}, 32).unused


@pytest.mark.parametrize(
    "name", ["age", "patient nbr", "Größe", "a, b", "CO(GT)", 'say "x": y', "it's"]
)
def test_what_is_said_of_a_column_can_be_typed(name: str) -> None:
    public = pd.DataFrame(
        {name: [*map(str, [*range(9)] * 11), "four"], f"{name} 2": range(10**6, 10**6 + 100)}
    )
    typed = 0
    for line in doubts(public, fit_encoder(public, {}, 32), grouped=False):
        for word in re.findall(r"'dataset\..*?'(?= to take|:|;|\Z)", line):
            (override,) = OverridesParser.create().parse_overrides(shlex.split(word))
            value, typed = override.value(), typed + 1
            if override.key_or_group == "dataset.columns":
                assert Table(private="a", public="b", label="c", columns=value).kinds in (
                    {name: "number"},
                    {f"{name} 2": "number"},
                )
            else:
                assert value in ([f"{name} 2"], f"{name} 2")
    assert typed == 4


def test_a_column_that_is_nearly_numbers_is_said_and_can_be_numbers(files: Path) -> None:
    new = pd.read_csv("new.csv", dtype=str)
    new.assign(age=new.age.mask(new.index == 7)).to_csv("empty.csv", index=False)
    new.assign(age=new.age.mask(new.index == 7, "four")).to_csv("new.csv", index=False)
    guessed, given, empty = (
        _table().load(),
        _table(columns={"age": "number"}).load(),
        _table(public="empty.csv").load(),
    )
    assert any("age" in line and "1 of 120" in line for line in guessed.warnings)
    assert given.warnings == empty.warnings == ()
    np.testing.assert_array_equal(given.public.x, empty.public.x)
    np.testing.assert_array_equal(given.private.x, empty.private.x)
    _changed("visits.csv", lambda table: table.assign(age="old"))()
    with pytest.raises(InputError, match="400 of 400"):
        _table(columns={"age": "number"}).load()


@pytest.mark.parametrize("by", ["group", "id"])
@pytest.mark.parametrize("others", [["new.csv"], ["new.csv", "test.csv"]])
def test_people_on_both_sides_are_refused_dropped_or_allowed(
    files: Path, by: str, others: list[str]
) -> None:
    column = "person"
    settings: dict[str, Any] = {"group": None, "id": None, "test": "test.csv"} | {by: column}
    records, every = pd.read_csv("visits.csv"), _table(**settings).load()
    shared = records[column].unique()[:17]
    for at, name in enumerate(others):
        _changed(
            name,
            lambda table, at=at: table.assign(person=[*shared[at : at + 9], *table[column][9:]]),
        )()
    found = shared[: 8 + len(others)]
    with pytest.raises(InputError, match=r"dataset\.overlap|overlap=refuse.* 9 are in public rows"):
        _table(**settings).check()
    allowed, dropped = (_table(**settings, overlap=overlap).load() for overlap in ("allow", "drop"))
    np.testing.assert_array_equal(allowed.private.x, every.private.x)
    assert dropped.units < allowed.units
    records[~records[column].isin(found)].to_csv("visits.csv", index=False)
    assert dropped.digest == _table(**settings).load().digest


def test_names_that_count_rows_name_no_people(files: Path) -> None:
    """The names V0, V1, … of `visit` are in all files; those of a few of these rows are names."""
    assert len(_table(group=None).load().private) == 400
    _changed("new.csv", lambda table: table[5:50])()
    _changed("visits.csv", lambda table: table[3:])()
    with pytest.raises(InputError, match="45 are in public rows"):
        _table(group=None).check()


def test_what_a_quick_look_finds_is_said_before_anything_large_is_imported(files: Path) -> None:
    script = """
import sys, nzc
try:
    nzc.run([*sys.argv[1:]])
except nzc.InputError as error:
    print(error)
print(*{"torch", "sklearn", "lightning"} & set(sys.modules))
"""
    for wrong, says in {
        "queries=121": "from 1 to 120",
        "dataset.group=Perso": "did you mean person?",
    }.items():
        settings = [*RECIPE, *FILES, "tracking=none", wrong]
        ran = subprocess.run(
            [sys.executable, "-c", script, *settings], capture_output=True, text=True, check=True
        )
        line, imported = ran.stdout.splitlines()
        assert wrong.partition("=")[0] in line and says in line
        assert imported == ""


def _changed(name: str, change: Callable[[pd.DataFrame], pd.DataFrame]) -> Callable[[], None]:
    return lambda: change(pd.read_csv(name)).to_csv(name, index=False)


@pytest.mark.parametrize(
    ("spoil", "settings", "says"),
    [
        (_changed("new.csv", lambda table: table.drop(columns="age")), {}, "age is not in the public file"),
        (_changed("visits.csv", lambda table: table.drop(columns="age")), {}, "age is missing"),
        (_changed("visits.csv", lambda table: table.assign(age="old")), {}, "age: 400 of 400 values are no numbers"),
        (_changed("visits.csv", lambda table: table.assign(back=range(400))), {}, "400 different values in 400 rows"),
        (_changed("visits.csv", lambda table: table.mask(table.visit == "V7")), {}, "1 have none"),
        (_changed("new.csv", lambda table: table[:0]), {}, "public=new.csv: must have rows"),
        (_changed("new.csv", lambda table: table.assign(back="maybe")), {}, "classes no, yes"),
        (_changed("test.csv", lambda table: table.drop(columns="back")), {"test": "test.csv"}, "back is missing"),
        (lambda: Path("visits.csv").write_text("a,b\n1,2,3\n"), {}, "more cells than the header"),
        (lambda: Path("visits.csv").write_bytes(b"back,b\n\xff,1\n"), {}, "dataset.encoding=cp1252"),
        (lambda: Path("test.csv").write_bytes(b"back,b\nK\xf6ln,1\n"), {"test": "test.csv"}, "test=test.csv"),
        (lambda: Path("visits.csv").write_bytes(b"b\0a\0c\0k\0\n\0"), {}, "UTF-16"),
        (lambda: Path("visits.csv").write_bytes(b"PK\3\4secret"), {}, "it is an Excel file"),
        (lambda: Path("visits.csv").write_bytes(b"back,b\n\x81,1\n"), {"encoding": "cp1252"}, "not in CP1252"),
        (_changed("new.csv", lambda table: table.replace("ER", "Köln")), {"encoding": "cp1252"}, "new.csv is in UTF-8"),
        (lambda: None, {"encoding": "cp125"}, "encoding=cp125: must be"),
        (lambda: None, {"encoding": "base64"}, "encoding=base64: must be"),
        (lambda: _rewrite("Visits of ward 3\n{}".format), {}, "dataset.skip=N"),
        (lambda: _rewrite("All, visits, of, ward, 3\n{}".format, names=("new.csv",)), {}, "dataset.skip=N"),
        (lambda: None, {"skip": 3}, "dataset.skip=N"),
        (lambda: Path("visits.csv").write_text("# nothing\n\n"), {}, "no header"),
        (lambda: _rewrite(age="ward"), {}, "columns 2 and 4 have one name"),
        (lambda: _rewrite(age="ward ", sep=";"), {}, "columns 2 and 4 have one name"),
        (lambda: _rewrite(lambda text: _ended(",secret")(text).replace("secret", "", 1)), {}, "no name"),
        (lambda: _rewrite(_ended(",secret", header=False)), {}, "more cells than the header"),
        (_changed("new.csv", lambda table: table.assign(back="NA")), {}, 'dataset.missing=["NA"]'),
        (lambda: Path("new.csv").unlink(), {}, "No such file"),
        (lambda: None, {"label": "wrong"}, "label=wrong: must be a column of visits.csv"),
        (lambda: None, {"drop": ["wrong"]}, "drop=wrong: must be a column"),
        (lambda: None, {"columns": {"age": "wrong"}}, "must be number, comma, time, category"),
        (lambda: Path("visits.xls").write_text("age"), {"private": "visits.xls"}, "must end in .csv"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(
    files: Path, spoil: Callable[[], object], settings: dict[str, Any], says: str
) -> None:
    spoil()
    with pytest.raises(InputError) as wrong:
        _table(**settings).load()
    assert says in str(wrong.value)
    assert "\n" not in str(wrong.value) and "secret" not in str(wrong.value)


def test_from_files_to_a_published_student_that_runs_without_nzc(
    nzc: Nzc, files: Path, command: Command
) -> None:
    ran = nzc(*RECIPE, *FILES, "dataset.id=visit", "dataset.columns={smoker: category}",
              "dataset.group=person", "dataset.test=test.csv", "dataset.classes=[no,yes]", "rng=system",
              "budget.epsilon=null", "student.balance=0.5")  # fmt: skip
    assert ran.code == 0, ran.err
    run = next(files.glob("outputs/*/*"))
    predicted, labels = pd.read_csv(run / "predictions.csv"), pd.read_csv(run / "labels.csv")
    assert predicted.visit.tolist() == [f"V{row}" for row in range(120)]
    released = predicted[predicted.source == "teachers"]
    assert released.visit.tolist() == labels.id.tolist()
    assert released.label.tolist() == labels.name.tolist()
    assert predicted.probability.between(0, 1).all()
    publish(run, files / "public", name="people")
    raw = pd.read_csv("test.csv").drop(columns="back")
    raw.loc[0, "age"], raw.loc[1, "ward"] = np.nan, "never seen"
    raw.to_csv("raw.csv", index=False)
    printed = command("predict", "public", "raw.csv")[1]
    script = "import sys; sys.modules['nzc'] = None; sys.argv = ['predict.py', 'raw.csv']; import runpy; " \
        "sys.path.insert(0, 'public'); runpy.run_path('public/predict.py', run_name='__main__')"  # fmt: skip
    alone = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=files
    ).stdout
    assert alone == printed
    usage = subprocess.run(
        [sys.executable, "public/predict.py"], capture_output=True, text=True, check=False
    )
    assert usage.returncode == 1 and usage.stderr.startswith(
        "usage: python predict.py FILE > predictions.csv"
    )
    form: dict[str, Any] = {"sep": ";", "encoding": "utf-16", "names": ("raw.csv",)}
    _rewrite(lambda text: f"sep=;\n# new\n{_ended(';')(text)}", **form)
    assert command("predict", "public", "raw.csv")[1] == printed
    served = Served("public")
    assert served.predict([{"age": 81, "visit": "V1"}]).label.isin(["no", "yes"]).all()
    for wrong in ({"age": 81, "wrad": "ICU"}, {"age": "old"}):
        with pytest.raises(MlflowException, match=r"wrad|column age") as refused:
            served.predict([wrong])
        assert refused.value.get_http_status_code() == 400
    answers = pd.read_csv(pd.io.common.StringIO(alone))
    assert answers.visit.tolist() == raw.visit.tolist()
    assert np.isfinite(answers.probability).all()
    right = (answers.label == pd.read_csv("test.csv").back).mean()
    assert abs(right - ran.result["accuracy"]) <= 0.02  # two records were changed
    assert json.loads((files / "public" / "privacy.json").read_text())["public_files"].keys() == {
        "new.csv"
    }


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Forest(trees=20, leaf=2, balance=0, folds=1, spread=0),
         RandomForestClassifier(20, min_samples_leaf=2, random_state=0)),
        (Linear(strength=10, balance=0, folds=1, spread=0), LogisticRegression(C=0.1, max_iter=1000)),
    ],
    ids=["forest", "linear"],
)  # fmt: skip
def test_students_of_scikit_learn_predict_the_same_as_tensors(ours: Any, theirs: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 5)).astype(np.float32)
    y = np.where(rng.random(300) < 0.5, np.digitize(x[:, 0] + x[:, 1], [-1, 0]), -1)
    for classes, labels in ((3, y), (4, y), (2, np.minimum(y, 1)), (3, np.where(y == 1, -1, y))):
        known = labels >= 0
        fitted = ours.fit(StudentData(x, labels, classes), 0, TrainerSettings(), "")
        theirs.fit(x[known], labels[known], np.ones(known.sum()))
        expected = np.zeros((300, classes))
        expected[:, theirs.classes_] = theirs.predict_proba(x)
        np.testing.assert_allclose(fitted.probabilities(x), expected, atol=1e-6)
        assert torch.isfinite(fitted.classifier(torch.from_numpy(x))).all()
