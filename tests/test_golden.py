"""Small commands whose results must not change when code moves (tests/golden/runs.py compares all
digits of ten).
"""

import json
from pathlib import Path

from conftest import Command
from golden.runs import FOLDER, RUNS, differences, prepare, results
from pytest import MonkeyPatch


def test_a_golden_run_is_unchanged(
    command: Command, tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    name = "votes"  # it trains no network: equal on every machine
    prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert command(*RUNS[name])[0] == 0
    before, now = json.loads((FOLDER / f"{name}.json").read_text()), results(tmp_path, RUNS[name])
    assert not differences(before, now, near=1e-12)
