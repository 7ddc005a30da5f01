"""Pretrained encoders: vectors of torchvision's models, of exported files and of callables."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Nzc
from torch import nn
from torchvision.models import ResNet18_Weights, mobilenet_v3_small, resnet18

from nzc.representation.pretrained import Pretrained
from nzc.storage.fingerprint import describe
from nzc.training.trainer import TrainerSettings
from nzc.validation import InputError

pytestmark = pytest.mark.usefixtures("one_thread")
QUIET = TrainerSettings(progress=False, accelerator="cpu")
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


@pytest.mark.parametrize(
    ("make", "name", "body"),
    [(resnet18, "resnet18", "fc"), (mobilenet_v3_small, "mobilenet_v3_small", "classifier.3")],
)
def test_vectors_are_what_the_last_layer_gets(
    make: Any, name: str, body: str, tmp_path: Path
) -> None:
    """By hand: images of three channels, resized and normalised, through a model whose last layer
    keeps its input.
    """
    model = make(num_classes=3).eval()  # a head of another size is taken off all the same
    encoder = Pretrained(model=name, weights=_saved(tmp_path / "w.pt", model), size=32)
    kept: list[torch.Tensor] = []
    model.get_submodule(body).register_forward_pre_hook(lambda _, given: kept.append(given[0]))
    x = torch.from_numpy(IMAGES).float().expand(-1, 3, -1, -1) / 255
    x = nn.functional.interpolate(x, size=(32, 32), mode="bilinear", antialias=True)
    usual = ResNet18_Weights.DEFAULT.transforms()
    with torch.no_grad():
        model(
            (x - torch.tensor(usual.mean)[:, None, None]) / torch.tensor(usual.std)[:, None, None]
        )
    expected = nn.functional.normalize(kept[0], dim=1).numpy()
    np.testing.assert_allclose(_vectors(encoder), expected, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(expected, axis=1), 1, atol=1e-5)


def test_an_exported_file_is_the_callable_that_it_holds(tmp_path: Path) -> None:
    tiny, batch = _tiny(0).eval(), {"input": {0: torch.export.Dim("rows")}}
    torch.export.save(
        torch.export.export(tiny, (torch.zeros(2, 1, 12, 12),), dynamic_shapes=batch),
        tmp_path / "m.pt2",
    )
    exported = _vectors(Pretrained(model=str(tmp_path / "m.pt2")))
    np.testing.assert_allclose(exported, _vectors(Pretrained(model=_tiny(0).train())), atol=1e-6)
    assert exported.shape == (5, 7)
    features = np.float32([[3, 4], [0, -2]])
    np.testing.assert_allclose(
        _vectors(Pretrained(model=lambda x: x.numpy()), features), [[0.6, 0.8], [0, -1]]
    )


def test_the_weights_are_in_the_stored_key(tmp_path: Path) -> None:
    encoders = []
    for seed in (0, 0, 1):  # one path, other weights
        torch.manual_seed(seed)
        encoders.append(Pretrained(model="resnet18", weights=_saved(tmp_path / "w.pt", resnet18())))
    encoders += [
        Pretrained(model="resnet18", weights="DEFAULT"),
        Pretrained(model="resnet34", weights="DEFAULT"),
    ]
    encoders += [Pretrained(model=_tiny(0)), Pretrained(model=_tiny(1))]
    keys = [str(describe(encoder)) for encoder in encoders]
    assert keys[0] == keys[1] and len(set(keys)) == len(keys) - 1


@pytest.mark.parametrize(
    "wrong",
    [
        "weights=null",
        "weights=IMAGENET1K_V9",
        "weights=absent.pt",
        "model=resnet1",
        "model=absent.pt2",
    ],
)
def test_a_model_without_weights_is_refused(wrong: str) -> None:
    key, value = wrong.split("=")
    with pytest.raises(InputError, match=f"^{wrong}: must be "):
        Pretrained(**{"model": "resnet18", key: None if value == "null" else value})


def test_rows_and_files_that_do_not_suit_are_refused(nzc: Nzc, tmp_path: Path) -> None:
    mine = _saved(tmp_path / "w.pt", resnet18())
    for rows in (np.ones((4, 9), np.float32), np.ones((4, 1, 12, 12), np.float32)):
        with pytest.raises(
            InputError, match=r"^representation\.encoder\.model=resnet18: must be your own"
        ):
            Pretrained(model="resnet18", weights=mine).check(rows)
    with pytest.raises(
        InputError, match="must not depend on the rows beside it"
    ):  # a record would move other records
        Pretrained(model=lambda x: x.flatten(1) - x.flatten(1).mean(0)).check(IMAGES)
    with pytest.raises(
        InputError, match=r"^representation\.encoder\.model=resnet34: must make vectors of rows"
    ):
        Pretrained(model="resnet34", weights=mine).check(IMAGES)
    ran = nzc(
        "recipe=near_zero", "representation=pretrained", "representation.encoder.weights=absent.pt"
    )
    assert ran.code == 2 and ran.err.startswith(
        "nzc: representation.encoder.weights=absent.pt: must be "
    )
    ran = nzc("recipe=near_zero", "representation=pretrained", f"representation.encoder.weights={mine}",
              "representation.encoder.size=32", "student.steps=20", "trainer.progress=false")  # fmt: skip
    assert ran.code == 0 and ran.result["answered"] == 15
