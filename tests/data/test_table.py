"""dataset=table: any kind of file gives the same rows, features are those of scikit-learn, errors
are one line.
"""

import csv
import io
import json
import math
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import Command, Nzc
from hydra.core.override_parser.overrides_parser import OverridesParser
from mlflow.exceptions import MlflowException
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from nzc.app.publish import publish_run as publish
from nzc.data import UNKNOWN, DataSplits
from nzc.data.splits import SPLITS
from nzc.data.table import Table
from nzc.data.table_encoder import LIMIT, ColumnError, TableEncoder, read_table, texts
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


FILES_OF_SPLITS = ("visits.csv", "new.csv", "test.csv")
COMMA = str.maketrans(",.", ".,")


def _records(rows: int, seed: int) -> pd.DataFrame:
    """Records with every kind of column; `back` follows from age and ward."""
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 90, rows).astype(float)
    ward = rng.choice(["ICU", "surgery", "ER"], rows, p=[0.5, 0.3, 0.2])
    back = np.where(age + 20 * (ward == "ICU") + rng.normal(0, 5, rows) > 65, "yes", "no")
    age[rng.random(rows) < 0.1] = np.nan
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, rows), unit="D")
    columns = {
        "visit": [f"V{row}" for row in range(rows)],
        "age": age,
        "person": 1000 * seed + rng.integers(0, rows // 2, rows),
        "ward": pd.Series(ward).mask(rng.random(rows) < 0.1),
        "admitted": day.strftime("%Y-%m-%d"),
        "smoker": rng.random(rows) < 0.3,
        "country": "CH",
        "back": back,
    }
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
        {
            "r": table.to_feather,
            "t": partial(table.to_parquet, row_group_size=70),
            "z": partial(table.to_csv, sep="\t", index=False),
        }[new[-1]](new)
    for private, public in (("visits.feather", "new.parquet"), ("visits.csv", "new.csv")):
        _same(whole, _table(private=private, public=public, test="test.tsv.gz").load())


def _rewrite(
    change: Callable[[str], str] = str,
    encoding: str = "utf-8",
    names: tuple[str, ...] = (),
    **form: Any,
) -> None:
    """Write the three files anew as another program would."""
    for name in names or FILES_OF_SPLITS:
        table = pd.read_csv(name, dtype=str, keep_default_na=False)
        table = table.rename(columns={"age": form["age"]} if "age" in form else {})
        text = table.to_csv(
            index=False, **{key: value for key, value in form.items() if key != "age"}
        )
        Path(name).write_bytes(change(text).encode(encoding))


def _ended(by: str) -> Callable[[str], str]:
    """Return what puts separators at the end of each row."""
    return lambda text: "".join(f"{row}{by}\n" for row in text.splitlines())


#: How programs write a table, and the settings that it needs.
FORMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "Excel": ({"sep": ";", "change": "sep=;\r\n{}".format, "lineterminator": "\r\n"}, {}),
    "empty lines": ({"sep": ";", "change": "\n  \n;;;;\n{}".format}, {}),
    "comments": ({"sep": ";", "change": '# made 2024-01-01, 5" of, rain\n#\n{}'.format}, {}),
    "a header like a comment": ({"age": "#age"}, {"columns": {"#age": "number"}}),
    "a title": ({"change": "Visits, of, all, wards, in, four, years\n\n{}".format}, {"skip": 1}),
    "separators in the header": (
        {"sep": ";", "age": "age, at, visit", "quoting": csv.QUOTE_ALL},
        {},
    ),
    "a line break": ({"sep": ";", "age": "age\r\nin years; or\n\n months"}, {}),
    "separators at the end": ({"sep": ";", "change": _ended(";;;")}, {}),
    "at the end of one file": ({"change": _ended(","), "names": ("visits.csv",)}, {}),
    "Windows": ({"encoding": "cp1252"}, {"encoding": "cp1252"}),
    "Windows, one file": ({"encoding": "utf-16", "names": ("test.csv",)}, {}),
    "UTF-16": ({"encoding": "utf-16", "sep": "\t"}, {}),
    "Chinese": ({"encoding": "gbk", "age": "年龄"}, {"encoding": "gbk"}),
}


