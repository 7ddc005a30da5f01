"""SoftMatch: its weights and losses by a second route, what may not influence what, and learning at
the edges.
"""

from typing import Any

import numpy as np
import pytest
import torch
from few_labels import COMMON, clouds, fit
from scipy.special import softmax

from nzc.data.augment import Affine, Strong
from nzc.students.base import StudentData
from nzc.students.network import StudentModule
from nzc.students.softmatch import PseudoLabels, SoftMatch

pytestmark = pytest.mark.usefixtures("one_thread")
STILL = Strong(None, stretch=0, contrast=0, brightness=0, cutout=0, mask=0, noise=0)
STRONG = Strong(
    Affine(10, 0.1, 0.06, 0.1),
    stretch=1.5,
    contrast=0.5,
    brightness=0.2,
    cutout=0.5,
    mask=0.3,
    noise=0.1,
)


def _softmatch(**changes: Any) -> SoftMatch:
    own = {"unlabelled": 16, "strong": STRONG, "weight": 1.0, "momentum": 0.9, "width": 2.0}
    loss = {"average": 0.9, "balance": 1, "label_noise_rate": 0.1, "labeled_loss_decay": 0.5}
    return SoftMatch(**COMMON | own | loss | changes)


def test_a_sequence_of_batches_in_numpy() -> None:
    rng = np.random.default_rng(0)
    released, momentum, width = np.array([1, 1, 0, 1], bool), 0.8, 1.5
    data = clouds(20, 0, 4)[0]
    data.labels[:14] = np.repeat(np.flatnonzero(released), [8, 5, 1])
    pseudo = PseudoLabels(data, momentum, width)
    assert data.shares[0] > 2 * data.shares[3]
    shares, means, variances = [], [], []
    for n in range(1, 9):
        batch = rng.dirichlet([0.5, 0.3, 0.9, 0.2], size=7)
        labels, weights = pseudo(torch.from_numpy(batch).log())
        batch = batch * released / (batch * released).sum(axis=1, keepdims=True)
        assert (labels.numpy() == batch.argmax(axis=1)).all()
        # the average of n batches, told as weights of each: the first 1/(1 − momentum) = 5 count
        # alike
        rates = [max(1 - momentum, 1 / i) for i in range(1, n + 1)]
        counts = [
            rate * np.prod([1 - later for later in rates[i + 1 :]]) for i, rate in enumerate(rates)
        ]
        assert sum(counts) == pytest.approx(1)
        shares.append(batch.mean(axis=0))
        aligned = (
            batch * data.shares / np.where(released, np.average(shares, axis=0, weights=counts), 1)
        )
        p = aligned.max(axis=1) / aligned.sum(axis=1)
        means.append(p.mean())
        variances.append(p.var(ddof=1))
        mean, variance = (np.average(of, weights=counts) for of in (means, variances))
        expected = np.where(p >= mean, 1, np.exp(-((width * (p - mean)) ** 2) / (2 * variance)))
        np.testing.assert_allclose(weights, expected, rtol=1e-6)


def _losses(
    student: StudentModule,
) -> tuple[dict[str, torch.Tensor], np.ndarray, np.ndarray, np.ndarray]:
    student.double()
    data, y = clouds(36, 36)
    x, u = np.split(data.x.astype(float), [12])
    return student.config.losses(student, *map(torch.from_numpy, (x, y[:12], u))), x, y[:12], u


def _student(**changes: Any) -> StudentModule:
    return _softmatch(**changes).student(clouds(30, 30)[0], 0)


def test_losses_in_numpy() -> None:
    student = _student(strong=STILL, weight=0.7)
    losses, x, y, u = _losses(student)
    first, _, second = (layer for layer in list(student.network.children())[1:])

    def logits(rows: np.ndarray) -> np.ndarray:
        (a, b), (c, d) = (
            [weight.detach().numpy() for weight in layer.parameters()] for layer in (first, second)
        )
        return np.maximum(rows @ a.T + b, 0) @ c.T + d

    p = softmax(logits(x), axis=1)[np.arange(len(y)), y]
    assert losses["labelled"].item() == pytest.approx(-np.log(0.9 * p + 0.1 / 3).mean())
    surest = softmax(logits(u), axis=1).max(
        axis=1
    )  # a moving average that has seen nothing is the network itself
    weights = PseudoLabels(clouds(30, 30)[0], 0.9, 2.0)(torch.from_numpy(logits(u)))[1].numpy()
    assert losses["pool"].item() == pytest.approx(0.7 * (weights * -np.log(surest)).mean())
    assert student.curves["weight"].item() == pytest.approx(weights.mean())


def test_predictions_of_the_pool_are_constants() -> None:
    """The gradient is that of the pool's rows towards labels from outside; none reaches the moving
    average.
    """
    student = _student(strong=STILL, average=0.0)
    losses, _, _, u = _losses(student)
    weights = list(student.network.parameters())
    logits = student.network(torch.from_numpy(u))
    labels, shares = PseudoLabels(clouds(30, 30)[0], 0.9, 2.0)(logits)
    loss = -(shares * logits.log_softmax(1).gather(1, labels[:, None])[:, 0]).mean()
    expected = torch.autograd.grad(loss, weights)
    torch.testing.assert_close(torch.autograd.grad(losses["pool"], weights), expected)


@pytest.mark.parametrize(("labeled", "wrong"), [(6, 0), (30, 1)])
def test_the_pool_follows_a_few_labels_and_outvotes_a_wrong_one(labeled: int, wrong: int) -> None:
    data, y = clouds(300, labeled, shape=(10,))
    data.labels[:wrong] = 1  # is 0
    student = fit(_softmatch(steps=200), data)
    assert (student.predict(data.x[:labeled]) == y[:labeled]).all()
    assert (student.predict(data.x) == y).mean() > 0.97


@pytest.mark.parametrize("soft", [False, True])
def test_no_class_of_few_decisive_columns_is_forgotten(soft: bool) -> None:
    """All labels are right, and one column decides. Pseudo-labels alone end with fewer classes."""
    y = np.arange(300) % 5
    labels = y if soft else np.where(np.arange(300) < 100, y, -1)
    data = StudentData(np.eye(5, dtype=np.float32)[y], labels, 5, np.eye(5)[y] if soft else None)
    slow = {"steps": 600, "batch_size": 32, "unlabelled": 128, "average": 0.99, "momentum": 0.99}
    student = fit(_softmatch(strong=STILL, label_noise_rate=0.2, **slow), data)
    assert (student.predict(data.x) == y).all()
