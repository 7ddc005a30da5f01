"""Every ε of a run by name."""

import pytest
from conftest import FILE, RunNzc

pytestmark = pytest.mark.usefixtures("histograms")


def test_nzc_claims_nothing_costs_everything_and_is_caught(run_nzc: RunNzc) -> None:
    epsilon = run_nzc(*FILE, "aggregator=nzc", "audit=true").result["epsilon"]
    assert epsilon["claimed"] < 1e-7
    assert epsilon["data_independent"] == "inf"
    # log of half the trials over 3.69: all that so many trials can show
    assert epsilon["audited"] > 7.8
