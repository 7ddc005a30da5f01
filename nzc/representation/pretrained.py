"""Pretrained encoders: public knowledge from elsewhere turns images into vectors."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nzc.data.images import is_image
from nzc.networks import outputs
from nzc.representation import Encoder, Placement
from nzc.settings import Count
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray
from nzc.validation import InputError, in_a_line


@dataclass(frozen=True, kw_only=True)
class Pretrained(Encoder):
    """A model that others trained; it learns nothing here. All vectors have length 1.

    The last linear layer of torchvision's models is taken off. conf/representation/pretrained.yaml
    explains the fields.
    """

    model: str | Callable[..., Any]
    weights: str | None = None
    size: Count | None = None
    digest: str = field(
        init=False, default=""
    )  # of the weights: it stands in the key of stored places

    def __post_init__(self) -> None:
        name, file = self._source
        names = self._names.__members__ if name == "weights" else {}
        if file in names:
            object.__setattr__(self, "digest", names[file].url)
        elif isinstance(file, str) and Path(file).is_file():
            object.__setattr__(self, "digest", sha256(Path(file).read_bytes()).hexdigest())
        elif not callable(file):
            known = ", ".join(["a file", *names])
            raise InputError(
                name, file, f"must be one of {known}: a model without weights knows nothing"
            )

    def check(self, public: AnyArray) -> None:
        (name, file), shape = self._source, public.shape[1:]
        if name == "weights" and not (public.dtype == np.uint8 and is_image(shape, 1)):
            allowed = "must be your own where rows are not images of bytes"
            raise InputError("representation.encoder.model", self.model, allowed)
        try:
            two, one = (outputs(self._loaded, public[:rows]) for rows in (2, 1))
            if not torch.allclose(two[:1], one, atol=1e-3):
                raise ValueError("the vector of a row must not depend on the rows beside it")
        except Exception as error:  # models raise many types
            allowed = f"must make vectors of rows {list(shape)} ({in_a_line(error, 200)})"
            raise InputError(f"representation.encoder.{name}", file, allowed) from error

    def fit(self, public: AnyArray, trainer: TrainerSettings) -> Placement:
        return Placement(
            self._loaded.to(trainer.device_kind) if self._source[0] == "weights" else self._loaded
        )

    @property
    def _source(self) -> tuple[str, Any]:
        """The key and value that say where the weights are: `weights` for torchvision's models,
        else `model`.
        """
        torchvision = isinstance(self.model, str) and not self.model.endswith(".pt2")
        return ("weights", self.weights) if torchvision else ("model", self.model)

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
    def _loaded(self) -> "_Vectors":
        if not isinstance(self.model, str):
            return _Vectors(self.model)
        if self._source[0] == "model":
            return _Vectors(
                torch.export.load(self.model).module().__call__
            )  # as a layer it would refuse eval()
        from torchvision.models import get_model

        named = self.weights in self._names.__members__
        trained = self._names[self.weights if named else "DEFAULT"].transforms()
        model = get_model(self.model, weights=self.weights if named else None)
        head = [name for name, layer in model.named_modules() if isinstance(layer, nn.Linear)][-1:]
        for name in head:
            model.set_submodule(name, nn.Identity())
        if not named:
            state = torch.load(str(self.weights), map_location="cpu", weights_only=True)
            model.load_state_dict(
                {key: state[key] for key in state if key.rpartition(".")[0] not in head}
            )
        return _Vectors(model, self.size or trained.crop_size[0], trained.mean, trained.std)


class _Vectors(nn.Module):
    """Vectors of length 1 of a model. With a `size`, images are resized, get three channels and are
    normalised.
    """

    def __init__(
        self, model: Callable[..., Any], size: int | None = None, mean: Any = 0, std: Any = 1
    ) -> None:
        super().__init__()
        self.model, self.size = model, size
        self.mean, self.std = (
            nn.Buffer(torch.tensor(value).view(-1, 1, 1)) for value in (mean, std)
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat(
            [self._vectors(part) for part in x.split(100)]
        )  # images of 224 × 224 take much memory

    def _vectors(self, x: Tensor) -> Tensor:
        if self.size is not None:
            x = F.interpolate(x, size=(self.size, self.size), mode="bilinear", antialias=True)
            x = (x.expand(-1, 3, -1, -1) - self.mean) / self.std
        return F.normalize(torch.as_tensor(self.model(x)).flatten(1).float(), dim=1)
