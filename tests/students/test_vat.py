"""The VAT student: its loss by closed forms and brute force, its passes, and what it learns."""

import copy
from dataclasses import replace

import pytest
import torch
from few_labels import COMMON, clouds, fit
from pytest import MonkeyPatch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

from nzc.students.network import StudentModule
from nzc.students.supervised import Supervised
from nzc.students.vat import VAT, direction, divergence

pytestmark = pytest.mark.usefixtures("one_thread")
SETTINGS = VAT(**COMMON, unlabeled=32, alpha=1.0, entropy=1.0, radius=0.3, xi=0.01, power=1)


def _student(
    settings: VAT, shape: tuple[int, ...], network: nn.Module | None = None
) -> StudentModule:
    student = settings.student(clouds(40, 40, 4, shape)[0], seed=0)
    student.progress = 0.5
    student.network = network or student.network
    return student


def _losses(student: StudentModule) -> dict[str, Tensor]:
    x = student.x.to(next(student.network.parameters()).dtype)
    return student.config.losses(student, x[:8], student.y[:8], x[:16])


def _linear(features: int, classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(features, classes)).double()


def _normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def test_the_direction_is_the_hessians_dominant_eigenvector() -> None:
    """For p = softmax(Wx + b) the Hessian of KL(p(x) ‖ p(x + r)) at r = 0 is Wᵀ(diag p - ppᵀ)W."""
    network = _linear(6, 4)
    x = _normal(5, 1, 2, 3)
    log_p = network(x).log_softmax(1).detach()
    p = log_p.exp()
    weight = network[1].weight.detach()
    hessian = weight.T @ (torch.diag_embed(p) - p[:, :, None] * p[:, None, :]) @ weight
    values, vectors = torch.linalg.eigh(hessian)
    start = _normal(5, 1, 2, 3)

    once = direction(network, x, log_p, start, 1e-6, 1).flatten(1)
    expected = F.normalize((hessian @ start.flatten(1)[:, :, None])[:, :, 0])
    assert_close(once, expected, rtol=1e-4, atol=1e-4)

    found = direction(network, x, log_p, start, 1e-6, 200)
    assert found.shape == x.shape
    assert ((found.flatten(1) * vectors[:, :, -1]).sum(1).abs() > 1 - 1e-4).all()
    # And so half the largest eigenvalue is what a small step costs, per its square.
    cost = divergence(network, x + 1e-3 * found, log_p) / 1e-6
    assert_close(cost, values[:, -1] / 2, rtol=1e-2, atol=0)


def test_each_term_and_its_gradient_by_hand(monkeypatch: MonkeyPatch) -> None:
    """p and r are held fixed where they must be, at a last step."""
    student = _student(replace(SETTINGS, alpha=2.0, entropy=0.5), (3,), network=_linear(3, 4))
    student.progress = 1.0
    weight = student.network[1].weight
    x = student.x.double()
    r = _normal(16, 3)
    monkeypatch.setattr("nzc.students.vat.direction", lambda *_: r)
    p = student.network(x[:16]).softmax(1)
    q = student.network(x[:16] + 0.3 * r).softmax(1)
    fixed = p.detach()
    of_label = student.network(x[:8]).softmax(1)[torch.arange(8), student.y[:8]]
    expected = {
        "labeled": -of_label.log().mean(),
        "virtual_adversarial": 2 * (fixed * (fixed / q).log()).sum(1).mean(),
        "entropy": 0.5 * -(p * p.log()).sum(1).mean(),
    }
    losses = _losses(student)
    assert_close(losses, expected)
    for name, loss in losses.items():
        gradient = torch.autograd.grad(loss, weight, retain_graph=True)
        by_hand = torch.autograd.grad(expected[name], weight, retain_graph=True)
        assert_close(gradient, by_hand)


def test_only_the_clean_pass_moves_running_statistics() -> None:
    student = _student(replace(SETTINGS, network="cnn_bn", radius=50.0, power=2), (1, 8, 8))
    once = copy.deepcopy(student.network)
    once(student.x[:16])
    _losses(student)
    assert_close(dict(student.network.named_buffers()), dict(once.named_buffers()))


def test_it_learns_from_rows_without_labels() -> None:
    """One label a cluster: boundaries belong between the clusters, not between the labeled rows."""
    data, y = clouds(400, 5, 5, (10,))

    def accuracy(config: VAT | Supervised) -> float:
        return float((fit(replace(config, steps=150), data).predict(data.x) == y).mean())

    assert accuracy(replace(SETTINGS, radius=1.0)) > 0.99 > accuracy(Supervised(**COMMON))