def _same(one: DataSplits, other: DataSplits) -> None:
    """Require the same rows, classes and groups."""
    for split in SPLITS:
        np.testing.assert_array_equal(getattr(one, split).x, getattr(other, split).x)
        np.testing.assert_array_equal(getattr(one, split).y, getattr(other, split).y)
    np.testing.assert_array_equal(one.groups, other.groups)


@pytest.mark.parametrize("form", FORMS)
def test_the_same_table_as_another_program_writes_it(files: Path, form: str) -> None:
    written, settings = FORMS[form]
    if written.get("encoding") != "gbk":
        _rewrite(lambda text: text.replace("surgery", "Köln"))
    plain = _table(test="test.csv").load()
    _rewrite(**written)
    read = _table(test="test.csv", **settings).load()
    _same(read, plain)
    assert list(read.ids) == list(plain.ids)
    name = " ".join(str(written.get("age", "age")).split())
    assert {column.name for column in read.encoder.columns} == {name, "ward", "admitted", "smoker"}


@pytest.mark.parametrize("encoding", ["cp1252", "utf-8", "utf-16"])
def test_a_student_reads_files_as_those_of_its_run(tmp_path: Path, encoding: str) -> None:
    public = pd.DataFrame({"who": ["NA", "b"] * 20, "ward": ["Köln", "Bern"] * 20})
    fitted = fit_encoder(public[["ward"]], {}, 32)
    encoder = TableEncoder.from_dict(fitted.as_dict() | {"encoding": "cp1252", "skip": 1})
    file = tmp_path / "new.csv"
    file.write_bytes(f"Neue Fälle\n{public.to_csv(index=False, sep=';')}".encode(encoding))
    (read,) = _records_of(file, encoder, "who")
    assert read.to_dict("list") == public.to_dict("list")


def test_one_record_does_not_decide_how_a_private_file_is_read(files: Path) -> None:
    before = _table().load()
    for ward in ("sep=;", ";;;;;;;;;;", "#", "\n\n\n", 'a "quote"', "Köln", "NA"):
        _change("visits.csv", lambda table, ward=ward: table.assign(ward=[ward, *table.ward[1:]]))
        after = _table().load()
        np.testing.assert_array_equal(before.private.x[1:], after.private.x[1:])
        np.testing.assert_array_equal(before.private.y, after.private.y)


@pytest.mark.parametrize("classes", [None, ["yes", "None"]])
def test_a_class_group_or_id_may_have_a_name_that_is_missing_elsewhere(
    files: Path, classes: list[str] | None
) -> None:
    def renamed(table: pd.DataFrame) -> pd.DataFrame:
        table = table.replace({"no": "None"}).astype({"person": str})
        return table.assign(person=["None", *table.person[1:]], visit=["None", *table.visit[1:]])

    plain = _table(test="test.csv", overlap="allow").load()
    for file in FILES_OF_SPLITS:
        _change(file, renamed)
    read = _table(test="test.csv", overlap="allow", classes=classes).load()
    assert {*read.labels} == {"None", "yes"} and read.ids[0] == "None"
    for split in SPLITS:
        np.testing.assert_array_equal(getattr(read, split).x, getattr(plain, split).x)
    labels = np.array(read.labels)[read.private.y]
    np.testing.assert_array_equal(labels == "None", np.array(plain.labels)[plain.private.y] == "no")
    _change("visits.csv", lambda table: table.assign(back=[None, *table.back[1:].fillna("None")]))
    with pytest.raises(InputError, match=r"^private=.*1 have none"):
        _table(overlap="allow", classes=classes).load()


def test_labels_and_groups_are_those_of_the_file(files: Path) -> None:
    records = pd.read_csv("visits.csv")
    splits = _table(test="test.csv").load()
    assert splits.labels == ("no", "yes")
    np.testing.assert_array_equal(splits.private.y, records.back == "yes")
    assert pd.crosstab(splits.groups, records.person).gt(0).sum().eq(1).all()
    assert (splits.public.y == UNKNOWN).all()
    assert list(splits.ids) == [f"V{row}" for row in range(120)]
    assert _table(classes=["yes", "no"]).load().labels == ("yes", "no")


