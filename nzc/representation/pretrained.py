"""Pretrained encoders: public knowledge from elsewhere turns images and texts into vectors."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nzc.data import Dataset, DataSplits
from nzc.data.images import is_image
from nzc.data.rows import blocks
from nzc.data.sentences import ModelError, Sentences
from nzc.data.splits import Records, Space, Split
from nzc.networks import outputs
from nzc.progress import duration, lines
from nzc.ranges import Count
from nzc.representation import Encoder, Placement
from nzc.storage.files import digest_of
from nzc.storage.fingerprint import describe, source_digest
from nzc.storage.predictions import PredictionStore
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray
from nzc.validation import InputError, in_a_line

#: So many images of 224 × 224 are in memory at a time.
_AT_ONCE = 100


@dataclass(frozen=True, kw_only=True)
class Pretrained(Encoder):
    """A model that others trained; it learns nothing here. All vectors have length 1.

    The last linear layer of torchvision's models is taken off. conf/representation/pretrained.yaml
    explains the fields.

    digest  of the weights: it stands in the key of stored places
    """

    model: str | Callable[..., Any]
    weights: str | None = None
    size: Count | None = None
    digest: str = field(init=False, default="")

    def __post_init__(self) -> None:
        if not isinstance(self.model, str):
            return
        key = "model"
        file: str | None = self.model
        names = {}
        if self._is_torchvisions:
            key = "weights"
            file = self.weights
            names = self._names.__members__
        if file in names:
            digest = names[file].url
        elif file is not None and Path(file).is_file():
            digest = digest_of(file)
        else:
            known = ", ".join(["a file", *names])
            raise InputError(key, file, f"must be one of {known}: a model needs weights")
        object.__setattr__(self, "digest", digest)

    def check(self, public: AnyArray) -> None:
        shape = public.shape[1:]
        key = "representation.encoder.model"
        if self._is_torchvisions and not (public.dtype == np.uint8 and is_image(shape, 1)):
            raise InputError(key, self.model, "must be your own where rows are no images of bytes")
        try:
            two = outputs(self.vectors, public[:2])
            one = outputs(self.vectors, public[:1])
            if not torch.allclose(two[:1], one, atol=1e-3):
                raise ValueError("the vector of a row must not depend on the rows beside it")
        except Exception as error:  # models raise many types
            raise InputError(
                key,
                self.model,
                f"must make vectors of rows {list(shape)} ({in_a_line(error, 200)})",
            ) from error

    def fit(self, public: AnyArray, trainer: TrainerSettings) -> Placement:
        if self._is_torchvisions:
            self.vectors.to(trainer.device_kind)
        return Placement(self.vectors)

    @property
    def _is_torchvisions(self) -> bool:
        return isinstance(self.model, str) and not self.model.endswith(".pt2")

    @cached_property
    def _names(self) -> Any:
        """The names of the weights of torchvision's model, an Enum."""
        from torchvision import models

        if self.model not in models.list_models(module=models):
            raise InputError(
                "model", self.model, "must be a .pt2 file, your own or in torchvision.models"
            )
        return models.get_model_weights(self.model)

    @cached_property
    def vectors(self) -> "_Vectors":
        if not isinstance(self.model, str):
            return _Vectors(self.model)
        if not self._is_torchvisions:  # as a layer it would refuse eval()
            return _Vectors(torch.export.load(self.model).module().__call__)
        from torchvision.models import get_model

        name = self.weights if self.weights in self._names.__members__ else None
        prepared = self._names[name or "DEFAULT"].transforms()
        model = get_model(self.model, weights=name)
        layers = [layer for layer, kind in model.named_modules() if isinstance(kind, nn.Linear)]
        head = layers[-1:]
        for layer in head:
            model.set_submodule(layer, nn.Identity())
        if name is None:
            state = torch.load(str(self.weights), map_location="cpu", weights_only=True)
            body = {key: state[key] for key in state if key.rpartition(".")[0] not in head}
            model.load_state_dict(body)
        return _Vectors(model, self.size or prepared.crop_size[0], prepared.mean, prepared.std)


