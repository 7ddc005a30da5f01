"""Stored teacher predictions: found again by a hash of everything that can change them."""

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout

from nzc.saying import say
from nzc.storage.files import make_own, refresh, write_private
from nzc.types import AnyArray
from nzc.validation import Tree

#: What is in a store beside its marker, and the names of entries: nothing else is listed or
#: removed.
STORED = ("ledger.db", "ledger.db-journal", "predictions")
_ENTRY = re.compile(r"[0-9a-f]{20}\.(npz|work)")


@dataclass(frozen=True)
class Entry:
    """One set of stored predictions: KEY.npz, or the folder KEY.work of teachers under way."""

    path: Path
    request: Tree
    bytes: int
    days: float  # since it was written

    @property
    def state(self) -> str:
        return "whole" if self.path.suffix == ".npz" else "partial"


class PredictionStore:
    """Predictions below `root`, for its owner only: predictions/KEY.npz, with the request as JSON.

    The checksums of the zip format detect damage: the predictions are then computed again. The
    ledger waits `wait` seconds for its turn.
    """

    def __init__(
        self, root: str | Path, wait: float = 60, ledger: str | Path | None = None
    ) -> None:
        self.root = Path(root)
        self.wait = wait
        self.ledger = self.root / "ledger.db"
        if ledger is not None:
            self.ledger = Path(ledger).absolute()
        self._folder = self.root / "predictions"

    def has(self, request: Tree) -> bool:
        """Return whether there are predictions for `request`."""
        return self._paths(request)[0].is_file()

    def fetch(self, request: Tree, train: Callable[[Path], AnyArray]) -> AnyArray:
        """Return the predictions for `request`; one process at a time computes missing ones.

        `train(folder)` computes them. What it leaves unfinished in `folder` survives a kill, and is
        there for the next try.
        """
        path, work = self._paths(request)
        self._make()
        with _locked(path):
            text = json.dumps(request, sort_keys=True)
            stored = load(path) or {}
            if str(stored.get("request")) != text:
                if path.is_file():
                    say(f"{path} is damaged: its predictions are computed again")
                work.mkdir(mode=0o700, exist_ok=True)
                stored = {"predictions": train(work)}
                save(path, **stored, request=np.array(text))
            shutil.rmtree(work, ignore_errors=True)  # or its writer was killed after `save`
            return stored["predictions"]

    def train_worker(self, request: Tree, train: Callable[[Path], object]) -> None:
        """On a worker node: train a share of the teachers; the first node has the lock."""
        path, work = self._paths(request)
        self._make()  # this node may be the first to come
        refresh(self._folder)
        if not path.is_file():
            work.mkdir(mode=0o700, exist_ok=True)
            train(work)

    def entries(self) -> list[Entry]:
        """Return what is stored, the oldest first."""
        entries = []
        for path in sorted(self._folder.glob("*")):
            if _ENTRY.fullmatch(path.name):
                request = json.loads(str((load(path) or {}).get("request", "{}")))
                size = sum(file.stat().st_size for file in (path, *path.rglob("*")))
                days = max(0.0, time.time() - path.stat().st_mtime) / 86400
                entries.append(Entry(path, request, size, days))
        return sorted(entries, key=lambda entry: -entry.days)

    def remove(self, entry: Entry) -> None:
        """Remove an entry that nobody computes or reads. Somebody may wait for its lock file."""
        with _locked(entry.path):
            if entry.path.is_dir():
                shutil.rmtree(entry.path)
            else:
                entry.path.unlink(missing_ok=True)

    def _make(self) -> None:
        make_own(self.root)
        self._folder.mkdir(mode=0o700, exist_ok=True)

    def _paths(self, request: Tree) -> tuple[Path, Path]:
        key = sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()[:20]
        return self._folder / f"{key}.npz", self._folder / f"{key}.work"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of an entry; say so where another process has it. It ends with its process."""
    lock = FileLock(path.with_suffix(".lock"), mode=0o600)
    try:
        locked = lock.acquire(timeout=0)
    except Timeout:
        say("waiting for another process, which computes the same predictions")
        locked = lock.acquire(poll_interval=0.2)
    with locked:
        yield


def save(path: Path, **arrays: AnyArray) -> None:
    """Write an .npz file, whole or not at all, with whole numbers in the smallest type."""
    file = BytesIO()
    np.savez(file, allow_pickle=False, **{name: _compact(array) for name, array in arrays.items()})
    write_private(path, file.getvalue())


def load(path: Path) -> dict[str, AnyArray] | None:
    """Return the arrays of an .npz file; None where it is missing or damaged."""
    refresh(path.parent)
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    except Exception:  # NumPy and zipfile raise many types
        return None


def _compact(array: AnyArray) -> AnyArray:
    """Return whole numbers in the smallest type that holds them, and other arrays as they are."""
    if array.dtype.kind not in "iu" or array.size == 0:
        return array
    low = int(array.min())
    high = int(array.max())
    if low < 0:
        high = min(low, -high - 1)  # a negative number asks for a signed type
    return array.astype(np.min_scalar_type(high), copy=False)
