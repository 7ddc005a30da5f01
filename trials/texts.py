"""Make tables of two public text data sets, to try `dataset=table` with columns of text.

    python trials/texts.py SMS AG FOLDER

SMS is the file SMSSpamCollection (archive.ics.uci.edu/dataset/228), AG the file test.csv of AG's
news (four topics). Of each, FOLDER gets NAME_private.csv (text and label), NAME_public.csv (1,500
texts) and NAME_test.csv (1,000 texts and labels).
"""

import argparse
import csv
from pathlib import Path

import numpy as np
import pandas as pd

PUBLIC = 1500
TEST = 1000


def main() -> None:
    """Write six files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sms", type=Path)
    parser.add_argument("ag", type=Path)
    parser.add_argument("folder", type=Path)
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    sms = pd.read_csv(
        chosen.sms, sep="\t", names=["label", "text"], quoting=csv.QUOTE_NONE, keep_default_na=False
    )
    news = pd.read_csv(chosen.ag, names=["label", "title", "text"], keep_default_na=False)
    news = pd.DataFrame({"label": news.label, "text": news.title + " " + news.text})
    for name, table in (("sms", sms), ("ag", news)):
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
