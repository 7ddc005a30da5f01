"""SoftMatch: its weights and losses by a second route, what may not influence what, and learning at the edges."""

from typing import Any

import numpy as np
import pytest
import torch

from nzc.data.augment import Affine, Strong
from nzc.students import FittedStudent, StudentData
from nzc.students.module import StudentModule
from nzc.students.softmatch import PseudoLabels, SoftMatch
from nzc.training.trainer import TrainerSettings

pytestmark = pytest.mark.usefixtures("one_thread")
STILL = Strong(None, stretch=0, contrast=0, brightness=0, cutout=0, mask=0, noise=0)
STRONG = Strong(Affine(10, 0.1, 0.06, 0.1), stretch=1.5, contrast=0.5, brightness=0.2, cutout=0.5, mask=0.3, noise=0.1)


def _softmatch(**changes: Any) -> SoftMatch:
    settings = {
        "network": "mlp", "steps": 150, "batch_size": 8, "lr": 0.01, "weight_decay": 0.0, "average": 0.9, "balance": 1,
        "validation": 0.0, "patience": 10, "folds": 1, "unlabelled": 16, "strong": STRONG, "weight": 1.0,
        "momentum": 0.9, "width": 2.0, "label_noise_rate": 0.1, "labeled_loss_decay": 0.5,
    }  # fmt: skip
    return SoftMatch(**{**settings, **changes})


