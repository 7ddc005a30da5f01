"""GAN-SSL: its losses by another route, whose weights each step moves, what it learns, and what it takes."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from conftest import STUDENT, Nzc
from torch import nn

from nzc import networks
from nzc.mechanisms import ABSTAIN
from nzc.students import StudentData
from nzc.students.adversaries import Adversaries, feature_matching, unlabelled_loss
from nzc.students.gan_ssl import GANSSL
from nzc.training.trainer import TrainerSettings
from nzc.validation import InputError

LEARNER = GANSSL(
    network="gan_mlp", steps=3, batch_size=8, lr=1e-3, weight_decay=0, average=0, balance=0, validation=0, patience=1,
    folds=1, label_noise_rate=0.1, labeled_loss_decay=0, unlabelled=8, lr_generator=1e-3, entropy=0.3, consistency=1,
)  # fmt: skip


def _data(shape: tuple[int, ...], rows: int = 40, labelled: int = 20, classes: int = 4) -> StudentData:
    """Rows around a mean of their class."""
    rng = np.random.default_rng(0)
    y = np.arange(rows) % classes
    x = (rng.normal(size=(classes, *shape))[y] + 0.3 * rng.normal(size=(rows, *shape))).astype(np.float32)
    return StudentData(x, np.where(np.arange(rows) < labelled, y, ABSTAIN), classes)


def _fitted(data: StudentData, **settings: Any) -> Adversaries:
    student = replace(LEARNER, **settings).student(data, seed=0)
    assert isinstance(student, Adversaries)
    TrainerSettings(progress=False, accelerator="cpu").fit(student, "Student", max_epochs=1)
    return student


def _logits(rows: int) -> torch.Tensor:
    return 3 * torch.randn(rows, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(rows))


def test_unlabelled_loss_is_that_of_one_more_class() -> None:
    """Of K + 1 softmax outputs: the generated class's logit is 0; real rows are in any other."""
    real, generated = (
        np.concatenate([logits, np.zeros((len(logits), 1))], axis=1) for logits in (_logits(7), _logits(4))
    )
    p_real, p_generated = (np.exp(z) / np.exp(z).sum(axis=1, keepdims=True) for z in (real, generated))
    expected = -np.log(1 - p_real[:, -1]).mean() - np.log(p_generated[:, -1]).mean()
    assert unlabelled_loss(_logits(7), _logits(4)).item() == pytest.approx(expected, rel=1e-12)


def test_unlabelled_loss_of_sure_logits_is_finite() -> None:
    for scale in (1e4, -1e4):
        logits = torch.full((2, 3), scale, requires_grad=True)
        loss = unlabelled_loss(logits, logits)
        loss.backward()
        assert loss.item() == pytest.approx(1e4, rel=1e-3)
        assert logits.grad is not None and logits.grad.isfinite().all()


def test_feature_matching_compares_means() -> None:
    real, generated = _logits(7), _logits(4)
    expected = np.mean((real.numpy().mean(axis=0) - generated.numpy().mean(axis=0)) ** 2)
    assert feature_matching(real, generated).item() == pytest.approx(expected, rel=1e-12)
    assert feature_matching(real, real.flip(0)).item() == pytest.approx(0, abs=1e-24)


