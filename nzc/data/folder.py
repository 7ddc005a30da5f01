"""Your own images: a folder with one folder of images per class."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nzc.data.hashing import keys_of, texts_of
from nzc.data.images import ImageError, as_bytes
from nzc.data.rows import gather
from nzc.data.splits import Dataset, DataSplits, Records, Split, by_share, check_names
from nzc.settings import BelowOne, Between0And1, Count, CountOrZero
from nzc.types import AnyArray, Ints
from nzc.validation import InputError


@dataclass(frozen=True)
class Folder(Dataset):
    """path/CLASS/IMAGE in any format that Pillow reads. Names that begin with a dot are ignored.

    An image is known by its file name, whatever its class: the name alone decides its split and its teacher. Folders of
    declared `classes` may be missing. Images become grey or RGB, of 8 bits; what is transparent lies on white.
    conf/dataset/folder.yaml explains the keys.
    """

    path: str
    seed: CountOrZero
    private: BelowOne
    public: Between0And1
    size: Count | None = None
    grey: bool = False
    classes: list[str | int | float] | None = None

    def check(self) -> None:
        self._folders()

    def load(self) -> DataSplits:
        folders = self._folders()
        files = [(path, at) for at, folder in enumerate(folders) if folder.is_dir() for path in _listed(folder)]
        if any(path.is_dir() for path, _ in files):
            raise InputError("path", self.path, "must hold images as path/CLASS/IMAGE, and a class has folders")
        files.sort(key=lambda file: file[0].name)
        names = np.array([file.name for file, _ in files], dtype=object)
        keys, y = keys_of(names), np.array([label for _, label in files], dtype=np.int64)
        mine, asked, rest = map(np.flatnonzero, by_share(keys, True, self.private, self.public, self.seed))
        shape = self._read(files[0][0]).shape

        def images(rows: Ints) -> Iterator[AnyArray]:
            yield np.empty((0, *shape), np.uint8)  # there may be no rows
            for row in rows.tolist():
                image = self._read(files[row][0])
                if image.shape != shape:
                    raise InputError("size", self.size, "must be given where images differ in size")
                yield image[None]

        public, test = (Split(gather(images(rows))[:], y[rows]) for rows in (asked, rest))
        return DataSplits(
            Records(gather(images(mine)), y[mine]), public, test, len(folders), asked, keys=keys[mine],
            labels=tuple(folder.name for folder in folders), ids=texts_of(names[asked]),
            declared=self.classes is not None,
        )  # fmt: skip

    def _folders(self) -> list[Path]:
        """Return the folder of each class, in order; those of declared classes may be missing."""
        root = Path(self.path)
        folders = [path for path in _listed(root) if path.is_dir()] if root.is_dir() else []
        if len(folders) < 2:
            allowed = f"must be a folder with a folder of images for each of 2 or more classes; it has {len(folders)}"
            raise InputError("path", self.path, allowed)
        check_names(self.classes)
        declared = folders if self.classes is None else [root / str(name) for name in self.classes]
        if further := set(folders) - set(declared):
            allowed = f"must name every folder in dataset.path={self.path}, which has {len(further):,} others"
            raise InputError("classes", self.classes, allowed)
        return declared

    def _read(self, file: Path) -> AnyArray:
        """Return one image, uint8 [channels, height, width]."""
        from PIL import Image

        try:
            with warnings.catch_warnings(action="ignore"), Image.open(file) as opened:
                image = as_bytes(opened, self.grey)
        except Exception as error:  # Pillow's decoders raise many types, which name the file
            why = error if isinstance(error, ImageError) else "it is damaged, or no image"
            number = 1 + sum(other < file for other in _listed(file.parent))  # the name may identify a person
            allowed = f"must hold nothing but images; number {number} of {file.parent.name}, by name, is not one: {why}"
            raise InputError("path", self.path, allowed) from None
        if self.size is not None:
            image = image.resize((self.size, self.size), Image.Resampling.BILINEAR)
        pixels = np.asarray(image)
        return pixels[None] if self.grey else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _listed(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
