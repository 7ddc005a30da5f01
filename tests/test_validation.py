"""Input errors: one line each, without passwords of addresses; ranges of settings."""

import pickle
from typing import Any

from conftest import parametrize
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from pytest import raises

from nzc import ranges
from nzc.validation import InputError, from_pydantic, in_a_line, masked, masked_tree

#: Characters of a password that are in no text around it here, and that an address may hold.
PASSWORDS = st.text("0123456789QXZ:/@?&%+!$", min_size=4, max_size=30).filter(
    lambda text: set(text) & set("QXZ")
)
ADDRESSES = ("http://u:{}@host/", "postgresql://u@corp:{}@host/db", "redis://:{}@host")


@given(PASSWORDS)
def test_no_password_of_an_address_is_shown(password: str) -> None:
    for address in (form.format(password) for form in ADDRESSES):
        error = InputError("tracking.uri", address, f"must be a store (cannot parse '{address}')")
        shown = [
            error,
            in_a_line(f"{address} does not answer"),
            masked(f"nzc tracking.uri={address} seed=0"),
        ]
        for text in (*shown, masked_tree({"uri": address, "list": [address]})):
            assert not set(str(text)) & set("QXZ")
            assert "***@" in str(text)
        assert masked(masked(address)) == masked(address)


def test_an_input_error_is_one_line_in_any_process() -> None:
    error = pickle.loads(pickle.dumps(InputError("a.b", "x\ny\x1b", "must be 4")))
    assert (str(error), error.key) == (r"a.b=x\ny\x1b: must be 4", "a.b")
    assert str(InputError("b", None, "must be 4").within("a")) == "a.b=null: must be 4"


@parametrize(
    ("kind", "good", "bad"),
    [
        (ranges.Count, ["3", 1, 10**9], [0, 1.0, True, "3.0", None]),
        (ranges.Positive, ["2e-3", 3], [0, 1e-121, -1, float("nan"), float("inf"), "x", True]),
        (ranges.NotNegative, [0, 1e120], [-1e-9, 1e121]),
        (ranges.Between0And1, [0.5], [0, 1]),
    ],
)
def test_ranges_are_enforced_by_annotations(kind: Any, good: list[Any], bad: list[Any]) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    assert [adapter.validate_python(value) for value in good] == [float(value) for value in good]
    for value in bad:
        with raises(ValidationError) as error:
            adapter.validate_python(value)
        assert str(from_pydantic(error.value, "group.key")).startswith("group.key=")
        assert ": must be " in str(from_pydantic(error.value, "group.key"))
