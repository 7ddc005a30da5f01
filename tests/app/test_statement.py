"""The published statement says what ran: whose records, which rows a vote moves on, what the
student learned from.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import TEACHERS, VOTES, Nzc, newest_folder

from nzc.app.publish import publish_run

TREES = [
    "teachers=forest",
    "teachers.estimator.n_estimators=2",
    "teachers.count=12",
    "aggregator.sigma=2",
]
TREES += TEACHERS[2:]
LINEAR = ["student=linear", "rng=system"]


def _files(folder: Path) -> None:
    """Write 300 records of 90 patients as arrays and as tables, and votes of 50 teachers."""
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    x = (np.eye(3)[y] * 3 + rng.normal(size=(300, 3))).astype(np.float32)
    patients = np.arange(300) % 90
    role = np.where(patients < 60, "private", np.where(patients < 80, "public", "test"))
    np.savez(folder / "grouped.npz", x=x, y=y, group=patients, role=role)
    np.savez(folder / "plain.npz", x=x, y=y, role=role)
    table = pd.DataFrame(x, columns=["a", "b", "c"]).assign(patient_nbr=patients, y=y)
    table[role == "private"].to_csv(folder / "private.csv", index=False)
    table[role != "private"].to_csv(folder / "public.csv", index=False)
    np.save(folder / "votes.npy", rng.multinomial(50, [0.8, 0.1, 0.1], 30))


NPZ = ["dataset=npz", "dataset.classes=3", *LINEAR]
TABLE = [
    "dataset=table",
    "dataset.private=private.csv",
    "dataset.public=public.csv",
    "dataset.label=y",
    *LINEAR,
]
TABLE += ['dataset.classes=["0","1","2"]']
CELLS = [
    "recipe=near_zero",
    "student=linear",
    "dataset=npz",
    "dataset.classes=3",
    "aggregator.gamma=2",
    "queries=6",
]
CELLS += ["rng=system", "trainer.progress=false", "trainer.accelerator=cpu"]
ANY, TWO = "any number of rows", "at most 2 asked rows"
#: Settings of a run, and what it says: unit of privacy, grouped by, rows on which votes move.
KINDS: dict[str, tuple[list[str], tuple[str, str | None, str]]] = {
    "records": ([*NPZ, "dataset.path=plain.npz", *TREES], ("record", None, ANY)),
    "array of groups": ([*NPZ, "dataset.path=grouped.npz", *TREES], ("group", "array `group`", ANY)),
    "column of groups": ([*TABLE, "dataset.group=patient_nbr", *TREES], ("group", "column `patient_nbr`", ANY)),
    "cells": ([*CELLS, "dataset.path=plain.npz"], ("record", None, TWO)),
    "cells, labels": ([*CELLS, "dataset.path=plain.npz", "dataset.unit=label"], ("label", None, "one asked row")),
    "neighbours": ([text.replace("aggregator.gamma", "aggregator.sigma") for text in CELLS]
                   + ["dataset.path=plain.npz", "teachers=neighbours", "teachers.count=9", "aggregator=gnmax"],
                   ("record", None, ANY)),
    "cells of groups": ([*CELLS, "dataset.path=grouped.npz"], ("group", "array `group`", TWO)),
    "votes": ([*VOTES, "teachers.path=votes.npy", "rng=system"], ("teacher", None, ANY)),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_the_statement_is_of_what_ran(nzc: Nzc, tmp_path: Path, kind: str) -> None:
    _files(tmp_path)
    settings, values = KINDS[kind]
    facts = dict(zip(("unit", "grouped_by", "moved_votes"), values, strict=True))
    ran = nzc(*settings)
    assert ran.code == 0, ran.err
    data, labels_only = ran.result["data"], kind == "cells, labels"
    if kind.startswith("cells"):  # its student learns from labels that are spread
        rows = data["public"] + labels_only * data["private"]
        assert ran.result["learned_from"] == f"6 released labels, spread to {rows} rows"
        assert (ran.result["epsilon"]["published"], ran.result["epsilon"]["published_delta"]) == (
            4,
            0,
        )
    publish_run(newest_folder(ran), tmp_path / "published", name="clinic")
    assert (tmp_path / "published" / "counts.csv").exists() == kind.startswith("cells")
    privacy = json.loads((tmp_path / "published" / "privacy.json").read_text())
    assert {key: privacy[key] for key in facts} == {key: ran.result[key] for key in facts} == facts
    text = " ".join((tmp_path / "published" / "README.md").read_text().split())
    assert (
        ("Features have no protection" in text)
        == ("nothing protects" in privacy["neighbours"])
        == labels_only
    )
    assert labels_only == ("features of public rows and of private records" in text)
    known = pd.read_csv(newest_folder(ran) / "private_predictions.csv") if labels_only else None
    assert known is None or len(known) == data["private"] == data["features"]
    assert not (tmp_path / "published" / "private_predictions.csv").exists()
    differ = (
        "neighbours, counts differ" if kind.startswith("cells") else "teacher votes differently"
    )
    differ = "at most one vote for each row differs" if kind == "neighbours" else differ
    assert f"{differ}, on {facts['moved_votes']}." in text
    named = facts["grouped_by"] and f"one value of the {facts['grouped_by'].replace('`', chr(39))}"
    assert (named is None) == ("one value of" not in text)
    assert named is None or (named in text and facts["grouped_by"] in privacy["neighbours"])
    assert ("whose votes came from a file" in text) == (kind == "votes")
    trained = kind not in ("votes", "neighbours", *[k for k in KINDS if "cells" in k])
    assert ("learned from its own part" in text) == trained
