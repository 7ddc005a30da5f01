"""dataset=table: any kind of file gives the same rows, features are those of scikit-learn, errors
are one line.
"""

import io
import json
import re
import runpy
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import Command, RunNzc, hydra_value, parametrize
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import CaptureFixture, MonkeyPatch, TempPathFactory, approx, raises
from sklearn.compose import make_column_transformer
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from nzc.app.publish import publish_run as publish
from nzc.data import UNKNOWN, DataSplits
from nzc.data.splits import SPLITS
from nzc.data.table import Table
from nzc.data.table_encoder import ColumnError, TableEncoder
from nzc.data.table_fit import doubts, fit_encoder
from nzc.students.exported import _records as _records_of
from nzc.validation import InputError

FILES_OF_SPLITS = ("visits.csv", "new.csv", "test.csv")


def _records(rows: int, seed: int) -> pd.DataFrame:
    """Records with every kind of column; `back` follows from age and ward."""
    rng = default_rng(seed)
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


def _write(folder: Path) -> None:
    _records(400, 0).to_csv(folder / "visits.csv", index=False)
    _records(120, 1).drop(columns="back").to_csv(folder / "new.csv", index=False)
    _records(100, 2).to_csv(folder / "test.csv", index=False)


@pytest.fixture
def files(here: Path) -> Path:
    _write(here)
    return here


def _table(**changes: Any) -> Table:
    given = {
        "private": "visits.csv",
        "public": "new.csv",
        "label": "back",
        "group": "person",
        "id": "visit",
    }
    return Table(**given | changes)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: TempPathFactory) -> DataSplits:
    """The rows of `files` as they were written."""
    folder = tmp_path_factory.mktemp("plain")
    _write(folder)
    names = zip(("private", "public", "test"), FILES_OF_SPLITS, strict=True)
    return _table(**{split: str(folder / name) for split, name in names}).load()