@pytest.mark.parametrize("values", [[0, 1], [False, True], [9, 10]])
def test_classes_that_are_numbers_are_in_their_order(files: Path, values: list[Any]) -> None:
    _change("visits.csv", lambda table: table.assign(back=np.resize(values, 400)))
    assert _table().load().labels == tuple(map(str, values))


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
    infrequent = "infrequent_if_exist"
    theirs = OneHotEncoder(max_categories=8, handle_unknown=infrequent, sparse_output=False)
    theirs.fit(public)
    ours = fit_encoder(public, {}, 8)
    assert len(ours.features) == 8 and ours.features[-1] == "code=other"
    for rows in (public, private):
        encoded = ours.encode(rows)
        assert encoded[:, -1].sum() == theirs.transform(rows)[:, -1].sum()
        assert (encoded.sum(axis=1) == 1).all()


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
    encoder = _table(columns={"age": "category"}, drop=["smoker"], categories=5).load().encoder
    names = [name.partition("=")[0] for name in encoder.features]
    assert names.count("age") == 5 and "smoker" not in names
    assert encoder.unused == {"country": "one value only"}
    _change("new.csv", lambda table: table.assign(admitted=["31.12.2024", *["03.02.2024"] * 119]))
    _change("visits.csv", lambda table: table.assign(admitted="1.2.2024"))
    encoder = _table(columns={"admitted": "%d.%m.%Y"}).load().encoder
    assert "admitted month" in encoder.features


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
    text = pd.DataFrame(
        {
            "when": ["2024-01-01", "2024-02-03 10:00:00", "", "9999-12-31"],
            "zoned": zoned,
            "sure": ["true", " ", "FALSE", "True"],
            "code": ["1", "2", None, "1.0"],
        }
    )
    encoder = fit_encoder(typed, {"code": "category"}, 32)
    assert [column.kind for column in encoder.columns] == ["date", "date", "category", "category"]
    np.testing.assert_array_equal(encoder.encode(typed), encoder.encode(text))
    for row in range(4):  # whatever else is in the table
        np.testing.assert_array_equal(
            encoder.encode(typed)[row], encoder.encode(typed[row : row + 1])[0]
        )


