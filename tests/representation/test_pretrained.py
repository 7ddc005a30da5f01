"""Pretrained encoders: vectors of torchvision's models, of exported files and of callables."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import parametrize
from few_labels import QUIET
from numpy.testing import assert_allclose
from pytest import raises
from torch import nn
from torch.nn import functional as F
from torchvision.models import ResNet18_Weights, mobilenet_v3_small, resnet18

from nzc.representation.pretrained import Pretrained
from nzc.storage.fingerprint import describe
from nzc.validation import InputError

pytestmark = pytest.mark.usefixtures("one_thread")
IMAGES = np.random.default_rng(0).integers(0, 256, (5, 1, 12, 12), dtype=np.uint8)


def _tiny(seed: int) -> nn.Module:
    """Return a model with dropout, which must be off."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(144, 7))


def _vectors(encoder: Pretrained, rows: np.ndarray = IMAGES) -> np.ndarray:
    encoder.check(rows)
    return np.asarray(encoder.fit(rows, QUIET)(rows))


def _saved(path: Path, model: nn.Module) -> str:
    torch.save(model.state_dict(), path)
    return str(path)


@parametrize(
    ("make", "name", "head"),
    [(resnet18, "resnet18", "fc"), (mobilenet_v3_small, "mobilenet_v3_small", "classifier.3")],
)
def test_vectors_are_what_the_last_layer_gets(
    make: Any, name: str, head: str, tmp_path: Path
) -> None:
    """By hand: images of three channels, resized and normalised; what the last layer is given."""
    model = make(num_classes=3).eval()  # a head of another size is taken off all the same
    found = _vectors(Pretrained(model=name, weights=_saved(tmp_path / "w.pt", model), size=32))
    given: list[torch.Tensor] = []
    model.get_submodule(head).register_forward_pre_hook(lambda _, inputs: given.append(inputs[0]))
    x = torch.from_numpy(IMAGES).float().expand(-1, 3, -1, -1) / 255
    x = F.interpolate(x, size=(32, 32), mode="bilinear", antialias=True)
    usual = ResNet18_Weights.DEFAULT.transforms()
    mean = torch.tensor(usual.mean)[:, None, None]
    std = torch.tensor(usual.std)[:, None, None]
    with torch.no_grad():
        model((x - mean) / std)
    assert_allclose(found, F.normalize(given[0], dim=1), atol=1e-5)


def test_an_exported_file_is_the_callable_that_it_holds(tmp_path: Path) -> None:
    rows_vary = {"input": {0: torch.export.Dim("rows")}}
    example = (torch.zeros(2, 1, 12, 12),)
    program = torch.export.export(_tiny(0).eval(), example, dynamic_shapes=rows_vary)
    torch.export.save(program, tmp_path / "m.pt2")
    exported = _vectors(Pretrained(model=str(tmp_path / "m.pt2")))
    assert exported.shape == (5, 7)
    assert_allclose(exported, _vectors(Pretrained(model=_tiny(0).train())), atol=1e-6)


def test_the_weights_are_in_the_stored_key(tmp_path: Path) -> None:
    keys = []
    for seed in (0, 0, 1):  # one path, other weights
        torch.manual_seed(seed)
        weights = _saved(tmp_path / "w.pt", resnet18())
        keys.append(str(describe(Pretrained(model="resnet18", weights=weights))))
    for name in ("resnet18", "resnet34"):
        keys.append(str(describe(Pretrained(model=name, weights="DEFAULT"))))
    for seed in (0, 1):
        keys.append(str(describe(Pretrained(model=_tiny(seed)))))
    assert keys[0] == keys[1]
    assert len(set(keys)) == len(keys) - 1


@parametrize(
    ("key", "value"),
    [
        ("weights", None),
        ("weights", "absent.pt"),
        ("model", "resnet1"),
    ],
)
def test_a_model_without_weights_is_refused(key: str, value: str | None) -> None:
    with raises(InputError) as refused:
        Pretrained(**{"model": "resnet18", key: value})
    assert (refused.value.key, refused.value.value) == (key, value)


def _dependent(x: torch.Tensor) -> torch.Tensor:
    return x.flatten(1) - x.flatten(1).mean(0)


@parametrize(
    ("model", "rows"),
    [
        ("resnet18", np.ones((4, 9), np.float32)),
        ("resnet18", np.ones((4, 1, 12, 12), np.float32)),
        ("resnet34", IMAGES),
        (_dependent, IMAGES),
    ],
    ids=["features", "no bytes", "weights of another", "depends on other rows"],
)
def test_models_that_do_not_suit_are_refused(model: Any, rows: np.ndarray, tmp_path: Path) -> None:
    """Where a vector depends on the rows beside it, a record would move other records."""
    encoder = Pretrained(model=model, weights=_saved(tmp_path / "w.pt", resnet18()))
    with raises(InputError, match=r"^representation\.encoder\.model="):
        encoder.check(rows)
