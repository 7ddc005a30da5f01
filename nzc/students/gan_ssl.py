"""GAN-SSL student of PATE 2017: feature matching (Salimans et al. 2016, arXiv 1606.03498)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

from nzc.networks import as_input, gan
from nzc.ranges import NotNegative, Positive, TwoOrMore
from nzc.students.base import StudentData
from nzc.students.network import NetworkStudent, StudentModule, without_statistics
from nzc.validation import InputError


@dataclass(frozen=True, kw_only=True)
class GANSSL(NetworkStudent):
    """The classifier is also a discriminator: a generated row is one more class, of logit 0.

    (Section 5.) The discriminator's loss is the labeled cross-entropy + `unlabeled_loss` +
    `entropy` · H (Dai et al. 2017, arXiv 1705.09783) + `consistency` · KL(p ‖ q), p held fixed, for
    two draws p and q of augmentation and noise (after Wei et al. 2018, arXiv 1803.01541); the
    generator's is `feature_matching`. Each step moves both at once, by Adam with β₁ = 0.5. The
    learning rate is constant for the first half of the steps and then falls linearly to 0.
    """

    unlabeled: TwoOrMore  # the generator's batch normalisation needs two
    lr_generator: Positive
    entropy: NotNegative
    consistency: NotNegative

    def student(self, data: StudentData, seed: int) -> "Adversaries":
        return Adversaries(self, data, seed)

    def losses(self, student: "Adversaries", x: Tensor, y: Tensor, u: Tensor) -> dict[str, Tensor]:
        """Return the discriminator's losses and, as the last, the generator's."""
        body, again, head = student.parts
        with torch.no_grad():
            p = head(again(student.augmented(u))).softmax(1)
        real = body(student.augmented(u))
        generated = again(student.generated(len(u)))
        logits = head(real)
        log_q = logits.log_softmax(1)
        return {
            "labeled": student.labeled_loss(head(again(x)), y),
            "unlabeled": unlabeled_loss(logits, head(generated)),
            "entropy": self.entropy * -(log_q.exp() * log_q).sum(1).mean(),
            "consistency": self.consistency * F.kl_div(log_q, p, reduction="batchmean"),
            "generator": feature_matching(real, generated),
        }


def unlabeled_loss(real: Tensor, generated: Tensor) -> Tensor:
    """Return the cross-entropy of real against generated rows, of logits [rows, classes].

    The logit of the class of generated rows is 0 (section 5).
    """
    return F.softplus(-real.logsumexp(1)).mean() + F.softplus(generated.logsumexp(1)).mean()


def feature_matching(real: Tensor, generated: Tensor) -> Tensor:
    """Return the mean squared difference of mean features [rows, features] (section 3.1)."""
    return (real.mean(0) - generated.mean(0)).square().mean()


class Adversaries(StudentModule):
    """A student as discriminator, and its generator."""

    config: GANSSL

    def __init__(self, config: GANSSL, data: StudentData, seed: int) -> None:
        super().__init__(config, data, seed)
        self.generator = self.built(gan.generator, config.network, tuple(self.x.shape[1:]))
        self.players = [list(self.network.parameters()), list(self.generator.parameters())]
        # Generated rows stay in the range of the pool: of each column of a table, of all pixels.
        dims = 0 if self.x.ndim == 2 else tuple(range(self.x.ndim))
        low = as_input(self.x.amin(dims))
        self.low = nn.Buffer(low, persistent=False)
        self.range = nn.Buffer(as_input(self.x.amax(dims)) - low, persistent=False)

    @cached_property
    def parts(self) -> tuple[nn.Module, Callable[[Tensor], Tensor], nn.Module]:
        """The network below its head: the features; the same `without_statistics`; and the head.

        InputError: the network has no such head.
        """
        network = self.network
        if not (isinstance(network, nn.Sequential) and isinstance(network[-1], nn.Linear)):
            raise InputError(
                "network",
                self.config.network,
                "must be a Sequential that ends in a Linear head, below which are the features",
            )
        # A slice of a subclass would call its constructor.
        body = nn.Sequential(*list(network)[:-1])
        return body, without_statistics(body), network[-1]

    def generated(self, rows: int) -> Tensor:
        """Return new generated rows [rows, ...] as networks take them."""
        z = torch.rand(rows, gan.LATENT, generator=self.draws, device=self.draws.device)
        x: Tensor = self.low + self.range * self.generator(z)
        return x

    def total(self, losses: list[Tensor]) -> Tensor:
        *terms, matching = losses
        self.sums = [torch.stack(terms).sum(), matching]
        return torch.stack(self.sums).sum()

    def differentiate(self, loss: Tensor) -> None:
        """Add the gradients of each player's own loss to those of its weights."""
        scales = torch.autograd.grad(loss, self.sums, retain_graph=True)
        for weights, own, scale in zip(self.players, self.sums, scales, strict=True):
            own.backward(scale, inputs=weights, retain_graph=True)
        self.sums.clear()  # and the memory of the step is free

    def make_optimizer(self, steps: int) -> tuple[Any, LRScheduler | None]:
        """Return one optimiser of both players, each a group of weights: two would be slower."""
        config = self.config
        groups: list[dict[str, Any]] = [{"params": weights} for weights in self.players]
        if config.optimizer is None:  # the user's own has its own rates
            groups[0]["lr"] = config.lr
            groups[1]["lr"] = config.lr_generator
        falling = partial(LambdaLR, lr_lambda=lambda step: min(1, 2 - 2 * step / steps))
        return config.make_optimizer(groups, steps, falling, betas=(0.5, 0.999))
