"""What is published about the same people: its total, and the limit of that."""

from pathlib import Path

import numpy as np
import pytest
from pytest import raises

from nzc.privacy.ledger import Ledger
from nzc.privacy.totals import People, Total
from nzc.validation import InputError

PATIENT = "all records of one group (one value of the column `patient`) are replaced by others"
PURE = (0.1, 0.0, PATIENT)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A ledger of two datasets about the people of a hospital."""
    ledger = Ledger(tmp_path / "ledger.db")
    for dataset in ("one", "two"):
        ledger.name(dataset, "hospital")
    return ledger


def test_promises_add_up_as_decimals_where_all_protect_the_same() -> None:
    assert Total.of([PURE, (0.2, 0.0, PATIENT)]) == Total(2, 0.3, 0)
    assert Total.of([(1.0, 1e-5, "one record differs")] * 3) == Total(3, 3, 3e-5)
    for other in ("one record differs", PATIENT.replace("patient", "ward")):
        assert Total.of([PURE, (0.1, 0.0, other)]) == Total(2, np.inf, 0)


def test_what_is_published_adds_up_under_one_name_and_keeps_to_its_limit(ledger: Ledger) -> None:
    one = People(ledger, "one", None)
    more = (0.2, 0.0, PATIENT)
    for _ in range(2):  # the second is another folder of the same run
        assert one.total_with(PURE, 0.1, "run 1") == Total(1, 0.1, 0, 0.1)
    assert People(ledger, "apart", None).total_with(PURE, 0.1, "run 2").folders == 1
    for people in (People(ledger, "two", None), People(ledger, "new", "hospital")):
        for run in (None, "run 3"):
            with raises(InputError, match=r"budget.total=0.25: must be at least 0.3"):
                people.total_with(more, 0.25, run)
        assert people.total_with(more, 0.3) == Total(2, 0.3, 0, 0.3)
    assert People(ledger, "two", None).total_with(more, None, "run 3") == Total(2, 0.3, 0)
    assert one.total_with(PURE, None) == Total(3, 0.4, 0)
    with raises(InputError, match=r"budget.total=9: allows no such run"):
        one.total_with((0.1, 0.0, "one record differs"), 9)


def test_the_smallest_limit_binds_all_data_about_the_same_people(ledger: Ledger) -> None:
    for epsilon in (3.0, 2.0, 5.0):
        ledger.limit("one", epsilon)
    two = People(ledger, "two", None)
    assert [two.limit(given) for given in (None, 1.0, 7.0)] == [2, 1, 2]
    assert People(ledger, "apart", None).limit(None) is None
    assert People(ledger, "apart", "hospital").limit(None) == 2
