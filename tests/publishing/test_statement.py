"""The published statement says what ran: whose records, on which rows a vote moves, what the
student learned from.
"""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
from conftest import FILE, TEACHERS, Nzc, newest_folder, parametrize

from nzc.app.publish import publish_run

LINEAR = ["student=linear", "rng=system", *TEACHERS[2:]]
TREES = [
    *LINEAR, "teachers=forest", "teachers.estimator.n_estimators=2", "teachers.count=6",
    "teachers.parallel=1", "aggregator.sigma=2",
]  # fmt: skip
NPZ = ["dataset=npz", "dataset.classes=3"]
TABLE = [
    *TREES, "dataset=table", "dataset.private=private.csv", "dataset.public=public.csv",
    "dataset.label=y", 'dataset.classes=["0","1","2"]',
]  # fmt: skip
CELLS = [*LINEAR, "recipe=near_zero", *NPZ, "aggregator.gamma=2", "queries=6"]
ANY = "any number of rows"
TWO = "at most 2 asked rows"
SUMS = ["recipe=near_zero_sums", "rng=system", *TEACHERS[2:], *TABLE[len(TREES) :]]
#: Settings of a run, and what it says: unit of privacy, grouped by, rows on which votes move.
KINDS = {
    "records": ([*NPZ, "dataset.path=plain.npz", *TREES], ("record", None, ANY)),
    "column": ([*TABLE, "dataset.group=patient_nbr"], ("group", "column `patient_nbr`", ANY)),
    "labels": (
        [*CELLS, "dataset.path=plain.npz", "dataset.unit=label"],
        ("label", None, "one asked row"),
    ),
    "cells of groups": ([*CELLS, "dataset.path=grouped.npz"], ("group", "array `group`", TWO)),
    "sums": (
        [*SUMS, "aggregator.sigma=20", "dataset.group=patient_nbr", "dataset.id=visit"],
        ("group", "column `patient_nbr`", "all numbers of the sums"),
    ),
    "votes": ([*FILE, "rng=system"], ("teacher", None, ANY)),
}


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
    table["visit"] = [f"V{row}" for row in range(300)]
    table[role == "private"].to_csv(folder / "private.csv", index=False)
    table[role != "private"].to_csv(folder / "public.csv", index=False)
    np.save(folder / "votes.npy", rng.multinomial(50, [0.8, 0.1, 0.1], 30))


@parametrize("kind", KINDS)
def test_the_statement_is_of_what_ran(nzc: Nzc, tmp_path: Path, kind: str) -> None:
    _files(tmp_path)
    settings, values = KINDS[kind]
    facts = dict(zip(("unit", "grouped_by", "moved_votes"), values, strict=True))
    ran = nzc(*settings, "dataset.name=clinic")
    result = ran.result
    in_cells = kind in ("labels", "cells of groups")
    if in_cells:  # its student learns from labels that are spread
        rows = result["data"]["public"]
        if kind == "labels":
            rows += result["data"]["private"]
        assert result["learned_from"] == f"6 released labels, spread to {rows} rows"
        assert result["epsilon"]["published"] == 4 and result["epsilon"]["published_delta"] == 0

    published = tmp_path / "published"
    publish_run(newest_folder(ran), published)
    assert (published / "counts.csv").exists() == in_cells
    privacy = json.loads((published / "privacy.json").read_text())
    for record in (privacy, result):
        assert {key: record[key] for key in facts} == facts
    lines = (published / "README.md").read_text()
    text = " ".join(lines.split())
    assert not re.search(r"\d\.\d{6}|[a-z]  [a-z]|to\d|aboutpublic", lines)
    assert (f"on {facts['moved_votes']}." in text) == (kind != "sums")
    assert ("is about you" in text) == (kind != "votes")
    assert ("names `id`" in text) == (kind == "sums")
    who = {"sums": "groups", "labels": "records", "cells of groups": "records"}.get(kind)
    count = result["teachers"]["count"]
    assert privacy["contributors"] == {"kind": who or "teachers", "count": count}
    assert privacy["teachers"] == (None if who else count) and (kind != "sums" or count == 60)
    assert ("Features have no protection" in text) == (kind == "labels")
    assert ("nothing protects" in privacy["neighbours"]) == (kind == "labels")
    if kind == "labels":
        known = pd.read_csv(newest_folder(ran) / "private_predictions.csv")
        assert len(known) == result["data"]["private"] == result["data"]["features"]
    assert not (published / "private_predictions.csv").exists()
    if facts["grouped_by"] is not None:
        assert facts["grouped_by"] in privacy["neighbours"]
