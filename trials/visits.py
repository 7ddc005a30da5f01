"""Make tables to try `dataset=table` with: hospital visits, whose patients may come back.

    python trials/visits.py FOLDER [--rows 60000] [--missing 0.05] [--categories 200] [--classes 3]

writes visits.csv (private, with the label `back`), new.csv (public, without) and test.csv into FOLDER: 30 columns of
numbers, categories, dates, free text and a constant, with patient ids. One class has 12 % of the rows.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

PUBLIC, TEST = 5000, 5000
LABELS = ("no", "yes", "dead")
_CHUNK = 200_000


def visits(rows: int, categories: int, missing: float, classes: int, seed: int = 0) -> Iterator[pd.DataFrame]:
    """Yield `rows` visits in chunks; the label is the last column."""
    weights = np.random.default_rng(0).normal(size=(4, 16))
    cut = np.inf
    for first in range(0, rows, _CHUNK):
        rng, n = np.random.default_rng([seed, first]), min(_CHUNK, rows - first)
        health = rng.normal(size=(n, 4))
        labs = np.round(50 + 5 * (health @ weights) + 10 * rng.normal(size=(n, 16)), 1)
        day = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D")
        codes = np.array([f"D{code:03d}" for code in range(categories)])
        table = pd.DataFrame(labs, columns=[f"lab_{at}" for at in range(16)]).assign(
            age=rng.integers(18, 95, n),
            stays=rng.poisson(2, n),
            bmi=np.round(rng.normal(26, 4, n), 1),
            smoker=rng.random(n) < 0.3,
            sex=rng.choice(["f", "m"], n),
            ward=rng.choice(["ICU", "ER", "surgery", "medicine", "oncology"], n),
            diagnosis=codes[np.minimum(rng.zipf(1.3, n) - 1, categories - 1)],
            insurance=rng.choice(["public", "private", "none"], n, p=[0.6, 0.3, 0.1]),
            admitted=day.strftime("%Y-%m-%d"),
            discharged=(day + pd.to_timedelta(1 + rng.poisson(5, n), unit="D")).strftime("%Y-%m-%d %H:%M:%S"),
            country="CH",
            note=[f"note {number}" for number in rng.integers(0, 10**9, n)],
        )
        risk = 1.2 * health[:, 0] + 0.8 * health[:, 1] * (table.age > 60) + 0.04 * (table.age - 55) + 0.5 * table.stays
        risk += (table.ward == "ICU") + 0.6 * table.smoker + (table.diagnosis == "D000") + 0.7 * rng.logistic(size=n)
        if np.isinf(cut).all():  # the first chunk decides what is rare: 12 % in the last class
            cut = np.quantile(risk, [0.88] if classes == 2 else [0.58, 0.88])
        label = np.array(LABELS)[np.digitize(risk, cut)]
        if missing:
            empty = rng.random((n, len(table.columns))) < missing
            table = table.astype(object).mask(empty & ~table.columns.isin(["country", "note"]))
        table.insert(0, "visit", [f"V{number:07d}" for number in range(first, first + n)])
        table.insert(1, "patient", [f"P{number:06d}" for number in rng.integers(0, max(1, rows * 3 // 5), n)])
        yield table.assign(back=label)


def main() -> None:
    """Write the three files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=60_000, help="private rows")
    parser.add_argument("--categories", type=int, default=40, help="different diagnoses")
    parser.add_argument("--missing", type=float, default=0.0, help="share of missing values")
    parser.add_argument("--classes", type=int, default=2, choices=(2, 3))
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    settings = (chosen.categories, chosen.missing, chosen.classes)
    for name, rows, seed in (("visits", chosen.rows, 0), ("new", PUBLIC, 1), ("test", TEST, 2)):
        for at, chunk in enumerate(visits(rows, *settings, seed=seed)):
            table = chunk.drop(columns="back") if name == "new" else chunk
            table.to_csv(chosen.folder / f"{name}.csv", index=False, header=at == 0, mode="w" if at == 0 else "a")


if __name__ == "__main__":
    main()
