"""The VAT student: its loss against closed forms and brute force, what its passes leave behind, and
what it learns.
"""

import copy
from dataclasses import replace

import pytest
import torch
from few_labels import COMMON, clouds, fit
from torch import Tensor, nn

from nzc.students.network import StudentModule
from nzc.students.supervised import Supervised
from nzc.students.vat import VAT, direction, divergence

pytestmark = pytest.mark.usefixtures("one_thread")
SETTINGS = VAT(**COMMON, unlabelled=32, alpha=1.0, entropy=1.0, radius=0.3, xi=0.01, power=1)


def _student(
    settings: VAT, shape: tuple[int, ...], network: nn.Module | None = None
) -> StudentModule:
    student = settings.student(clouds(40, 40, 4, shape)[0], seed=0)
    student.progress = 0.5
    student.network = network or student.network
    return student


def _losses(student: StudentModule, rows: int = 16) -> dict[str, Tensor]:
    x = student.x.to(next(student.network.parameters()).dtype)
    return student.config.losses(student, x[:8], student.y[:8], x[:rows])


def _linear(features: int, classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(features, classes)).double()


def test_the_direction_is_the_hessians_dominant_eigenvector() -> None:
    """For p = softmax(Wx + b) the Hessian of KL(p(x) ‖ p(x + r)) at r = 0 is Wᵀ(diag p - ppᵀ)W."""
    network, x = _linear(6, 4), torch.randn(5, 1, 2, 3, dtype=torch.float64)
    log_p, weight = network(x).log_softmax(1).detach(), network[1].weight.detach()
    p = log_p.exp()
    hessian = weight.T @ (torch.diag_embed(p) - p[:, :, None] * p[:, None, :]) @ weight
    values, vectors = torch.linalg.eigh(hessian)
    start = torch.randn_like(x)
    once = direction(network, x, log_p, start, 1e-6, 1).flatten(1)
    expected = nn.functional.normalize((hessian @ start.flatten(1)[:, :, None])[:, :, 0])
    torch.testing.assert_close(once, expected, rtol=1e-4, atol=1e-4)
    found = direction(network, x, log_p, start, 1e-6, 200)
    assert found.shape == x.shape
    assert ((found.flatten(1) * vectors[:, :, -1]).sum(1).abs() > 1 - 1e-4).all()
    # and so half the largest eigenvalue is what a small step costs, per its square
    cost = divergence(network, x + 1e-3 * found, log_p) / 1e-6
    torch.testing.assert_close(cost, values[:, -1] / 2, rtol=1e-2, atol=0)


def test_elsewhere_than_at_p_the_gradient_is_the_direction() -> None:
    network, x = _linear(6, 4), torch.randn(5, 6, dtype=torch.float64)
    log_p = network(torch.randn_like(x)).log_softmax(1).detach()
    slope = (network(x).softmax(1) - log_p.exp()) @ network[1].weight
    found = direction(network, x, log_p, torch.randn_like(x), 1e-6, 1)
    torch.testing.assert_close(found, nn.functional.normalize(slope), rtol=1e-4, atol=1e-4)


def test_float32_finds_float64s_direction() -> None:
    """At the step of conf/student/vat.yaml; at the paper's 1e-6 rounding leaves nothing of it."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 10))
    x, start, found = torch.rand(16, 1, 28, 28), torch.randn(16, 1, 28, 28), []
    for kind, xi in ((torch.float32, SETTINGS.xi), (torch.float32, 1e-6), (torch.float64, 1e-6)):
        log_p = network.to(kind)(x.to(kind)).log_softmax(1).detach()
        found.append(
            direction(network, x.to(kind), log_p, start.to(kind), xi, 1).double().flatten(1)
        )
    assert ((found[0] * found[2]).sum(1) > 0.95).all()
    assert (found[1] * found[2]).sum(1).mean() < 0.7


def test_a_network_that_is_certain_has_no_direction() -> None:
    network, x = _linear(6, 4).float(), torch.randn(3, 6)
    with torch.no_grad():
        network[1].weight.zero_()
        network[1].bias.copy_(torch.tensor([1e4, 0, 0, 0]))
    assert not direction(
        network, x, network(x).log_softmax(1).detach(), torch.randn_like(x), 0.01, 2
    ).any()
    with torch.no_grad():  # a small one is found nevertheless
        network[1].weight.normal_().mul_(1e-15)
        network[1].bias.zero_()
    found = direction(
        network.double(), x.double(), torch.full((3, 4), 0.25).log().double(), x.double(), 0.01, 1
    )
    torch.testing.assert_close(found.norm(dim=1), torch.ones(3, dtype=torch.float64))


def test_each_term_and_its_gradient_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """p and r are held fixed where they must be, at a last step."""
    student = _student(replace(SETTINGS, alpha=2.0, entropy=0.5), (3,), network=_linear(3, 4))
    student.progress = 1.0
    weight, x, y = student.network[1].weight, student.x.double(), student.y
    r = torch.randn(16, 3, dtype=torch.float64)
    monkeypatch.setattr("nzc.students.vat.direction", lambda *_: r)
    p = student.network(x[:16]).softmax(1).detach()

    def expected() -> dict[str, Tensor]:
        q, now = student.network(x[:16] + 0.3 * r).softmax(1), student.network(x[:16]).softmax(1)
        return {
            "labelled": -student.network(x[:8]).softmax(1)[torch.arange(8), y[:8]].log().mean(),
            "virtual_adversarial": 2 * (p * (p / q).log()).sum(1).mean(),
            "entropy": 0.5 * -(now * now.log()).sum(1).mean(),
        }

    for name, loss in _losses(student).items():
        torch.testing.assert_close(loss, expected()[name])
        gradients = (torch.autograd.grad(of, weight) for of in (loss, expected()[name]))
        torch.testing.assert_close(*gradients)


def test_only_the_clean_pass_moves_running_statistics() -> None:
    student = _student(replace(SETTINGS, network="resnet32", radius=50.0, power=2), (1, 8, 8))
    once = copy.deepcopy(student.network)
    once(student.x[:16])
    _losses(student)
    for (name, found), (_, expected) in zip(
        student.network.named_buffers(), once.named_buffers(), strict=True
    ):
        torch.testing.assert_close(found, expected, msg=name)


def test_dropout_is_alike_within_a_step_and_new_in_the_next() -> None:
    network = nn.Sequential(nn.Dropout(0.5), nn.Linear(20, 4))
    student = _student(replace(SETTINGS, radius=1e-3), (20,), network=network)
    outside = torch.get_rng_state()
    first, second = _losses(student), _losses(student)
    assert (
        max(loss["virtual_adversarial"].item() for loss in (first, second)) < 1e-5
    )  # other masks: about 0.1
    assert first["entropy"].item() != second["entropy"].item()
    assert torch.equal(outside, torch.get_rng_state())


def test_it_learns_from_rows_without_labels() -> None:
    """One label a cluster: boundaries belong between the clusters, not between the labeled rows."""
    data, y = clouds(400, 5, 5, (10,))
    students = replace(SETTINGS, radius=1.0, steps=150), Supervised(**COMMON | {"steps": 150})
    vat, supervised = ((fit(student, data).predict(data.x) == y).mean() for student in students)
    assert vat > 0.99 > supervised