def _every_type(rows: int, odd: bool) -> pd.DataFrame:
    """Columns of every type that a file may have.

    odd  whether the first rows have values that pandas reads in another way in company
    """
    rng = np.random.default_rng(rows)
    small = rng.integers(0, 300, rows)
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(small, unit="D")
    moment = day + pd.to_timedelta(2037.5 * np.arange(rows), unit="s")
    real = rng.normal(size=rows)
    columns: dict[str, tuple[list[Any], list[Any]]] = {
        "iso": (
            [*day.strftime("%Y-%m-%d")],
            ["2021-01-01T00:00:00.000000001", "9999-12-31", "today"],
        ),
        "format": ([*day.strftime("%d/%m/%Y")], ["31/12/9999 0:00", "1/2/2020 10:00:00.123456789"]),
        "time": ([*moment.strftime("%H.%M.%S")], ["24.00.00", "2 days 07:30:00", ""]),
        "money": (
            [f"{n / 8:.2f} €".replace(".", ",") for n in small],
            ["(1.234,50) €", "\u22125€"],
        ),
        "plain": ([f"{n:.4f}" for n in real], ["18446744073709551616", "9007199254740993", "-0.0"]),
        "ward": ([f"w{n % 5}" for n in small], [" ", "1.0", "TRUE", "-0"]),
        "moment": ([*moment], [pd.Timestamp("2020-05-05 06:30"), None]),
        "zoned": ([*day.tz_localize("Europe/Zurich")], [None]),
        "stay": ([*pd.to_timedelta(small % 6, unit="D")], [pd.Timedelta("2 days 7h"), None]),
        "large": ([*rng.integers(2**53, 2**60, rows).tolist()], [2**53 + 1, -5]),
        "real": ([*real], [-0.0, 0.0, 1.0, math.nan, 1e300]),
        "flag": ([*(real > 0).tolist()], [None]),
        "exact": ([Decimal(n) / 100 for n in small.tolist()], [None, Decimal("1.00")]),
    }
    for values, others in columns.values():
        if odd:
            values[: len(others)] = others
    table = pd.DataFrame({name: values for name, (values, _) in columns.items()})
    return table.assign(coded=table.ward.astype("category"))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_every_row_is_encoded_and_named_alike_alone_and_in_company(
    tmp_path: Path, ending: str
) -> None:
    def file(table: pd.DataFrame) -> str:
        path = str(tmp_path / f"table.{ending}")
        table.to_csv(path, index=False) if ending == "csv" else table.to_parquet(path)
        return path

    def rows(path: str, chunk: int) -> list[tuple[Any, ...]]:
        made = []
        for part in read_table(path, chunk):
            encoded = [encoder.encode(part) for encoder in encoders]
            names = [texts(part[name]) for name in part]
            made += [
                tuple(x[row].tobytes() for x in encoded) + tuple(n[row] for n in names)
                for row in range(len(part))
            ]
        return made

    public = next(read_table(file(_every_type(90, odd=False)), 90))
    kinds = {
        "iso": "date",
        "format": "%d/%m/%Y",
        "large": "number",
        "stay": "time",
        "time": "time",
        "money": "comma",
        "plain": "number",
        "exact": "number",
        "moment": "date",
    }
    encoders = [
        fit_encoder(public, kinds, 8),
        fit_encoder(public, dict.fromkeys(public, "category"), 8),
    ]
    private = _every_type(10, odd=True)
    path = file(private)
    company = rows(path, 10)
    assert rows(path, 1) == company
    order = np.random.default_rng(0).permutation(10)
    assert rows(file(private.iloc[order]), 7) == [company[row] for row in order]


#: How the numbers -1234.5 and 999.25 are written, and the format that follows.
WRITTEN = {
    "-1234.50 999.25": None,
    "-1,234.50 999.25": "1,234.5",
    "-1.234,50 999,25": "1.234,5",
    "−1234,5 999,25": "1.234,5",
    "-1'234.50 999.25": "1,234.5",
    "-1’234,50 999,25": "1.234,5",
    "-1\u00a0234,50 999,25": "1.234,5",
    "-1\u202f234.50 999.25": "1,234.5",
    "1.234,50- 999,25": "1.234,5",
    "(1,234.50) 999.25": "1,234.5",
    "-$1,234.50 $999.25": "$1,234.5",
    "$(1,234.50) $999.25": "$1,234.5",
    "-1.234,50€ 999,25€": "1.234,5€",
    "CHF-1'234.50 CHF999.25": "CHF1,234.5",
    "-1234,5% +999,25%": "1.234,5%",
    "-1234.5kg 999.25kg": "1,234.5kg",
    "-Rs.1,234.50/- Rs.999.25": "Rs.1,234.5",
    "-1,2345E+03 9,9925E+02": "1.234,5",
    "−1 234.5 999.25": None,
}


@pytest.mark.parametrize("cells", WRITTEN)
def test_numbers_are_read_as_people_write_them(cells: str) -> None:
    low, high = cells.rsplit(" ", 1)
    public = pd.DataFrame({"pay": [low, high] * 30})
    encoder = fit_encoder(public, {}, 32)
    (column,) = encoder.columns
    assert column.kind == "number" and (" " in low or column.format == WRITTEN[cells])
    np.testing.assert_allclose(column.mean, (-1234.5 + 999.25) / 2)
    np.testing.assert_array_equal(encoder.encode(public)[:2], [[-1], [1]])
    assert not [*doubts(public, encoder, grouped=False)]


