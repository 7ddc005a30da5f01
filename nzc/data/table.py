"""Your own tables: CSV, Parquet or Arrow files with named columns."""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nzc.data.hashing import keys_of, texts_of
from nzc.data.rows import gather
from nzc.data.splits import DataSplits, Records, Split
from nzc.data.table_encoder import ColumnError, different, texts
from nzc.data.table_files import TableFiles
from nzc.data.table_fit import doubts, fit_encoder
from nzc.storage.files import digest_of
from nzc.types import AnyArray, Ints
from nzc.validation import InputError


@dataclass(frozen=True, kw_only=True)
class Table(TableFiles):
    """Features of the rows: means, categories and kinds of columns are fitted on the public file.

    Of each private row only its features (4 bytes each), label and group (8 bytes each) are kept, so a file may be
    larger than the memory. Labels in the public file measure the accuracy of labels; nothing learns from them.
    """

    def describe(self) -> None:
        assert self._public is not None

    def load(self) -> DataSplits:
        private, named = self._encoded("private")
        if self.group is not None:
            named |= {"groups": named.pop("keys"), "grouped_by": f"column `{self.group}`"}
        if self.test is not None:
            rows, _ = self._encoded("test")
            named["test"] = Split(rows.x[:], rows.y)
        return replace(self._public, private=private, private_file=digest_of(self.private), **named)

    @cached_property
    def _public(self) -> DataSplits:
        """The public rows; the other splits are empty yet. How columns are used is said: a wrong guess must be seen."""
        classes, public = self.facts.classes, pd.concat(self.chunks("public"), ignore_index=True)
        inputs = public[[name for name in public if name not in self.special]]
        try:
            encoder = fit_encoder(inputs, self.columns or {}, self.categories, list(map(str, self.missing)))
            if not encoder.columns:
                raise ColumnError("there must be a column whose values differ, beside label, group and id")
        except ColumnError as error:
            raise InputError("public", self.public, f"must have the given kinds of columns: {error}") from error
        warnings = tuple(doubts(inputs, encoder, self.group is not None))
        kinds = ", ".join(f"{kind}: {count}" for kind, count in Counter(of.kind for of in encoder.columns).items())
        unused = "".join(f"; {name} is not used: {why}" for name, why in encoder.unused.items())
        made = f"{len(encoder.features)} features, fitted on {len(public):,} public rows"
        measure = [f"{self.public} has labels ({self.label}): they only measure accuracy"] * (self.label in public)
        for line in (f"{made}; columns (dataset.columns corrects a kind): {kinds}{unused}", *measure, *warnings):
            print(f"nzc: {line}", file=sys.stderr)
        x, known = encoder.encode(public), _numbers(public.get(self.label, pd.Series(pd.NA, public.index)), classes)
        none = Split(x[:0], known[:0])
        return DataSplits(
            none, Split(x, known), none, len(classes), labels=tuple(classes), id_column=self.id, encoder=encoder,
            ids=None if self.id is None else np.array(texts(public[self.id]), dtype=object),
            public_files={Path(self.public).name: digest_of(self.public)},
            declared=self.classes is not None, warnings=warnings,
        )  # fmt: skip

    def _encoded(self, key: str) -> tuple[Records, dict[str, Any]]:
        """Return features and classes of the rows of a file, and of private rows the `keys` and `budgets`."""
        kept, encoder = defaultdict[str, list[AnyArray]](list), self._public.encoder
        assert encoder is not None

        def parts() -> Iterator[AnyArray]:
            for chunk in self.chunks(key):
                if key == "private" and self.facts.dropped:
                    chunk = chunk[~texts(chunk[self.facts.by]).isin(self.facts.dropped)]
                kept["y"].append(_numbers(chunk[self.label], self.facts.classes))
                if key == "private" and self.named in chunk:
                    codes, names = different(chunk[self.named])
                    kept["keys"].append(keys_of(np.asarray(names))[codes])
                if key == "private" and self.budget is not None:
                    kept["budgets"].append(texts_of(chunk[self.budget].to_numpy(object, na_value="")))
                yield encoder.encode(chunk)

        try:
            x = gather(parts())
        except ColumnError as error:
            typed = "dataset.columns={COLUMN: KIND} takes other values as missing, unless most are"
            allowed = f"must have columns as in {self.public}: {error}; {typed}"
            raise InputError(key, getattr(self, key), allowed) from error
        if not len(x):
            raise InputError(key, getattr(self, key), "must have rows")
        named = {name: np.concatenate(arrays) for name, arrays in kept.items()}
        return Records(x, named.pop("y")), named


def _numbers(labels: pd.Series, classes: Sequence[str]) -> Ints:
    """Return the class of each label, UNKNOWN where it is missing."""
    codes, names = different(labels)
    return np.asarray(pd.Index(classes).get_indexer(names)[codes], np.int64)
