"""Ten small commands whose results must not change when code moves, to the last digit (tests/golden/runs.py)."""

import json
from pathlib import Path

import pytest
from golden.runs import FOLDER, RUNS, differences, prepare, run

#: These train no network, so their digits are the same on every machine.
EVERYWHERE = ("votes", "votes_confident", "sweep")


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in EVERYWHERE else pytest.mark.slow) for n in RUNS])
def test_a_golden_run_is_unchanged(name: str, tmp_path: Path) -> None:
    prepare(tmp_path)
    assert not differences(json.loads((FOLDER / f"{name}.json").read_text()), run(tmp_path, RUNS[name]))