@pytest.mark.parametrize(
    "format",
    [
        "%d/%m/%Y",
        "%m/%d/%Y %H:%M",
        "%d.%m.%y",
        "%Y/%m/%d",
        "%d-%b-%Y",
        "%d %B %Y",
        "%b %d, %Y",
        "%Y%m%d",
        "%d%b%Y",
        "%m/%d/%Y %I:%M %p",
        "%d. %m. %Y",
        "%Y-%m-%dT%H:%M:%S",
    ],
)
def test_dates_of_all_usual_orders_are_read(format: str) -> None:
    days = pd.date_range("2023-01-05 13:45", periods=400)
    public = pd.DataFrame({"day": days.strftime(format)})
    encoder = fit_encoder(public, {}, 32)
    iso = fit_encoder(
        pd.DataFrame({"day": pd.to_datetime(days.strftime(format), format=format)}), {}, 32
    )
    assert not encoder.unused and encoder.columns[0].mean == iso.columns[0].mean
    assert not [*doubts(public, encoder, grouped=False)]


@pytest.mark.parametrize(
    "cells",
    [
        ["18.00.00", "06.30.00"],
        ["18:00", "6:30"],
        ["6:00 pm", "6:30 AM"],
        ["18:00 Uhr", "6.30 Uhr"],
        ["0 days 18:00:00", "06:30:00"],
        ["18h00", "6h30"],
        [*pd.to_timedelta(["18h", "390min"])],
    ],
)
def test_times_and_durations_are_hours(cells: list[Any]) -> None:
    (column,) = fit_encoder(pd.DataFrame({"time": cells * 20}), {}, 32).columns
    assert (column.kind, column.format, column.mean[0]) == ("number", "time", 12.25)


def _kinds_typed(line: str) -> list[dict[str, Any]]:
    """Return the kinds of columns by each override that a line says one may type."""
    kinds = []
    for word in re.findall(r"'dataset\.columns=.*?\]'(?= |;|\Z)", line):
        (override,) = OverridesParser.create().parse_overrides(shlex.split(word))
        kinds.append(Table(private="a", public="b", label="c", columns=override.value()).kinds)
    return kinds


@pytest.mark.parametrize(
    ("cells", "kinds", "count"),
    [
        (["1.167", "987", "1.500"], ["number", "comma"], 40),
        (["1,167", "987", "1,500"], ["number", "comma"], 40),
        (["01/02/2024", "03/03/2024", "05/12/2024"], ["%d/%m/%Y", "%m/%d/%Y"], 40),
        (["24-12-05", "23-11-30", "24-01-01"], ["%d-%m-%y", "%y-%m-%d"], 60),
    ],
)
def test_what_can_be_read_in_two_ways_is_not_used_and_said(
    cells: list[str], kinds: list[str], count: int
) -> None:
    public = pd.DataFrame({"CO(GT)": cells * 20, "age": np.arange(60) / 2})
    encoder = fit_encoder(public, {}, 32)
    (line,) = doubts(public, encoder, grouped=False)
    assert "CO(GT)" in encoder.unused and f"{count} of 60" in line
    typed = _kinds_typed(line)
    assert typed == [{"CO(GT)": kind} for kind in kinds]
    for given in typed:
        assert not fit_encoder(public, given, 32).unused


def test_numbers_are_no_identifiers_and_advice_loses_no_value() -> None:
    number = np.random.default_rng(0).integers(100, 90_000, 600)
    comma = np.array([f"{value / 7:.2f}".replace(".", ",") for value in number], object)
    every_fiftieth = np.arange(600) % 50 == 0
    public = pd.DataFrame(
        {
            "comma": comma,
            "swiss": [f"{value}.-" for value in number],
            "words": np.where(every_fiftieth, "unknown", comma),
            "mixed": np.where(np.arange(600) % 3 == 0, comma, (number / 7).round(2).astype(str)),
            "limits": np.where(every_fiftieth, "<" + comma, comma),
        }
    )
    encoder = fit_encoder(public, {}, 32)
    assert [column.name for column in encoder.columns] == ["comma", "swiss"]
    words, mixed, limits = doubts(public, encoder, grouped=False)
    assert "12 of 600" in words and _kinds_typed(words) == [{"words": "comma"}]
    assert "200 of 600" in mixed and _kinds_typed(mixed) == [{"mixed": "category"}]
    assert "12 of 600" in limits and _kinds_typed(limits) == [{"limits": "category"}]
    for private in ("1234.50", "12/31/2024", "now"):  # not as the public file writes numbers
        with pytest.raises(ColumnError, match="1 of 600 values are no numbers such as"):
            encoder.encode(public.assign(comma=[private, *comma[1:]]))


