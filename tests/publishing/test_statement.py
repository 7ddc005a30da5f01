"""The published statement says what ran: whose records, on which rows a vote moves, and what
the student learned from.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
from conftest import FILE, TEACHERS, RunNzc, newest_folder, parametrize
from few_labels import clouds

from nzc.app.publish import publish_run

LINEAR = ["student=linear", "rng=system", *TEACHERS[2:]]
TREES = [
    *LINEAR, "teachers=forest", "teachers.estimator.n_estimators=2", "teachers.count=6",
    "teachers.parallel=1", "queries=10",
]  # fmt: skip
PLAIN = ["dataset=npz", "dataset.classes=3", "dataset.path=plain.npz"]
CELLS = [*LINEAR, "recipe=near_zero", "queries=6"]
TABLE = [
    "dataset=table", "dataset.private=private.csv", "dataset.public=public.csv", "dataset.label=y",
    'dataset.classes=["0","1","2"]', "dataset.group=patient_nbr", "budget.epsilon=2",
]  # fmt: skip
ANY = "any number of rows"
PATIENTS = "column `patient_nbr`"
#: Settings of a run, and what it says: unit of privacy, grouped by, rows on which votes move.
KINDS = {
    "records": ([*PLAIN, *TREES, "aggregator.sigma=2"], ("record", None, ANY)),
    "column": ([*TABLE, *TREES, "aggregator.sigma=null"], ("group", PATIENTS, ANY)),
    "labels": (
        [*PLAIN, *CELLS, "aggregator.gamma=2", "dataset.unit=label"],
        ("label", None, "one asked row"),
    ),
    "cells of groups": (
        [*PLAIN, *CELLS, "dataset.path=grouped.npz", "budget.epsilon=2", "teachers.per_group=2"],
        ("group", "array `group`", "at most 4 asked rows"),
    ),
    "sums": (
        [*TABLE, "recipe=near_zero_sums", *LINEAR, "dataset.id=visit"],
        ("group", PATIENTS, "all numbers of the sums"),
    ),
    "votes": ([*FILE, "rng=system"], ("teacher", None, ANY)),
}


def _files(folder: Path) -> None:
    """Write 300 records of 90 patients as arrays and as tables, and votes of 50 teachers."""
    data, y = clouds(300, 0, shape=(3,))
    x = data.x
    patients = np.arange(300) % 90
    role = np.where(patients < 60, "private", np.where(patients < 80, "public", "test"))
    np.savez(folder / "grouped.npz", x=x, y=y, group=patients, role=role)
    np.savez(folder / "plain.npz", x=x, y=y, role=role)
    table = pd.DataFrame(x, columns=["a", "b", "c"]).assign(patient_nbr=patients, y=y)
    table["visit"] = [f"V{row}" for row in range(300)]
    table[role == "private"].to_csv(folder / "private.csv", index=False)
    table[role != "private"].to_csv(folder / "public.csv", index=False)
    np.save(folder / "votes.npy", [[40, 5, 5], [30, 15, 5]] * 15)


@parametrize("kind", KINDS)
def test_the_statement_is_of_what_ran(run_nzc: RunNzc, tmp_path: Path, kind: str) -> None:
    _files(tmp_path)
    settings, values = KINDS[kind]
    ran = run_nzc(*settings, "dataset.name=clinic")
    result = ran.result
    facts = dict(zip(("unit", "grouped_by", "moved_votes"), values, strict=True))
    in_cells = kind in ("labels", "cells of groups")
    if in_cells:  # its student learns from labels that are spread
        rows = result["data"]["public"]
        if kind == "labels":
            rows += result["data"]["private"]
        assert result["learned_from"] == f"6 released labels, spread to {rows} rows"
        assert result["epsilon"]["published"] == (4 if kind == "labels" else 2)
        assert result["epsilon"]["published_delta"] == 0

    published = tmp_path / "published"
    publish_run(newest_folder(ran), published)
    assert (published / "counts.csv").exists() == in_cells
    privacy = json.loads((published / "privacy.json").read_text())
    for record in (privacy, result):
        assert {key: record[key] for key in facts} == facts
    lines = (published / "README.md").read_text()
    text = " ".join(lines.split())
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