def test_all_terms_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without noise and augmentation both draws of the pool agree; what is left can be written down."""
    data = _data((6,))
    student = replace(LEARNER, network="mlp").student(data, seed=0)
    assert isinstance(student, Adversaries)
    student.progress = 1.0
    x, y = torch.from_numpy(data.x[:5]), torch.from_numpy(data.labels[:5])
    generated = student.generated(8).detach()
    monkeypatch.setattr(student, "generated", lambda rows: generated)
    u = torch.from_numpy(data.x[20:])
    found = {name: value.item() for name, value in student.config.losses(student, x, y, u).items()}
    p = student.network(u).softmax(1).detach().double().numpy()
    features = student.network[:-1]
    assert found == {
        "labelled": pytest.approx(student.labelled_loss(student.network(x), y).item()),
        "unlabelled": pytest.approx(unlabelled_loss(student.network(u), student.network(generated)).item()),
        "entropy": pytest.approx(-0.3 * (p * np.log(p)).sum(axis=1).mean(), rel=1e-5),
        "consistency": pytest.approx(0, abs=1e-6),
        "generator": pytest.approx(feature_matching(features(u), features(generated)).item()),
    }


@pytest.mark.parametrize("loss", [unlabelled_loss, feature_matching])
def test_gradients_are_those_of_finite_differences(loss: Any) -> None:
    assert torch.autograd.gradcheck(loss, (_logits(3).requires_grad_(), _logits(4).requires_grad_()))


def test_a_step_descends_both_losses_at_once() -> None:
    """Each player follows the gradient of its own loss, taken where both stood before the step."""
    data = _data((6,))
    settings: dict[str, Any] = {"network": "mlp", "steps": 1, "optimizer": partial(torch.optim.SGD, lr=0.1)}
    moved, still = _fitted(data, **settings), replace(LEARNER, **settings).student(data, seed=0)
    assert isinstance(still, Adversaries)
    labelled, pool = next(iter(still.train_dataloader()))
    *terms, matching = LEARNER.losses(still, still.x[labelled], still.y[labelled], still.x[pool]).values()
    discriminator = (moved.network, still.network, torch.stack(terms).sum())
    for after, before, loss in (discriminator, (moved.generator, still.generator, matching)):
        weights = list(before.parameters())
        gradients = torch.autograd.grad(loss, weights, retain_graph=True)
        for new, old, gradient in zip(after.parameters(), weights, gradients, strict=True):
            torch.testing.assert_close(new, old - 0.1 * gradient)


def test_a_tiny_set_is_learned_by_heart() -> None:
    """By the paper's own loss; one that presumes wrong labels may give up a label, for that is what it is for."""
    data = _data((1, 8, 8), labelled=12)
    student = _fitted(data, steps=150, average=0.9, label_noise_rate=0, entropy=0, consistency=0)
    assert set(student.losses) == {"labelled", "unlabelled", "entropy", "consistency", "generator"}
    labelled = data.labelled
    assert (student.predict(data.x[labelled]) == data.labels[labelled]).all()


SHAPES = [(1, 28, 28), (3, 32, 32), (1, 8, 8), (12,)]


@pytest.mark.parametrize("shape", SHAPES)
def test_any_shape_is_played_for(shape: tuple[int, ...]) -> None:
    data = _data(shape)
    student = _fitted(data, network="gan", average=0.9)
    assert student.probabilities(data.x).shape == (40, 4)
    generated = student.generated(5)
    assert generated.shape == (5, *shape)
    over = 0 if len(shape) == 1 else tuple(range(len(shape) + 1))
    low, high = data.x.min(over), data.x.max(over)
    assert (generated >= torch.from_numpy(np.asarray(low - 1e-6))).all()
    assert (generated <= torch.from_numpy(np.asarray(high + 1e-6))).all()


@pytest.mark.parametrize("network", ["gan_conv", "gan_conv_small"])
@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 17, 30), (3, 64, 48), (1, 28, 28)])
def test_convolutions_take_any_image(network: str, shape: tuple[int, ...]) -> None:
    x = networks.generator(network, shape)(torch.rand(2, 100))
    assert x.shape == (2, *shape)
    assert networks.build(network, shape, 3)(x).shape == (2, 3)


def test_other_networks_play_too_and_keep_their_statistics() -> None:
    """Running statistics come from the pool: never from generated rows, nor once more from labelled ones."""
    data = _data((1, 16, 16))
    student = _fitted(data, network="conv_small", steps=2)
    counts = [kept for name, kept in student.network.named_buffers() if name.endswith("num_batches_tracked")]
    assert counts and all(count == 2 for count in counts)


@pytest.mark.parametrize(
    ("rows", "labelled", "classes"),
    [(40, 40, 4), (40, 2, 10), (3, 2, 4), (1, 1, 2)],
    ids=["no unlabelled rows", "fewer labels than classes", "smaller than a batch", "a single row"],
)
def test_poor_pools(rows: int, labelled: int, classes: int) -> None:
    data = _data((6,), rows, labelled, classes)
    probabilities = _fitted(data).probabilities(data.x)
    assert np.isfinite(probabilities).all()
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(rows))


def test_one_class_only_is_what_it_says_then() -> None:
    data = replace(_data((6,)), labels=np.full(40, 2))
    assert (_fitted(data, steps=60).predict(data.x) == 2).all()


def test_its_network_must_end_in_a_linear_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "build", lambda *_: nn.Sequential(nn.Linear(6, 4), nn.ReLU()))
    with pytest.raises(InputError, match=r"student\.network=gan_mlp: .*Linear head"):
        LEARNER.check((6,), 4, TrainerSettings(progress=False, accelerator="cpu"))


def test_a_whole_run_is_repeatable(nzc: Nzc) -> None:
    command = ["student=gan_ssl", "aggregator=ground_truth", *STUDENT, "student.steps=5"]
    first, second = (nzc(*command, f"paths.store={store}").result for store in ("one", "two"))
    assert first["student"] == "gan_ssl"
    assert first["accuracy"] == second["accuracy"]