@pytest.mark.parametrize(
    "cells",
    [
        ["$ -", "$ 1,234.50"],
        ["-  €", "1.234,50 €"],
        ["EUR -", "EUR 1,234.50"],
        [" $-   ", "$ 1,234.50"],
    ],
)
def test_an_accountants_dash_is_zero(cells: list[str]) -> None:
    (column,) = fit_encoder(pd.DataFrame({"pay": cells * 20}), {}, 32).columns
    assert (column.kind, column.mean[0]) == ("number", 617.25)


def test_an_error_of_excel_may_be_missing() -> None:
    public = pd.DataFrame({"pay": ["#DIV/0!", *map(str, np.arange(40) / 4)]})
    (line,) = doubts(public, fit_encoder(public, {}, 32), grouped=False)
    assert "1 of 41" in line and _kinds_typed(line) == [{"pay": "number"}]


@pytest.mark.parametrize("last", [199, 207])
def test_one_private_id_does_not_decide_who_is_dropped(tmp_path: Path, last: int) -> None:
    private = str(tmp_path / "private.csv")
    public = str(tmp_path / "public.csv")
    x = np.random.default_rng(0).normal(size=200)
    pd.DataFrame({"id": np.arange(100, 180), "x": x[:80]}).to_csv(public, index=False)
    records = pd.DataFrame({"id": [*range(199), last], "x": x, "y": np.where(x > 0, 1, 0)})
    records.to_csv(private, index=False)
    table = Table(private=private, public=public, label="y", id="id", overlap="drop")
    assert len(table.load().private) == 120


