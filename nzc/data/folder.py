"""Your own images: a folder with a folder for each class, and one of images without a class."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from glob import glob
from itertools import compress
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple
from warnings import catch_warnings

import numpy as np

from nzc.data.hashing import draw_by_key, keys_of, texts_of
from nzc.data.images import ImageError, Range, as_bytes, few_levels
from nzc.data.rows import gather
from nzc.data.splits import (
    UNKNOWN,
    Dataset,
    DataSplits,
    Overlap,
    Records,
    Split,
    Units,
    by_share,
    check_names,
    to_drop,
)
from nzc.ranges import BelowOne, Count, CountOrZero, checked
from nzc.saying import say
from nzc.storage.files import digest_of
from nzc.streams import Stream
from nzc.types import AnyArray, Ints, Shape
from nzc.validation import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

_PUBLIC = (
    "must be a share of the images, above 0 and below 1, or a folder of images without a class"
)


def _check_public(key: str, value: object) -> None:
    if not isinstance(value, str) and not (isinstance(value, float) and 0 < value < 1):
        raise InputError(key, value, _PUBLIC)


#: What is wrong with a file, by the name of the error.
_ERRORS = {
    "DecompressionBombError": "it has more than 179 million pixels; make it smaller, or cut tiles",
    "FileNotFoundError": "it is a link, and no file is where it points; copy the image itself",
    "PermissionError": "you may not read it",
}
#: What other files are, by how they begin; the first that fits counts.
_KINDS = {
    rb"\Z": "empty",
    rb".{4}ftyp(hei|hev|mif|msf)": "HEIC or HEIF, which Pillow does not open",
    rb".{4}ftypavi": "AVIF that Pillow does not open",
    rb".{4}ftyp": "a video",
    rb".{4}JXL |\xff\n": "JPEG XL, which Pillow does not open",
    rb".{128}DICM": "DICOM, which Pillow does not open",
    rb".{344}n[+i]1|\x1f\x8b": "NIfTI, or a file packed by gzip",
    rb"PK": "a ZIP archive",
    rb"%PDF": "PDF",
    rb"\W*<(?!.{0,9}html).*?svg": "SVG, which Pillow does not open",
    rb"\W*<": "a web page (HTML), or XML",
    rb"[^\0-\x08\x0e-\x1f]+\Z": "text",
    rb"II|MM": "damaged, or TIFF that Pillow does not open, such as a camera's raw file",
    rb"\xff\xd8|\x89PNG|GIF8|RIFF|BM": "cut short or damaged",
    rb"": "damaged, or no image",
}


class ImageFile(NamedTuple):
    """A file, its class, and its name below the folder that `key` gives: CLASS/IMAGE, or a path."""

    key: Literal["path", "public", "test"]
    path: Path
    label: int
    name: str


Images = list[ImageFile]


@dataclass(frozen=True)
class Folder(Dataset):
    """path/CLASS/IMAGE in any format that Pillow reads. Names that begin with a dot are ignored.

    An image is known by its file name, whatever its class: the name alone decides its split and its
    teacher. Folders of declared `classes` may be missing. Images become grey or RGB, of 8 bits;
    what is transparent lies on white. Images of `public`, where this is a folder, have no class,
    and lie in folders of any depth; those of `test` lie as in path. conf/dataset/folder.yaml
    explains the keys.
    """

    path: str
    seed: CountOrZero
    private: BelowOne
    public: Annotated[float | str, checked(_check_public)]
    test: str | None = None
    size: Count | None = None
    grey: bool = False
    range: Range = None
    classes: list[str | int | float] | None = None
    overlap: Overlap = "refuse"

    def check(self) -> int | None:
        _ = self._classes  # InputError: a folder is wrong
        if isinstance(self.public, str):
            return len(self._unlabeled(self.public))
        return None

    def load(self) -> DataSplits:
        files = self._labeled("path")
        file_rows: Ints | None = None
        if isinstance(self.public, str):
            public = self._unlabeled(self.public)
            if self.test is not None:
                test = self._labeled("test")
                private = self._without(files, public + test)
            else:
                place = draw_by_key(_keys(files), self.seed, Stream.SPLITS) / 2.0**64
                is_private = place < self.private
                test = list(compress(files, ~is_private))
                private = self._without(list(compress(files, is_private)), public)
        else:
            masks = by_share(_keys(files), True, self.private, self.public, self.seed)
            file_rows = np.flatnonzero(masks[1])
            private, public, test = (list(compress(files, mask)) for mask in masks)

        shape = self._read(public[0]).shape
        public_images = gather(self._images(public, shape))[:]
        warnings = few_levels(public_images) if self.range is None else ()
        say(*warnings)
        return DataSplits(
            Records(gather(self._images(private, shape)), _labels(private)),
            Split(public_images, _labels(public)),
            Split(gather(self._images(test, shape))[:], _labels(test)),
            len(self._classes),
            file_rows=file_rows,
            units=Units(keys=_keys(private)),
            labels=tuple(self._classes),
            ids=texts_of(_each(public, "name")),
            declared=self.classes is not None,
            warnings=warnings,
        )

    @cached_property
    def _classes(self) -> list[str]:
        """The names of the classes, in order. InputError: there are folders of others."""
        found = list(map(attrgetter("name"), self._class_folders("path")))
        if self.classes is None and len(found) < 2:
            folders = "a folder with a folder of images for each of 2 or more classes"
            raise self.refused("path", f"must be {folders}; it has {len(found)}")
        check_names(self.classes)
        classes = list(map(str, self.classes or found))
        further = set(found) - set(classes)
        if further:
            others = f"dataset.path={self.path}, which has {len(further):,} others"
            raise self.refused("classes", f"must name every folder in {others}")
        if self.test is not None and not isinstance(self.public, str):
            raise self.refused(
                "test", "must be null unless dataset.public is a folder of images too"
            )
        return classes

    def _class_folders(self, key: Literal["path", "test"]) -> list[Path]:
        root = Path(getattr(self, key))
        if not root.is_dir():
            return []
        given = (self.public, self.test)
        others = [Path(folder).resolve() for folder in given if isinstance(folder, str)]
        return [path for path in _listed(root) if path.is_dir() and path.resolve() not in others]

    def _labeled(self, key: Literal["path", "test"]) -> Images:
        """Return the images of all classes, by file name.

        InputError: a folder is no class, or has folders.
        """
        classes = self._classes
        wanted = f"must hold images as {key}/CLASS/IMAGE"
        files = []
        for folder in self._class_folders(key):
            paths = _listed(folder)
            if folder.name not in classes or any(path.is_dir() for path in paths):
                raise self.refused(
                    key, f"{wanted}, with the classes of dataset.path, without other folders"
                )
            label = classes.index(folder.name)
            files += [ImageFile(key, path, label, f"{folder.name}/{path.name}") for path in paths]
        if not files:
            raise self.refused(key, f"{wanted}; there are none")
        return sorted(files, key=lambda file: (file.path.name, file.label))

    def _unlabeled(self, public: str) -> Images:
        """Return the images in the folder `public` and in folders below it, by their path."""
        files = []
        for name in glob("**", root_dir=public, recursive=True):
            path = Path(public, name)
            if not path.is_dir():
                files.append(ImageFile("public", path, UNKNOWN, name))
        if not files:
            raise self.refused("public", f"{_PUBLIC}; there is no image in it")
        return sorted(files, key=attrgetter("path"))

    def _without(self, private: Images, others: Images) -> Images:
        """Return the private images that `overlap` keeps. Equal bytes make equal images."""
        digests = list(map(digest_of, _each(private, "path")))
        shown = map(digest_of, _each(others, "path"))
        dropped = to_drop(digests, shown, "bytes of image files", self.overlap)
        return list(compress(private, ~np.isin(digests, [*dropped])))

    def _images(self, files: Images, shape: Shape) -> Iterator[AnyArray]:
        """Yield each image, uint8 [1, channels, height, width]. InputError: their shapes differ."""
        yield np.empty((0, *shape), np.uint8)  # there may be no files
        for file in files:
            image = self._read(file)
            if image.shape != shape:
                raise self.refused("size", "must be given where images differ in size")
            yield image[None]

    def _read(self, file: ImageFile) -> AnyArray:
        """Return one image, uint8 [channels, height, width]."""
        from PIL import Image

        image = self._opened(file)
        if self.size is not None:
            image = image.resize((self.size, self.size), Image.Resampling.BILINEAR)
        pixels = np.asarray(image)
        if self.grey:
            return pixels[None]
        return np.ascontiguousarray(pixels.transpose(2, 0, 1))

    def _opened(self, file: ImageFile) -> "Image":
        """Return an image in mode L or RGB."""
        from PIL import Image

        try:
            with catch_warnings(action="ignore"), Image.open(file.path) as opened:
                return as_bytes(opened, self.grey, self.range)
        except Exception as error:  # Pillow's decoders raise many types, which name the file
            folder = file.path.parent
            number = 1 + _listed(folder).index(file.path)  # the name may identify a person
            why = _ERRORS.get(type(error).__name__) or _why(file.path, error)
            place = f"number {number} of {folder.name}, by name, is not one: {why}"
            raise self.refused(file.key, f"must hold nothing but images; {place}") from None


def _why(path: Path, error: Exception) -> object:
    """Return why a file is no image, and what to do."""
    if isinstance(error, ImageError):
        return error
    start = path.read_bytes()[:512]
    kinds = [kind for begins, kind in _KINDS.items() if re.match(b"(?is)" + begins, start)]
    return f"it is {kinds[0]}; save the image as JPEG or PNG, or copy it anew"


def _each(files: Images, attribute: str) -> AnyArray:
    """Return an attribute of each file, [files]."""
    return np.array(list(map(attrgetter(attribute), files)), dtype=object)


def _keys(files: Images) -> Ints:
    return keys_of(_each(files, "path.name"))


def _labels(files: Images) -> Ints:
    return _each(files, "label").astype(np.int64)


def _listed(folder: Path) -> list[Path]:
    return sorted(folder.glob("[!.]*"))
