"""The people in the ledger: whose ids overlap, and what is published about them together."""

from pathlib import Path

import numpy as np
import pytest

from nzc.data.hashing import keys_of
from nzc.labeling import totals as people
from nzc.labeling.ledger import Ledger
from nzc.labeling.totals import Total
from nzc.validation import InputError


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.db")


def _share(line: str) -> float:
    return float(line.partition(" %")[0] or 0) / 100


@pytest.mark.parametrize(
    ("own", "other", "shared"),
    [(200, 300, 50), (9_000, 40, 40), (60_000, 60_000, 30_000), (60_000, 20_000, 600)],
)
def test_the_share_of_common_ids_is_found(
    ledger: Ledger, own: int, other: int, shared: int
) -> None:
    """Exactly where all hashes of the other data are kept, else as a random sample shows it; before
    and after a run.
    """
    keys = keys_of(np.arange(own + other))
    people.remember(ledger, "earlier", np.repeat(keys[own - shared : own - shared + other], 2))
    ledger.name("earlier", "hospital")
    before = people.stranger(ledger, "later", None, "dataset.name=", keys[:own])
    people.remember(ledger, "later", keys[:own])
    for line in (before, people.stranger(ledger, "later", None, "dataset.name=")):
        assert _share(line) == pytest.approx(
            shared / own, rel=0.01 if other < 10_000 > own else 0.25
        )
        assert line.endswith("dataset.name=hospital")


def test_only_strangers_are_named(ledger: Ledger) -> None:
    keys = keys_of(np.arange(100))
    for at, dataset in enumerate(("aaaaaaaa1", "bbbbbbbb2")):
        people.remember(ledger, dataset, keys[: 50 + at])
    find = lambda name=None, data=keys: people.stranger(ledger, "new", name, "--name ", data)  # noqa: E731
    assert find(data=keys_of(np.arange(100, 200))) == ""
    assert find().endswith(
        "--name NAME and nzc store --name NAME bbbbbbbb"
    )  # which shares one more
    ledger.name("aaaaaaaa1", "hospital")
    assert find().endswith("--name hospital")
    assert "bbbbbbbb" in find("hospital")
    ledger.name("bbbbbbbb2", "hospital")
    assert find("hospital") == ""


def test_hashes_are_salted(ledger: Ledger, tmp_path: Path) -> None:
    keys, kept = keys_of(np.arange(100_000)), []
    for each in (ledger, Ledger(tmp_path / "other.db")):
        people.remember(each, "data", keys)
        ((hashes,),) = each.execute("SELECT hashes FROM people WHERE dataset = 'data'")
        kept.append(np.frombuffer(hashes, "<u8"))
        assert len(kept[-1]) == 10_000 and not np.isin(kept[-1].astype(np.int64), keys).any()
    assert not np.isin(*kept).any()


PATIENT = "all records of one group (one value of the column `patient`) are replaced by one or more others"
PURE = (0.1, 0.0, PATIENT)


def test_promises_add_up_as_decimals_where_all_protect_the_same() -> None:
    assert Total.of([]) == Total(0, 0, 0) and Total.of([PURE, (0.2, 0.0, PATIENT)]) == Total(
        2, 0.3, 0
    )
    assert Total.of([(1.0, 1e-5, "one record differs")] * 3) == Total(3, 3, 3e-5)
    for other in (
        "one record differs",
        PATIENT.replace("patient", "ward"),
        "the label of one record differs",
    ):
        assert Total.of([PURE, (0.1, 0.0, other)]) == Total(2, np.inf, 0)


def test_what_is_published_adds_up_under_one_name_and_keeps_to_its_limit(ledger: Ledger) -> None:
    more = (0.2, 0.0, PATIENT)
    for dataset in ("one", "two"):
        ledger.name(dataset, "hospital")
    assert people.total_with(ledger, "one", None, PURE, 0.1, "run 1") == Total(1, 0.1, 0, 0.1)
    assert (
        people.total_with(ledger, "one", None, PURE, 0.1, "run 1").folders == 1
    )  # another folder of it
    assert people.total_with(ledger, "apart", None, PURE, 0.1, "run 2").folders == 1
    for dataset, name in (("two", None), ("new", "hospital")):
        for run in (None, "run 3"):
            with pytest.raises(InputError, match=r"budget.total=0.25: must be at least 0.3"):
                people.total_with(ledger, dataset, name, more, 0.25, run)
        assert people.total_with(ledger, dataset, name, more, 0.3) == Total(2, 0.3, 0, 0.3)
    assert people.total_with(ledger, "two", None, more, None, "run 3") == Total(2, 0.3, 0)
    assert people.total_with(ledger, "one", None, PURE, None) == Total(3, 0.4, 0)
    with pytest.raises(InputError, match=r"budget.total=9: allows no such run"):
        people.total_with(ledger, "one", None, (0.1, 0.0, "one record differs"), 9)


def test_the_smallest_limit_binds_all_data_about_the_same_people(ledger: Ledger) -> None:
    for dataset in ("one", "two"):
        ledger.name(dataset, "hospital")
    for epsilon in (3.0, 2.0, 5.0):
        ledger.limit("one", epsilon)
    assert [people.limit_of(ledger, "two", None, given) for given in (None, 1.0, 7.0)] == [2, 1, 2]
    assert people.limit_of(ledger, "apart", None, None) is None
    assert people.limit_of(ledger, "apart", "hospital", None) == 2