#: Columns of 5,000 rows by a function of a generator, and whether they look like identifiers.
COLUMNS: dict[str, tuple[Callable[[np.random.Generator], Any], bool]] = {
    "patients": (lambda rng: [f"P{number}" for number in rng.integers(0, 3000, 5000)], True),
    "numbers of patients": (lambda rng: rng.integers(0, 5000, 5000), True),
    "scattered numbers": (
        lambda rng: rng.integers(10**6, 10**8, 1200)[rng.integers(0, 1200, 5000)],
        True,
    ),
    "numbers given in turn": (lambda rng: rng.integers(7_000_000, 7_003_000, 5000), True),
    "notes": (lambda rng: [f"note {number}" for number in rng.integers(0, 10**9, 5000)], True),
    "phones in groups": (
        lambda rng: [f"6{n // 1000:02d} {n % 1000:03d} 252" for n in range(5000)],
        True,
    ),
    "postcodes with 0": (
        lambda rng: [f"{number:05d}" for number in rng.integers(0, 10**5, 5000)],
        True,
    ),
    "pay": (lambda rng: [f"{number} €" for number in rng.integers(10**5, 10**6, 5000)], False),
    "ages": (lambda rng: rng.integers(18, 95, 5000), False),
    "laboratory": (lambda rng: rng.lognormal(5, 1, 5000).round(), False),
    "exact values": (lambda rng: rng.normal(size=5000), False),
    "codes": (lambda rng: [f"D{number % 700}" for number in rng.zipf(1.5, 5000)], False),
    "dates": (lambda rng: pd.date_range("2020-01-01", periods=5000).astype(str), False),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_identifiers_are_no_features_unless_the_user_says_so(name: str) -> None:
    make, identifies = COLUMNS[name]
    public = pd.DataFrame({"column": make(np.random.default_rng(0)), "age": np.arange(5000) % 70})
    encoder = fit_encoder(public, {}, 32)
    assert ("column" in encoder.unused) == identifies
    told = [*doubts(public, encoder, grouped=False)]
    assert len(told) == identifies and all("dataset.group" in line for line in told)
    assert not [*doubts(public, encoder, grouped=True)]
    assert not fit_encoder(public, {"column": "category"}, 32).unused


@pytest.mark.parametrize(
    "name", ["age", "patient nbr", "Größe", "a, b", "CO(GT)", 'say "x": y', "it's"]
)
def test_what_is_said_of_a_column_can_be_typed(name: str) -> None:
    public = pd.DataFrame({name: ["four", *map(str, [*range(9)] * 11)]})
    (line,) = doubts(public, fit_encoder(public, {}, 32), grouped=False)
    assert _kinds_typed(line) == [{name: "number"}]


def test_a_column_that_is_nearly_numbers_is_said_and_can_be_numbers(files: Path) -> None:
    new = pd.read_csv("new.csv", dtype=str)
    new.assign(age=new.age.mask(new.index == 7)).to_csv("empty.csv", index=False)
    new.assign(age=new.age.mask(new.index == 7, "four")).to_csv("new.csv", index=False)
    assert any("age" in line and "1 of 120" in line for line in _table().load().warnings)
    given = _table(columns={"age": "number"}).load()
    empty = _table(public="empty.csv").load()
    assert given.warnings == empty.warnings == ()
    np.testing.assert_array_equal(given.public.x, empty.public.x)
    np.testing.assert_array_equal(given.private.x, empty.private.x)
    _change("visits.csv", lambda table: table.assign(age="old"))
    with pytest.raises(InputError, match="400 of 400"):
        _table(columns={"age": "number"}).load()


@pytest.mark.parametrize("by", ["group", "id"])
def test_people_on_both_sides_are_refused_dropped_or_allowed(files: Path, by: str) -> None:
    settings: dict[str, Any] = {"group": None, "id": None, "test": "test.csv"} | {by: "person"}
    every = _table(**settings).load()
    records = pd.read_csv("visits.csv")
    shared = records.person.unique()[:10]
    _change("new.csv", lambda table: table.assign(person=[*shared[:9], *table.person[9:]]))
    _change("test.csv", lambda table: table.assign(person=[*shared[1:], *table.person[9:]]))
    with pytest.raises(InputError, match=r"^overlap=refuse.* 9 are in public rows"):
        _table(**settings).check()
    allowed = _table(**settings, overlap="allow").load()
    dropped = _table(**settings, overlap="drop").load()
    np.testing.assert_array_equal(allowed.private.x, every.private.x)
    assert dropped.units < allowed.units
    records[~records.person.isin(shared)].to_csv("visits.csv", index=False)
    assert dropped.digest == _table(**settings).load().digest


def test_names_that_count_rows_name_no_people(files: Path) -> None:
    """The names V0, V1, … of `visit` are in all files; those of a few of these rows are names."""
    assert len(_table(group=None).load().private) == 400
    _change("new.csv", lambda table: table[5:50])
    _change("visits.csv", lambda table: table[3:])
    with pytest.raises(InputError, match=r"^overlap=.*45 are in public rows"):
        _table(group=None).check()


def test_what_a_quick_look_finds_is_said_before_anything_large_is_imported(files: Path) -> None:
    script = """
import sys, nzc
for wrong in ("queries=121", "dataset.group=Perso"):
    try:
        nzc.run([*sys.argv[1:], wrong])
    except nzc.InputError as error:
        print(error)
print(*{"torch", "sklearn", "lightning"} & set(sys.modules))
"""
    command = [sys.executable, "-c", script, *RECIPE, *FILES, "tracking=none"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    queries, group, imported = ran.stdout.splitlines()
    assert queries.startswith("queries=121") and "from 1 to 120" in queries
    assert group.startswith("dataset.group=Perso") and "did you mean person?" in group
    assert imported == ""


def _change(name: str, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    change(pd.read_csv(name)).to_csv(name, index=False)


def _written(content: str | bytes, name: str = "visits.csv") -> Callable[[], object]:
    content = content.encode() if isinstance(content, str) else content
    return lambda: Path(name).write_bytes(content)


@pytest.mark.parametrize(
    ("key", "spoil", "settings"),
    [
        ("private", lambda: _change("new.csv", lambda table: table.drop(columns="age")), {}),
        ("private", lambda: _change("visits.csv", lambda table: table.drop(columns="age")), {}),
        ("private", lambda: _change("visits.csv", lambda table: table.assign(age="old")), {}),
        ("label", lambda: _change("visits.csv", lambda table: table.assign(back=range(400))), {}),
        (
            "private",
            lambda: _change("visits.csv", lambda table: table.mask(table.visit == "V7")),
            {},
        ),
        ("public", lambda: _change("new.csv", lambda table: table[:0]), {}),
        ("public", lambda: _change("new.csv", lambda table: table.assign(back="maybe")), {}),
        ("public", lambda: _change("new.csv", lambda table: table.assign(back="NA")), {}),
        (
            "test",
            lambda: _change("test.csv", lambda table: table.drop(columns="back")),
            {"test": "test.csv"},
        ),
        ("private", _written("back,b\n1,secret,3\n"), {}),
        ("private", _written(b"back,b\n\xff,1\n"), {}),
        ("private", _written(b"PK\3\4secret"), {}),
        ("private", _written(b"back,b\n\x81,1\n"), {"encoding": "cp1252"}),
        ("private", _written("# nothing\n\n"), {}),
        (
            "encoding",
            lambda: _change("new.csv", lambda table: table.replace("ER", "Köln")),
            {"encoding": "cp1252"},
        ),
        ("dataset.encoding", str, {"encoding": "cp125"}),
        ("dataset.encoding", str, {"encoding": "base64"}),
        ("private", lambda: _rewrite("Visits of ward 3\n{}".format), {}),
        ("public", lambda: _rewrite("All, visits, of, ward, 3\n{}".format, names=("new.csv",)), {}),
        ("label", str, {"skip": 3}),
        ("private", lambda: _rewrite(age="ward "), {}),
        ("public", Path("new.csv").unlink, {}),
        ("label", str, {"label": "wrong"}),
        ("drop", str, {"drop": ["wrong"]}),
        ("dataset.columns.age", str, {"columns": {"age": "wrong"}}),
        ("private", _written("age", "visits.xls"), {"private": "visits.xls"}),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    files: Path, key: str, spoil: Callable[[], object], settings: dict[str, Any]
) -> None:
    spoil()
    with pytest.raises(InputError) as wrong:
        _table(**settings).load()
    assert wrong.value.key == key
    assert "\n" not in str(wrong.value) and "secret" not in str(wrong.value)


def test_from_files_to_a_published_student_that_runs_without_nzc(
    nzc: Nzc, files: Path, command: Command
) -> None:
    ran = nzc(
        *RECIPE,
        *FILES,
        "dataset.id=visit",
        "dataset.columns={smoker: category}",
        "dataset.group=person",
        "dataset.test=test.csv",
        "dataset.classes=[no,yes]",
        "rng=system",
        "budget.epsilon=null",
        "student.balance=0.5",
    )
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
    raw.loc[0, "age"] = np.nan
    raw.loc[1, "ward"] = "never seen"
    raw.to_csv("raw.csv", index=False)
    printed = command("predict", "public", "raw.csv")[1]
    script = (
        "import runpy, sys; sys.modules['nzc'] = None; sys.argv = ['predict.py', 'raw.csv']; "
        "sys.path.insert(0, 'public'); runpy.run_path('public/predict.py', run_name='__main__')"
    )
    alone = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert alone.stdout == printed
    served = Served("public")
    assert served.predict([{"age": 81, "visit": "V1"}]).label.isin(["no", "yes"]).all()
    for wrong in ({"age": 81, "wrad": "ICU"}, {"age": "old"}):
        with pytest.raises(MlflowException, match=r"wrad|column age") as refused:
            served.predict([wrong])
        assert refused.value.get_http_status_code() == 400
    answers = pd.read_csv(io.StringIO(printed))
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
        (
            Forest(trees=20, leaf=2, balance=0, folds=1, spread=0),
            RandomForestClassifier(20, min_samples_leaf=2, random_state=0),
        ),
        (
            Linear(strength=10, balance=0, folds=1, spread=0),
            LogisticRegression(C=0.1, max_iter=1000),
        ),
    ],
    ids=["forest", "linear"],
)
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
