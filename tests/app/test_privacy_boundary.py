"""The edges of what is private: who may read what a run leaves, what is said and sent of it, and
what is released.
"""

import re
import stat
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from conftest import FILE, SMALL, RunNzc, contents, newest_folder

from nzc.app.publish import publish_run as publish
from nzc.data.hashing import keys_of
from nzc.data.splits import by_share
from nzc.mechanisms import count_votes
from nzc.runs.result import RunResult

MARKER = np.array([201, 7, 99, 250, 13, 77, 181, 42], np.uint8)
WORD = "Zyxwv-8806513"
pytestmark = pytest.mark.usefixtures("usual_umask")


Secrets = dict[str, list[bytes]]


def _found(secrets: Secrets, contents: Iterable[tuple[str, bytes]]) -> set[str]:
    """Which secrets are there, as they are or, for numbers, in whatever is written between them."""
    names = set()
    for _, data in contents:
        searched = data + b" " + re.sub(rb"[^0-9.]+", b" ", data) + b" "
        names |= {name for name, forms in secrets.items() if any(map(searched.__contains__, forms))}
    return names


def _array(values: np.ndarray) -> list[bytes]:
    """As bytes of every type that would hold it, and as text."""
    typed = [values.astype(kind) for kind in ("u1", "<i4", "<i8", "<f4", "<f8")]
    forms = [array.tobytes() for array in typed if (array == values).all()]
    return [*forms, f" {' '.join(f'{value:g}' for value in values.ravel())} ".encode()]


def _images(rng: np.random.Generator, private: np.ndarray) -> tuple[np.ndarray, list[bytes]]:
    x = rng.integers(0, 60, (240, 8, 8)).astype(np.uint8)
    x[np.arange(240), :, np.arange(240) % 3] += 120
    x[private, 4] = MARKER
    return x, [*_array(MARKER), (MARKER.astype(np.float32) / 255).tobytes()]


def test_nothing_private_is_in_what_is_public(run_nzc: RunNzc) -> None:
    """test_neighbouring_runs shows it of every number that follows from them."""
    group = [f"{WORD}-{row}" for row in range(240)]
    chosen = by_share(keys_of(np.array(group)), True, 0.6, 0.2, 0)
    assert chosen is not None
    x, record = _images(np.random.default_rng(0), chosen[0])
    y = np.where(np.arange(240) % 7 == 0, 2, np.arange(240) % 3)  # some wrong, or all would agree
    np.savez_compressed("data.npz", x=x, y=y, group=group)
    here = Path.cwd()
    sent = [here / "mlflow.db", here / "mlartifacts"]
    command = ["dataset=npz", "dataset.path=data.npz", "dataset.private=0.6", "dataset.public=0.2"]
    command += [*SMALL, "rng=system", "aggregator.sigma=6", "tracking=mlflow", "figures=true"]
    ran = run_nzc(*command, "tracking.private=false", "dataset.name=people")
    predictions = np.load(next(Path(".nzc/predictions").glob("*.npz")))["predictions"].astype(int)
    votes = count_votes(predictions, 3)
    secrets = {
        "record": record,
        "group": [WORD.encode()],
        "predictions": _array(predictions[0][:30]),
        "votes": _array(votes[:8]),
        "votes by class": _array(votes[:20, 0]),
    }
    publish(newest_folder(ran), here / "released")
    public = [("printed", (ran.out + ran.err).encode()), *contents(here / "released", *sent)]
    assert _found(secrets, public) == set()
    names = {Path(name).name for name, _ in public}
    assert names >= {"labels.csv", "confusion.svg"}
    assert not names & {"curves.csv", "gaps.svg", "cost.svg"}

    # And they are found where they are.
    private = contents(here / "data.npz", here / ".nzc", here / "outputs")
    assert _found(secrets, private) >= {"record", "predictions"}
    assert _open_to_others(here / ".nzc", here / "outputs", *sent) == []


def test_the_public_part_of_a_result_is_known_key_by_key(run_nzc: RunNzc, histograms: Path) -> None:
    """A new key of result.json is private until it is added here."""
    run_nzc(*FILE, "teachers.labels=labels.npy")
    record = RunResult.read(next(Path("outputs").glob("*/*"))).public.as_dict()
    assert {key for key, value in record.items() if value is not None} == {
        "dataset", "aggregator", "student", "seed", "rng", "mechanism", "delta", "queries",
        "answered", "refused", "reinforced", "label_accuracy", "teachers", "epsilon", "rounds",
        "neighbours", "unit", "bound", "seconds", "finished", "versions", "metrics", "warnings",
        "moved_votes", "voters",
    }  # fmt: skip
    public = {"published", "published_delta", "data_independent"}
    assert {name for name, value in record["epsilon"].items() if value is not None} == public
    assert {name for name, value in record["teachers"].items() if value is not None} == {"count"}
    assert set(record["seconds"]) == {"total"}


def _open_to_others(*roots: Path) -> list[str]:
    """Return the files and folders that others than their owner may read or write."""
    paths = [path for root in roots for path in (root, *root.rglob("*"))]
    assert paths
    return [str(path) for path in paths if stat.S_IMODE(path.lstat().st_mode) & 0o077]
