"""GAN-SSL: its losses by another route, its steps, what it learns, and what it takes."""

from dataclasses import replace
from functools import partial
from typing import Any

import few_labels
import numpy as np
import torch
from conftest import parametrize
from few_labels import QUIET, clouds
from pytest import MonkeyPatch, approx
from scipy.special import softmax

from nzc.students import FittedStudent, StudentData
from nzc.students.gan_ssl import Adversaries, feature_matching, unlabeled_loss

GAN = replace(
    few_labels.GAN,
    steps=3,
    lr=1e-3,
    lr_generator=1e-3,
    label_noise_rate=0.1,
    entropy=0.3,
    consistency=1,
)


def _student(data: StudentData, **settings: Any) -> Adversaries:
    return replace(GAN, **settings).student(data, seed=0)


def _fitted(data: StudentData, **settings: Any) -> Adversaries:
    student = _student(data, **settings)
    QUIET.fit(student, "Student", max_epochs=student.epochs)
    return student


def test_unlabeled_loss_is_that_of_one_more_class() -> None:
    """Of K + 1 softmax outputs: real rows are in any class but the last, generated ones in that.

    The logit of the last class is 0.
    """
    rng = np.random.default_rng(0)
    real = 3 * rng.normal(size=(7, 5))
    generated = 3 * rng.normal(size=(4, 5))
    of_real, of_generated = (
        softmax(np.pad(logits, ((0, 0), (0, 1))), axis=1)[:, -1] for logits in (real, generated)
    )
    expected = -np.log(1 - of_real).mean() - np.log(of_generated).mean()
    found = unlabeled_loss(torch.from_numpy(real), torch.from_numpy(generated))
    assert found.item() == approx(expected, rel=1e-12)


def test_all_terms_by_hand(monkeypatch: MonkeyPatch) -> None:
    """Without noise and augmentation both draws of the pool agree; what is left is written down."""
    data = clouds(40, 20, 4)[0]
    student = _student(data, network="mlp")
    student.progress = 1.0
    generated = student.generated(8).detach()
    monkeypatch.setattr(student, "generated", lambda rows: generated)
    x = torch.from_numpy(data.x[:5])
    y = torch.from_numpy(data.labels[:5])
    u = torch.from_numpy(data.x[20:])
    terms = student.config.losses(student, x, y, u)
    logits = student.network(u)
    features = student.network[:-1]
    p = logits.softmax(1).detach().double().numpy()
    assert {name: value.item() for name, value in terms.items()} == {
        "labeled": approx(student.labeled_loss(student.network(x), y).item()),
        "unlabeled": approx(unlabeled_loss(logits, student.network(generated)).item()),
        "entropy": approx(-0.3 * (p * np.log(p)).sum(axis=1).mean(), rel=1e-5),
        "consistency": approx(0, abs=1e-6),
        "generator": approx(feature_matching(features(u), features(generated)).item()),
    }


def test_a_step_descends_both_losses_at_once() -> None:
    """Each player follows the gradient of its own loss, taken where both stood before the step."""
    data = clouds(40, 20, 4)[0]
    descent = partial(torch.optim.SGD, lr=0.1)
    moved = _fitted(data, network="mlp", steps=1, optimizer=descent)
    still = _student(data, network="mlp", steps=1, optimizer=descent)
    [(labeled, pool)] = still.train_dataloader()
    still.loss(labeled, pool, 0.0)
    players = [
        (moved.network, still.network, still.sums[0]),
        (moved.generator, still.generator, still.sums[1]),
    ]
    for after, before, loss in players:
        weights = list(before.parameters())
        gradients = torch.autograd.grad(loss, weights, retain_graph=True)
        for new, old, gradient in zip(after.parameters(), weights, gradients, strict=True):
            torch.testing.assert_close(new, old - 0.1 * gradient)


def test_a_tiny_set_is_learned_by_heart() -> None:
    """By the paper's own loss; one that presumes wrong labels may give up a label."""
    data = clouds(40, 12, 4, (12,))[0]
    own = {"average": 0.9, "label_noise_rate": 0, "entropy": 0, "consistency": 0}
    student = _fitted(data, network="mlp", steps=100, **own)
    predicted = FittedStudent(student.classifier).predict(data.x[data.labeled])
    assert (predicted == data.labels[data.labeled]).all()


@parametrize("shape", [(3, 17, 30), (1, 8, 8), (12,)])
def test_generated_rows_stay_in_the_range_of_the_pool(shape: tuple[int, ...]) -> None:
    data = clouds(40, 20, 4, shape)[0]
    student = _fitted(data, network="gan", average=0.9, steps=1)
    assert FittedStudent(student.classifier).probabilities(data.x).shape == (40, 4)
    generated = student.generated(5)
    assert generated.shape == (5, *shape)
    axes = 0 if len(shape) == 1 else None  # of tables, each column has its range
    assert (generated >= torch.as_tensor(data.x.min(axes) - 1e-6)).all()
    assert (generated <= torch.as_tensor(data.x.max(axes) + 1e-6)).all()


def test_running_statistics_come_from_the_pool() -> None:
    """Never from generated rows, nor once more from labeled ones."""
    student = _fitted(clouds(40, 20, 4, (1, 16, 16))[0], network="conv_small", steps=2)
    buffers = dict(student.network.named_buffers())
    counts = [buffers[name] for name in buffers if name.endswith("num_batches_tracked")]
    assert set(map(int, counts)) == {2}
