"""MLflow's page in a browser, before any click."""

from importlib import import_module
from pathlib import Path

import pytest
from conftest import FILE, RunNzc
from pytest import MonkeyPatch

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.slow
def test_the_table_of_a_sweep_shows_its_jobs_and_their_epsilon(
    run_nzc: RunNzc, histograms: Path, monkeypatch: MonkeyPatch
) -> None:
    pytest.importorskip("playwright")
    monkeypatch.syspath_prepend(str(DOCS))
    screens = import_module("screens")
    run_nzc("--multirun", *FILE, "queries=10,20", "tracking=mlflow")
    folder = next(Path("outputs/sweeps").glob("*/*"))
    with screens.window(1400) as page, screens.served(folder) as address:
        page.goto(address)
        for heading in ("epsilon", "epsilon_exact"):
            page.get_by_role("columnheader", name=heading).first.wait_for()
        page.set_viewport_size({"width": 700, "height": 800})
        page.get_by_text("queries=20").wait_for()
        page.get_by_text("2 matching runs").wait_for()
