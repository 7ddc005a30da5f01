"""Benchmarks: parts of gpu.py run in their smallest form, so that they work where a GPU is lent."""

import os
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import parametrize
from pytest import MonkeyPatch


@pytest.mark.usefixtures("one_thread")
@parametrize("part", ["machine", "agree"])
def test_the_gpu_benchmark_runs(part: str, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    monkeypatch.setattr(os, "setsid", lambda: None)
    sent: list[Any] = []
    import_module("gpu")._work(SimpleNamespace(send=sent.append), part, True)
    *figures, error = sent
    assert error is None and figures
    assert [figure.error for figure in figures if figure.error is not None] == []