def test_every_kind_of_file_gives_the_same_rows(
    files: Path, plain: DataSplits, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr("nzc.data.table.CHUNK", 37)
    pd.read_csv("visits.csv").to_feather("visits.feather")
    pd.read_csv("new.csv").to_parquet("new.parquet", row_group_size=70)
    pd.read_csv("test.csv").to_csv("test.tsv.gz", sep="\t", index=False)
    for private, public in (("visits.feather", "new.parquet"), ("visits.csv", "new.csv")):
        read = _table(private=private, public=public, test="test.tsv.gz").load()
        assert read.digest == plain.digest  # of rows, classes and groups


def _rewrite(
    change: Callable[[str], str] = str,
    encoding: str = "utf-8",
    age: str = "age",
    **form: Any,
) -> None:
    """Write the three files anew as another program would."""
    for name in FILES_OF_SPLITS:
        table = pd.read_csv(name, dtype=str, keep_default_na=False)
        text = table.rename(columns={"age": age}).to_csv(index=False, **form)
        Path(name).write_bytes(change(text).encode(encoding))


def _ended(by: str) -> Callable[[str], str]:
    """Return what puts separators at the end of each row."""
    return lambda text: "".join(f"{row}{by}\n" for row in text.splitlines())


def _below(*rows: str) -> Callable[[str], str]:
    """Return what puts rows below the header; they have the cells of the public file."""
    return lambda text: text.replace("\n", "\n" + "".join(f"{row}\n" for row in rows), 1)


def _joined(text: str) -> str:
    """Return the file that one gets by joining two, each with its header."""
    header, *rows = text.splitlines(keepends=True)
    return "".join([header, *rows[:30], header, *rows[30:], header])


#: A cell with line breaks, and separators as sentences have them.
LETTER = '"Dear Sir,\nshe, aged 40, said: ""no"";\r\n""never"";\n12"" of it, a,b,c,d;e;f,\n"'
#: How programs write a table, and the settings that it needs.
FORMS = {
    "Excel": ({"sep": ";", "change": "sep=;\r\n{}".format, "lineterminator": "\r\n"}, {}),
    "empty lines": ({"sep": ";", "change": "\n  \n;;;;\n{}".format}, {}),
    "comments": ({"sep": ";", "change": '# made 2024-01-01, 5" of, rain\n#\n{}'.format}, {}),
    "a title": ({"change": "Visits, of, all, wards, in, four, years\n\n{}".format}, {"skip": 1}),
    "a line break": ({"sep": ";", "age": "age\r\nin years; or\n\n months"}, {}),
    "separators at the end": ({"sep": ";", "change": _ended(";;;")}, {}),
    "Windows": ({"encoding": "cp1252"}, {"encoding": "cp1252"}),
    "letters": ({"change": lambda text: text.replace("Köln", LETTER)}, {}),
    "letters;": ({"sep": ";", "change": lambda text: text.replace("Köln", LETTER)}, {}),
    "UTF-16": ({"encoding": "utf-16", "sep": "\t"}, {}),
    "joined": ({"change": _joined}, {}),
    "questions": (
        {
            "change": _below(
                'Visit,How old?,,"Ward\nor unit",When?,,', ",ImportId 1,,W,ImportId 2,,"
            )
        },
        {"drop_rows": ["When?", "ImportId 1"]},
    ),
    "units": ({"change": _below("-,years ,,ER,YYYY-MM-DD,,")}, {"drop_rows": ["years"]}),
    "a total": ({"change": "{}Total,5000,,,,,\n".format}, {"drop_rows": ["Total"]}),
}


@parametrize("form", FORMS)
def test_the_same_table_as_another_program_writes_it(
    files: Path, plain: DataSplits, form: str
) -> None:
    written, settings = FORMS[form]
    _rewrite(lambda text: text.replace("surgery", "Köln").replace("ER", "Bern"))
    _rewrite(**written)
    if "drop_rows" in settings:
        with raises(InputError) as wrong:
            _table().describe()
        (typed,) = re.findall("type ('.*') to", str(wrong.value))
        assert hydra_value(typed) == settings["drop_rows"]
    read = _table(test="test.csv", **settings).load()
    assert read.digest == plain.digest
    assert list(read.ids) == list(plain.ids)
    name = " ".join(str(written.get("age", "age")).split())
    assert {column.name for column in read.encoder.columns} == {name, "ward", "admitted", "smoker"}


@parametrize("encoding", ["cp1252", "utf-16"])
def test_a_student_reads_files_as_those_of_its_run(tmp_path: Path, encoding: str) -> None:
    public = pd.DataFrame({"who": ["NA", "b"] * 20, "ward": ["Köln", "Bern"] * 20})
    fitted = fit_encoder(public[["ward"]], {}, 32)
    encoder = TableEncoder.from_dict(fitted.as_dict() | {"encoding": "cp1252", "skip": 1})
    file = tmp_path / "new.csv"
    file.write_bytes(f"Neue Fälle\n{public.to_csv(index=False, sep=';')}".encode(encoding))
    (read,) = _records_of(file, encoder, "who")
    assert read.to_dict("list") == public.to_dict("list")


def test_columns_are_read_from_json_of_0_2_0() -> None:
    """That version wrote the fields of all kinds for each column."""
    public = _records(60, 0)[["age", "ward", "admitted"]].assign(note=_notes(60, 0))
    encoder = fit_encoder(public, {"note": "text"}, 32, [])
    assert {column.kind for column in encoder.columns} == {"number", "category", "date", "text"}
    fields = "format parts mean spread values weights other missing given"
    record = json.loads(json.dumps(encoder.as_dict()))
    record["columns"] = [dict.fromkeys(fields.split()) | column for column in record["columns"]]
    assert TableEncoder.from_dict(record) == encoder


@parametrize("second", ['"{}', '{}"'])
@parametrize(("key", "name"), [*zip(SPLITS, FILES_OF_SPLITS, strict=True)])
def test_a_quotation_mark_takes_no_other_rows(
    files: Path, plain: DataSplits, key: str, name: str, second: str
) -> None:
    lines = Path(name).read_text().splitlines()
    lines[11] = f'"{lines[11]}'
    visit, rest = lines[60].split(",", 1)
    lines[60] = f"{second.format(visit)},{rest}"
    Path(name).write_text("\n".join(lines))
    with raises(InputError, match=f"^{key}=.* line 12 .*dataset.quoting=none"):
        _table(test="test.csv").load()
    assert _table(test="test.csv", quoting="none").load().digest == plain.digest


def test_private_values_that_are_no_numbers_count_as_missing(files: Path) -> None:
    digests = []
    for value in ("about 3", None):
        for name in ("visits.csv", "test.csv"):
            _change(name, lambda table, value=value: table.assign(age=value, admitted=value))
        digests.append(_table(test="test.csv").load().digest)
    assert digests[0] == digests[1]
    _change("new.csv", lambda table: table.assign(age=["about 3", "?", *table.age[2:]]))
    (line,) = _table(columns={"age": "number"}).load().warnings
    assert "column age: 2 of 120 values are no numbers" in line


def test_a_class_group_or_id_may_be_called_na(files: Path, plain: DataSplits) -> None:
    def renamed(table: pd.DataFrame) -> pd.DataFrame:
        table = table.replace({"no": "None"}).astype({"person": str})
        return table.assign(person=["None", *table.person[1:]], visit=["None", *table.visit[1:]])

    for file in FILES_OF_SPLITS:
        _change(file, renamed)
    read = _table(test="test.csv", overlap="allow").load()
    assert read.labels == ("None", "yes") and read.ids[0] == "None"
    assert replace(read, units=plain.units).digest == plain.digest
    _change("visits.csv", lambda table: table.assign(back=[None, *table.back[1:].fillna("None")]))
    with raises(InputError, match=r"^private=.*1 have none"):
        _table(overlap="allow", classes=["yes", "None"]).load()


def test_labels_and_groups_are_those_of_the_file(files: Path, plain: DataSplits) -> None:
    records = pd.read_csv("visits.csv")
    assert plain.labels == ("no", "yes")
    assert_array_equal(plain.private.y, records.back == "yes")
    assert pd.crosstab(plain.units.groups, records.person).gt(0).sum().eq(1).all()
    assert (plain.public.y == UNKNOWN).all()
    assert list(plain.ids) == [f"V{row}" for row in range(120)]
    assert _table(classes=["yes", "no"]).load().labels == ("yes", "no")
    _change("visits.csv", lambda table: table.assign(back=np.resize([9, 10], 400)))
    assert _table().load().labels == ("9", "10")  # numbers are in their order


def test_features_are_those_of_scikit_learn() -> None:
    public = _records(300, 3)[["age", "ward", "smoker"]]
    private = _records(200, 4)[["age", "ward", "smoker"]]
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


WORDS = ["Fever", "since", "the", "Übelkeit,", "day", "went", "home", "a", "pain", "(left)", "knee"]


def _notes(rows: int, seed: int) -> list[str]:
    """Texts of 5 to 20 words, with a number."""
    rng = default_rng(seed)
    lengths = rng.integers(4, 20, rows).tolist()
    return [" ".join([*rng.choice(WORDS, length), f"{seed}\t{length}"]) for length in lengths]


def test_free_text_is_that_of_scikit_learn() -> None:
    tf_idf = TfidfVectorizer(
        analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True, min_df=2, max_features=10_000
    )
    for rows, axes in ((400, 64), (60, 12)):
        public = pd.DataFrame({"note": _notes(rows, 0)})
        svd = TruncatedSVD(axes, random_state=0).fit(tf_idf.fit_transform(public.note))
        record = json.dumps(fit_encoder(public, {"note": "text"}, 32).as_dict())
        encoder = TableEncoder.from_dict(json.loads(record))
        assert encoder.features == [f"note text {axis + 1}" for axis in range(axes)]
        (column,) = encoder.columns
        texts = pd.Series([*_notes(50, 1), "PAIN  pain", "x", "東京"])
        raw = encoder.encode(pd.DataFrame({"note": texts})) * np.array(column.spread) + column.mean
        assert_allclose(raw, svd.transform(tf_idf.transform(texts)), atol=1e-5)
        assert encoder.encode(public).var(axis=0).sum() == approx(8, rel=1e-5)


def test_missing_text_is_zero_and_said() -> None:
    public = pd.DataFrame({"note": [*_notes(100, 0), None, " "]})
    encoder = fit_encoder(public, {}, 32)
    assert encoder.features[-1] == "note missing"
    expected = np.zeros((2, len(encoder.features)))
    expected[:, -1] = 1
    assert_array_equal(encoder.encode(public[-2:]), expected)
    for useless in ([None] * 9, ["the same words"] * 9, ["one", "two", "six"]):
        assert fit_encoder(pd.DataFrame({"note": useless}), {"note": "text"}, 32).unused


def _word(number: int) -> str:
    return "".join(chr(97 + int(digit)) for digit in f"{number:04d}").title()


def _cells(template: str, rows: int) -> list[str]:
    """Cells by row and by a number of a person below 3,000."""
    cells = []
    for row, person in enumerate(default_rng(0).integers(0, 3000, rows).tolist()):
        words = {"word": _word(row), "name": _word(person), "few": " ".join(WORDS[row % 6 :])}
        numbers = {"row": row, "person": person, "age": 18 + person % 77, "digit": 1 + row % 9}
        cells.append(template.format(**words, **numbers))
    return cells


@parametrize(
    ("words", "joint", "is_text"),
    [
        ("今天 我们 医院 护士 早上 晚上 病人 医生 房间 满意 失望", "", True),
        ("先生 は とても 親切 でした 待ち 時間 が 長い 痛み ました", "", True),
        ("หมอ ใจดี พยาบาล รอ นาน มาก ห้อง สะอาด ปวด หัว กลับบ้าน", "", True),
        ("ໝໍ ໃຈດີ ພະຍາບານ ລໍຖ້າ ດົນ ຫ້ອງ ສະອາດ ເຈັບ ຫົວ ກັບບ້ານ", "", True),
        ("គ្រូពេទ្យ ល្អ ណាស់ រង់ចាំ យូរ បន្ទប់ ស្អាត ឈឺ ក្បាល", "", True),
        ("ဆရာဝန် ကောင်း တယ် စောင့် ကြာ အခန်း သန့်ရှင်း ခေါင်း", "", True),
        ("我们用 Python 写了 code 然后 deploy 到了 server 今天 非常 快速", "", True),
        ("의사가 친절하고 병원이 깨끗하다 오래 기다렸다 환자", " ", True),
        ("डॉक्टर अच्छे अस्पताल साफ इंतजार मरीज दर्द घर", " ", True),
        ("Fever since the Übelkeit, day went home 12 pain (left)", " ", True),
        ("王 李 张 刘 陈 小 明 丽 强 芳 国 华 建 军 秀 英", "", False),
        ("สม ชาย ใจ ดี กัญ ญา รัตน์ ศรี", "", False),
    ],
)
def test_text_is_found_in_every_script(words: str, joint: str, is_text: bool) -> None:
    chosen = default_rng(0).choice(words.split(), (500, 7 if is_text else 3))
    public = pd.DataFrame(
        {"column": [joint.join(row) for row in chosen], "age": np.arange(500) % 70}
    )
    kinds = [column.kind for column in fit_encoder(public, {}, 32).columns]
    assert ("text" in kinds) == is_text


RNG = default_rng(0)
RARE = RNG.random(900) < 0.1
#: Columns without a value that is far from the others.
ORDINARY = pd.DataFrame(
    {
        "ages": RNG.integers(18, 90, 900),
        "incomes": RNG.lognormal(7, 1, 900).round(2),
        "labs": RNG.normal(50, 11, 900).round(1),
        "answers": RNG.integers(1, 6, 900),
        "gains": np.where(RARE, RNG.lognormal(7, 1, 900).round(), 0),
        "visits": RNG.negative_binomial(0.3, 0.1, 900),
        "fees": np.where(RARE, RNG.choice([100, 101, 102], 900), 0),
        "mostly coded": np.where(RARE, RNG.integers(0, 28, 900), 999),
    }
)


@parametrize(
    ("name", "code", "count"),
    [
        ("ages", "99999999999", 1),
        ("ages", "-999", 300),
        ("incomes", "-9999", 9),
        ("labs", "-99", 60),
        ("answers", "98", 20),
        ("gains", "9999999", 20),
        *[(name, "", 0) for name in ORDINARY],
    ],
)
def test_far_public_values_do_not_move_the_others_and_are_said(
    name: str, code: str, count: int
) -> None:
    others = ORDINARY[name][count:]
    public = pd.DataFrame({name: [code] * count + others.astype(str).tolist()})
    encoder = fit_encoder(public, {}, 32, ["?"])
    (column,) = encoder.columns
    assert_allclose([*column.mean, *column.spread], [others.mean(), others.std(ddof=0)])
    told = [*doubts(public, encoder, grouped=False)]
    assert len(told) == min(count, 1)
    for line in told:
        assert line.startswith(name) and f"{count} of 900" in line
        assert line.endswith(f"""'dataset.missing=["?", "{code}"]'""")


def test_rare_values_share_a_feature() -> None:
    code = default_rng(0).geometric(0.05, 800).astype(str)
    public = pd.DataFrame({"code": code[:500]})
    infrequent = "infrequent_if_exist"
    theirs = OneHotEncoder(max_categories=8, handle_unknown=infrequent, sparse_output=False)
    theirs.fit(public)
    ours = fit_encoder(public, {"code": "category"}, 8)
    assert len(ours.features) == 8 and ours.features[-1] == "code=other"
    every = pd.DataFrame({"code": code})
    encoded = ours.encode(every)
    assert_array_equal(encoded[:, -1], theirs.transform(every)[:, -1])
    assert (encoded.sum(axis=1) == 1).all()


def test_kinds_of_columns_can_be_given(files: Path) -> None:
    encoder = _table(columns={"age": "category"}, drop=["smoker"], categories=5).load().encoder
    names = [name.partition("=")[0] for name in encoder.features]
    assert names.count("age") == 5 and "smoker" not in names
    assert encoder.unused == {"country": "one value only"}


def test_own_words_for_missing_values_and_decimal_commas(files: Path, plain: DataSplits) -> None:
    for name in FILES_OF_SPLITS:
        table = pd.read_csv(name, dtype=str)
        table.age = table.age.str.replace(".", ",").fillna("?")
        table.to_csv(name, index=False, sep=";")
    splits = _table(test="test.csv", missing=["?"], columns={"age": "comma"}).load()
    assert splits.digest == plain.digest
    assert splits.encoder is not None and "age missing" in splits.encoder.features
    new = pd.read_csv("new.csv", sep=";")
    assert_array_equal(splits.encoder.encode(new), splits.public.x)


#: How the numbers -1234.5 and 999.25 are written, and the format that follows.
WRITTEN = {
    "-1234.50 999.25": None,
    "-1,234.50 999.25": "1,234.5",
    "-1.234,50 999,25": "1.234,5",
    "−1234,5 999,25": "1.234,5",
    "-1’234,50 999,25": "1.234,5",
    "-1\u202f234.50 999.25": "1,234.5",
    "1.234,50- 999,25": "1.234,5",
    "(1,234.50) 999.25": "1,234.5",
    "$(1,234.50) $999.25": "$1,234.5",
    "-1.234,50€ 999,25€": "1.234,5€",
    "-1234.5kg 999.25kg": "1,234.5kg",
    "-Rs.1,234.50/- Rs.999.25": "Rs.1,234.5",
    "-1,2345E+03 9,9925E+02": "1.234,5",
    "−1 234.5 999.25": None,
}


@parametrize("cells", WRITTEN)
def test_numbers_are_read_as_people_write_them(cells: str) -> None:
    low, high = cells.rsplit(" ", 1)
    public = pd.DataFrame({"pay": [low, high] * 30})
    encoder = fit_encoder(public, {}, 32)
    (column,) = encoder.columns
    assert column.kind == "number" and (" " in low or column.format == WRITTEN[cells])
    assert_allclose(column.mean, (-1234.5 + 999.25) / 2)
    assert_array_equal(encoder.encode(public)[:2], [[-1], [1]])
    assert not [*doubts(public, encoder, grouped=False)]


@parametrize(
    "format",
    [
        "%d/%m/%Y",
        "%d.%m.%y",
        "%Y/%m/%d",
        "%d-%b-%Y",
        "%b %d, %Y",
        "%Y%m%d",
        "%m/%d/%Y %I:%M %p",
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


@parametrize(
    "cells",
    [
        ["18.00.00", "06.30.00"],
        ["6:00 pm", "6:30 AM"],
        ["18:00 Uhr", "6.30 Uhr"],
        ["0 days 18:00:00", "06:30:00"],
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
        kinds.append(Table(private="a", public="b", label="c", columns=hydra_value(word)).kinds)
    return kinds


@parametrize(
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


def test_private_numbers_are_read_as_the_public_file_writes_them() -> None:
    """Many different numbers are no identifiers; a few that carry a sign may be limits."""
    number = default_rng(0).integers(100, 90_000, 600)
    comma = np.array([f"{value / 7:.2f}".replace(".", ",") for value in number], object)
    limits = np.where(np.arange(600) % 50 == 0, "<" + comma, comma)
    public = pd.DataFrame({"comma": comma, "limits": limits})
    encoder = fit_encoder(public, {}, 32)
    (column,) = encoder.columns
    assert column.name == "comma"
    (line,) = doubts(public, encoder, grouped=False)
    assert "12 of 600" in line and _kinds_typed(line) == [{"limits": "category"}]
    for private in ("1234.50", "12/31/2024", "now"):
        with raises(ColumnError, match="1 of 600 values are no numbers such as"):
            encoder.encode(public.assign(comma=[private, *comma[1:]]))


def test_an_accountants_dash_is_zero() -> None:
    public = pd.DataFrame({"pay": ["-  €", "1.234,50 €"] * 20})
    (column,) = fit_encoder(public, {}, 32).columns
    assert (column.kind, column.mean[0]) == ("number", 617.25)


@parametrize(
    ("template", "identifies"),
    [
        ("P{person}", True),
        ("700{person:04d}", True),
        ("note {row} of {person}", True),
        ("{row:04d}7", True),
        ("王{word}", True),
        ("Visit of the patient P{person} on day {row}", True),
        ("Dr. {word} {name} {word}", True),
        ("{person} {word} Street, 8{row:04d} Springfield", True),
        ("第三人民医院门诊病人编号{row}号", True),
        ("0f8fad5b-d9cb-469f-a165-{row:012x}", True),
        ("{few}", False),
        ("{age}", False),
        ("{row}.{person}", False),
        ("20{age}-0{digit}-1{digit}", False),
    ],
)
def test_identifiers_are_no_features_unless_the_user_says_so(
    template: str, identifies: bool
) -> None:
    public = pd.DataFrame({"column": _cells(template, 5000), "age": np.arange(5000) % 70})
    encoder = fit_encoder(public, {}, 32)
    assert ("column" in encoder.unused) == identifies
    assert "text" not in [column.kind for column in encoder.columns]
    told = [*doubts(public, encoder, grouped=False)]
    assert len(told) == identifies
    for line in told:
        kinds = [typed["column"] for typed in _kinds_typed(line)]
        assert kinds == ["number", "text"] and "dataset.group" in line
    assert not [*doubts(public, encoder, grouped=True)]
    assert not fit_encoder(public, {"column": "category"}, 32).unused


@parametrize("by", ["group", "id"])
def test_people_on_both_sides_are_refused_dropped_or_allowed(files: Path, by: str) -> None:
    settings = {"group": None, "id": None, "test": "test.csv", by: "person"}
    records = pd.read_csv("visits.csv")
    shared = records.person.unique()[:10]
    _change("new.csv", lambda table: table.assign(person=[*shared[:9], *table.person[9:]]))
    _change("test.csv", lambda table: table.assign(person=[*shared[1:], *table.person[9:]]))
    with raises(InputError, match=r"^overlap=refuse.* 10 are in public rows"):
        _table(**settings).check()
    dropped = _table(**settings, overlap="drop").load()
    records[~records.person.isin(shared)].to_csv("visits.csv", index=False)
    assert dropped.digest == _table(**settings).load().digest


def test_names_that_count_rows_name_no_people(files: Path) -> None:
    """The names V0, V1, … of `visit` are in all files; those of a few of these rows are names."""
    assert len(_table(group=None).load().private) == 400
    _change("new.csv", lambda table: table[5:50])
    _change("visits.csv", lambda table: table[3:])
    with raises(InputError, match=r"^overlap=.*45 are in public rows"):
        _table(group=None).check()
    for last in (396, 400):  # no private name decides which names are of people
        visits = [f"V{row}" for row in (*range(396), last)]
        _change("visits.csv", lambda table, visits=visits: table.assign(visit=visits))
        assert len(_table(group=None, overlap="drop").load().private) == 397 - 45


def _change(name: str, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    change(pd.read_csv(name)).to_csv(name, index=False)


def _written(content: bytes) -> Callable[[], object]:
    return lambda: Path("visits.csv").write_bytes(content)


RENAMED = {"age": "agee"}


@parametrize(
    ("key", "spoil", "settings"),
    [
        ("label", lambda: _change("visits.csv", lambda table: table.assign(back=range(400))), {}),
        (
            "private",
            lambda: _change("visits.csv", lambda table: table.mask(table.visit == "V7")),
            {},
        ),
        ("public", lambda: _change("new.csv", lambda table: table[:0]), {}),
        ("public", lambda: _change("new.csv", lambda table: table.assign(back="NA")), {}),
        (
            "test",
            lambda: _change("test.csv", lambda table: table.drop(columns="back")),
            {"test": "test.csv"},
        ),
        ("private", _written(b"back,b\n1,secret,3\n"), {}),
        ("private", _written(b"back,b\n\x81,1\n"), {"encoding": "cp1252"}),
        (
            "encoding",
            lambda: _change("new.csv", lambda table: table.replace("ER", "Köln")),
            {"encoding": "cp1252"},
        ),
        ("public", Path("new.csv").unlink, {}),
        ("public", lambda: Path("link.csv").symlink_to("visits.csv"), {"public": "link.csv"}),
        ("public", lambda: _change("new.csv", lambda table: table.rename(columns=RENAMED)), {}),
        (
            "private",
            lambda: _change("visits.csv", lambda table: table.rename(columns=RENAMED)),
            {"test": "test.csv"},
        ),
        ("label", str, {"label": "wrong"}),
        ("dataset.columns.age", str, {"columns": {"age": "wrong"}}),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    files: Path, key: str, spoil: Callable[[], object], settings: dict[str, Any]
) -> None:
    spoil()
    with raises(InputError) as wrong:
        _table(**settings).load()
    assert wrong.value.key == key
    assert "\n" not in str(wrong.value) and "secret" not in str(wrong.value)


def test_from_files_to_a_published_student_that_runs_without_nzc(
    run_nzc: RunNzc,
    files: Path,
    command: Command,
    monkeypatch: MonkeyPatch,
    capfd: CaptureFixture[str],
) -> None:
    for seed, name in enumerate(FILES_OF_SPLITS):
        table = pd.read_csv(name)
        table.assign(note=_notes(len(table), seed)).to_csv(name, index=False)
    ran = run_nzc(
        "teachers=logistic", "teachers.records=10", "teachers.parallel=1", "queries=20",
        "query_choice=random", "aggregator.sigma=5", "student=linear", "student.balance=0.5",
        "dataset=table", "dataset.private=visits.csv", "dataset.public=new.csv",
        "dataset.test=test.csv", "dataset.label=back", "dataset.classes=[no,yes]",
        "dataset.group=person", "dataset.id=visit", "dataset.columns={smoker: category}",
        "dataset.name=people", "rng=system",
    )  # fmt: skip
    run = next(files.glob("outputs/*/*"))
    predicted = pd.read_csv(run / "predictions.csv")
    labels = pd.read_csv(run / "labels.csv")
    assert predicted.visit.tolist() == [f"V{row}" for row in range(120)]
    released = predicted[predicted.source == "teachers"]
    assert released.visit.tolist() == labels.id.tolist()
    assert released.label.tolist() == labels.name.tolist()
    publish(run, files / "public", name="people")
    raw = pd.read_csv("test.csv").drop(columns="back")
    raw.loc[0, "age"] = np.nan
    raw.loc[1, "ward"] = "never seen"
    raw.loc[2, "note"] = None
    raw.to_csv("raw.csv", index=False)
    printed = command("predict", "public", "raw.csv")[1]
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "nzc", None)
        patch.setattr("sys.argv", ["predict.py", "raw.csv"])
        patch.syspath_prepend("public")
        runpy.run_path("public/predict.py", run_name="__main__")
    assert capfd.readouterr().out == printed
    answers = pd.read_csv(io.StringIO(printed))
    assert answers.visit.tolist() == raw.visit.tolist()
    assert answers.probability.between(0, 1).all()
    right = (answers.label == pd.read_csv("test.csv").back).mean()
    assert abs(right - ran.result["accuracy"]) <= 0.03  # three records were changed
