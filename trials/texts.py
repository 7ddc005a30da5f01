"""Make tables of three public text data sets, to try `dataset=table` with columns of text.

    python trials/texts.py SOURCES FOLDER

SOURCES has SMSSpamCollection (archive.ics.uci.edu/dataset/228), test.csv of AG's news (four topics;
its training rows are not needed), rt-polarity.neg and rt-polarity.pos (sentences of film reviews;
www.cs.cornell.edu/people/pabo/movie-review-data). Of each, FOLDER gets NAME_private.csv (text and
label), NAME_public.csv (1,500 texts) and NAME_test.csv (1,000 texts and labels).
"""

import argparse
import csv
from pathlib import Path

import numpy as np
import pandas as pd

PUBLIC = 1500
TEST = 1000


def texts(sources: Path) -> dict[str, pd.DataFrame]:
    """Return the texts with their labels, by the name of the data set."""
    sms = pd.read_csv(
        sources / "SMSSpamCollection",
        sep="\t",
        names=["label", "text"],
        quoting=csv.QUOTE_NONE,
        keep_default_na=False,
    )
    news = pd.read_csv(
        sources / "test.csv", names=["label", "title", "text"], keep_default_na=False
    )
    news = pd.DataFrame({"label": news.label, "text": news.title + " " + news.text})
    films = []
    for label in ("neg", "pos"):
        sentences = (sources / f"rt-polarity.{label}").read_text("latin-1").strip().split("\n")
        films.append(pd.DataFrame({"label": label, "text": sentences}))
    return {"sms": sms, "ag": news, "films": pd.concat(films)}


def main() -> None:
    """Write six files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sources", type=Path)
    parser.add_argument("folder", type=Path)
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    for name, table in texts(chosen.sources).items():
        table = table.iloc[np.random.default_rng(0).permutation(len(table))]
        parts = {
            "public": table[:PUBLIC].drop(columns="label"),
            "test": table[PUBLIC : PUBLIC + TEST],
            "private": table[PUBLIC + TEST :],
        }
        for part, rows in parts.items():
            rows.to_csv(chosen.folder / f"{name}_{part}.csv", index=False)


if __name__ == "__main__":
    main()
