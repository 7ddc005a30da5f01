"""Make tables to try `dataset=table` with: hospital visits, whose patients may come back.

    python trials/visits.py FOLDER [--rows 60000] [--missing 0.05] [--categories 200] [--classes 3]

writes visits.csv (private, with the label `back`), new.csv (public, without) and test.csv into
FOLDER: 30 columns of numbers, categories, dates, free text and a constant, with patient ids. One
class has 12 % of the rows.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

PUBLIC, TEST = 5000, 5000
LABELS = ("no", "yes", "dead")


def visits(rows: int, categories: int, missing: float, classes: int, seed: int) -> pd.DataFrame:
    """Return `rows` visits; the label is the last column."""
    weights, rng = np.random.default_rng(0).normal(size=(4, 16)), np.random.default_rng([seed, 0])
    health = rng.normal(size=(rows, 4))
    labs = np.round(50 + 5 * (health @ weights) + 10 * rng.normal(size=(rows, 16)), 1)
    day = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 700, rows), unit="D")
    codes = np.array([f"D{code:03d}" for code in range(categories)])
    table = pd.DataFrame(labs, columns=[f"lab_{at}" for at in range(16)]).assign(
        age=rng.integers(18, 95, rows),
        stays=rng.poisson(2, rows),
        bmi=np.round(rng.normal(26, 4, rows), 1),
        smoker=rng.random(rows) < 0.3,
        sex=rng.choice(["f", "m"], rows),
        ward=rng.choice(["ICU", "ER", "surgery", "medicine", "oncology"], rows),
        diagnosis=codes[np.minimum(rng.zipf(1.3, rows) - 1, categories - 1)],
        insurance=rng.choice(["public", "private", "none"], rows, p=[0.6, 0.3, 0.1]),
        admitted=day.strftime("%Y-%m-%d"),
        discharged=(day + pd.to_timedelta(1 + rng.poisson(5, rows), unit="D")).strftime(
            "%Y-%m-%d %H:%M:%S"
        ),
        country="CH",
        note=[f"note {number}" for number in rng.integers(0, 10**9, rows)],
    )
    risk = (
        1.2 * health[:, 0]
        + 0.8 * health[:, 1] * (table.age > 60)
        + 0.04 * (table.age - 55)
        + 0.5 * table.stays
    )
    risk += (
        (table.ward == "ICU")
        + 0.6 * table.smoker
        + (table.diagnosis == "D000")
        + 0.7 * rng.logistic(size=rows)
    )
    label = np.array(LABELS)[
        np.digitize(risk, np.quantile(risk, [0.88] if classes == 2 else [0.58, 0.88]))
    ]
    if missing:
        empty = rng.random((rows, len(table.columns))) < missing
        table = table.astype(object).mask(empty & ~table.columns.isin(["country", "note"]))
    people = 10**6 * seed + rng.integers(0, max(1, rows * 3 // 5), rows)  # each file has its own
    table.insert(0, "visit", [f"V{10**7 * seed + number:07d}" for number in range(rows)])
    table.insert(1, "patient", [f"P{number:06d}" for number in people])
    return table.assign(back=label)


def main() -> None:
    """Write the three files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=60_000, help="private rows")
    parser.add_argument("--categories", type=int, default=40, help="different diagnoses")
    parser.add_argument("--missing", type=float, default=0.0, help="share of missing values")
    parser.add_argument("--classes", type=int, default=2, choices=(2, 3))
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, rows) in enumerate(
        {"visits": chosen.rows, "new": PUBLIC, "test": TEST}.items()
    ):
        table = visits(rows, chosen.categories, chosen.missing, chosen.classes, seed)
        table.drop(columns="back" if name == "new" else []).to_csv(
            chosen.folder / f"{name}.csv", index=False
        )


if __name__ == "__main__":
    main()
