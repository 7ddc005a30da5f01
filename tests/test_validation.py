"""Secrets are shown as ***: passwords of addresses, and values whose name is a secret's."""

import json
import string
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.engine import make_url

from nzc.runs.layout import masked_file
from nzc.tracking import tracked_name
from nzc.validation import InputError, in_a_line, masked, masked_tree

#: Characters that are in no text around a password here.
SEEN = set(string.digits + "QXZ")
PASSWORDS = st.text(string.digits + string.punctuation + "QXZ ", min_size=8, max_size=30)


def _addresses(password: str) -> list[str]:
    """Return addresses with this password, percent-encoded, and raw where SQLAlchemy reads it back."""
    coded = quote(password, safe="")
    raw = [f"postgresql://u@corp:{password}@host/db"]
    if "&" not in password and "+" not in password:
        raw.append(f"postgresql://host/db?user=u&password={password}")
    found = [f"http://u:{coded}@host/", f"postgresql://u@corp:{coded}@host/db?x=y", f"redis://:{coded}@host"]
    found += [f"mysql://host/db?sslpassword={coded}&x=y", f"s3://host/?access_key={coded}&token={coded}"]
    for address in raw:
        with suppress(ValueError):  # the rest is no port
            url = make_url(address)
            if password in (url.password, url.query.get("password")):
                found.append(address)
    return found


def _hidden(password: str, *shown: object) -> None:
    parts = [quote(password, safe=""), password]
    fours = {part[at : at + 4] for part in parts for at in range(len(part) - 3)}
    for text in shown:
        assert not [four for four in fours if set(four) & SEEN and four in str(text)], text


@given(PASSWORDS)
def test_no_part_of_a_password_is_shown(password: str) -> None:
    for address in _addresses(password):
        error = InputError(
            "tracking.uri", address, f"must be a store (cannot parse '{address}'; port '{password[:5]}')"
        )
        said = f"{type(error).__name__}: {address} does not answer"
        _hidden(password, error, in_a_line(said), masked(f"nzc tracking.uri={address}"))
        _hidden(password, tracked_name(["digits"], [f"objective={address}"]), masked_tree({"objective": address}))
        assert masked(masked(address)) == masked(address)


@given(PASSWORDS)
def test_a_document_keeps_its_shape(password: str) -> None:
    for address in _addresses(password):
        tree = {"uri": address, "list": [address, 1, None, True], "mail": "a@b", "password": password, "seed": 0}
        told = json.loads(masked(json.dumps(tree)))
        assert told["mail"] == "a@b" and told["seed"] == 0 and told["list"][1:] == [1, None, True]
        assert told.keys() == tree.keys() and told["password"] == "***"
        _hidden(password, told)


@pytest.mark.parametrize("password", ["hunter22", "p\"w'x}y", "a b: #c", "tab/slash?x"])
def test_a_stored_file_keeps_its_shape(tmp_path: Any, password: str) -> None:
    tree = {"tracking": {"uri": f"postgresql://u:{password}@h/db", "token": password}, "list": ["a@b", "${x}", 2]}
    for name, text in {"config.yaml": yaml.safe_dump(tree), "jobs.json": json.dumps(tree)}.items():
        (tmp_path / name).write_text(text)
        told = yaml.safe_load(masked_file(tmp_path / name))
        assert told == {"tracking": {"uri": "postgresql://u:***@h/db", "token": "***"}, "list": ["a@b", "${x}", 2]}


@pytest.mark.parametrize("key", ["tracking.password", "x.API_TOKEN", "client_secret", "aws_secret_access_key", "pwd"])
def test_a_key_whose_name_is_a_secrets_hides_its_value(key: str) -> None:
    assert str(InputError(key, "hunter22", "must be (hunter22)")) == f"{key}=***: must be (***)"
    assert masked(f"{key}=hunter22") == f"{key}=***"
    assert "hunter" not in masked(f"student={{{key}: hunter22}}")
    assert masked_tree({key: "hunter22"}) == {key: "***"}


@pytest.mark.parametrize("text", [
    "http://127.0.0.1:5000 does not answer", "http://[::1]:5000/x", "see https://sqlalche.me/e/20/e3q8)",
    "dataset=digits tracking.private=true", "sqlite:////home/me/mlflow.db", "secretary=3", "aggregator.sigma=1",
])  # fmt: skip
def test_what_is_no_secret_stays(text: str) -> None:
    assert masked(text) == text