def _blobs(rows: int, classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A table of classes well apart, x [rows, 6], y [rows]."""
    rng = np.random.default_rng(seed)
    y = np.arange(rows) % classes
    return (rng.normal(size=(rows, 6)) + 4 * np.eye(6)[y]).astype(np.float32), y


def _fit(config: SoftMatch, data: StudentData) -> FittedStudent:
    return config.fit(data, 0, TrainerSettings(progress=False, accelerator="cpu"), "Student")


def _softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def test_a_sequence_of_batches_in_numpy() -> None:
    rng = np.random.default_rng(0)
    released, momentum, width = np.array([1, 1, 0, 1], bool), 0.8, 1.5
    pseudo = PseudoLabels(np.flatnonzero(released), 4, momentum, width)
    shares, means, variances = [], [], []
    for n in range(1, 9):
        batch = rng.dirichlet([0.5, 0.3, 0.9, 0.2], size=7)
        labels, weights = pseudo(torch.from_numpy(batch).log())
        batch = batch * released / (batch * released).sum(axis=1, keepdims=True)
        assert (labels.numpy() == batch.argmax(axis=1)).all()
        # the average of n batches, told as weights of each: the first 1/(1 − momentum) = 5 count alike
        rates = [max(1 - momentum, 1 / i) for i in range(1, n + 1)]
        counts = [rate * np.prod([1 - later for later in rates[i + 1 :]]) for i, rate in enumerate(rates)]
        assert sum(counts) == pytest.approx(1)
        shares.append(batch.mean(axis=0))
        aligned = batch / np.where(released, np.average(shares, axis=0, weights=counts), 1)
        p = aligned.max(axis=1) / aligned.sum(axis=1)
        means.append(p.mean())
        variances.append(p.var(ddof=1))
        mean, variance = (np.average(of, weights=counts) for of in (means, variances))
        expected = np.where(p >= mean, 1, np.exp(-((width * (p - mean)) ** 2) / (2 * variance)))
        np.testing.assert_allclose(weights, expected, rtol=1e-6)


def test_what_the_student_is_unsure_of_counts_for_nothing() -> None:
    """A row five deviations below the mean weighs e^−50, and its prediction leaves no gradient."""
    pseudo = PseudoLabels(np.arange(2), 2, momentum=0.9, width=2)
    sure = torch.tensor([[0.97, 0.03], [0.03, 0.97]]).repeat(500, 1)
    _, weights = pseudo(torch.cat([sure, torch.tensor([[0.5, 0.5]])]).log())
    assert (weights[:-1] == 1).all()
    assert weights[-1] < 1e-20


def _losses(student: StudentModule) -> tuple[dict[str, torch.Tensor], np.ndarray, np.ndarray, np.ndarray]:
    student.double()
    (x, y), (u, _) = _blobs(12, seed=1), _blobs(24, seed=2)
    losses = student.config.losses(student, *map(torch.from_numpy, (x.astype(float), y, u.astype(float))))
    return losses, x.astype(float), y, u.astype(float)


def _student(**changes: Any) -> StudentModule:
    x, y = _blobs(30)
    return _softmatch(**changes).student(StudentData(x, y, 3), 0)


def test_losses_in_numpy() -> None:
    student = _student(strong=STILL, weight=0.7)
    losses, x, y, u = _losses(student)
    first, _, second = (layer for layer in list(student.network.children())[1:])

    def logits(rows: np.ndarray) -> np.ndarray:
        (a, b), (c, d) = ([weight.detach().numpy() for weight in layer.parameters()] for layer in (first, second))
        return np.maximum(rows @ a.T + b, 0) @ c.T + d

    p = _softmax(logits(x))[np.arange(len(y)), y]
    assert losses["labelled"].item() == pytest.approx(-np.log(0.9 * p + 0.1 / 3).mean())
    surest = _softmax(logits(u)).max(axis=1)  # a moving average that has seen nothing is the network itself
    weights = PseudoLabels(y, 3, 0.9, 2.0)(torch.from_numpy(logits(u)))[1].numpy()
    assert losses["pool"].item() == pytest.approx(0.7 * (weights * -np.log(surest)).mean())
    drawn: dict[str, float] = {}
    student.losses, student.log_curves = losses, lambda curves, step: drawn.update(curves)
    student.evaluate(0)
    assert drawn["weight"] == pytest.approx(weights.mean()) and drawn.keys() == {"loss_labelled", "loss_pool", "weight"}


def test_predictions_of_the_pool_are_constants() -> None:
    """The gradient is that of the pool's rows towards labels from outside; none reaches the moving average."""
    student = _student(strong=STILL, average=0.0)
    losses, _, _, u = _losses(student)
    weights = list(student.network.parameters())
    logits = student.network(torch.from_numpy(u))
    labels, shares = PseudoLabels(student.y.numpy(), 3, 0.9, 2.0)(logits)
    loss = -(shares * logits.log_softmax(1).gather(1, labels[:, None])[:, 0]).mean()
    expected = torch.autograd.grad(loss, weights)
    torch.testing.assert_close(torch.autograd.grad(losses["pool"], weights), expected)


@pytest.mark.parametrize(("labeled", "wrong"), [(6, 0), (30, 1)])
def test_the_pool_follows_a_few_labels_and_outvotes_a_wrong_one(labeled: int, wrong: int) -> None:
    x, y = _blobs(300)
    labels = np.where(np.arange(300) < labeled, y, -1)
    labels[:wrong] = 1  # is 0
    student = _fit(_softmatch(steps=300), StudentData(x, labels, 3))
    assert (student.predict(x[:labeled]) == y[:labeled]).all()
    assert (student.predict(x) == y).mean() > 0.97


@pytest.mark.parametrize(
    ("rows", "shape", "labeled", "released"),
    [(5, (6,), 5, 3), (40, (1, 8, 8), 1, 3), (5, (6,), 3, 1), (40, (1, 8, 8), 2, 2)],
)
def test_learns_at_the_edges(rows: int, shape: tuple[int, ...], labeled: int, released: int) -> None:
    """Every row labeled, one row labeled, one class only, a class never released; a pool smaller than a batch."""
    rng = np.random.default_rng(0)
    y = np.arange(rows) % released
    x = np.eye(3)[y].repeat(np.prod(shape) // 3 + 1, axis=1)[:, : np.prod(shape)].reshape(rows, *shape)
    x = (x + 0.1 * rng.random(x.shape)).astype(np.float32)
    student = _fit(_softmatch(), StudentData(x, np.where(np.arange(rows) < labeled, y, -1), 4))
    assert np.isfinite(student.probabilities(x)).all()
    seen = y < labeled
    assert (student.predict(x)[seen] == y[seen]).all()
