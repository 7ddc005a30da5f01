"""Pretrained encoders: public knowledge from elsewhere turns images into vectors."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nzc.data.images import is_image
from nzc.networks import outputs
from nzc.ranges import Count
from nzc.representation import Encoder, Placement
from nzc.storage.files import digest_of
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray
from nzc.validation import InputError, in_a_line


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
            two = outputs(self._vectors, public[:2])
            one = outputs(self._vectors, public[:1])
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
            self._vectors.to(trainer.device_kind)
        return Placement(self._vectors)

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
    def _vectors(self) -> "_Vectors":
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
        # Images of 224 × 224 take much memory.
        return torch.cat([self._of_few(rows) for rows in x.split(100)])

    def _of_few(self, x: Tensor) -> Tensor:
        if self.size is not None:
            x = F.interpolate(x, size=(self.size, self.size), mode="bilinear", antialias=True)
            x = (x.expand(-1, 3, -1, -1) - self.mean) / self.std
        return F.normalize(torch.as_tensor(self.model(x)).flatten(1).float(), dim=1)
