"""Errors: what a line may say."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from conftest import FILE, RunNzc
from pytest import MonkeyPatch

from nzc.app import errors

WORD = "Zyxwv-8806513"
#: Private files of tables that cannot be read, with WORD in them.
BAD_TABLES = {
    "bytes.csv": f"age,sex,ill\n{WORD}\xff,f,1\n",
    "cells.csv": f"age,sex,ill\n1,f,1,{WORD},{WORD}\n",
    "values.csv": f"age,sex,ill\n{WORD},f,0\n2,m,1\n",
    "quote.csv": f'age,sex,ill\n1,"{WORD},1\n',
    "header.csv": f"{WORD},f,{WORD}\n39,m,1\n",
    "t.parquet": f"PAR1 {WORD} PAR1",
}


def _broken() -> Iterator[tuple[list[str], str]]:
    """Commands that fail on private input, each with what of it must not be quoted."""
    np.savez("bad.npz", x=np.zeros((9, 2)), y=np.arange(9) % 2, role=np.array([WORD] * 9))
    yield ["dataset=npz", "dataset.path=bad.npz"], WORD
    for votes, secret in (([{WORD: 1}], WORD), ([[9, 5], [8806, 5]], "8806")):
        np.save("votes.npy", votes)
        yield FILE, secret
    np.save("votes.npy", np.array([[9, 5], [5, 9]]))
    np.save("labels.npy", np.array([0, 8806]))
    yield [*FILE, "teachers.labels=labels.npy"], "8806"

    for kind in ("cat", "dog"):
        Path("images", kind).mkdir(parents=True)
        for number in range(5):
            Path("images", kind, f"{WORD}-{number}.png").write_text(f"{WORD} is no image")
    # No split of the few images is empty.
    shares = ["dataset.private=0.4", "dataset.public=0.3", "dataset.seed=3"]
    yield ["dataset=folder", "dataset.path=images", *shares], WORD

    Path("public.csv").write_text("age,sex\n1,f\n2,m\n")
    table = ["dataset=table", "dataset.public=public.csv", "dataset.label=ill"]
    for name, text in BAD_TABLES.items():
        Path(name).write_bytes(text.encode("latin-1"))
        yield [*table, f"dataset.private={name}"], WORD
    Path("adult").mkdir()
    for name in ("adult.data", "adult.test"):
        Path("adult", name).write_text(f"39, {WORD}, 13\n")
    yield ["dataset=adult", "dataset.root=."], WORD


def test_no_error_quotes_a_private_file(run_nzc: RunNzc, monkeypatch: MonkeyPatch) -> None:
    lines = []
    error_line = errors.error_line

    def noted(*arguments: Any) -> tuple[int, str]:
        lines.append(error_line(*arguments)[1])
        return error_line(*arguments)

    monkeypatch.setattr(errors, "error_line", noted)
    monkeypatch.setattr(errors, "TRACEBACK", True)  # as by HYDRA_FULL_ERROR=1
    for arguments, secret in _broken():
        lines.clear()
        ran = run_nzc(*arguments, "student=none", code=2)
        assert "Traceback" in ran.err and f"nzc: {lines[0]}\n" in ran.err and len(lines) == 1
        assert secret not in ran.err + ran.out + lines[0], (arguments, ran.err)


def test_a_failure_says_what_failed_only_where_it_may(
    run_nzc: RunNzc, histograms: Path, monkeypatch: MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError(f"{WORD} and its votes [8806, 513]")

    monkeypatch.setattr("nzc.privacy.session.Session.charge", fails)
    for private in (True, False):
        quiet = [*FILE, "aggregator.sigma=10", "tracking=none", "rng=system", "dataset.name=p"]
        err = run_nzc(*quiet, f"+tracking.private={str(private).lower()}", code=1).err
        assert err.count("\n") == 1 and "RuntimeError" in err
        assert (WORD in err) == private
