"""The ways in which trials/crowd.py damages stored predictions: whole entries, and unfinished work."""

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from nzc.types import AnyArray

Damage = Callable[[Path], object]
Change = Callable[[dict[str, AnyArray]], object]


def _truncate(share: float) -> Damage:
    """Keep this share of a file's bytes."""

    def truncate(path: Path) -> None:
        data = path.read_bytes()
        path.write_bytes(data[: int(share * len(data))])

    return truncate


def _flip(text: bytes, after: int, last: bool = False) -> Damage:
    """Flip a bit of the byte that is `after` bytes after the first or the last place of `text`."""

    def flip(path: Path) -> None:
        data = bytearray(path.read_bytes())
        place = data.rindex(text) if last else data.index(text)
        data[place + after] ^= 1
        path.write_bytes(data)

    return flip


def _rewrite(change: Change) -> Damage:
    """Write the changed arrays as a whole archive, with correct checksums."""

    def rewrite(path: Path) -> None:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
        change(arrays)
        with path.open("wb") as file:
            np.savez(file, allow_pickle=True, **arrays)

    return rewrite


def _change_request(**values: Any) -> Change:
    """Change values of the stored request."""

    def change(arrays: dict[str, AnyArray]) -> None:
        arrays["request"] = np.array(json.dumps(json.loads(str(arrays["request"])) | values, sort_keys=True))

    return change


def _rename(arrays: dict[str, AnyArray]) -> None:
    arrays["votes"] = arrays.pop("predictions")


def _as_array(path: Path) -> None:
    """Replace the archive by its predictions as a plain .npy file."""
    with np.load(path, allow_pickle=False) as file:
        predictions = file["predictions"]
    buffer = io.BytesIO()
    np.save(buffer, predictions)
    path.write_bytes(buffer.getvalue())


def _empty_archive(path: Path) -> None:
    zipfile.ZipFile(path, "w").close()


_NAME = b"predictions.npy"
#: Damages of a whole entry of predictions, an .npz file. The second group has correct checksums, but another content.
DAMAGES: dict[str, Damage] = {
    "file: without its last byte": _truncate(0.9999),
    "file: half of it": _truncate(0.5),
    "file: empty": _truncate(0),
    "file: zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "file: no array in the archive": _empty_archive,
    "file: an array, not an archive": _as_array,
    "bit: signature": _flip(b"PK\x03\x04", 0),
    "bit: name of the array": _flip(_NAME, 0),
    "bit: name in the directory": _flip(_NAME, 0, last=True),
    "bit: checksum": _flip(b"PK\x01\x02", 16),
    "bit: header of the array": _flip(b"'descr'", 12),
    "bit: predictions": _flip(b"\x93NUMPY", 128 + 1000),
    "bit: end of the directory": _flip(b"PK\x05\x06", 0, last=True),
    "content: no predictions": _rewrite(lambda arrays: arrays.pop("predictions")),
    "content: no request": _rewrite(lambda arrays: arrays.pop("request")),
    "content: another name": _rewrite(_rename),
    "content: another request": _rewrite(_change_request(epochs=1)),
    "content: a request that is not JSON": _rewrite(lambda arrays: arrays.update(request=np.array("{"))),
    "content: fewer rows": _rewrite(lambda arrays: arrays.update(predictions=arrays["predictions"][:, 1:])),
    "content: fewer teachers": _rewrite(lambda arrays: arrays.update(predictions=arrays["predictions"][1:])),
    "content: an unknown class": _rewrite(lambda arrays: arrays.update(predictions=arrays["predictions"] + 9)),
    "content: objects": _rewrite(lambda arrays: arrays.update(predictions=arrays["predictions"].astype(object))),
}
#: Damages of the unfinished work of a killed run: a folder with an .npz file for each finished teacher.
WORK: dict[str, Damage] = {
    "work: half of a teacher": lambda folder: _truncate(0.5)(folder / "1.npz"),
    "work: an empty teacher": lambda folder: _truncate(0)(folder / "1.npz"),
    "work: a teacher without labels": lambda folder: _rewrite(lambda arrays: arrays.pop("labels"))(folder / "1.npz"),
    "work: a bit of a teacher": lambda folder: _flip(b"\x93NUMPY", 128 + 100)(folder / "1.npz"),
}
