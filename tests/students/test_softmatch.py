"""SoftMatch: its weights and losses by a second route, and learning at the edges."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import parametrize
from few_labels import COMMON, STRONG, clouds, fit
from pytest import approx
from scipy.special import softmax

from nzc.students.softmatch import PseudoLabels, SoftMatch

pytestmark = pytest.mark.usefixtures("one_thread")
STILL = replace(STRONG, mask=0, noise=0)
LOSS = {"average": 0.9, "balance": 1, "label_noise_rate": 0.1, "labeled_loss_decay": 0.5}
SOFTMATCH = SoftMatch(
    **COMMON | LOSS, unlabeled=16, strong=STRONG, weight=1.0, momentum=0.9, width=2.0
)


def test_a_sequence_of_batches_in_numpy() -> None:
    """The average of n batches, told as weights of each: the first 1/(1 − momentum) are alike."""
    rng = np.random.default_rng(0)
    released = np.array([1, 1, 0, 1], bool)
    data = clouds(20, 0, 4)[0]
    data.labels[:14] = np.repeat(np.flatnonzero(released), [8, 5, 1])
    assert data.shares[0] > 2 * data.shares[3]
    pseudo_labels = PseudoLabels(data, momentum=0.8, width=1.5)
    shares = []
    means = []
    variances = []
    for n in range(1, 9):
        batch = rng.dirichlet([0.5, 0.3, 0.9, 0.2], size=7)
        labels, weights = pseudo_labels(torch.from_numpy(batch).log())
        batch = batch * released / (batch * released).sum(axis=1, keepdims=True)
        assert (labels.numpy() == batch.argmax(axis=1)).all()
        rates = np.maximum(0.2, 1 / np.arange(1, n + 1))
        counts = rates * np.append(np.cumprod(1 - rates[:0:-1])[::-1], 1)
        assert counts.sum() == approx(1)
        shares.append(batch.mean(axis=0))
        share = np.where(released, np.average(shares, axis=0, weights=counts), 1)
        aligned = batch * data.shares / share
        p = aligned.max(axis=1) / aligned.sum(axis=1)
        means.append(p.mean())
        variances.append(p.var(ddof=1))
        below = 1.5 * np.minimum(p - np.average(means, weights=counts), 0)
        expected = np.exp(-(below**2) / (2 * np.average(variances, weights=counts)))
        np.testing.assert_allclose(weights, expected, rtol=1e-6)


def test_losses_in_numpy() -> None:
    """A moving average that has seen nothing is the network itself."""
    config = replace(SOFTMATCH, strong=STILL, weight=0.7)
    student = config.student(clouds(30, 30)[0], 0).double()
    data, classes = clouds(36, 36)
    x, u = torch.from_numpy(data.x.astype(float)).tensor_split([12])
    y = torch.from_numpy(classes[:12])
    losses = config.losses(student, x, y, u)
    p = softmax(student.network(x).detach().numpy(), axis=1)[np.arange(len(y)), y]
    assert losses["labeled"].item() == approx(-np.log(0.9 * p + 0.1 / 3).mean())
    logits = student.network(u).detach()
    weights = PseudoLabels(clouds(30, 30)[0], 0.9, 2.0)(logits)[1].numpy()
    surest = softmax(logits.numpy(), axis=1).max(axis=1)
    assert losses["pool"].item() == approx(0.7 * (weights * -np.log(surest)).mean())
    assert student.curves["weight"].item() == approx(weights.mean())


@parametrize(("labeled", "wrong"), [(6, 0), (30, 1)])
def test_the_pool_follows_a_few_labels_and_outvotes_a_wrong_one(labeled: int, wrong: int) -> None:
    data, y = clouds(300, labeled, shape=(10,))
    data.labels[:wrong] = 1  # is 0
    predicted = fit(replace(SOFTMATCH, steps=200), data).predict(data.x)
    assert (predicted == y)[:labeled].all()
    assert (predicted == y).mean() > 0.97