@dataclass(frozen=True, kw_only=True)
class EncodedDataset(Dataset):
    """A dataset whose rows are the vectors that a pretrained model makes of those of another.

    So everything that learns, learns in one space: teachers, sums, counts and the student. Images
    are embedded in batches of one size, so the same is computed for one whatever the others are.
    """

    rows: Dataset
    encoder: Pretrained
    store: PredictionStore = field(compare=False)
    trainer: TrainerSettings = field(compare=False)

    def check(self) -> int | None:
        return self.rows.check()

    def describe(self) -> None:
        self.rows.describe()

    def load(self) -> DataSplits:
        splits = self.rows.load()
        parts = (splits.private, splits.public, splits.test)
        self.encoder.check(splits.public.x)

        def place(_: object) -> AnyArray:
            encode = self.encoder.fit(splits.public.x, self.trainer)
            found: list[AnyArray] = []
            with _telling("images", sum(map(len, parts))) as done:
                for block in chain.from_iterable(blocks(part.x) for part in parts):
                    for start in range(0, len(block), _AT_ONCE):
                        images = block[start : start + _AT_ONCE]
                        filled = np.resize(images, (_AT_ONCE, *images.shape[1:]))
                        found.append(encode(filled)[: len(images)])
                        done(sum(map(len, found)))
            return np.concatenate(found)

        request = describe(
            {
                "encoder": self.encoder,
                "data": splits.digest,
                "device": self.trainer.device_kind,
            }
        )
        vectors = self.store.fetch(request, place)
        private, public, test = np.split(vectors, np.cumsum([len(part) for part in parts])[:2])
        space = Space(splits.public.x[0], splits.preparation, self.encoder.vectors.cpu())
        return replace(
            splits,
            private=Records(private, splits.private.y),
            public=Split(public, splits.public.y),
            test=Split(test, splits.test.y),
            preparation=None,
            space=space,
            private_file=splits.private_digest,
        )


class StoredSentences(Sentences):
    """A sentence encoder whose vectors are stored: a text is embedded once for all runs."""

    def __init__(self, model: str | Callable[..., Any], store: PredictionStore) -> None:
        self.store = store
        name = model
        try:
            if isinstance(model, str):
                super().__init__(model)
            else:
                function = getattr(model, "func", model)  # of a partial
                name = getattr(function, "__qualname__", type(model).__qualname__)
                text = json.dumps(describe(model), sort_keys=True)
                super().__init__(name, model, sha256(text.encode()).hexdigest())
            self.check()
        except ModelError as error:
            raise InputError("model", name, str(error)) from error

    def __call__(
        self, texts: Sequence[str], told: Callable[[int], object] | None = None
    ) -> AnyArray:
        digest = sha256(json.dumps(list(texts)).encode()).hexdigest()
        request = {
            "encoder": self.digest,
            "texts": digest,
            "code": source_digest("nzc.data.sentences"),
        }

        def place(_: object) -> AnyArray:
            with _telling("texts", len(texts)) as done:
                return super(StoredSentences, self).__call__(texts, done)

        return self.store.fetch(request, place)


@contextmanager
def _telling(what: str, number: int) -> Iterator[Callable[[int], None]]:
    """Yield what to tell how many are done; a line every ten seconds says it, and the time left."""
    begun = time.monotonic()
    done = 0

    def tell(now: int) -> None:
        nonlocal done
        done = now

    def line() -> str:
        left = (number - done) * (time.monotonic() - begun) / max(1, done)
        return f"{done:,} of {number:,} {what} have vectors; {duration(left)} left"

    with lines(line):
        yield tell


class _Vectors(nn.Module):
    """Vectors of length 1 of a model.

    With a `size`, images are resized, get three channels and are normalised.
    """

    def __init__(
        self, model: Callable[..., Any], size: int | None = None, mean: Any = 0, std: Any = 1
    ) -> None:
        super().__init__()
        self.model = model
        self.size = size
        self.mean = nn.Buffer(torch.tensor(mean).view(-1, 1, 1))
        self.std = nn.Buffer(torch.tensor(std).view(-1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self._of_few(rows) for rows in x.split(_AT_ONCE)])

    def _of_few(self, x: Tensor) -> Tensor:
        if self.size is not None:
            x = F.interpolate(x, size=(self.size, self.size), mode="bilinear", antialias=True)
            x = (x.expand(-1, 3, -1, -1) - self.mean) / self.std
        return F.normalize(torch.as_tensor(self.model(x)).flatten(1).float(), dim=1)
